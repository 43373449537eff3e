"""Output of rows: a table on a terminal, tab-separated text in a pipe, JSON on request.

Verbs whose output is that of a Kafka tool format their rows by ``kafka_table``: in a pipe, and in
the form of that tool, it is Kafka's layout. A table on a terminal is at most as wide as that, and
shows ``Sick`` cells in red, unless ``NO_COLOR`` is set.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[Any]]]  # columns, rows

DEFAULT_COLUMNS: Final = 80
MISSING: Final = "-"  # in place of a value in tables of Kafka's tools
NO_ROWS: Final = "(none)"  # below the head of a table on a terminal


class Sick(str):
    """The text of a cell that needs attention."""


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
    print(terminal_table(columns, rows))


def terminal_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a table that fits the terminal: long cells are folded, none is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, column in enumerate(columns):
        cells = [row[position] for row in rows if row[position] is not None]
        number = bool(cells) and all(isinstance(cell, int | float) for cell in cells)
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(_heading(column), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(
            *(Text(text(cell), "bold red" if isinstance(cell, Sick) else "") for cell in row)
        )
    shown = io.StringIO()
    width = terminal_columns()
    Console(file=shown, force_terminal=True, width=width, legacy_windows=False).print(table)
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    return "\n".join(lines if rows else [*lines, NO_ROWS])


def _heading(column: str) -> str:
    """Return the name of a column in words, between which it can be folded."""
    return re.sub(r"[a-z](?=[A-Z])", r"\g<0> ", re.sub("[-_]", " ", column)).lower()


def terminal_columns() -> int:
    """Return the width of the terminal: ``COLUMNS`` wins, and 80 is for none."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size().columns or DEFAULT_COLUMNS
    except OSError:  # no terminal
        return DEFAULT_COLUMNS


def kafka_table(columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[object]]) -> str:
    """Format a left-aligned table as Kafka's tools print it, with ``MISSING`` for None.

    ``columns``: name and minimum width. A column of width 0 is not padded; it comes last. On a
    terminal the table fits that instead.
    """
    if sys.stdout.isatty():
        cells = [[MISSING if cell is None else cell for cell in row] for row in rows]
        return terminal_table([name.lower() for name, _ in columns], cells)
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
