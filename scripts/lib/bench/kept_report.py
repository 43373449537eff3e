"""A report that is printed and kept, for the performance page's tables about ours alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.lib.bench.performance_sheet import figure_of_before, line
from scripts.lib.bench.report import Report, figure


@dataclass
class _Table:
    """The rows of one section: name, figures, aim, note. ``key`` finds its figures of before."""

    title: str
    ours: str
    probe: str
    rows: list[tuple[str, float, float | None, str, str]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.title if self.probe in ("", "probe") else f"{self.title}, {self.probe}"


class KeptReport(Report):
    """Prints as ``Report`` does, and returns all rows as Markdown."""

    def __init__(self) -> None:
        self._tables: list[_Table] = []

    def section(self, title: str, ours: str = "minikafka", probe: str = "probe") -> None:
        super().section(title, ours, probe)
        self._tables.append(_Table(title, ours, probe))

    def row(
        self,
        name: str,
        unit: str,
        ours: float,
        probe: float | None = None,
        aim: float | None = None,
        smaller_is_better: bool = False,
        note: str = "",
    ) -> None:
        super().row(name, unit, ours, probe, aim, smaller_is_better, note)
        limit = "" if aim is None else f"{'≤' if smaller_is_better else '≥'} {aim}"
        written = f"{name} ({unit})" if unit else name
        row = (written, ours, probe, limit, note)
        self._tables[-1].rows.append(row)

    def markdown(self, before: Mapping[tuple[str, str], str]) -> str:
        return "\n\n".join(_table(table, before) for table in self._tables if table.rows)


def _table(table: _Table, before: Mapping[tuple[str, str], str]) -> str:
    columns = ["", table.ours, table.probe or "probe", "ratio", "aim", "before", "note"]
    rows = []
    for name, ours, probe, limit, note in table.rows:
        ratio = "" if not probe else f"{ours / probe:.2f}"
        bare = "" if probe is None else figure(probe)
        earlier = figure_of_before(before.get((table.key, name.rpartition(" (")[0] or name), ""))
        rows.append([name, figure(ours), bare, ratio, limit, earlier, note])
    used = [n for n, _ in enumerate(columns) if n < 2 or any(row[n] for row in rows)]
    lines = [f"### {table.key}", "", line([columns[n] for n in used])]
    lines.append(line(["---"] + ["--:"] * (len(used) - 1)))
    return "\n".join([*lines, *(line([row[n] for n in used]) for row in rows)])
