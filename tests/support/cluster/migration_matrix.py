"""The figures of migrations and kills beside Kafka, printed together at the end of a test run.

A test records the row of its cluster by ``record_property(MATRIX_ROW, matrix_row(...))``: the
property comes with the test's report from the process that ran it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

MATRIX_ROW = "migration_matrix_row"
COLUMNS = ("migration", "acked", "lost", "doubled", "longest pause ms")


def matrix_row(name: str, verdict: Mapping[str, Any]) -> Sequence[str]:
    """Return the row of a verdict of `minikafka verify`. The longest pause is the longest time from
    a record's first send to its acknowledgement."""
    counts, found = verdict["counts"], verdict["found"]
    return (
        name,
        *(
            str(counts["records_acknowledged"]),
            str(found.get("lost", 0)),
            str(found.get("doubled", 0)),
        ),
        str(counts["longest_wait_ms"]),
    )


def recorded_rows(reports: Iterable[pytest.TestReport]) -> list[Sequence[str]]:
    """Return the rows that the tests of these reports recorded, by name."""
    found: list[Any] = [
        row
        for report in reports
        for name, row in report.user_properties
        if name == MATRIX_ROW and report.when == "call"
    ]
    return sorted(found)


def matrix_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines below COLUMNS: names to the left, figures to the right."""
    table = [COLUMNS, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(COLUMNS))]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
