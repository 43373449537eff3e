"""The writers that Spark calls for ``df.write`` and ``df.writeStream``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)

from minikafka.core.client.producer.calls import NO_PRODUCER
from minikafka.spark.cluster import Cluster
from minikafka.spark.gc_tuning import spare_the_collector
from minikafka.spark.spark_api import DataSourceStreamArrowWriter
from minikafka.spark.write.exactly_once import (
    Task,
    TaskResult,
    abort_batch,
    commit_batch,
    write_task,
)
from minikafka.spark.write.producing import Producing, idempotent_producer, send_rows
from minikafka.spark.write.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

# The local properties of a task in which Spark stores the ids of its batch and query. Spark does
# not pass them to a Python sink.
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"


class TaskCommit(WriterCommitMessage):
    """The message of a successful task to the driver. ``result`` is None unless the delivery is
    exactly-once."""

    def __init__(self, records: int, result: TaskResult | None = None) -> None:
        self.records = records
        self.result = result


def write_at_least_once(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> int:
    """Write all rows of a task and return their number. Raises WriteError, KafkaError.

    If Spark runs a failed task again, rows that it had written are duplicated."""
    with Cluster(options.client) as cluster:
        producer = idempotent_producer(cluster) if options.client.acks == -1 else NO_PRODUCER
        with closing(Producing(cluster, producer, options.batch_bytes)) as producing:
            send_rows(batches, options.topic, cluster, producing, lambda _: None)
            return producing.records


def _write(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> WriterCommitMessage:
    if options.exactly_once:
        result = write_task(batches, options, _this_task(options))
        written = TaskCommit(result.rows, result)
    else:
        written = TaskCommit(write_at_least_once(batches, options))
    spare_the_collector()
    return written


def _this_task(options: WriteOptions) -> Task:
    """Return the running task. Raises RuntimeError if Spark did not set the query and batch."""
    context = TaskContext.get()
    assert context is not None, "not in a task of Spark"
    if options.sink_id is not None:
        return Task(options.sink_id, options.sink_batch, context.partitionId())
    query = context.getLocalProperty(_QUERY_ID)
    batch = context.getLocalProperty(_BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError(
            "this version of Spark does not set the query and batch of a task: use "
            "delivery=at-least-once"
        )
    return Task(query, int(batch), context.partitionId())


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [m.result for m in messages if isinstance(m, TaskCommit) and m.result is not None]


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query. With a ``sink.id``, it writes nothing that an earlier run
    of the job has written."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            commit_batch(_results(messages), self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            abort_batch(_results(messages), self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query.

    Spark creates one writer for the tasks of a batch and another one to commit it, so the state of
    a batch is in the commit messages of its tasks."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._options.exactly_once:
            commit_batch(_results(messages), self._options)
        spare_the_collector()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._options.exactly_once:
            abort_batch(_results(messages), self._options)
