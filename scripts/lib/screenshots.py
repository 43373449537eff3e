"""Draws the pictures of the page for README and docs, from a recording of a simulated cluster.

The recording comes from a seed, and the page does not move by itself, so that two runs draw the
same pictures. Records are read from a cluster inside this process, with given times. An error that
the page logs fails the run.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from playwright.sync_api import Browser, Page, sync_playwright

from minikafka.aio import Producer
from minikafka.testing.inside.cluster import InsideCluster
from scripts.lib.recordings import DEFAULT_SEED

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "glass"
Scheme: TypeAlias = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SETTLED_MS: Final = 400  # the page has drawn what the recording says at a moment


class Picture(NamedTuple):
    """A view at a moment of the recording, in ms. ``height`` is in CSS pixels."""

    name: str
    view: str
    at_ms: int
    height: int


PICTURES: Final = (
    Picture("cluster", "cluster", 9_000, 640),
    Picture("lanes", "lanes/orders", 12_800, 800),
    Picture("controller", "controller", 14_000, 1100),
    Picture("purgatories", "purgatories/Fetch", 9_300, 1080),
    Picture("groups", "groups/billing", 25_000, 1000),
    Picture("requests", "requests", 25_000, 900),
    Picture("transactions", "transactions", 29_000, 640),
    Picture("why", "why", 14_000, 900),
)
# In these a cluster is read.
RECORDS: Final = 'records?topic=orders&from=last:8&where=$.order.state = "paid" and $.total > 30'
READ: Final = (Picture("records", RECORDS, 0, 860),)
SETTLED_READ_MS: Final = 2_000
FIRST_MS: Final = 1_790_000_000_000
# The controller, which leads orders-2, is killed and comes back.
FILM: Final = Picture("failover", "lanes/orders", 8_000, 700)
FILM_END_MS: Final = 20_000
FRAME_MS: Final = 250
FILM_WIDTH: Final = 900
WIDTH: Final = 1280


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with shown() as address, chromium() as browser:
        for scheme in SCHEMES:
            for picture, drawn in pictures(browser, address, scheme):
                (folder / f"{picture.name}-{scheme}.png").write_bytes(fewer_colours(drawn))
        (folder / f"{FILM.name}.webp").write_bytes(film(browser, address))
    with a_cluster() as address, chromium() as browser:
        for scheme in SCHEMES:
            for picture, drawn in pictures_of_records(browser, address, scheme):
                (folder / f"{picture.name}-{scheme}.png").write_bytes(fewer_colours(drawn))
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size // 1024:6} KiB  {path.name}")


@contextmanager
def shown() -> Iterator[str]:
    """Record a failover, and serve the recording in a process of the page; the value is its
    address. Both are processes, since Playwright occupies the loop of this one."""
    with tempfile.TemporaryDirectory() as folder:
        recording = str(Path(folder) / "recording.ndjson")
        record = [sys.executable, "-m", "scripts.lib.recordings", recording, str(DEFAULT_SEED)]
        subprocess.run(record, check=True, stdout=subprocess.DEVNULL)
        with page_of("ui", "--recording", recording) as address:
            yield address


@contextmanager
def page_of(verb: str, *words: str) -> Iterator[str]:
    """Yield the address of the page of a verb, `ui` or `learn`, with these words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minikafka", verb, *words, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first.startswith("page="):
            raise SystemExit(f"the page did not start: {first}")
        yield first.split()[0].removeprefix("page=")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def a_cluster() -> Iterator[str]:
    """Yield the address of the page of three brokers with orders."""
    with InsideCluster(3) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        asyncio.run(write_orders(cluster.bootstrap))
        with page_of("ui", "--bootstrap-server", cluster.bootstrap) as address:
            yield address


async def write_orders(bootstrap: str) -> None:
    dice = random.Random(DEFAULT_SEED)
    async with Producer(bootstrap) as producer:
        for number in range(2_000):
            order = {
                "order": {"id": number, "state": dice.choice(("new", "paid", "sent"))},
                "items": [{"sku": f"A-{dice.randrange(90)}", "count": dice.randrange(1, 4)}],
                "total": round(dice.uniform(5, 90), 2),
            }
            await producer.send(
                "orders",
                json.dumps(order).encode(),
                f"user-{dice.randrange(400)}".encode(),
                headers=[("source", b"web")],
                timestamp_ms=FIRST_MS + 250 * number,
            )
        await producer.flush()


def pictures_of_records(
    browser: Browser, address: str, scheme: Scheme
) -> Iterator[tuple[Picture, bytes]]:
    with opened(browser, address, scheme, WIDTH, 2) as shown_page:
        for picture in READ:
            shown_page.set_viewport_size({"width": WIDTH, "height": picture.height})
            shown_page.evaluate("hash => { location.hash = hash; }", f"#/{picture.view}")
            shown_page.wait_for_timeout(SETTLED_READ_MS)
            yield picture, shown_page.screenshot()


@contextmanager
def chromium() -> Iterator[Browser]:
    path = os.environ.get("MINIKAFKA_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit(
            "no Chromium is there: apt-get install chromium, or set MINIKAFKA_CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def pictures(browser: Browser, address: str, scheme: Scheme) -> Iterator[tuple[Picture, bytes]]:
    with opened(browser, address, scheme, WIDTH, 2) as page:
        for picture in PICTURES:
            show(page, picture, WIDTH)
            yield picture, page.screenshot()


def fewer_colours(drawn: bytes) -> bytes:
    """Return the picture with 256 colours, in a third of the bytes."""
    from PIL import Image

    found = io.BytesIO()
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(found, "PNG", optimize=True)
    return found.getvalue()


def film(browser: Browser, address: str) -> bytes:
    """Return an animated WebP of a failover, in real time."""
    from PIL import Image

    frames = []
    with opened(browser, address, "light", FILM_WIDTH, 1) as page:
        show(page, FILM, FILM_WIDTH)
        for at_ms in range(FILM.at_ms, FILM_END_MS, FRAME_MS):
            move_to(page, at_ms)
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    drawn = io.BytesIO()
    frames[0].save(
        drawn,
        "WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=FRAME_MS,
        loop=0,
        quality=70,
    )
    return drawn.getvalue()


@contextmanager
def opened(
    browser: Browser, address: str, scheme: Scheme, width: int, scale: float
) -> Iterator[Page]:
    """Open the page; at the end, raise AssertionError if it has logged an error."""
    context = browser.new_context(
        color_scheme=scheme,
        reduced_motion="reduce",
        device_scale_factor=scale,
        timezone_id="UTC",
        locale="en-GB",
        viewport={"width": width, "height": 800},
    )
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.locator("h1").wait_for()
    yield page
    context.close()
    assert problems == [], "the page has logged errors"


def show(page: Page, picture: Picture, width: int) -> None:
    page.set_viewport_size({"width": width, "height": picture.height})
    page.evaluate("hash => { location.hash = hash; }", f"#/{picture.view}")
    # Points over time are drawn from what was played, so that a seek alone would show few of them.
    for at_ms in range(0, picture.at_ms, 1_000):
        seek(page, at_ms)
    move_to(page, picture.at_ms)


def move_to(page: Page, at_ms: int) -> None:
    seek(page, at_ms)
    page.wait_for_timeout(SETTLED_MS)


def seek(page: Page, at_ms: int) -> None:
    page.get_by_label("Place in the recording").evaluate(
        """(slider, at) => {
            slider.value = at;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
        at_ms,
    )


if __name__ == "__main__":
    main()
