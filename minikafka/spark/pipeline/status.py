"""How far each flow of a pipeline is: from its checkpoints, and from the brokers it reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.client_options import client_options
from minikafka.spark.cluster import Cluster
from minikafka.spark.pipeline.checkpoints import Checkpoint, find_checkpoints
from minikafka.spark.read.offsets import LATEST, Offsets


class FlowStatus(NamedTuple):
    """Of one partition that a flow reads; of a flow that reads no topic, without the last five.

    ``batch``: the last that is done, -1 before any. ``planned``: one that was begun after it, and
    is under way or will be repeated. ``next``: offset to read; ``end``: of the log, None if it was
    not asked for or the topic is gone."""

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


def pipeline_status(storage: Path, bootstrap_servers: str | None) -> list[FlowStatus]:
    """Needs no Spark. Raises KafkaError for brokers that do not answer; OSError, ValueError."""
    checkpoints = list(find_checkpoints(storage))
    ends: Offsets = {}
    if bootstrap_servers:
        read = {each for point in checkpoints for source in point.sources for each in source}
        ends = _end_offsets(bootstrap_servers, read)
    return [row for point in checkpoints for row in status_of(point, ends)]


def status_of(point: Checkpoint, ends: Offsets) -> Iterable[FlowStatus]:
    planned = point.planned if point.planned > point.batch else None
    at = None if point.at_ms is None else _text(point.at_ms)
    flow = FlowStatus(point.flow, point.target, point.batch, planned, at)
    if not any(point.sources):
        yield flow
    for source in point.sources:
        for each, offset in source.items():
            end = ends.get(each)
            lag = None if end is None else max(0, end - offset)
            yield flow._replace(
                topic=each.topic, partition=each.partition, next=offset, end=end, lag=lag
            )


def _end_offsets(bootstrap_servers: str, partitions: Iterable[TopicPartition]) -> Offsets:
    """Of those that are there."""
    options = client_options({"kafka.bootstrap.servers": bootstrap_servers})
    ends: Offsets = {}
    with Cluster(options) as cluster:
        topics = sorted({each.topic for each in partitions})
        missing = cluster.retrying(lambda: cluster.describe(topics), "topics") if topics else {}
        for name, code in missing.items():
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(code, f"topic {name}")
        there = [
            each
            for each in sorted(partitions)
            if each.topic in cluster.topics
            and each.partition in cluster.topics[each.topic].partitions
        ]
        if there:
            ends = cluster.list_offsets(dict.fromkeys(there, LATEST))
    return ends


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
