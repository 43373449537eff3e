"""The view "Access" over live clusters, and who may use the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from minikafka.client.config import ClientConfig
from minikafka.testing.inside.cluster import InsideCluster
from tests.browser.data_fixture import cluster as fake_cluster
from tests.support.browser import OpenPage
from tests.support.page_server import PageServer, page_server

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1, SETTINGS) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture(scope="module")
def server(cluster: InsideCluster) -> Iterator[PageServer]:
    with page_server(ClientConfig(cluster.bootstrap)) as server:
        yield server


def address(server: PageServer, view: str = "") -> str:
    return f"{server.url}/?token={server.token}#/{view}"


def go(tab: Page, view: str) -> None:
    tab.evaluate("view => { location.hash = `#/${view}` }", view)


def execute(tab: Page, confirm: str | None = None) -> Locator:
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator(".command code")).to_contain_text("minikafka ")
    if confirm is not None:
        dialog.locator("[name=confirm]").fill(confirm)
    dialog.get_by_role("button", name="Execute").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    return dialog


def close(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Close").last.click()


def serious(tab: Page) -> list[str]:
    """Return what axe-core finds that keeps people out, each with the first element."""
    found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.mission("GLASS-133")
def test_a_rule_is_added_explained_and_removed(server: PageServer, open_page: OpenPage) -> None:
    tab = open_page(address(server))
    expect(tab.get_by_role("heading", name="Cluster")).to_be_visible()
    go(tab, "access")
    expect(tab.get_by_text("There is no rule.")).to_be_visible()
    tab.get_by_role("button", name="Add a rule…").click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=name]").fill("ord")
    dialog.locator("[name=pattern]").select_option("prefixed")
    dialog.locator("[name=permission]").select_option("deny")
    dialog.locator("[name=principal]").fill("User:bob")
    dialog.locator("[name=operation]").fill("Read")
    expect(dialog.locator(".command code")).to_contain_text(
        "--add --topic ord --resource-pattern-type prefixed --deny-principal User:bob "
        "--operation Read"
    )
    close(execute(tab, "acls-add"))
    row = tab.get_by_role("region", name="Table of ACLs").locator("tbody tr")
    expect(row).to_contain_text(re.compile("topic prefix ord.*deny.*User:bob.*anywhere.*Read"))
    tab.locator("[name=principal]").fill("eve")
    tab.get_by_role("button", name="Show").click()
    expect(tab.get_by_text("Nothing matches.")).to_be_visible()
    assert "principal=eve" in tab.url
    tab.go_back()
    expect(row).to_contain_text("User:bob")

    tab.get_by_role("link", name="May they?").click()
    question = tab.get_by_role("search", name="Question")
    question.locator("[name=principal]").fill("User:bob")
    question.locator("[name=host]").fill("10.0.0.1")
    question.locator("[name=name]").fill("orders")
    question.get_by_role("button", name="Explain").click()
    reply = tab.get_by_role("status", name="Answer")
    expect(reply).to_contain_text("denied A Deny outranks every Allow")
    expect(reply).to_contain_text("super.users are allowed everything")
    expect(tab.get_by_role("region", name="Rules that match")).to_contain_text("decides")
    expect(tab.locator(".command code")).to_contain_text(
        "--list --topic orders --resource-pattern-type match"
    )
    tab.reload()  # the address has the whole question
    expect(reply).to_contain_text("denied")

    go(tab, "access?tab=acls")
    row.get_by_role("button", name="Remove…").click()
    close(execute(tab, "User:bob"))
    expect(tab.get_by_text("There is no rule.")).to_be_visible()


@pytest.mark.mission("GLASS-133")
def test_a_user_and_a_quota_are_made(server: PageServer, open_page: OpenPage) -> None:
    tab = open_page(address(server))
    expect(tab.get_by_role("heading", name="Cluster")).to_be_visible()
    go(tab, "access?tab=users")
    tab.get_by_role("button", name="Create a user…").click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=password]").fill("s3cret")
    dialog.locator("[name=user]").fill("bob")
    expect(dialog.locator(".command code")).to_contain_text("'********' | minikafka users")
    close(execute(tab))
    users = tab.get_by_role("region", name="Table of users")
    expect(users).to_contain_text("SCRAM-SHA-256 (4096), SCRAM-SHA-512 (4096)")
    go(tab, "throttles")  # this broker has no debug listener, as official Kafka has none
    tab.get_by_role("button", name="Set a quota…").click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=user]").fill("bob")
    dialog.locator("[name=producer_byte_rate]").fill("2097152")
    close(execute(tab))
    quotas = tab.get_by_role("region", name="Table of quotas")
    expect(quotas).to_contain_text(re.compile("user bob.*Produce.*2 MiB/s"))
    go(tab, "access?tab=tokens")
    expect(tab.get_by_text("There are no tokens.")).to_be_visible()


@pytest.mark.mission("GLASS-133")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_view_fits_a_phone_and_axe_finds_nothing_serious(
    open_page: OpenPage, scheme: str
) -> None:
    rule = {
        "resource": "topic",
        "name": "orders-of-a-long-name-that-does-not-end",
        "pattern": "prefixed",
        "permission": "allow",
        "principal": "User:CN=someone,OU=somewhere,O=Example",
        "host": "*",
        "operation": "DescribeConfigs",
    }
    many = {"matching": 250, "total": 300, "from": 0}
    token = {"token_id": "a" * 22, "owner": "User:a", "renewers": ["User:b"]}
    times = {"issue_ms": 1, "expiry_ms": 2, "max_ms": 3}
    quota = {"user": "<default>", "client_id": None, "ip": None, "key": "request_percentage"}
    process = fake_cluster()
    process.replies |= {
        "/api/acls": lambda query, body: {"acls": [rule], **many},
        "/api/acls/operations": lambda query, body: {"topic": ["Read", "Write"]},
        "/api/acls/why": lambda query, body: {
            "allowed": True,
            "why": "The rule allows it.",
            "rules": [rule],
            "notes": ["A."],
        },
        "/api/users": lambda query, body: {
            "users": [{"user": "a", "mechanisms": {"SCRAM-SHA-256": 4096}}],
            **many,
        },
        "/api/tokens": lambda query, body: {"tokens": [{**token, **times}], **many},
        "/api/quotas": lambda query, body: {"quotas": [{**quota, "limit": 5.5}], **many},
    }
    with process.running():
        tab = open_page(
            f"{process.address}#/access",
            errors=("status of 400",),
            color_scheme=scheme,
            viewport={"width": 320, "height": 640},
        )
        question = "why&principal=User:a&host=::1&operation=Read&resource=topic&name=o"
        for part in ("acls", question, "users", "tokens", "quotas"):
            go(tab, f"access?tab={part}")
            expect(
                tab.locator("main .card td, main .card [role=status] .pill").first
            ).to_be_visible()
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), part
            assert serious(tab) == [], part
        tab.close()
