"""The page's frame and its first views, over a recording."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.browser import OpenPage, play_to
from tests.support.page_site import PageSite

VIEWS = (
    "cluster", "lanes", "controller", "purgatories", "groups", "transactions", "requests",
    "sessions", "throttles", "topics", "records", "access", "events", "why",
)  # fmt: skip
OWN = ("cluster", "lanes", "events")
LEADER = re.compile("leader, in the ISR, log start")
GONE = re.compile("follower, out of the ISR, its broker is gone")


def serious(page: Page) -> list[str]:
    """Return what axe-core finds that keeps people out, each with the first element."""
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_draws_a_recording_without_errors(
    site: PageSite, open_page: OpenPage, view: str
) -> None:
    page = open_page(site.playing("failover", view))
    expect(page.locator("main h1")).to_be_visible()
    for part in (0, 0.3, 0.6, 1):
        play_to(page, part)
    assert page.title().endswith("minikafka")
    expect(page.locator("main")).not_to_contain_text("could not be loaded")


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", OWN)
def test_axe_finds_nothing_serious(
    site: PageSite, open_page: OpenPage, view: str, scheme: str
) -> None:
    page = open_page(site.playing("failover", view), color_scheme=scheme)
    play_to(page, 0.6)
    assert serious(page) == []


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize("view", OWN)
def test_a_view_fits_320_pixels(site: PageSite, open_page: OpenPage, view: str) -> None:
    page = open_page(site.playing("failover", view), viewport={"width": 320, "height": 700})
    play_to(page, 0.6)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.mission("GLASS-33")
@pytest.mark.parametrize("view", ["cluster", "lanes"])
def test_a_picture_has_a_table_twin_with_the_same_parts(
    site: PageSite, open_page: OpenPage, view: str
) -> None:
    page = open_page(site.playing("failover", f"{view}?internal=yes"))
    play_to(page, 0.6)
    pictures = page.locator(".leader-cell" if view == "cluster" else ".lane")
    expect(pictures.nth(5)).to_be_attached()
    names = [name or "" for name in pictures.evaluate_all(
        "nodes => nodes.map((node) => node.getAttribute('aria-label'))"
    )]  # fmt: skip
    assert len(names) > 5
    figure = page.get_by_role("figure").first
    figure.get_by_role("button", name="as table").click()
    rows = figure.locator("tbody tr")
    expect(rows).to_have_count(len(names))
    expect(pictures).to_have_count(0)
    cells = [row.split("\t") for row in rows.all_inner_texts()]
    for name, row in zip(sorted(names), sorted(cells), strict=True):
        assert name.startswith(row[0].strip())


@pytest.mark.mission("GLASS-34")
def test_lanes_show_a_failover(site: PageSite, open_page: OpenPage) -> None:
    """Broker 1 leads; it dies; broker 2 leads in the next epoch, without 1 in the ISR; then 1 is
    back in the ISR."""
    page = open_page(site.playing("failover", "lanes/orders-0"))
    play_to(page, 0.1)
    lane = page.get_by_role("listitem", name="orders-0 on broker 1")
    expect(lane).to_have_accessible_name(LEADER)
    play_to(page, 0.6)
    expect(lane).to_have_accessible_name(GONE)
    expect(page.locator(".partition-head")).to_contain_text("ISR 2, 3")
    expect(lane.locator(".out-of-isr, .lane-before")).to_have_count(1)
    play_to(page, 1)
    expect(page.locator(".partition-head")).to_contain_text("2, 3, 1")


@pytest.mark.mission("GLASS-35")
def test_a_card_shows_the_controller_and_a_dead_broker(site: PageSite, open_page: OpenPage) -> None:
    page = open_page(site.playing("failover", "cluster"))
    play_to(page, 0.6)
    expect(page.get_by_role("listitem", name="Broker 1, gone")).to_be_visible()
    card = page.get_by_role("listitem", name="Broker 2, running, the controller")
    expect(card.get_by_role("img", name="controller, epoch 1")).to_be_visible()
    odd = page.get_by_role("link", name="1 broker gone")
    odd.click()
    expect(page.locator("main h1")).to_have_text("Why")


@pytest.mark.mission("GLASS-35")
def test_events_are_filtered_and_lead_to_lanes(site: PageSite, open_page: OpenPage) -> None:
    page = open_page(site.playing("failover", "events?text=orders-1"))
    play_to(page, 1)
    lines = page.locator(".event")
    expect(lines.first).to_be_visible()
    assert all("orders-1" in text or "times" in text for text in lines.all_inner_texts())
    page.get_by_label("level").select_option("warning")
    expect(page.locator(".empty")).to_be_visible()
    page.get_by_label("text").fill("")
    expect(page.locator(".event .pill").first).to_have_text("warning")
    page.get_by_label("level").select_option("")
    page.get_by_label("fold repeats").uncheck()
    page.locator(".event a", has_text="orders-1").first.click()
    expect(page.locator("main h1")).to_have_text("Partition lanes")
    expect(page.locator(".partition h3")).to_have_text(["orders-1"])


@pytest.mark.mission("GLASS-33")
def test_keys_open_views_help_and_steps(site: PageSite, open_page: OpenPage) -> None:
    page = open_page(site.playing("failover"))
    expect(page.locator(".player-time")).to_contain_text(" of ")
    page.keyboard.press("2")
    expect(page.locator("main h1")).to_have_text("Partition lanes")
    page.keyboard.press("e")
    expect(page.locator("main h1")).to_have_text("Events")
    before = page.locator(".player-time").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".player-time")).not_to_have_text(before)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".player-time")).to_have_text(before)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


@pytest.mark.mission("GLASS-33")
def test_the_theme_follows_the_system_until_it_is_chosen(
    site: PageSite, open_page: OpenPage
) -> None:
    page = open_page(site.playing("failover"), color_scheme="dark")

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    switch = page.get_by_role("button", name="Theme")
    expect(switch).to_have_accessible_name("Theme: as the system has it")
    dark = background()
    switch.click()
    expect(switch).to_have_accessible_name("Theme: light")
    assert background() != dark
    page.reload()
    expect(switch).to_have_accessible_name("Theme: light")
    switch.click()
    expect(switch).to_have_accessible_name("Theme: dark")
    assert background() == dark
