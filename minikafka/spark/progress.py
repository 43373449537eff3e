"""What a stream tells while it runs: a line per batch, and its offsets for tools that show lag."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.spark.client_options import client_options
from minikafka.spark.cluster import Cluster
from minikafka.spark.coordinators import CoordinatorKind, Coordinators
from minikafka.spark.offsets import Offsets, offsets_of

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

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._show(f"query={event.name or event.id} started")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        self._show(progress_line(progress))
        offsets = offsets_read(progress)
        if offsets:
            group = f"{self._group_prefix}-{progress.get('name') or progress['id']}"
            options = client_options(
                {
                    "kafka.bootstrap.servers": self._bootstrap_servers,
                    "kafka.default.api.timeout.ms": _PATIENCE_MS,
                    "kafka.delivery.timeout.ms": _PATIENCE_MS,
                }
            )
            try:
                with Cluster(options) as cluster:
                    commit_offsets(cluster, group, offsets)
            except KafkaError as error:  # the query goes on: its own offsets are safe
                self._show(f"query={progress.get('name') or progress['id']} no lag: {error}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new is to be told."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        failure = (event.exception or "").splitlines()
        self._show(f"query={event.id} ended" + (f" failed={failure[0]}" if failure else ""))


def progress_line(progress: Mapping[str, Any]) -> str:
    """``lag``: offsets that were there when the batch was planned, and are not read yet."""
    lag = sum(
        latest - read.get(partition, 0)
        for source in progress.get("sources", ())
        for read in [_kafka_offsets(source.get("endOffset"))]
        for partition, latest in _kafka_offsets(source.get("latestOffset")).items()
    )
    parts = {
        "query": progress.get("name") or progress["id"],
        "batch": progress["batchId"],
        "rows": progress.get("numInputRows", 0),
        "rows_per_s": round(progress.get("processedRowsPerSecond") or 0),
        "ms": progress.get("durationMs", {}).get("triggerExecution", 0),
        "lag": lag,
    }
    watermark = progress.get("eventTime", {}).get("watermark")
    if watermark is not None:
        parts["watermark"] = watermark
    states = [each.get("numRowsTotal", 0) for each in progress.get("stateOperators", ())]
    if states:
        parts["state_rows"] = sum(states)
    return " ".join(f"{name}={value}" for name, value in parts.items())


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
    """To a group without members. Raises KafkaError."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.setdefault(topic, []).append(row)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=t, partitions=rows) for t, rows in topics.items()],
    )
    Coordinators(cluster).ask(CoordinatorKind.GROUP, group, request)
