"""The view "Access" over live clusters, and who may use the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from minikafka.client.config import ClientConfig
from minikafka.page.dashboard.access.accounts import parse_users, user_entry
from minikafka.page.dashboard.access.doors import Doors
from minikafka.page.dashboard.access.roles import Role
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
    expect(tab.get_by_text("No broker reports who is throttled now.")).to_be_visible()
    go(tab, "access?tab=tokens")
    expect(tab.get_by_text("No tokens to show.")).to_be_visible()  # it may not see them


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
        parts = ("acls", question, *(("users", "tokens", "quotas") if scheme == "light" else ()))
        for part in parts:
            go(tab, f"access?tab={part}")
            expect(
                tab.locator("main .card td, main .card [role=status] .pill").first
            ).to_be_visible()
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), part
            assert serious(tab) == [], part
        tab.close()


# ------------------------------------------------------------------------- who may use the page

SECURED = ClientConfig(
    bootstrap_servers="127.0.0.1:1",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="admin",
    sasl_password="admin",
)


@pytest.mark.mission("GLASS-134")
def test_without_the_token_the_page_says_so_and_where_it_is(open_page: OpenPage) -> None:
    with page_server(SECURED) as server:
        tab = open_page(server.url, viewport={"width": 320, "height": 640})
        told = tab.get_by_role("region", name="Sign in")
        expect(told).to_contain_text("This browser does not have the page's token.")
        expect(told).to_contain_text("minikafka ui printed")
        expect(tab.get_by_role("status")).to_have_text("not signed in")
        assert serious(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.get_by_label("token", exact=True).fill("wrong")
        tab.get_by_role("button", name="Use this token").click()
        expect(told).to_contain_text("That is not a token of this page.")
        tab.get_by_label("token", exact=True).fill(server.token)
        tab.get_by_role("button", name="Use this token").click()
        expect(tab.get_by_role("navigation", name="Views")).to_be_visible()
        tab.close()


@pytest.mark.mission("GLASS-134")
def test_a_tab_says_that_the_pages_server_was_started_again(
    cluster: InsideCluster, open_page: OpenPage
) -> None:
    client = ClientConfig(cluster.bootstrap)
    with page_server(client) as server:
        tab = open_page(address(server), errors=("ERR_", "Failed to load resource"))
        expect(tab.get_by_role("status")).to_have_text("live")
    with page_server(client, port=server.port) as again:
        told = tab.get_by_role("alert").filter(has_text="started again and has a new token")
        expect(told).to_be_visible()  # beside what a view says while nothing responds
        expect(tab.get_by_role("status")).to_have_text("live, look only")
        go(tab, "topics")
        create = tab.get_by_role("button", name="Create topic…")
        expect(create).to_have_attribute("aria-disabled", "true")
        tab.goto(f"{again.url}/?token={again.token}")
        expect(tab.get_by_role("status")).to_have_text("live")
        go(tab, "topics")
        expect(create).not_to_have_attribute("aria-disabled", "true")
        tab.close()


@pytest.mark.mission("GLASS-139")
def test_a_user_signs_in_and_may_do_what_their_role_may(
    cluster: InsideCluster, open_page: OpenPage
) -> None:
    password = "correct horse"
    entry = user_entry("alice", Role.PRODUCE, password, b"0123456789abcdef")
    doors = Doors(users=parse_users(entry, "users"))
    with page_server(ClientConfig(cluster.bootstrap), doors=doors) as server:
        tab = open_page(server.url, errors=("status of 403",))
        tab.locator("[name=user]").fill("alice")
        tab.locator("[name=password]").fill("wrong")
        tab.get_by_role("button", name="Sign in").click()
        expect(tab.get_by_text("The user or the password is wrong.")).to_be_visible()
        assert serious(tab) == []
        tab.locator("[name=password]").fill(password)
        tab.get_by_role("button", name="Sign in").click()
        expect(tab.get_by_text("alice (produce)")).to_be_visible()
        go(tab, "topics/orders")
        delete = tab.get_by_role("button", name="Delete topic…")
        expect(delete).to_have_attribute(
            "aria-description", "Your role is produce; this needs administer."
        )
        go(tab, "records?topic=orders")
        produce = tab.get_by_role("button", name="Produce…")
        expect(produce).not_to_have_attribute("aria-disabled", "true")
        tab.get_by_role("button", name="Sign out").click()
        expect(tab.get_by_text("You have not signed in.")).to_be_visible()
        tab.close()
