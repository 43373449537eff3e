"""Output of rows: a table on a terminal, tab-separated text in a pipe, JSON on request."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[Any]]]  # columns, rows


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Print rows. Piped text has a header line only when there is more than one column."""
    if as_json:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2))
    elif sys.stdout.isatty():
        show_table(columns, rows)
    else:
        if len(columns) > 1:
            print("\t".join(columns))
        for row in rows:
            print("\t".join(text(cell) for cell in row))


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


def text(cell: Any) -> str:
    if isinstance(cell, list | tuple):
        return ",".join(str(item) for item in cell)
    return "" if cell is None else str(cell)
