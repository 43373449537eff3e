"""How figures are printed and written: rows beside another side, and tables of two kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from scripts.lib.bench.brokers import KAFKA, OURS

PROBE = "bare probe"
BEGIN = "<!-- measured: scripts/bench kafka writes all lines up to the end mark -->"
END = "<!-- end of measured -->"
ALIKE = 0.05  # sides that differ by less are equal


class Row(NamedTuple):
    name: str
    ours: float
    probe: float | None
    aim: str
    note: str


@dataclass
class _Table:
    title: str
    columns: tuple[str, str]
    rows: list[Row] = field(default_factory=list)

    def markdown(self) -> str:
        ours, probe = self.columns
        head = ["", ours, probe or "probe", "ratio", "aim", "note"]
        title = self.title if probe in ("", "probe") else f"{self.title}, {probe}"
        cells = [
            [
                row.name,
                figure(row.ours),
                "" if row.probe is None else figure(row.probe),
                f"{row.ours / row.probe:.2f}" if row.probe else "",
                row.aim,
                row.note,
            ]
            for row in self.rows
        ]
        used = [n for n, _ in enumerate(head) if n < 2 or any(row[n] for row in cells)]
        lines = [f"### {title}", "", line([head[n] for n in used])]
        lines.append(line(["---"] + ["--:"] * (len(used) - 1)))
        return "\n".join([*lines, *(line([row[n] for n in used]) for row in cells)])


class Report:
    """Prints one line a figure, as it comes, and keeps it for ``markdown``."""

    def __init__(self) -> None:
        self._tables: list[_Table] = []

    def section(self, title: str, ours: str = OURS, probe: str = "probe") -> None:
        """``ours`` and ``probe`` say what the two columns compare."""
        print(f"\n{title}")
        print(f"  {'':<48}{ours:>12}{probe:>12}{'ratio':>8}  aim")
        self._tables.append(_Table(title, (ours, probe)))

    def row(
        self,
        name: str,
        unit: str,
        ours: float,
        probe: float | None = None,
        least: float | None = None,
        most: float | None = None,
        note: str = "",
    ) -> None:
        """The ratio is ours / probe; the aim of a row is its least or its greatest ratio."""
        aim = f"≥ {least}" if least is not None else f"≤ {most}" if most is not None else ""
        row = Row(f"{name} ({unit})" if unit else name, ours, probe, aim, note)
        self._tables[-1].rows.append(row)
        text = f"  {row.name:<48}{figure(ours):>12}"
        if probe is not None:
            ratio = f"{ours / probe:.2f}" if probe else ""
            text += f"{figure(probe):>12}{ratio:>8}"
        print("  ".join([text, *filter(None, (aim, note))]), flush=True)

    def markdown(self) -> str:
        return "\n\n".join(table.markdown() for table in self._tables if table.rows)


def figure(value: float) -> str:
    if math.isinf(value):
        return "never"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --------------------------------------------------------------------------- tables of two kinds


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
        self.figures: dict[tuple[Section, str], dict[str, list[float]]] = {}

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


def tables(sheet: Sheet) -> str:
    """Return all sections as Markdown. Every row has figures of both kinds."""
    found = [ahead(section, sides) for (section, _), sides in sheet.figures.items()]
    counted = (
        f"Of {len(found)} rows minikafka is ahead in {found.count(OURS)}, Kafka in "
        f"{found.count(KAFKA)}, and {found.count('equal')} differ by at most {ALIKE:.0%}."
    )
    return "\n\n".join([counted, *(_table(sheet, section) for section in sheet.sections)])


def _table(sheet: Sheet, section: Section) -> str:
    rows = sheet.rows(section)
    probed = any(PROBE in sides for _, sides in rows)
    head = ["", OURS, KAFKA, f"{OURS} / {KAFKA}", "ahead"]
    head += [PROBE, f"{OURS} / probe"] if probed else []
    lines = [f"### {section.heading}", "", line(head), line(["---"] + ["--:"] * len(head[1:]))]
    for name, sides in rows:
        cells = [name, _cell(sides[OURS]), _cell(sides[KAFKA]), _ratio(sides, KAFKA)]
        cells.append(ahead(section, sides))
        if probed:
            cells += [_cell(sides.get(PROBE, ())), _ratio(sides, PROBE)]
        lines.append(line(cells))
    return "\n".join(lines)


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


# --------------------------------------------------------------------------------------- documents


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
