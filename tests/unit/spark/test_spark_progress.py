"""The line that a stream prints after each batch, and the offsets in it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pyspark")

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.progress import ProgressListener, offsets_read, progress_line

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
        "avgOffsetsBehindLatest=1.67 maxOffsetsBehindLatest=4 minOffsetsBehindLatest=0 "
        "watermark=2013-01-01T00:00:00.000Z state_rows=7"
    )
    assert progress_line({"id": "1", "name": "n", "batchId": 0}) == (
        "query=n batch=0 rows=0 rows_per_s=0 ms=0 lag=0"
    )


def test_offsets_of_other_sources_are_left_alone() -> None:
    assert offsets_read(PROGRESS) == {("t", 0): 5, ("t", 1): 6}


def test_the_lag_of_a_repeated_batch_is_not_zero() -> None:
    """Spark does not ask for the latest offsets before it repeats a batch."""
    repeated = {
        "id": "1",
        "name": "n",
        "batchId": 3,
        "sources": [{"endOffset": {"t": {"0": 5}}, "latestOffset": None}],
    }
    assert progress_line(repeated) == "query=n batch=3 rows=0 rows_per_s=0 ms=0 lag=unknown"
    line = progress_line(repeated, {TopicPartition("t", 0): 9})
    assert " lag=4 avgOffsetsBehindLatest=4.0 " in line


def test_the_end_of_a_query_has_its_name() -> None:
    lines: list[str] = []
    listener = ProgressListener("127.0.0.1:1", lines.append)
    for name in ("orders", None):
        at = {"id": uuid4(), "runId": uuid4(), "timestamp": "", "jobTags": set()}
        started = SimpleNamespace(name=name, **at)
        listener.onQueryStarted(started)  # type: ignore[arg-type]
        ended = SimpleNamespace(exception="Boom\n at", **at)
        listener.onQueryTerminated(ended)  # type: ignore[arg-type]
        shown = name or at["id"]
        assert lines[-2:] == [f"query={shown} started", f"query={shown} ended failed=Boom"]


def test_a_query_that_failed_ends_with_the_reason() -> None:
    """Spark's first line says only that Python raised something."""
    lines: list[str] = []
    raised = (
        "org.apache.spark.SparkException: Error from python worker: Traceback (most recent call "
        'last):\n  File "/x.py", line 1, in f\n    raise OptionError(text)\n'
        "minikafka.spark.option_parsing.OptionError: unknown option 'topics'\n SQLSTATE: 38000\n"
    )
    ended = SimpleNamespace(exception=raised, id=uuid4())
    ProgressListener("127.0.0.1:1", lines.append).onQueryTerminated(ended)  # type: ignore[arg-type]
    assert lines == [f"query={ended.id} ended failed=OptionError: unknown option 'topics'"]


@pytest.mark.mission("SPO-1")
def test_a_remark_of_a_source_is_shown_once() -> None:
    lines: list[str] = []
    listener = ProgressListener("127.0.0.1:1", lines.append, group_prefix=None)
    remark = "offsets not committed to group g: NETWORK_EXCEPTION"

    def show(batch: int, latest: dict[str, Any]) -> None:
        source = {"endOffset": {"t": {"0": 5}}, "latestOffset": json.dumps(latest)}
        progress = {"id": "1", "name": "n", "batchId": batch, "sources": [source]}
        event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress)))
        listener.onQueryProgress(event)  # type: ignore[arg-type]

    ids = 'topic ids {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}'  # no remark
    for batch, latest in enumerate(
        ({"t": {"0": 5}, remark: {}}, {"t": {"0": 5}, remark: {}}, {"t": {"0": 5}, ids: {}})
    ):
        show(batch, latest)
    said = [line for line in lines if "batch=" not in line]
    assert said == [f"query=n {remark}"]
    show(3, {"t": {"0": 5}, remark: {}})
    assert lines[-1] == f"query=n {remark}"


def test_brokers_that_are_gone_leave_the_lag_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the batch is shown all the same, and why no offsets were committed."""
    monkeypatch.setattr("minikafka.spark.progress._TIMEOUT_MS", "1")
    lines: list[str] = []
    listener = ProgressListener("127.0.0.1:1", lines.append)
    progress = {"id": "1", "name": "n", "batchId": 0, "sources": [{"endOffset": {"t": {"0": 5}}}]}
    event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress)))
    listener.onQueryProgress(event)  # type: ignore[arg-type]
    assert lines[0] == "query=n batch=0 rows=0 rows_per_s=0 ms=0 lag=unknown"
    assert lines[1].startswith("query=n offsets not committed to group spark-n: ")
