"""Draws the first picture of the performance page from the page's own table beside Kafka."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from scripts.lib.bench.brokers import KAFKA, OURS
from scripts.lib.bench.report import BEGIN, END

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "explanation" / "performance.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "performance" / "beside-kafka.svg"
COLORS: Final = {OURS: "#2f7ed8", KAFKA: "#d9822b"}
WIDTH: Final = 920
MIDDLE: Final = 600  # where both sides are alike
DOUBLING: Final = 60  # the width of a factor of two
LINE: Final = 18
_HEADING: Final = re.compile(r"### (?P<title>.+) \([^()]*, (?P<which>more|less) is better\)$")


class Bar(NamedTuple):
    """A row of a table. ``factor`` is how many times better minikafka is: below 1, Kafka is."""

    title: str
    name: str
    factor: float


def bars(page: str) -> Iterator[Bar]:
    """Yield the rows of the tables that have a ratio of the two sides."""
    title, more_is_better = "", False
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        if heading := _HEADING.match(line):
            title, more_is_better = heading["title"], heading["which"] == "more"
        elif line.startswith("### "):
            title = ""  # a table without Kafka
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_row = len(cells) > 4 and cells[4] in (OURS, KAFKA, "equal") and cells[3]
        if title and is_row and not cells[0].startswith("for comparison"):
            yield Bar(title, cells[0], float(cells[3]) ** (1 if more_is_better else -1))


def draw() -> str:
    """Return docs/pictures/performance/beside-kafka.svg as it should be."""
    page = PAGE.read_text()
    date = re.search(r"\*\*Date\*\*: (\S+)", page)
    version = re.search(r"\*\*minikafka\*\*: ([^,]+),", page)
    assert date is not None
    assert version is not None
    rows = list(bars(page))
    y = 56
    parts = []
    title = ""
    for bar in rows:
        if bar.title != title:
            title = bar.title
            y += 10
            parts.append(_text(12, y, title, weight="600"))
            y += LINE
        parts += _drawn(bar, y)
        y += LINE
    head = [
        _text(12, 24, "How many times better than Apache Kafka 3.9.1, on a logarithmic scale", 16),
        _text(12, 44, f"The tables below, measured on {date[1]} ({version[1]})", color="#555"),
        _text(MIDDLE - 8, 44, f"{KAFKA} is better", color=COLORS[KAFKA], anchor="end"),
        _text(MIDDLE + 8, 44, f"{OURS} is better", color=COLORS[OURS]),
        f'<path d="M{MIDDLE} 50V{y - 8}" stroke="#888"/>',
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}">',
            '<g font-family="system-ui, sans-serif">',
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
            *head,
            *parts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _drawn(bar: Bar, y: int) -> Iterator[str]:
    length = round(DOUBLING * math.log2(bar.factor), 1)
    side = OURS if bar.factor >= 1 else KAFKA
    better = max(bar.factor, 1 / bar.factor)
    left, end = min(MIDDLE, MIDDLE + length), MIDDLE + length
    yield _text(24, y, bar.name, color="#333")
    yield (
        f'<rect x="{left:g}" y="{y - 10}" width="{abs(length):g}" height="12" '
        f'fill="{COLORS[side]}"/>'
    )
    if side == OURS:
        yield _text(end + 5, y, f"{better:.2f}", color="#333")
    else:
        yield _text(end - 5, y, f"{better:.2f}", color="#333", anchor="end")


def _text(
    x: float,
    y: float,
    text: str,
    size: int = 12,
    *,
    color: str = "#111",
    anchor: str = "start",
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
