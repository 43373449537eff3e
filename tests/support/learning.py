"""A process of ``minikafka learn``, and how far its page has come with a story."""

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
