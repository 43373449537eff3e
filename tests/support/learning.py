"""A process of ``minikafka learn``, and a reader who goes through its chapters in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

ROOM_MS = 120_000  # for the next sentence of a story on a loaded machine
NEXT = "() => !['playing', 'none'].includes(document.querySelector('.story-foot').dataset.story)"
MOVED = """([beats, story]) => document.querySelectorAll('.beat').length !== beats
    || document.querySelector('.story-foot').dataset.story !== story"""
FASTEST = """slider => {
    slider.value = slider.max;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
}"""


@contextmanager
def learning(*words: str) -> Iterator[str]:
    """Run the process on a free port; the value is the address of its page, with the token."""
    command = [sys.executable, "-m", "minikafka", "learn", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("page="), first
        yield first.strip().removeprefix("page=")
    finally:
        process.terminate()
        assert process.wait(30) == 0


def story_of(page: Page) -> str:
    """Return where the story is: waiting, asking, done, left."""
    page.wait_for_function(NEXT, timeout=ROOM_MS)
    return str(page.locator(".story-foot").get_attribute("data-story"))


def sentences(page: Page) -> int:
    return page.locator(".beat").count()


def wait_for_more(page: Page, beats: int, story: str) -> None:
    """Wait until the page shows more than these beats, or another state of the story."""
    page.wait_for_function(MOVED, arg=[beats, story], timeout=ROOM_MS)


def go_fast(page: Page) -> None:
    page.get_by_role("slider", name="Speed").evaluate(FASTEST)


def read_to_the_end(page: Page, most: int = 200) -> int:
    """Click through a chapter, with the first answer to each question. Return how many clicks it
    took. A failure that the page shows raises AssertionError."""
    for clicks in range(most):
        story = story_of(page)
        assert page.locator("main .notice.bad, .story .notice.bad").all_inner_texts() == []
        if story in ("done", "left"):
            return clicks
        beats = sentences(page)
        if story == "asking":
            page.locator(".option:enabled").first.click()
        else:
            page.locator(".story-foot .primary").click()
        wait_for_more(page, beats, story)
    raise AssertionError("the chapter does not end")
