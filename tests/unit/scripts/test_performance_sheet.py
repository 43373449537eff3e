"""The tables of docs/explanation/performance.md, from figures of two sides."""

from __future__ import annotations

import pytest

from scripts.lib.bench.brokers import KAFKA, OURS
from scripts.lib.bench.failover import longest_gap
from scripts.lib.bench.report import (
    BEGIN,
    END,
    PROBE,
    Report,
    Section,
    Sheet,
    ahead,
    insert,
    tables,
)

RATE = Section("Produce", "requests/s", more_is_better=True)
WAIT = Section("Latency", "ms")


def sheet_of(*figures: tuple[str, Section, str, float]) -> Sheet:
    sheet = Sheet((RATE, WAIT))
    for side, section, name, value in figures:
        sheet.add(side, section, name, value)
    return sheet


def test_a_row_has_median_range_ratio_and_the_side_ahead() -> None:
    rows = [(OURS, 300.0), (OURS, 100.0), (OURS, 200.0), (KAFKA, 400.0)]
    sheet = sheet_of(*((side, RATE, "1 KB", value) for side, value in rows))

    assert tables(sheet).splitlines()[2:] == [
        "### Produce (requests/s, more is better)",
        "",
        "|  | minikafka | Kafka | minikafka / Kafka | ahead |",
        "| --- | --: | --: | --: | --: |",
        "| 1 KB | 200.0 (100.0 to 300.0) | 400.0 | 0.50 | Kafka |",
    ]


def test_the_rows_of_either_side_are_counted() -> None:
    sheet = sheet_of(
        *((side, RATE, "1 KB", value) for side, value in ((OURS, 2.0), (KAFKA, 1.0))),
        *((side, WAIT, "p50", value) for side, value in ((OURS, 2.0), (KAFKA, 1.0))),
        *((side, WAIT, "p99", value) for side, value in ((OURS, 2.0), (KAFKA, 2.05))),
    )

    assert tables(sheet).startswith(
        "Of 3 rows minikafka is ahead in 1, Kafka in 1, and 1 differ by at most 5%."
    )


def test_the_probe_has_a_column_where_it_has_figures() -> None:
    sheet = sheet_of(
        *((side, RATE, "1 KB", 10.0) for side in (OURS, KAFKA, PROBE)),
        *((side, RATE, "many", 10.0) for side in (OURS, KAFKA)),
        *((side, WAIT, "p50", 10.0) for side in (OURS, KAFKA)),
    )

    lines = tables(sheet).splitlines()

    assert (
        "|  | minikafka | Kafka | minikafka / Kafka | ahead | bare probe | minikafka / probe |"
        in lines
    )
    assert "| 1 KB | 10.0 | 10.0 | 1.00 | equal | 10.0 | 1.00 |" in lines
    assert "| many | 10.0 | 10.0 | 1.00 | equal |  |  |" in lines
    assert "| p50 | 10.0 | 10.0 | 1.00 | equal |" in lines


def test_a_report_has_the_columns_that_are_used() -> None:
    report = Report()
    report.section("rest")
    report.row("memory", "MB", 48.6, 25.6, most=45)
    report.section("sent", probe="confluent")
    report.row("records a second", "1/s", 10.0, note="of one core")

    assert report.markdown().splitlines() == [
        "### rest",
        "",
        "|  | minikafka | probe | ratio | aim |",
        "| --- | --: | --: | --: | --: |",
        "| memory (MB) | 48.6 | 25.6 | 1.90 | ≤ 45 |",
        "",
        "### sent, confluent",
        "",
        "|  | minikafka | note |",
        "| --- | --: | --: |",
        "| records a second (1/s) | 10.0 | of one core |",
    ]


def test_sections_come_in_their_order_and_not_without_rows() -> None:
    both = [(side, section, "row", 1.0) for section in (WAIT, RATE) for side in (OURS, KAFKA)]

    assert sheet_of(*both).sections == [RATE, WAIT]
    assert sheet_of(*both[:2]).sections == [WAIT]


def test_nothing_on_both_sides_is_equal_and_has_no_ratio() -> None:
    sheet = sheet_of(*((side, WAIT, "failed", 0.0) for side in (OURS, KAFKA)))

    assert "| failed | 0.00 | 0.00 |  | equal |" in tables(sheet).splitlines()


@pytest.mark.parametrize(
    ("section", "ours", "kafkas", "winner"),
    [
        (RATE, 106.0, 100.0, OURS),
        (RATE, 100.0, 106.0, KAFKA),
        (RATE, 100.0, 104.0, "equal"),
        (WAIT, 106.0, 100.0, KAFKA),
        (WAIT, 100.0, 106.0, OURS),
        (WAIT, 0.0, 1.0, OURS),
    ],
)
def test_the_side_ahead(section: Section, ours: float, kafkas: float, winner: str) -> None:
    assert ahead(section, {OURS: [ours], KAFKA: [kafkas]}) == winner


def test_only_lines_between_the_marks_change() -> None:
    document = f"# Title\n\n{BEGIN}\n\nold\n\n{END}\n\nlast words\n"

    once = insert(document, "new\n")

    assert once == f"# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nlast words\n"
    assert insert(once, "new\n") == once


@pytest.mark.parametrize("document", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_document_without_marks_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="lacks the line"):
        insert(document, "new")


def test_the_longest_gap_begins_before_the_kill_or_after_it() -> None:
    assert longest_gap([0.0, 5.0, 6.0, 8.0, 9.0], since=5.5) == 2.0
    assert longest_gap([0.0, 1.0, 9.0, 10.0], since=3.0) == 8.0
    assert longest_gap([0.0, 1.0, 2.0], since=1.5) == 1.0
    assert longest_gap([0.0, 1.0, 3.0, 7.0], since=0.5, until=2.0) == 2.0


def test_a_gap_that_has_not_ended_has_no_length() -> None:
    with pytest.raises(ValueError, match="empty"):
        longest_gap([0.0, 1.0], since=3.0)
