"""The metrics of streaming queries and of a pipeline's flows, in Prometheus' text format.

Prometheus reads them from a small HTTP server in a thread of the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Self

from minikafka.kernel.cluster import TopicPartition

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX: Final = "minikafka_spark_query_"
# Kind and meaning of each metric, in the order of the text.
_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("gauge", "1 while the query runs"),
    "failed": ("gauge", "1 if the query has ended with an error"),
    "batches_total": ("counter", "batches that were completed since the start of the process"),
    "rows_total": ("counter", "rows that were read since the start of the process"),
    "input_rows_per_second": ("gauge", "rows that arrived, during the last batch"),
    "processed_rows_per_second": ("gauge", "rows that were processed, during the last batch"),
    "batch_seconds": ("gauge", "how long the last batch took"),
    "last_batch": ("gauge", "number of the last completed batch"),
    "last_batch_timestamp_seconds": ("gauge", "when the last completed batch was started"),
    "watermark_timestamp_seconds": ("gauge", "watermark of the last batch"),
    "state_rows": ("gauge", "rows in the state of all operators"),
    "next_offset": ("gauge", "next offset to read"),
    "end_offset": ("gauge", "end of the partition"),
    "lag": ("gauge", "offsets up to the end of the partition"),
    "offsets_per_second": ("gauge", "offsets that were read, in the minute up to the last batch"),
}


class QuerySample(NamedTuple):
    """A value of the metric ``name``, which is one of ``_METRICS``, with labels."""

    name: str
    labels: Mapping[str, str]
    value: float


def metrics_text(samples: Iterable[QuerySample]) -> str:
    """Return the text for Prometheus; samples of one metric stand together there."""
    lines: dict[str, list[str]] = {name: [] for name in _METRICS}
    for sample in samples:
        labels = ",".join(f'{key}="{_escaped(text)}"' for key, text in sample.labels.items())
        lines[sample.name].append(f"{_PREFIX}{sample.name}{{{labels}}} {_number(sample.value)}\n")
    return "".join(
        f"# HELP {_PREFIX}{name} {meaning}.\n# TYPE {_PREFIX}{name} {kind}\n{''.join(lines[name])}"
        for name, (kind, meaning) in _METRICS.items()
        if lines[name]
    )


@dataclass(frozen=True)
class _Query:
    """What is known of one query. It is replaced as a whole, since another thread reads it."""

    running: bool = True
    failed: bool = False
    batches: int = 0
    rows: int = 0
    last: Mapping[str, float] = field(default_factory=dict)
    behind: Mapping[TopicPartition, int] = field(default_factory=dict)


class QueryMetrics:
    """The metrics of the queries of one session, from Spark's events.

    ``labels`` are added to each sample. ``text`` may be called in any thread."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._labels = dict(labels or {})
        self._queries: dict[str, _Query] = {}

    def started(self, query: str) -> None:
        known = self._queries.get(query, _Query())
        self._queries[query] = replace(known, running=True, failed=False)

    def ended(self, query: str, failed: bool) -> None:
        known = self._queries.get(query, _Query())
        self._queries[query] = replace(known, running=False, failed=failed)

    def progressed(
        self, query: str, progress: Mapping[str, Any], behind: Mapping[TopicPartition, int] | None
    ) -> None:
        """Take over the JSON of a ``StreamingQueryProgress``. ``behind`` is how many offsets the
        query is behind the end of each partition, None if that is not known."""
        known = self._queries.get(query, _Query())
        self._queries[query] = replace(
            known,
            batches=known.batches + 1,
            rows=known.rows + progress.get("numInputRows", 0),
            last=dict(_values_of(progress)),
            behind=behind or {},
        )

    def text(self) -> str:
        return metrics_text(
            QuerySample(name, {**self._labels, "query": query, **labels}, value)
            for query, known in list(self._queries.items())
            for name, labels, value in _samples_of(known)
        )


def _samples_of(query: _Query) -> Iterator[QuerySample]:
    yield QuerySample("running", {}, query.running)
    yield QuerySample("failed", {}, query.failed)
    yield QuerySample("batches_total", {}, query.batches)
    yield QuerySample("rows_total", {}, query.rows)
    for name, value in query.last.items():
        yield QuerySample(name, {}, value)
    for (topic, partition), lag in query.behind.items():
        yield QuerySample("lag", {"topic": topic, "partition": str(partition)}, lag)


def _values_of(progress: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield "input_rows_per_second", progress.get("inputRowsPerSecond") or 0.0
    yield "processed_rows_per_second", progress.get("processedRowsPerSecond") or 0.0
    yield "batch_seconds", progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    yield "last_batch", progress["batchId"]
    if timestamp := progress.get("timestamp"):
        yield "last_batch_timestamp_seconds", _seconds(timestamp)
    if watermark := progress.get("eventTime", {}).get("watermark"):
        yield "watermark_timestamp_seconds", _seconds(watermark)
    states = [each.get("numRowsTotal", 0) for each in progress.get("stateOperators", ())]
    if states:
        yield "state_rows", sum(states)


def _seconds(iso_time: str) -> float:
    return datetime.fromisoformat(iso_time).timestamp()


def _number(value: float) -> str:
    return repr(round(value, 3)) if isinstance(value, float) else str(int(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


PATH: Final = "/metrics"
_REQUEST_TIMEOUT_S: Final = 10


class MetricsServer:
    """Serves ``text()`` under ``/metrics`` until it is closed. Port 0: the system chooses one.

    Raises OSError if the port is taken."""

    def __init__(self, text: Callable[[], str], port: int, host: str = "127.0.0.1") -> None:
        class ScrapeHandler(BaseHTTPRequestHandler):
            timeout = _REQUEST_TIMEOUT_S

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                body = text().encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write no line for each request."""

        self._server = ThreadingHTTPServer((host, port), ScrapeHandler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{PATH}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
