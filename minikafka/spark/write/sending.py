"""Sending of all rows of a task, for at-least-once and exactly-once delivery."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from minikafka.client.columnar.rows import chunks_of
from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import TopicSelection
from minikafka.spark.write.producing import Producing
from minikafka.spark.write.routing import Router

if TYPE_CHECKING:
    import pyarrow as pa


def send_rows(
    batches: Iterator[pa.RecordBatch],
    topic: str | None,
    cluster: Cluster,
    producing: Producing,
    announce: Callable[[set[TopicPartition]], None],
) -> set[str]:
    """Send rows, wait until they are acknowledged, and return the topics that they went to.

    ``announce`` is called with partitions before rows are sent to them, so that a transaction can
    add them. Raises WriteError, KafkaError."""
    counts: dict[str, int] = {}
    announced: set[TopicPartition] = set()

    def count_of(name: str) -> int:
        if name not in counts:
            counts[name] = len(cluster.partitions(TopicSelection(topics=(name,))))
        return counts[name]

    dice = random.SystemRandom()
    router = Router(topic, count_of, lambda: dice.randrange(1 << 31))
    for chunk in chunks_of(batches):
        routed = list(router.route(chunk))
        new = {partition for partition, _ in routed} - announced
        if new:
            announce(new)
            announced |= new
        for partition, columns in routed:
            producing.add(partition, columns)
        producing.settle()
    producing.flush()
    return {partition.topic for partition in announced}
