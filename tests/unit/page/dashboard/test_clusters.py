"""One page for several clusters: each has its own below its name."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.cli.processes import ui
from minikafka.cli.usage import WrongUsage
from minikafka.client.config import ClientConfig
from minikafka.client.rest import RestAddress
from minikafka.page.dashboard.context import PageOptions
from minikafka.page.dashboard.serving import PageSubject
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.cluster_state import until
from tests.support.page_server import PageServer, served

NAMES = ("here", "there")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    ui.add_arguments(parser)
    return parser.parse_args(words)


def topics_of(page: PageServer, name: str) -> set[str]:
    rows = page.get(f"/{name}/api/topics").json["topics"]
    return {row["name"] for row in rows} - {"__consumer_offsets"}


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with InsideCluster(1) as here, InsideCluster(1) as there:
        shown = [
            PageSubject(
                PageOptions(bootstrap=cluster.bootstrap),
                ClientConfig(bootstrap_servers=cluster.bootstrap),
                name,
            )
            for name, cluster in zip(NAMES, (here, there), strict=True)
        ]
        here.create_topic("only-here")
        with served(shown) as running:
            yield running


@pytest.mark.mission("GLASS-160")
def test_each_cluster_has_its_page_and_names_the_others(page: PageServer) -> None:
    topics = {}
    for name in NAMES:
        hello = page.get(f"/{name}/api/snapshot").json[0]
        assert (hello["name"], hello["clusters"]) == (name, list(NAMES))
        assert page.get(f"/{name}/").body == page.get(f"/{NAMES[0]}/").body
        assert page.get(f"/{name}/static/app.js").status == 200
        topics[name] = topics_of(page, name)
    assert topics == {"here": {"only-here"}, "there": set()}


@pytest.mark.mission("GLASS-160")
def test_the_address_without_a_name_leads_to_the_first_with_a_cookie_for_all(
    page: PageServer,
) -> None:
    reply = page.get(f"/?token={page.token}")
    assert (reply.status, reply.headers["location"]) == (303, "/here/")
    assert "Path=/;" in reply.headers["set-cookie"]
    cookie = reply.headers["set-cookie"].split(";")[0]
    for name in NAMES:
        assert page.get(f"/{name}/api/session", Cookie=cookie).json["role"] == "administer"
        assert page.get(f"/{name}/?token={page.token}").headers["location"] == f"/{name}/"


@pytest.mark.mission("GLASS-160")
def test_the_guard_stands_before_all_of_them(page: PageServer) -> None:
    for path in ("/", "/here/", "/there/api/topics"):
        assert page.get(path, Host="evil.example").status == 403
    act = {"arguments": {"topic": "made"}}
    assert page.post("/there/api/do/topics-create", act).status == 403
    named = {"X-Minikafka-Token": page.token, "Content-Type": "application/json"}
    made = page.post("/there/api/do/topics-create", act, **named)
    assert (made.status, made.json.get("status")) == (200, 0), made.json
    until(lambda: topics_of(page, "there") == {"made"}, "the list, which is kept a while, has it")
    assert topics_of(page, "here") == {"only-here"}


@pytest.mark.mission("GLASS-160")
def test_a_file_of_client_settings_makes_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=one:9092,two:9092\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b\n"
    )
    (one,) = ui.several(parsed("--cluster", f"prod={file}", "--history", "h"))
    assert (one.name, one.options.bootstrap) == ("prod", "one:9092,two:9092")
    assert (one.options.command_config, one.options.history) == (str(file), "h.prod")
    assert one.client is not None
    assert one.client.security_protocol == "SASL_SSL"


@pytest.mark.mission("GLASS-160")
@pytest.mark.parametrize(
    ("settings", "login"),
    [
        ("schema.registry.url=http://r:8081\n", None),
        ("schema.registry.url=http://ann:s%20cret@r:8081\n", "ann:s cret"),
        (
            (
                "schema.registry.url=http://r:8081\nbasic.auth.credentials.source=USER_INFO\n"
                "basic.auth.user.info=ann:s cret\n"
            ),
            "ann:s cret",
        ),
    ],
)
def test_a_file_has_the_registry_as_for_confluents_serializers(
    settings: str, login: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=one:9092\n{settings}")
    (one,) = ui.several(parsed("--cluster", f"prod={file}"))
    assert one.options.registry_address == RestAddress("http://r:8081", login)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--cluster", "a"], "NAME=FILE is needed"),
        (["--cluster", "../a=FILE"], "NAME=FILE is needed"),
        (["--cluster", "a=FILE", "--cluster", "a=FILE"], "twice"),
        (["--cluster", "a=/nonexistent"], "No such file"),
        (["--cluster", "a=EMPTY"], "no bootstrap.servers"),
        (["--cluster", "a=ODD"], "odd: unknown client setting no.such.key"),
        (["--cluster", "a=INHERIT"], "inherit: basic.auth.credentials.source: URL or USER_INFO"),
        (["--cluster", "a=FILE", "--record", "r"], "--record: not with --cluster"),
        (["--cluster", "a=FILE", "--registry-users", "r"], "--registry-users: not with --cluster"),
    ],
)
def test_wrong_clusters_are_refused(words: list[str], reason: str, tmp_path: Path) -> None:
    of_one = "bootstrap.servers=one:9092\n"
    files = {
        "FILE": of_one,
        "EMPTY": "client.id=a\n",
        "ODD": f"{of_one}no.such.key=1\n",
        "INHERIT": f"{of_one}basic.auth.credentials.source=SASL_INHERIT\n",
    }
    given = " ".join(words)
    for name, text in files.items():
        path = tmp_path / name.lower()
        path.write_text(text)
        given = given.replace(f"={name}", f"={path}")
    with pytest.raises(WrongUsage, match=reason):
        ui.run(parsed(*given.split()))
