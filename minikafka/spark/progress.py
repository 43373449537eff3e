"""The progress of streaming queries: a line for each batch, and offsets in a consumer group.

A data source in Python cannot report metrics to Spark: in Spark 4.3 ``PythonMicroBatchStream`` does
not implement ``ReportsSourceMetrics``. So ``sources[].metrics`` in Spark's own progress is empty.
The line of a batch, and ``offsets_behind_latest``, have the metrics of the official connector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.extras import imports_of
from minikafka.spark.client_options import client_options, security_options
from minikafka.spark.cluster import Cluster
from minikafka.spark.failure_text import cause_of
from minikafka.spark.group_commits import commit_offsets
from minikafka.spark.option_parsing import Options
from minikafka.spark.query_metrics import QueryMetrics
from minikafka.spark.read.offsets import LATEST, Offsets, offsets_of, remarks_in

with imports_of("spark", "minikafka.spark"):
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

_TIMEOUT_MS: Final = "5000"  # short, because Spark queues the events of later batches meanwhile


class ProgressListener(StreamingQueryListener):
    """Shows a line for each batch, and commits the offsets that the batch has read.

    ``spark.streams.addListener(ProgressListener("host:port", show=print))``

    The offsets go to the consumer group ``spark-<query name, or id>``, for tools that show the lag
    of groups. Spark does not read them: a query restarts from its checkpoint. If they cannot be
    committed, ``show`` is called with the error and the query goes on. With None as
    ``group_prefix`` nothing is committed: a source with ``kafka.group.id`` does that itself.
    ``options`` are the source's options ``kafka.*`` for TLS and the login. ``metrics`` gets the
    values that Prometheus reads. Raises OptionError for invalid options."""

    def __init__(
        self,
        bootstrap_servers: str,
        show: Callable[[str], object] | None = None,
        group_prefix: str | None = "spark",
        options: Mapping[str, str] | None = None,
        metrics: QueryMetrics | None = None,
    ) -> None:
        given = security_options(Options.of(options or {}).values)
        self._client = client_options(
            {
                **given,
                "kafka.bootstrap.servers": bootstrap_servers,
                "kafka.default.api.timeout.ms": _TIMEOUT_MS,
                "kafka.delivery.timeout.ms": _TIMEOUT_MS,
            }
        )
        self._show = show or (lambda _: None)
        self._group_prefix = group_prefix
        self._metrics = metrics or QueryMetrics()
        # The names of running queries by id: a QueryTerminatedEvent has the id only.
        self._names: dict[str, str] = {}
        self._remarks: dict[str, list[str]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        name = self._names[str(event.id)] = event.name or str(event.id)
        self._metrics.started(name)
        self._show(f"query={event.name or event.id} started")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        offsets = offsets_read(progress)
        name = self._names[progress["id"]] = progress.get("name") or progress["id"]
        if not offsets:
            self._metrics.progressed(name, progress, None)
            self._show(progress_line(progress))
        else:
            with Cluster(self._client) as cluster:
                latest = None if is_latest_known(progress) else latest_offsets(cluster, offsets)
                self._metrics.progressed(name, progress, behind_latest(progress, latest))
                self._show(progress_line(progress, latest))
                if self._group_prefix is not None:
                    self._commit(cluster, name, offsets)
            self._show_remarks(name, progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore the event: an idle query has read nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        name = self._names.pop(str(event.id), str(event.id))
        self._metrics.ended(name, failed=bool(event.exception))
        failure = f" failed={cause_of(event.exception)}" if event.exception else ""
        self._show(f"query={name} ended{failure}")

    def _commit(self, cluster: Cluster, name: str, offsets: Offsets) -> None:
        group = f"{self._group_prefix}-{name}"
        try:
            commit_offsets(cluster, group, offsets)
        except KafkaError as error:  # the query's own offsets are in its checkpoint
            self._show(f"query={name} offsets not committed to group {group}: {error}")

    def _show_remarks(self, name: str, progress: Mapping[str, Any]) -> None:
        """Show what the sources of the query remark, unless they did so in the batch before."""
        remarks = source_remarks(progress)
        for remark in remarks:
            if remark not in self._remarks.get(name, ()):
                self._show(f"query={name} {remark}")
        self._remarks[name] = remarks


def progress_line(
    progress: Mapping[str, Any], latest: Mapping[TopicPartition, int] | None = None
) -> str:
    """Return the line for a batch, from the JSON of its ``StreamingQueryProgress``.

    ``lag`` in the line is the number of offsets up to ``latest``. By default these are the latest
    offsets in the progress, which Spark looked up when it planned the batch. The progress of a
    batch that Spark repeats after a restart does not have them; the line has ``lag=unknown``
    then."""
    behind = behind_latest(progress, latest)
    parts: dict[str, Any] = {
        "query": progress.get("name") or progress["id"],
        "batch": progress["batchId"],
        "rows": progress.get("numInputRows", 0),
        "rows_per_s": round(progress.get("processedRowsPerSecond") or 0),
        "ms": progress.get("durationMs", {}).get("triggerExecution", 0),
        "lag": "unknown" if behind is None else sum(behind.values()),
    }
    if behind:
        parts |= offsets_behind_latest(behind)
    watermark = progress.get("eventTime", {}).get("watermark")
    if watermark is not None:
        parts["watermark"] = watermark
    states = [each.get("numRowsTotal", 0) for each in progress.get("stateOperators", ())]
    if states:
        parts["state_rows"] = sum(states)
    return " ".join(f"{name}={value}" for name, value in parts.items())


def is_latest_known(progress: Mapping[str, Any]) -> bool:
    """Return whether the progress has the latest offsets of every Kafka source in it."""
    return all(
        _kafka_offsets(source.get("latestOffset"))
        for source in progress.get("sources", ())
        if _kafka_offsets(source.get("endOffset"))
    )


def behind_latest(
    progress: Mapping[str, Any], latest: Mapping[TopicPartition, int] | None = None
) -> Offsets | None:
    """Return how many offsets the query is behind ``latest`` in each partition.

    ``latest`` is by default the latest offsets in the progress. Returns None if the progress does
    not have them either."""
    read = offsets_read(progress)
    if latest is None:
        if not is_latest_known(progress):
            return None
        latest = {
            partition: offset
            for source in progress.get("sources", ())
            for partition, offset in _kafka_offsets(source.get("latestOffset")).items()
        }
    return {each: max(0, offset - read.get(each, 0)) for each, offset in latest.items()}


def offsets_behind_latest(behind: Mapping[TopicPartition, int]) -> dict[str, float]:
    """Return the metrics that a source of the official connector reports, by their names there.

    ``behind`` has at least one partition."""
    counts = behind.values()
    return {
        "avgOffsetsBehindLatest": round(sum(counts) / len(counts), 2),
        "maxOffsetsBehindLatest": max(counts),
        "minOffsetsBehindLatest": min(counts),
    }


def latest_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Offsets | None:
    """Look up the current end offsets, None if the brokers do not respond in time."""
    try:
        return cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    except KafkaError:
        return None


def offsets_read(progress: Mapping[str, Any]) -> Offsets:
    """Return the next offset to read of each partition, over all Kafka sources of the query."""
    found: Offsets = {}
    for source in progress.get("sources", ()):
        found |= _kafka_offsets(source.get("endOffset"))
    return found


def source_remarks(progress: Mapping[str, Any]) -> list[str]:
    """Return what the Kafka sources of the query remark in the batch's progress: that offsets are
    not committed to a group."""
    latest = [source.get("latestOffset") for source in progress.get("sources", ())]
    return [remark for each in latest if _kafka_offsets(each) for remark in remarks_in(_read(each))]


def _kafka_offsets(value: Any) -> Offsets:
    """Return the offsets of a source, none if it is not a Kafka source."""
    try:
        return offsets_of(_read(value))
    except (ValueError, AttributeError, TypeError):
        return {}


def _read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
