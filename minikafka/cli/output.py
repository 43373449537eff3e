"""Output of rows: a table on a terminal, tab-separated text in a pipe, JSON on request.

Verbs whose output is that of a Kafka tool format their rows by ``kafka_table``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[Any]]]  # columns, rows

MISSING: Final = "-"  # in place of a value in tables of Kafka's tools


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Print rows. Piped text has a header line only when there is more than one column."""
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif sys.stdout.isatty():
        show_table(columns, rows)
    else:
        if len(columns) > 1:
            print("\t".join(columns))
        for row in rows:
            print("\t".join(text(cell) for cell in row))


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def show_tables(tables: Iterable[Table]) -> None:
    """Print several tables; in a pipe an empty line separates them."""
    for number, (columns, rows) in enumerate(tables):
        if number and not sys.stdout.isatty():
            print()
        show(columns, rows, as_json=False)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for position, column in enumerate(columns):
        number = bool(rows) and all(isinstance(row[position], int | float) for row in rows)
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(text(cell) for cell in row))
    Console().print(table)


def kafka_table(columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[object]]) -> str:
    """Format a left-aligned table as Kafka's tools print it, with ``MISSING`` for None.

    ``columns``: name and minimum width. A column of width 0 is not padded; it comes last.
    """
    texts = [[MISSING if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max([width, *(len(row[at]) for row in texts)]) if width else 0
        for at, (_, width) in enumerate(columns)
    ]
    lines = [[name for name, _ in columns], *texts]
    return "\n".join(
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def text(cell: Any) -> str:
    if isinstance(cell, list | tuple):
        return ",".join(str(item) for item in cell)
    return "" if cell is None else str(cell)
