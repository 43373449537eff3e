"""A reader who clicks through a chapter of learn mode in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

LIMIT_MS = 120_000  # on a busy machine
MAX_CLICKS = 200
_SAID_MORE = """
([said, asked]) => document.querySelector(".story-foot .notice")
    || document.querySelectorAll(".beats li").length > said
    || document.querySelectorAll(".question .option:enabled").length !== asked
"""


def play_fast(page: Page) -> None:
    """Move the slider of the speed to its end."""
    slider = page.locator(".transport").get_by_label("Speed")
    slider.evaluate(
        """(slider) => {
            slider.value = slider.max;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
        }"""
    )


def click_through(page: Page) -> int:
    """Go on, and answer with the first option, until the chapter is done. Return how often."""
    foot = page.locator(".story-foot")
    done = foot.locator(".notice.good")
    next_one = page.locator(".story-foot > button.primary, .question .option:enabled").first
    still = foot.get_by_text("The cluster stands still.")
    expect(done.or_(next_one).or_(still).first).to_be_visible(timeout=LIMIT_MS)
    if still.is_visible():
        page.keyboard.press("Space")  # a chapter that begins without a sentence
    for clicks in range(MAX_CLICKS):
        expect(done.or_(next_one).first).to_be_visible(timeout=LIMIT_MS)
        if done.is_visible():
            return clicks
        said = page.locator(".beats li").count()
        asked = page.locator(".question .option:enabled").count()
        next_one.click()
        page.wait_for_function(_SAID_MORE, arg=[said, asked], timeout=LIMIT_MS)
        assert page.locator(".story-foot .notice.bad").count() == 0, foot.inner_text()
    raise AssertionError("the chapter does not end")
