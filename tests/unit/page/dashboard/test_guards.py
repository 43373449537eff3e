"""Which requests the page serves."""

import pytest

from minikafka.page.dashboard.guards import Asked, Guard

TOKEN = "secret"
HOST = "127.0.0.1:8080"
GUARD = Guard("127.0.0.1", 8080, TOKEN)

READ = Asked("GET", "/api/snapshot", HOST, None, None)
ACT = Asked("POST", "/api/do/x", HOST, f"http://{HOST}", TOKEN)


@pytest.mark.mission("GLASS-14")
@pytest.mark.parametrize("host", [HOST, "localhost:8080", "LocalHost:8080", "[::1]:8080"])
def test_names_of_the_loopback_interface_are_served(host: str) -> None:
    assert GUARD.refusal(READ._replace(host=host)) is None


@pytest.mark.mission("GLASS-14")
@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example:8080", "127.0.0.1.evil.example:8080", "127.0.0.1", "127.0.0.1:8081"),
        *("127.0.0.1:x", "[::1", "evil@127.0.0.1:9"),
        *(f"{HOST}/static/", f"{HOST}?", f"{HOST}#", f"{HOST}/static/?"),
    ],
)
def test_other_names_are_refused(host: str) -> None:
    refusal = GUARD.refusal(READ._replace(host=host))
    assert refusal is not None
    assert refusal.startswith("The page is not served as")


@pytest.mark.mission("GLASS-14")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_every_method_but_reads_needs_the_token(method: str) -> None:
    asked = ACT._replace(method=method)
    assert GUARD.refusal(asked) is None
    for token in (None, "", "secre", "secret ", "sécret", "\udcff"):
        assert GUARD.refusal(asked._replace(token=token)) is not None


@pytest.mark.mission("GLASS-14")
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://127.0.0.1:8081", "http://localhost:8080"]
)
def test_a_page_of_another_origin_cannot_act(origin: str) -> None:
    assert GUARD.refusal(ACT._replace(origin=origin)) is not None


@pytest.mark.mission("GLASS-14")
def test_a_client_that_is_no_browser_sends_no_origin() -> None:
    assert GUARD.refusal(ACT._replace(origin=None)) is None


@pytest.mark.mission("GLASS-14")
def test_a_page_of_another_site_makes_no_work_but_may_link_to_the_page() -> None:
    export = READ._replace(path="/api/export")
    for site in ("cross-site", "same-site"):
        assert GUARD.refusal(export._replace(site=site)) is not None
        assert GUARD.refusal(export._replace(path="/", site=site)) is None
    for own in ("same-origin", "none", None):
        assert GUARD.refusal(export._replace(site=own)) is None


@pytest.mark.mission("GLASS-14")
def test_nothing_is_changed_by_a_page_that_is_read_only() -> None:
    guard = GUARD._replace(read_only=True)
    assert guard.refusal(READ) is None
    assert "read-only" in (guard.refusal(ACT) or "")


@pytest.mark.mission("GLASS-14")
def test_a_private_page_is_read_with_the_token_only() -> None:
    guard = GUARD._replace(private=True)
    assert guard.refusal(READ) is not None
    assert guard.refusal(READ._replace(path="/metrics")) is not None
    assert guard.refusal(READ._replace(token=TOKEN)) is None
    for path in ("/", "/static/app.js"):
        assert guard.refusal(READ._replace(path=path)) is None


def test_a_page_for_other_machines_is_served_under_any_name() -> None:
    guard = GUARD._replace(host="0.0.0.0", private=True)
    assert guard.refusal(ACT._replace(host="box.example", origin="http://box.example")) is None
    assert guard.refusal(ACT._replace(host="box.example", origin="http://evil.example")) is not None
