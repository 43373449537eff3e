"""Draws the pictures of learn mode for README and docs: one of each chapter, and a short film.

A chapter is the same in every run, and the page stands still while it is drawn, so two runs draw
the same pictures. An error that the page logs fails the run.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page

from minikafka.page.learn.chapters import chapter
from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.story import play_through
from scripts.lib.screenshots import chromium, page_of

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "learn"
SIZE: Final = (1280, 800)
QUALITIES: Final = (72, 60, 48)  # the first one whose picture is small enough
MAX_BYTES: Final = 80 * 1024
ROOM_MS: Final = 120_000
SETTLED_MS: Final = 600

# The sentence of each chapter that is drawn, by its key.
DRAWN: Final[Mapping[str, str]] = {
    "a-records-way": "response",
    "timing-wheel": "level-three",
    "purgatory": "still-parked",
    "controller-election": "take-over",
    "a-broker-dies": "others-shrunk",
    "controlled-shutdown": "response",
    "four-elections": "truncated",
    "reassignment": "step-4",
    "topic-deletion": "why-halt",
    "rebalance": "round-robin",
    "fetch-sessions": "two-halves",
    "zombies": "stuck",
    "transactions": "no-return",
    "partitioners": "order-lost",
    "assignors": "why-two",
    "consumer-groups": "two-steps",
    "share-groups": "state-topic",
    "noticing-deaths": "refused",
    "playground": "kill-1",
}

# One Produce request with acks=all: its way, copies, and the response, a frame each 60 us.
FILM: Final = "a-records-way"
FILM_FROM: Final = "produce"
FILM_TO: Final = "followers-know"
FILM_US: Final = 2_500
FRAME_US: Final = 60
FRAME_MS: Final = 160
FILM_WIDTH: Final = 880
FILM_QUALITY: Final = 55

SEEK: Final = """us => {
    const slider = document.querySelector(".player-seek input");
    slider.value = us;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
}"""


class Moment(NamedTuple):
    """A sentence of a chapter: when it is said, and how many beats there are until then."""

    t_us: int
    number: int


def main() -> None:
    require_chinese_font()
    moments = {name: moment(name, key) for name, key in DRAWN.items()}
    film_of = moment(FILM, FILM_FROM), moment(FILM, FILM_TO)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with served() as address, chromium() as browser:
        for name, drawn in pictures(browser, address, moments):
            (FOLDER / f"{name}.webp").write_bytes(drawn)
        (FOLDER / "record.webp").write_bytes(film(browser, address, *film_of))
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.stat().st_size // 1024:6} KiB  {path.name}")


def require_chinese_font() -> None:
    """Raise SystemExit unless a font for Chinese is installed: the page has a button in Chinese."""
    try:
        command = ["fc-list", ":lang=zh", "family"]
        fonts = subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise SystemExit("fc-list is not there: apt-get install fontconfig") from None
    if not fonts.strip():
        raise SystemExit(
            "no font for Chinese is there, so each character would be a box: "
            "apt-get install fonts-wqy-zenhei"
        )


def moment(name: str, key: str) -> Moment:
    """Play a chapter until it says something."""
    beats = play_through(chapter(name)).beats
    found = next(beat for beat in beats if beat.key == key)
    return Moment(found.t_us, found.number)


def served() -> AbstractContextManager[str]:
    """Serve learn mode; the value is the address of its page."""
    return page_of("learn", "--language", "en")


def pictures(
    browser: Browser, address: str, moments: Mapping[str, Moment]
) -> Iterator[tuple[str, bytes]]:
    for name, at in moments.items():
        with opened(browser, f"{address}#/stage?chapter={name}&t={at.t_us}", SIZE) as page:
            read_to(page, at)
            page.wait_for_timeout(SETTLED_MS)
            yield name, as_webp(page.screenshot())


def read_to(page: Page, at: Moment) -> None:
    """Read until a beat is there: several may be said at the same time."""
    page.locator(".beat").first.wait_for(timeout=ROOM_MS)
    page.wait_for_function(
        "us => Number(document.querySelector('.player-seek input').value) >= us",
        arg=at.t_us,
        timeout=ROOM_MS,
    )
    while (beats := page.locator(".beat").count()) < at.number:
        option = page.locator(".option:enabled")
        (option if option.count() else page.locator(".story-foot .primary")).first.click()
        page.wait_for_function(
            "beats => document.querySelectorAll('.beat').length > beats",
            arg=beats,
            timeout=ROOM_MS,
        )


def film(browser: Browser, address: str, first: Moment, last: Moment) -> bytes:
    """Return an animated WebP of the stage while a record is produced. It is played once before,
    as the slider ends where the playing has ended."""
    from PIL import Image

    frames = []
    place = f"{address}#/stage?chapter={FILM}&t={last.t_us}"
    with opened(browser, place, SIZE, follow="no") as page:
        read_to(page, last)
        for t_us in range(first.t_us, first.t_us + FILM_US, FRAME_US):
            page.evaluate(SEEK, t_us)
            page.wait_for_timeout(FRAME_MS)
            frame = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            frames.append(frame.resize((FILM_WIDTH, FILM_WIDTH * SIZE[1] // SIZE[0])))
    drawn = io.BytesIO()
    frames[0].save(
        drawn,
        "WEBP",
        save_all=True,
        append_images=[*frames[1:], *frames[-1:] * 8],
        duration=FRAME_MS,
        loop=0,
        quality=FILM_QUALITY,
        method=6,
    )
    return drawn.getvalue()


@contextmanager
def opened(
    browser: Browser, address: str, size: tuple[int, int], follow: str = "yes"
) -> Iterator[Page]:
    """Open the page; at the end, raise AssertionError if it has logged an error."""
    context = browser.new_context(
        color_scheme="light",
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
        viewport={"width": size[0], "height": size[1]},
    )
    context.add_init_script(f"localStorage.setItem('minikafka.learn.follow', '{follow}')")
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    yield page
    context.close()
    assert problems == [], "the page has logged errors"


def as_webp(drawn: bytes) -> bytes:
    from PIL import Image

    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    for quality in QUALITIES:
        found = io.BytesIO()
        image.save(found, "WEBP", quality=quality, method=6)
        if len(found.getvalue()) <= MAX_BYTES:
            break
    return found.getvalue()


if __name__ == "__main__":
    assert set(DRAWN) == set(TABLE.values())
    main()
