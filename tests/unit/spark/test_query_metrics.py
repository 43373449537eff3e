"""The metrics of queries: the lines for Prometheus, from Spark's events, and their server."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.query_metrics import MetricsServer, QueryMetrics, QuerySample, metrics_text

pytestmark = pytest.mark.mission("SPO-3")

PROGRESS: dict[str, Any] = {
    "id": "1234",
    "batchId": 7,
    "timestamp": "1970-01-01T00:01:00.500Z",
    "numInputRows": 50,
    "inputRowsPerSecond": 10.0,
    "processedRowsPerSecond": 12.6,
    "durationMs": {"triggerExecution": 210},
    "eventTime": {"watermark": "1970-01-01T00:00:05.000Z"},
    "stateOperators": [{"numRowsTotal": 3}, {"numRowsTotal": 4}],
}
PREFIX = "minikafka_spark_query_"


def lines_of(metrics: QueryMetrics) -> list[str]:
    lines = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    assert all(line.startswith(PREFIX) for line in lines)
    return [line.removeprefix(PREFIX) for line in lines]


def test_values_of_the_last_batch_and_sums_of_all() -> None:
    metrics = QueryMetrics({"pipeline": "shop"})
    metrics.started("hourly")
    metrics.progressed("hourly", PROGRESS, {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0})
    metrics.progressed("hourly", PROGRESS, {TopicPartition("t", 0): 9})
    of_query = '{pipeline="shop",query="hourly"}'
    assert lines_of(metrics) == [
        f"running{of_query} 1",
        f"failed{of_query} 0",
        f"batches_total{of_query} 2",
        f"rows_total{of_query} 100",
        f"input_rows_per_second{of_query} 10.0",
        f"processed_rows_per_second{of_query} 12.6",
        f"batch_seconds{of_query} 0.21",
        f"last_batch{of_query} 7",
        f"last_batch_timestamp_seconds{of_query} 60.5",
        f"watermark_timestamp_seconds{of_query} 5.0",
        f"state_rows{of_query} 7",
        'lag{pipeline="shop",query="hourly",topic="t",partition="0"} 9',
    ]


def test_a_query_that_fails_and_starts_again_keeps_its_sums() -> None:
    metrics = QueryMetrics()
    metrics.started("q")
    metrics.progressed("q", PROGRESS, None)
    metrics.ended("q", failed=True)
    assert lines_of(metrics)[:2] == ['running{query="q"} 0', 'failed{query="q"} 1']
    metrics.started("q")
    assert lines_of(metrics)[:2] == ['running{query="q"} 1', 'failed{query="q"} 0']
    assert 'rows_total{query="q"} 50' in lines_of(metrics)
    assert not any(line.startswith("lag") for line in lines_of(metrics))


def test_samples_of_a_metric_stand_together_under_its_type() -> None:
    text = metrics_text(
        [
            QuerySample("lag", {"query": 'a"b\\c\nd'}, 1),
            QuerySample("running", {"query": "x"}, True),
            QuerySample("lag", {"query": "y"}, 2),
        ]
    )
    assert text.splitlines() == [
        f"# HELP {PREFIX}running 1 while the query runs.",
        f"# TYPE {PREFIX}running gauge",
        f'{PREFIX}running{{query="x"}} 1',
        f"# HELP {PREFIX}lag offsets up to the end of the partition.",
        f"# TYPE {PREFIX}lag gauge",
        f'{PREFIX}lag{{query="a\\"b\\\\c\\nd"}} 1',
        f'{PREFIX}lag{{query="y"}} 2',
    ]


def test_the_server_has_the_current_text() -> None:
    metrics = QueryMetrics()
    with MetricsServer(metrics.text, 0) as server:
        for name in ("a", "b"):
            metrics.started(name)
            with urllib.request.urlopen(server.url, timeout=60) as response:
                assert response.read().decode() == metrics.text()
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url.replace("/metrics", "/"), timeout=60)
        with pytest.raises(OSError, match="in use"):
            MetricsServer(metrics.text, int(server.url.split(":")[2].split("/")[0]))
