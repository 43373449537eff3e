"""What tests of the page do with a page in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from playwright.sync_api import ConsoleMessage, Page

OpenPage: TypeAlias = Callable[..., Page]
TIMEOUT_MS: Final = 60_000  # of a step; only a page that hangs needs so long


def watch_errors(page: Page, problems: list[str], expected: tuple[str, ...] = ()) -> None:
    """Collect what a page writes as an error, with its place, and exceptions that nothing
    catches."""

    def note(text: str) -> None:
        if not any(known in text for known in expected):
            problems.append(text)

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            note(f"{message.text} ({message.location.get('url')})")

    page.on("console", note_message)
    page.on("pageerror", lambda error: note(str(error)))


def play_to(page: Page, part: float) -> None:
    """Seek a recording to a part of its time: 0 is its start, 1 its end. Wait until it is drawn."""
    slider = page.get_by_label("Place in the recording")
    slider.evaluate(
        """async (slider, part) => {
            slider.value = part * slider.max;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        }""",
        part,
    )
