"""The exactly-once sink: each task writes in its own transaction, and the driver commits them all.

Each transaction also commits a marker: an offset of a consumer group, with the number of the batch
in its metadata. So the rows of a task are committed if and only if its marker is.

1. A task (partition p of batch b of query q) initializes the transactional id ``mk-q-p``. This
   fences every older attempt and waits until its transaction has ended. If the committed marker is
   of batch b, an earlier attempt was committed, and the task writes nothing. Otherwise it writes
   its rows and leaves the transaction open.
2. When all tasks have succeeded, the driver adds a marker to each transaction and commits it.

If the driver dies between two commits, Spark runs the batch again. Tasks whose transactions were
committed find their markers; the transactions of the others are aborted by step 1, and their rows
are written again.

This requires that a task gets the same rows when the batch is run again. It does with planned
offset ranges and with shuffles. If the query was changed in between, the markers do not fit the new
plan, and the batch fails with PlanChangedError. The new plan may not have the tasks that were
committed, so the first transaction that the driver commits also has a marker of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from minikafka.core.client.producer.transaction_calls import TransactionalProducer
from minikafka.kernel.errors import KafkaError
from minikafka.spark.cluster import Cluster
from minikafka.spark.write.producing import Producing
from minikafka.spark.write.sending import send_rows
from minikafka.spark.write.sink_transactions import Marker, SinkTransactions
from minikafka.spark.write.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

_LANES: Final = 4


class PlanChangedError(RuntimeError):
    """A batch that was committed in part has another plan now that it is run again."""


@dataclass(frozen=True)
class Task:
    """A task of Spark, identified by its query, batch and partition."""

    query: str
    batch: int
    partition: int

    @property
    def name(self) -> str:
        """The transactional id of the task, and the consumer group of its marker."""
        return f"mk-{self.query}-{self.partition}"

    @property
    def whole(self) -> str:
        """The consumer group with the marker of the whole batch."""
        return f"mk-{self.query}-batch"


@dataclass(frozen=True)
class TaskResult:
    """The result of a task: ``producer`` if it has an open transaction, ``marker`` if an earlier
    attempt was committed. A task without rows has neither."""

    task: Task
    rows: int = 0
    producer: TransactionalProducer | None = None
    topic: str = ""
    marker: Marker | None = None


def write_task(batches: Iterator[pa.RecordBatch], options: WriteOptions, task: Task) -> TaskResult:
    """Write the rows of a task (step 1). Raises PlanChangedError, WriteError, KafkaError."""
    with Cluster(options.client) as cluster:
        transactions = SinkTransactions(cluster)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return TaskResult(task)
        producer = transactions.begin(task.name, options.transaction_timeout_ms)
        marker = transactions.marker(task.name)
        if marker is not None and marker.batch >= task.batch:
            _check_marker(marker, options, task)
            for _ in batches:
                pass
            return TaskResult(task, marker.rows, marker=marker)
        with closing(Producing(cluster, producer, options.batch_bytes)) as producing:
            topics = send_rows(
                _with_first(first, batches),
                options.topic,
                cluster,
                producing,
                lambda partitions: transactions.add_partitions(producer, partitions),
            )
            return TaskResult(task, producing.records, producer, min(topics))


def _with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _check_marker(marker: Marker, options: WriteOptions, task: Task) -> None:
    if marker.batch > task.batch:
        raise PlanChangedError(
            f"{task.name} has already written batch {marker.batch} and cannot write batch "
            f"{task.batch}: the checkpoint is older than the topic. Continue with the newer "
            "checkpoint, or with a new query"
        )
    if marker.plan != options.plan:
        raise PlanChangedError(
            f"batch {task.batch} was committed in part, with other columns or to another topic. "
            "Restore the query, let it complete this batch, and then change it"
        )


def _check_count(marker: Marker, results: Sequence[TaskResult]) -> None:
    if marker.tasks != len(results):
        raise PlanChangedError(
            f"batch {marker.batch} was committed in part, by a plan of {marker.tasks} tasks; now "
            f"there are {len(results)}. Restore the settings (minPartitions, shuffle partitions) "
            "until the query has completed this batch"
        )


def commit_batch(results: Sequence[TaskResult], options: WriteOptions) -> None:
    """Commit the transactions of all tasks (step 2). Raises PlanChangedError, KafkaError."""
    for result in results:
        if result.marker is not None:
            _check_count(result.marker, results)
    pending = [result for result in results if result.producer is not None]

    def marker_of(result: TaskResult) -> Marker:
        task = result.task
        return Marker(task.query, task.batch, len(results), result.rows, options.plan)

    def commit(
        transactions: SinkTransactions, producer: TransactionalProducer, result: TaskResult
    ) -> None:
        transactions.mark(producer, result.task.name, result.topic, marker_of(result))
        transactions.end(producer, committed=True)

    def commit_first(
        transactions: SinkTransactions, producer: TransactionalProducer, result: TaskResult
    ) -> None:
        known = transactions.marker(result.task.whole)
        if known is None or known.batch < result.task.batch:
            transactions.mark(producer, result.task.whole, result.topic, marker_of(result))
        else:
            _check_marker(known, options, result.task)
            _check_count(known, results)
        commit(transactions, producer, result)

    _for_each_open(commit_first, pending[:1], options)
    _for_each_open(commit, pending[1:], options)


def abort_batch(results: Sequence[TaskResult], options: WriteOptions) -> None:
    """Abort the open transactions of a failed batch, and ignore errors.

    A transaction that is not aborted here is aborted when the task is run again, or after
    ``transaction.timeout.ms``."""
    patience_ms = min(options.client.delivery_timeout_ms, options.client.first_contact_timeout_ms)

    def abort(
        transactions: SinkTransactions, producer: TransactionalProducer, _: TaskResult
    ) -> None:
        try:
            transactions.end(producer, committed=False)
        except KafkaError as error:
            if error.retriable:
                raise  # the brokers do not respond: skip the other transactions

    with suppress(KafkaError):
        client = replace(options.client, delivery_timeout_ms=patience_ms)
        _for_each_open(abort, results, replace(options, client=client))


def _for_each_open(
    act: Callable[[SinkTransactions, TransactionalProducer, TaskResult], None],
    results: Sequence[TaskResult],
    options: WriteOptions,
) -> None:
    """Call ``act`` for every open transaction, in a few threads, because each call waits for the
    coordinators."""
    pending = [(each.producer, each) for each in results if each.producer is not None]

    def take_turns(lane: int) -> None:
        with Cluster(options.client) as cluster:
            transactions = SinkTransactions(cluster)
            for producer, result in pending[lane::_LANES]:
                act(transactions, producer, result)

    lanes = min(len(pending), _LANES)
    if lanes:
        with ThreadPoolExecutor(lanes) as pool:
            list(pool.map(take_turns, range(lanes)))
