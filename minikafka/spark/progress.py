"""The progress of streams: a line per batch, and offsets in a group for tools that show lag.

A data source in Python cannot report metrics to Spark (in 4.3 ``PythonMicroBatchStream`` is no
``ReportsSourceMetrics``), so ``sources[].metrics`` of Spark's own progress stay empty. The metrics
of the official connector are in the line instead, and in ``offsets_behind_latest``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka.core.client.calls import raise_gravest
from minikafka.core.client.consumer.group_calls import offset_commit
from minikafka.core.client.offsets import GroupMetadata, with_metadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.spark.client_options import client_options
from minikafka.spark.cluster import Cluster
from minikafka.spark.coordinators import BlockingCoordinators
from minikafka.spark.failure_text import cause_of
from minikafka.spark.read.offsets import LATEST, Offsets, offsets_of

_PATIENCE_MS: Final = "5000"  # the events of later batches wait meanwhile


class ProgressListener(StreamingQueryListener):
    """``spark.streams.addListener(ProgressListener("host:port", show=print))``.

    After each batch the offsets that were read are committed to the group ``spark-<query name or
    id>``: not for Spark, which goes by its checkpoint, but for tools that show the lag of groups.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        show: Callable[[str], object] | None = None,
        group_prefix: str = "spark",
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._show = show or (lambda _: None)
        self._group_prefix = group_prefix
        self._names: dict[str, str] = {}  # of the queries that run, by id: not all events have both

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._names[str(event.id)] = event.name or str(event.id)
        self._show(f"query={event.name or event.id} started")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        offsets = offsets_read(progress)
        name = self._names[progress["id"]] = progress.get("name") or progress["id"]
        if not offsets:
            self._show(progress_line(progress))
        else:
            group = f"{self._group_prefix}-{name}"
            options = client_options(
                {
                    "kafka.bootstrap.servers": self._bootstrap_servers,
                    "kafka.default.api.timeout.ms": _PATIENCE_MS,
                    "kafka.delivery.timeout.ms": _PATIENCE_MS,
                }
            )
            with Cluster(options) as cluster:
                latest = None if is_latest_known(progress) else latest_offsets(cluster, offsets)
                self._show(progress_line(progress, latest))
                try:
                    commit_offsets(cluster, group, offsets)
                except KafkaError as error:  # the query goes on: its own offsets are safe
                    self._show(f"query={name} offsets not committed to group {group}: {error}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new is to be told."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        name = self._names.pop(str(event.id), str(event.id))
        failure = f" failed={cause_of(event.exception)}" if event.exception else ""
        self._show(f"query={name} ended{failure}")


def progress_line(
    progress: Mapping[str, Any], latest: Mapping[TopicPartition, int] | None = None
) -> str:
    """One line for a batch, without a line break.

    ``lag``: the offsets behind ``latest``, by default the latest offsets that the progress holds:
    those at the time the batch was planned. Spark leaves them out of the progress of a batch that
    it repeats after a restart; ``lag=unknown`` then."""
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
    """Whether the progress holds the latest offsets of every Kafka source that has read."""
    return all(
        _kafka_offsets(source.get("latestOffset"))
        for source in progress.get("sources", ())
        if _kafka_offsets(source.get("endOffset"))
    )


def behind_latest(
    progress: Mapping[str, Any], latest: Mapping[TopicPartition, int] | None = None
) -> Offsets | None:
    """How many offsets each partition is behind ``latest``, by default behind the latest offsets
    in the progress. None if the progress holds none."""
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
    """The metrics of the official connector's sources, by their names there."""
    counts = behind.values()
    return {
        "avgOffsetsBehindLatest": round(sum(counts) / len(counts), 2),
        "maxOffsetsBehindLatest": max(counts),
        "minOffsetsBehindLatest": min(counts),
    }


def latest_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Offsets | None:
    """The ends of the partitions now, None if the brokers do not tell them in time."""
    try:
        return cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    except KafkaError:
        return None


def offsets_read(progress: Mapping[str, Any]) -> Offsets:
    """The next offset of each partition of all Kafka sources."""
    found: Offsets = {}
    for source in progress.get("sources", ()):
        found |= _kafka_offsets(source.get("endOffset"))
    return found


def _kafka_offsets(value: Any) -> Offsets:
    """Nothing for the offsets of other kinds of sources."""
    try:
        return offsets_of(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, AttributeError, TypeError):
        return {}


def commit_offsets(cluster: Cluster, group: str, offsets: Offsets) -> None:
    """Commit offsets for a group without members. Raises KafkaError."""
    call = offset_commit(GroupMetadata(group), with_metadata(offsets))
    raise_gravest(BlockingCoordinators(cluster).call(call).values())
