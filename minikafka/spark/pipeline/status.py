"""The status of a pipeline's flows: offsets from checkpoints, end offsets and lag from brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.client_options import client_options
from minikafka.spark.cluster import Cluster
from minikafka.spark.option_names import check_option_names
from minikafka.spark.option_parsing import Options
from minikafka.spark.pipeline.checkpoints import Checkpoint
from minikafka.spark.query_metrics import QuerySample
from minikafka.spark.read.offsets import LATEST, Offsets, TopicIds
from minikafka.spark.read.planning import without_recreated


class FlowStatus(NamedTuple):
    """One row of the status: a flow and a partition that it reads.

    A flow that reads no topic has one row, in which ``topic`` and the fields after it are None.
    ``batch`` is the number of the last completed batch, -1 before the first. ``planned`` is the
    number of a batch that was started and not completed, and is running or will be repeated.
    ``at`` is when ``batch`` was started. ``next`` is the next offset to read. ``end`` is the end
    offset of the partition, None if it is not known. ``per_s`` is how many offsets were read in a
    second, in the minute up to ``at``, None if there was one batch only."""

    flow: str
    target: str
    batch: int
    planned: int | None
    at: str | None
    topic: str | None = None
    partition: int | None = None
    next: int | None = None
    end: int | None = None
    lag: int | None = None
    per_s: float | None = None


class EndOffsets(NamedTuple):
    """The end offset of each partition that some flow reads and that exists, and the ids of the
    topics."""

    offsets: Offsets
    topic_ids: TopicIds

    def for_flow(self, checkpoint: Checkpoint) -> Offsets:
        """Return the end offsets without topics that were created again since the flow read them.

        The flow's offsets belong to the deleted topic, so they tell no lag in the new one."""
        return without_recreated(self.offsets, checkpoint.topic_ids, self.topic_ids).start


def flow_statuses(checkpoint: Checkpoint, ends: Offsets) -> Iterator[FlowStatus]:
    """Yield the rows of one flow. A partition without an entry in ``ends`` has no lag."""
    planned = checkpoint.planned if checkpoint.planned > checkpoint.batch else None
    at = None if checkpoint.at_ms is None else _iso_time(checkpoint.at_ms)
    flow = FlowStatus(checkpoint.flow, checkpoint.target, checkpoint.batch, planned, at)
    if not any(checkpoint.sources):
        yield flow
    for source in checkpoint.sources:
        for each, offset in source.items():
            end = ends.get(each)
            lag = None if end is None else max(0, end - offset)
            rate = checkpoint.offsets_per_s.get(each)
            yield flow._replace(
                topic=each.topic,
                partition=each.partition,
                next=offset,
                end=end,
                lag=lag,
                per_s=None if rate is None else round(rate, 1),
            )


def samples(pipeline: str, rows: Iterable[FlowStatus]) -> Iterator[QuerySample]:
    """Yield the metrics of the rows, under the names that a continuous run has for them.

    The name of a flow may stand in several rows: an earlier version of it had another target."""
    seen: set[tuple[str, str]] = set()
    for row in rows:
        labels = {"pipeline": pipeline, "query": row.flow, "target": row.target}
        if (row.flow, row.target) not in seen:
            seen.add((row.flow, row.target))
            yield QuerySample("last_batch", labels, row.batch)
            if row.at is not None:
                at = datetime.fromisoformat(row.at).timestamp()
                yield QuerySample("last_batch_timestamp_seconds", labels, at)
        if row.topic is not None:
            labels = {**labels, "topic": row.topic, "partition": str(row.partition)}
            values = {
                "next_offset": row.next,
                "end_offset": row.end,
                "lag": row.lag,
                "offsets_per_second": row.per_s,
            }
            for name, value in values.items():
                if value is not None:
                    yield QuerySample(name, labels, value)


def end_offsets(
    bootstrap_servers: str, checkpoints: Iterable[Checkpoint], properties: Mapping[str, str]
) -> EndOffsets:
    """Fetch the end offsets of all partitions that the flows read and that exist.

    ``properties`` are Kafka's keys of a client. Raises OptionError for a key that is unknown or has
    an invalid value; KafkaError if the brokers cannot be reached or return an error."""
    read = sorted({each for point in checkpoints for source in point.sources for each in source})
    topics = sorted({each.topic for each in read})
    given = {f"kafka.{key}": text for key, text in properties.items()}
    options = Options.of({**given, "kafka.bootstrap.servers": bootstrap_servers})
    check_option_names(options)
    with Cluster(client_options(options.values)) as cluster:
        missing = cluster.retrying(lambda: cluster.describe(topics), "topics") if topics else {}
        for name, code in missing.items():
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(code, f"topic {name}")
        existing = [each for each in read if _exists(each, cluster)]
        ends = cluster.list_offsets(dict.fromkeys(existing, LATEST)) if existing else {}
        return EndOffsets(ends, cluster.topic_ids(topics))


def _exists(each: TopicPartition, cluster: Cluster) -> bool:
    return each.topic in cluster.topics and each.partition in cluster.topics[each.topic].partitions


def _iso_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
