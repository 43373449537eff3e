"""The tables of chapters in docs/tutorial/learn.md, and the mission rows that chapters name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.texts import SUMMARY, TITLE, Catalogue

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs" / "tutorial" / "learn.md"
MISSION = ROOT / "docs" / "mission.md"
BEGIN, END = "<!-- chapters: begin -->", "<!-- chapters: end -->"


def learn() -> str:
    """docs/tutorial/learn.md as it should be: its tables of chapters are drawn."""
    before, _, rest = LEARN.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *chapter_table(), "", *family_table(), "", END + after])


def rows_by_chapter() -> dict[int, list[str]]:
    """Return the mission rows that each chapter names, by its number."""
    found = {}
    for number, name in sorted(TABLE.items()):
        found[number] = sorted(Catalogue.of(name).missions(), key=_place)
    return found


def mission_rows() -> list[str]:
    """Return the ids of all rows."""
    return re.findall(
        r"^\| ([A-Z][A-Z0-9]*-\d+) \|", MISSION.read_text(encoding="utf-8"), re.MULTILINE
    )


def family(row: str) -> str:
    return row.partition("-")[0]


def chapter_table() -> list[str]:
    """One line for each chapter: number, titles, number of checks, rows."""
    lines = ["| | Chapter | What you see | Checks | Mission rows |", "|---|---|---|---|---|"]
    for number, rows in rows_by_chapter().items():
        name = TABLE[number]
        catalogue = Catalogue.of(name)
        titles = " · ".join(catalogue.words(TITLE, language).text for language in ("en", "zh"))
        seen = catalogue.words(SUMMARY, "en").text
        lines.append(f"| {number} | {titles} | {seen} | {checks(name)} | {ranges(rows)} |")
    return lines


def family_table() -> list[str]:
    """One line for each family of rows that a chapter names: rows and chapters."""
    by_family: dict[str, dict[str, set[int]]] = {}
    for number, rows in rows_by_chapter().items():
        for row in rows:
            by_family.setdefault(family(row), {}).setdefault(row, set()).add(number)
    lines = ["| Rows | named of | Chapters |", "|---|---|---|"]
    totals = mission_rows()
    for name, named in sorted(by_family.items()):
        total = sum(family(row) == name for row in totals)
        chapters = ", ".join(map(str, sorted(set().union(*named.values()))))
        lines.append(f"| {name} | {len(named)} of {total} | {chapters} |")
    return lines


def checks(name: str) -> int:
    """Return how many asserts the source of a chapter has."""
    path = ROOT / "minikafka" / "page" / "learn" / "chapters" / f"{name.replace('-', '_')}.py"
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return sum(isinstance(c.func, ast.Attribute) and c.func.attr == "check" for c in calls)


def ranges(rows: Iterable[str]) -> str:
    """Return rows as text: consecutive numbers of a family become ``REA-1 to 14``."""
    numbers: dict[str, list[int]] = {}
    for row in sorted(rows, key=_place):
        numbers.setdefault(family(row), []).append(_place(row)[1])
    return ", ".join(f"{name}-{', '.join(_runs(found))}" for name, found in numbers.items())


def _runs(numbers: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    joins: Mapping[int, str] = {1: "", 2: ", "}
    return [f"{r[0]}{joins.get(len(r), ' to ')}{r[-1] if len(r) > 1 else ''}" for r in runs]


def _place(row: str) -> tuple[str, int]:
    name, _, number = row.partition("-")
    return name, int(number)
