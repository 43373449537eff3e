"""The figures of minikafka beside official Kafka, and their tables on the performance page."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scripts.lib.bench.report import figure

BEFORE_FILE = Path(__file__).with_name("before.csv")
OURS, KAFKA, PROBE = "minikafka", "Kafka", "bare probe"
BEGIN = "<!-- measured: scripts/bench kafka writes all lines up to the end mark -->"
END = "<!-- end of measured -->"
ALIKE = 0.05  # sides that differ by less are equal

Row = tuple["Section", str]


@dataclass(frozen=True)
class Section:
    """One table. ``unit`` is that of all its rows."""

    title: str
    unit: str
    more_is_better: bool = False

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit}, {'more' if self.more_is_better else 'less'} is better)"


class Sheet:
    """All figures of one run. ``order`` lists the sections; rows keep the order of their coming."""

    def __init__(self, order: Sequence[Section]) -> None:
        self._order = order
        self.figures: dict[Row, dict[str, list[float]]] = {}

    def add(self, side: str, section: Section, name: str, value: float) -> None:
        self.figures.setdefault((section, name), {}).setdefault(side, []).append(value)

    @property
    def sections(self) -> list[Section]:
        return [section for section in self._order if self.rows(section)]

    def rows(self, section: Section) -> list[tuple[str, dict[str, list[float]]]]:
        return [(name, sides) for (of, name), sides in self.figures.items() if of == section]


def ahead(section: Section, sides: dict[str, list[float]]) -> str:
    """Return the side with the better median; "equal" if they hardly differ."""
    ours, kafkas = median(sides[OURS]), median(sides[KAFKA])
    if abs(ours - kafkas) <= ALIKE * max(ours, kafkas):
        return "equal"
    return OURS if (ours > kafkas) == section.more_is_better else KAFKA


def read_before() -> dict[tuple[str, str], str]:
    """Return the figures before the work on speed (commit 46701107), by section and row."""
    with BEFORE_FILE.open(newline="") as file:
        return {(row["section"], row["row"]): row["before"] for row in csv.DictReader(file)}


def tables(sheet: Sheet, before: Mapping[tuple[str, str], str]) -> str:
    """Return all sections as Markdown. Every row has figures of both sides. ``before`` has earlier
    figures of ours, by the section's title and the row."""
    return "\n\n".join([_counted(sheet), *(_table(sheet, s, before) for s in sheet.sections)])


def _table(sheet: Sheet, section: Section, before: Mapping[tuple[str, str], str]) -> str:
    rows = sheet.rows(section)
    probed = any(PROBE in sides for _, sides in rows)
    known = any((section.title, name) in before for name, _ in rows)
    head = ["", OURS, KAFKA, f"{OURS} / {KAFKA}", "ahead"]
    head += [PROBE, f"{OURS} / probe"] if probed else []
    head += ["before"] if known else []
    lines = [
        f"### {section.heading}",
        "",
        line(head),
        line(["---"] + ["--:"] * len(head[1:])),
    ]
    for name, sides in rows:
        cells = [name, _cell(sides[OURS]), _cell(sides[KAFKA]), _ratio(sides, KAFKA)]
        cells.append(ahead(section, sides))
        if probed:
            cells += [_cell(sides.get(PROBE, ())), _ratio(sides, PROBE)]
        if known:
            cells.append(figure_of_before(before.get((section.title, name), "")))
        lines.append(line(cells))
    return "\n".join(lines)


def figure_of_before(text: str) -> str:
    """Write a number as the other cells have it; other text stays."""
    try:
        return figure(float(text))
    except ValueError:
        return text


def marks(benchmark: str) -> tuple[str, str]:
    """Return the lines around what one of ``scripts/bench`` writes."""
    begin = f"<!-- measured: scripts/bench {benchmark} writes all lines up to the end mark -->"
    return begin, END if benchmark == "kafka" else f"<!-- end of {benchmark} -->"


def insert(document: str, measured: str, around: tuple[str, str] = (BEGIN, END)) -> str:
    """Return the document with other lines between its marks. Raises ValueError without marks."""
    first, last = around
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the document lacks the line {last if begin else first}")
    return f"{before}{first}\n\n{measured.strip()}\n\n{last}{after}"


def _counted(sheet: Sheet) -> str:
    found = [ahead(section, sides) for (section, _), sides in sheet.figures.items()]
    return (
        f"Of {len(found)} rows minikafka is ahead in {found.count(OURS)}, Kafka in "
        f"{found.count(KAFKA)}, and {found.count('equal')} differ by at most {ALIKE:.0%}."
    )


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(values: Sequence[float]) -> str:
    """The median, and the smallest and the largest value."""
    if not values:
        return ""
    middle = figure(median(values))
    low, high = figure(min(values)), figure(max(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def _ratio(sides: dict[str, list[float]], other: str) -> str:
    theirs = median(sides.get(other, [0.0]))
    return f"{median(sides[OURS]) / theirs:.2f}" if theirs else ""
