"""Lists that are sorted, a topic with its sizes, groups and ACLs, and the history, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.data_fixture import cluster, group_facts, state
from tests.browser.fake_page_process import FakePageProcess
from tests.browser.test_data_views import serious
from tests.support.browser import OpenPage

VIEWS = ("cluster", "topics?sort=-size_bytes&sick=1", "topics/orders", "groups/billing")


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    with cluster().running() as process:
        yield process


@pytest.fixture
def tab(process: FakePageProcess, open_page: OpenPage) -> Page:
    return opened(open_page, process, "topics")


def opened(open_page: OpenPage, process: FakePageProcess, view: str, **options: Any) -> Page:
    viewport = {"viewport": {"width": 1280, "height": 900}, **options}
    return open_page(f"{process.address}#/{view}", errors=("status of 400",), **viewport)


def names(tab: Page) -> list[str]:
    return tab.locator(".name-list tbody tr td:first-child").all_text_contents()


@pytest.mark.mission("GLASS-145")
def test_a_list_is_sorted_by_the_process_and_the_address_says_how(
    tab: Page, process: FakePageProcess
) -> None:
    expect(tab.get_by_role("status").filter(has_text="10,000")).to_have_text("1–100 of 10,000")
    tab.get_by_role("button", name="size").click()
    expect(tab.locator("th[aria-sort=ascending]")).to_have_text("size▲")
    tab.get_by_role("button", name="size").click()
    tab.wait_for_url("**/#/topics?sort=-size_bytes")
    expect(tab.locator(".name-list tbody tr").first).to_contain_text("topic-09998")
    query = [query for path, query in process.gets if path == "/api/topics"][-1]
    assert (query["sort"], query["descending"]) == ("size_bytes", "1")
    tab.reload()
    expect(tab.locator("th[aria-sort=descending]")).to_have_text("size▼")
    tab.get_by_label("sick only").check()
    tab.wait_for_url("**/#/topics?sort=-size_bytes&sick=1")
    expect(tab.locator(".name-list tbody tr")).to_have_count(1)
    assert names(tab) == ["orders"]
    tab.get_by_label("sick only").uncheck()
    expect(tab.locator(".name-list tbody tr")).to_have_count(100)


@pytest.mark.mission("GLASS-146")
def test_a_topic_shows_what_belongs_to_it(process: FakePageProcess, open_page: OpenPage) -> None:
    reported = {"is_leader": True, "leader": 1, "leader_epoch": 4, "replicas": [1, 2, 3],
                "isr": [1, 2], "segments": 4}  # fmt: skip
    process.send(state(1, ("partition", "orders-0", reported)))
    tab = opened(open_page, process, "topics/orders")
    facts = tab.locator(".facts").first
    expect(facts).to_contain_text("size6 KiB")
    expect(facts).to_contain_text("records/s12.5")
    expect(facts).to_contain_text("segments–")  # two leaders do not say
    row = tab.get_by_role("region", name="Partitions of orders").locator("tbody tr").first
    expect(row).to_contain_text("1 KiB4")
    groups = tab.get_by_role("region", name="Groups", exact=True)
    expect(groups).to_contain_text("1 group reads it")
    expect(groups.locator("tbody tr")).to_contain_text("1,380more than 1 min 5 s")
    acls = tab.get_by_role("region", name="ACLs", exact=True).locator("tbody tr")
    expect(acls.nth(0)).to_contain_text("allowUser:aliceread*orders")
    expect(acls.nth(1)).to_contain_text("deny")
    expect(acls.nth(1)).to_contain_text("topics that begin with ord")
    expect(tab.get_by_role("link", name="May a principal use it?")).to_have_attribute(
        "href", "#/access/orders?tab=why&resource=topic"
    )
    expect(row.get_by_role("link", name="1,000")).to_have_attribute(
        "href", "#/records?topic=orders&partition=0"
    )


@pytest.mark.mission("GLASS-146")
def test_a_topic_is_emptied_and_cloned(process: FakePageProcess, open_page: OpenPage) -> None:
    tab = opened(open_page, process, "topics/orders")
    tab.get_by_role("button", name="Empty…").click()
    dialog = tab.get_by_role("dialog", name="Delete all records of a topic")
    expect(dialog.locator(".command code")).to_contain_text("minikafka delete-records")
    expect(dialog.locator(".command code")).to_contain_text('"partition":2,"offset":-1')
    dialog.locator("[name=confirm]").fill("orders")
    dialog.get_by_role("button", name="Execute").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    dialog.get_by_role("button", name="Close").last.click()
    tab.get_by_role("button", name="Clone…").click()
    dialog = tab.get_by_role("dialog", name="Create a topic")
    line = dialog.locator(".command code")
    for words in ("--topic orders-clone", "--partitions 3", "--replication-factor 3",
                  "--config retention.ms=3600000"):  # fmt: skip
        expect(line).to_contain_text(words)
    expect(line).not_to_contain_text("cleanup.policy")
    dialog.get_by_role("button", name="Execute").click()
    tab.wait_for_url("**/#/topics/orders-clone")


@pytest.mark.mission("GLASS-147")
def test_a_history_is_drawn_over_minutes_or_a_day(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    facts = {**group_facts(), "lag_ms": 7_200_000, "lag_exact": True}
    process.replies["/api/groups/billing"] = lambda query, body: facts
    tab = opened(open_page, process, "groups/billing")
    expect(tab.locator(".facts").first).to_contain_text("lag in time2 h")
    figure = tab.get_by_role("figure", name="Lag over the last day")
    expect(figure.get_by_role("img", name="lag in time over the last 1 h")).to_be_visible()
    figure.get_by_role("button", name="24 h").click()
    expect(figure.get_by_role("img", name="lag in time over the last 24 h")).to_be_visible()
    figure.get_by_label("Measure").select_option("lag")
    expect(figure.get_by_role("img", name="lag in records over the last 24 h")).to_be_visible()
    figure.get_by_role("button", name="as table").click()
    expect(figure.locator("tbody tr").first).to_contain_text("2.4k")
    query = [query for path, query in process.gets if path == "/api/history"][-1]
    assert query == {"of": "group", "name": "billing", "minutes": "1440"}


@pytest.mark.mission("GLASS-147")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_views_are_accessible_and_fit_a_phone(
    process: FakePageProcess, open_page: OpenPage, scheme: str
) -> None:
    phone = {"viewport": {"width": 320, "height": 700}, "color_scheme": scheme}
    tab = opened(open_page, process, VIEWS[0], **phone)
    for view in VIEWS:
        tab.goto(f"{process.address}#/{view}")
        expect(tab.locator("tbody tr, .twin").first).to_be_visible()
        tab.wait_for_timeout(200)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320, view
        assert serious(tab) == [], view
