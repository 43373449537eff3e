"""The line that a stream prints after each batch, and the offsets in it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from minikafka.spark.progress import offsets_read, progress_line

PROGRESS: dict[str, Any] = {
    "id": "1234",
    "name": None,
    "batchId": 7,
    "numInputRows": 50,
    "processedRowsPerSecond": 12.6,
    "durationMs": {"triggerExecution": 210},
    "sources": [
        {"endOffset": {"t": {"0": 5, "1": 6}}, "latestOffset": '{"t":{"0":9,"1":6,"2":1}}'},
        {"endOffset": 99, "latestOffset": None},
    ],
    "eventTime": {"watermark": "2013-01-01T00:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 3}, {"numRowsTotal": 4}],
}


def test_a_line_per_batch() -> None:
    assert progress_line(PROGRESS) == (
        "query=1234 batch=7 rows=50 rows_per_s=13 ms=210 lag=5 "
        "watermark=2013-01-01T00:00:00.000Z state_rows=7"
    )
    assert progress_line({"id": "1", "name": "n", "batchId": 0}) == (
        "query=n batch=0 rows=0 rows_per_s=0 ms=0 lag=0"
    )


def test_offsets_of_other_sources_are_left_alone() -> None:
    assert offsets_read(PROGRESS) == {("t", 0): 5, ("t", 1): 6}
