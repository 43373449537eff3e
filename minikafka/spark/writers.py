"""Writes DataFrames to topics: tasks write, idempotently, and the driver has nothing to add."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from minikafka.spark.cluster import Cluster
from minikafka.spark.options import Subscription
from minikafka.spark.producing import Identity, Producing, idempotent_identity
from minikafka.spark.routing import Router, chunks_of
from minikafka.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Written(WriterCommitMessage):
    """What a task wrote."""

    def __init__(self, records: int) -> None:
        self.records = records


def write_at_least_once(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> int:
    """All rows to their topics; how many. A task that fails half-way and is run again writes its
    rows again. Raises WriteError, KafkaError."""
    with Cluster(options.client) as cluster:
        identity = idempotent_identity(cluster) if options.client.acks == -1 else Identity()
        with closing(Producing(cluster, identity, options.batch_bytes)) as producing:
            write_all(batches, options, cluster, producing)
            return producing.records


def write_all(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    cluster: Cluster,
    producing: Producing,
) -> None:
    """Encode, send and wait for all rows."""
    counts: dict[str, int] = {}

    def count_of(topic: str) -> int:
        if topic not in counts:
            counts[topic] = len(cluster.partitions(Subscription(topics=(topic,))))
        return counts[topic]

    dice = random.SystemRandom()
    router = Router(options.topic, count_of, lambda: dice.randrange(1 << 31))
    for chunk in chunks_of(batches):
        for partition, columns in router.route(chunk):
            producing.add(partition, columns)
        producing.settle()
    producing.flush()


class BatchWriter(DataSourceArrowWriter):
    """``df.write``."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(write_at_least_once(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is in when the tasks are done."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was written stays."""


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(write_at_least_once(iterator, self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Everything is in when the tasks are done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was written stays."""
