"""Learn mode in Chromium, over a process of ``minikafka learn``: chapters are clicked through."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from minikafka.page.learn.chapters.table import TABLE
from tests.support.browser import OpenPage
from tests.support.clicked_chapter import click_through, play_fast
from tests.support.learning import (
    ROOM_MS,
    learning,
    sentences,
    story_of,
    wait_for_more,
)

FIRST = TABLE[1]
PLAYGROUND = "playground"
NARROW = {"width": 320, "height": 700}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with learning() as found:
        yield found


def opened(open_page: OpenPage, address: str, place: str, **options: object) -> Page:
    page = open_page(f"{address}#/{place}", **options)
    expect(page.locator(".beat").first).to_be_visible(timeout=ROOM_MS)
    return page


def serious(page: Page) -> list[str]:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:300]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def clock(page: Page) -> str:
    return page.locator(".player-time").inner_text()


def to_the_first_playing_moment(page: Page) -> None:
    """Read until the brokers run and messages have passed."""
    play_fast(page)
    story = story_of(page)
    while page.evaluate("document.querySelectorAll('.host:not(.down)').length") < 5:
        beats = sentences(page)
        page.keyboard.press("Enter")
        wait_for_more(page, beats, story)
        story = story_of(page)


@pytest.mark.mission("LEARN-37")
def test_the_first_picture_has_hosts_a_sentence_and_all_chapters(
    open_page: OpenPage, address: str
) -> None:
    page = opened(open_page, address, "stage")
    expect(page.locator(".host")).to_have_count(5)
    expect(page.locator(".story h2")).to_contain_text("1. ")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(len(TABLE))


# The text of each entry of the navigation, and whether its name and its key are beside each other
# and inside the entry. A hidden key has no width.
NAVIGATION = """() => [...document.querySelectorAll(".views a")].map(entry => {
    const [name, key] = ["span", "kbd"].map(it => entry.querySelector(it).getBoundingClientRect());
    const padding = parseFloat(getComputedStyle(entry).paddingRight);
    const end = entry.getBoundingClientRect().right - padding + 0.5;
    const keyFits = !key.width || (name.right <= key.left && key.right <= end);
    return [entry.textContent, name.right <= end && keyFits];
})"""


@pytest.mark.mission("LEARN-37")
@pytest.mark.parametrize("width", [1000, 1440])
def test_names_and_keys_of_views_do_not_overlap(
    open_page: OpenPage, address: str, width: int
) -> None:
    viewport = {"width": width, "height": 900}
    page = opened(open_page, address, "stage", viewport=viewport)
    for key in ("2", "8"):  # the longest names, which are bold while their view is open
        page.keyboard.press(key)
        expect(page.locator(f".views [aria-current]:has(kbd:text-is('{key}'))")).to_be_attached()
        entries = page.evaluate(NAVIGATION)
        assert len(entries) > 10
        assert [name for name, fits in entries if not fits] == []


@pytest.mark.mission("LEARN-37")
def test_the_first_chapter_is_read_by_keys_alone(open_page: OpenPage, address: str) -> None:
    page = opened(open_page, address, f"stage?chapter={FIRST}")
    for _ in range(12):
        page.keyboard.press("+")
    story = story_of(page)
    while story != "done":
        beats = sentences(page)
        if story == "asking":
            page.locator(".option:enabled").first.focus()
        elif page.evaluate("document.activeElement.matches('.option, .story-foot *')"):
            page.evaluate("document.activeElement.blur()")  # what Escape does to no avail here
        page.keyboard.press("Enter")
        wait_for_more(page, beats, story)
        story = story_of(page)
    assert page.locator(".beat.check").count() > 0
    page.keyboard.press("c")
    finished = page.get_by_role("dialog").get_by_role("listitem").first
    expect(finished).to_contain_text("finished")


@pytest.mark.mission("LEARN-37")
def test_a_kill_is_undone_by_going_back_and_branches(open_page: OpenPage, address: str) -> None:
    page = opened(open_page, address, f"stage?chapter={PLAYGROUND}")
    to_the_first_playing_moment(page)
    page.keyboard.press("s")
    page.get_by_role("button", name=re.compile("^broker 2")).click()
    page.get_by_role("menuitem", name="Kill").click()
    down = page.get_by_role("button", name=re.compile("^broker 2, (the controller, )?down"))
    expect(down).to_be_visible()
    expect(page.locator(".story-foot")).to_have_attribute("data-story", "left")
    killed = clock(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".player-time")).not_to_have_text(killed)
    page.get_by_label("Go to").select_option(index=1)  # the start
    expect(page.locator(".player-time")).to_have_text("0.000 000 s", timeout=ROOM_MS)
    expect(page.locator(".in-the-past")).to_be_visible()
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Actions")
    dialog.locator("[name=action]").select_option("zookeeper_away")
    dialog.get_by_role("button", name="Do it").click()
    expect(page.get_by_role("button", name="ZooKeeper, away")).to_be_visible()
    expect(page.locator(".branches summary")).to_have_text("Other branches (1)")
    page.locator(".branches summary").click()
    page.get_by_role("button", name=re.compile("^Branch 1, left at 0")).click()
    expect(page.get_by_role("button", name="ZooKeeper", exact=True)).to_be_visible(timeout=ROOM_MS)
    expect(page.locator(".learn-marks .acted-mark").first).to_be_attached()


@pytest.mark.mission("LEARN-37")
def test_a_link_opens_the_same_moment_of_the_same_cluster(
    open_page: OpenPage, address: str
) -> None:
    page = opened(open_page, address, f"stage?chapter={PLAYGROUND}")
    to_the_first_playing_moment(page)
    page.get_by_role("button", name=re.compile("^broker 3")).click()
    page.get_by_role("menuitem", name="Kill").click()
    expect(page.locator(".story-foot")).to_have_attribute("data-story", "left")
    killed = clock(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".player-time")).not_to_have_text(killed)
    page.keyboard.press("l")
    shown = page.locator(".recipe-text").first
    expect(shown).to_contain_text("recipe=")
    link = shown.inner_text().strip()
    at = clock(page)
    again = open_page(f"{address}{link[link.index('#') :]}")
    expect(again.locator(".player-time")).to_have_text(at, timeout=ROOM_MS)
    expect(again.locator(".host.down")).to_have_count(1)
    names = [
        one.evaluate("() => [...document.querySelectorAll('.host')].map((h) => h.ariaLabel)")
        for one in (page, again)
    ]
    assert names[0] == names[1]


@pytest.mark.mission("LEARN-35")
@pytest.mark.parametrize("view", ["stage", "wire", "lanes", "controller", "groups"])
def test_a_playing_cluster_fits_320_pixels_and_passes_axe(
    open_page: OpenPage, address: str, view: str
) -> None:
    page = opened(open_page, address, f"stage?chapter={PLAYGROUND}", viewport=NARROW)
    to_the_first_playing_moment(page)
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main > *").nth(1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert serious(page) == []


@pytest.mark.mission("LEARN-38")
@pytest.mark.parametrize("name", TABLE.values())
def test_a_chapter_is_clicked_through(open_page: OpenPage, address: str, name: str) -> None:
    page = opened(open_page, address, f"stage?chapter={name}")
    play_fast(page)
    assert click_through(page) > 2
    assert page.locator(".beat.check, .beat.say").count() > 2
