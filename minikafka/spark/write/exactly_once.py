"""The exactly-once sink: each task writes in a transaction of its own, the driver commits them.

With the rows goes a marker, in the same transaction: rows are visible if and only if the marker is.

1. A task (partition p of batch b of query q) takes the transactional id ``mk-q-p``, which fences
   every older attempt and waits until its transaction has ended. If the marker says b, an earlier
   attempt was committed, and the task writes nothing. Otherwise it writes its rows and leaves the
   transaction open.
2. The driver, when all tasks are done, adds each marker and commits each transaction. A driver that
   dies half-way finds the markers of what it committed when the batch is run again; the rest was
   aborted by step 1 and is written again.

This holds if a task of the repeated batch gets the same rows, as it does for planned offset ranges
and for shuffles. A changed query may break it: then the committed markers do not fit the new plan,
and the batch fails with PlanChangedError. The first transaction of a batch that the driver
commits also has a marker of the whole batch: a new plan may lack the tasks that are committed.
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
    """A batch that is partly committed was planned differently when it was run again."""


@dataclass(frozen=True)
class Task:
    """A task: a partition of a batch of a query."""

    query: str
    batch: int
    partition: int

    @property
    def name(self) -> str:
        """The transactional id, and the group, of the task."""
        return f"mk-{self.query}-{self.partition}"

    @property
    def whole(self) -> str:
        """The group with the marker of the whole batch."""
        return f"mk-{self.query}-batch"


@dataclass(frozen=True)
class TaskResult:
    """An open transaction; or the marker of an earlier attempt that was committed; or, for a task
    without rows, neither."""

    task: Task
    rows: int = 0
    producer: TransactionalProducer | None = None
    topic: str = ""
    marker: Marker | None = None


def write_task(batches: Iterator[pa.RecordBatch], options: WriteOptions, task: Task) -> TaskResult:
    """Do step 1. Raises PlanChangedError, WriteError, KafkaError."""
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
            f"{task.name} has written batch {marker.batch} already, and shall write batch "
            f"{task.batch}: the checkpoint is older than the topic. Go on with the newer "
            "checkpoint, or with a new query"
        )
    if marker.plan != options.plan:
        raise PlanChangedError(
            f"batch {task.batch} is in the topic in part, written with other columns or to another "
            "topic. Let the query finish this batch as it was, and change it then"
        )


def _check_count(marker: Marker, results: Sequence[TaskResult]) -> None:
    if marker.tasks != len(results):
        raise PlanChangedError(
            f"batch {marker.batch} is in the topic in part, written by {marker.tasks} tasks; now "
            f"there are {len(results)}. Let the query finish this batch with the settings it had "
            "(minPartitions, shuffle partitions)"
        )


def commit_batch(results: Sequence[TaskResult], options: WriteOptions) -> None:
    """Do step 2. Raises PlanChangedError, KafkaError."""
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
    """Abort what is open, as far as the brokers respond: the rest is aborted by the next attempt or
    by its time-out."""
    patience_ms = min(options.client.delivery_timeout_ms, options.client.first_contact_timeout_ms)

    def abort(
        transactions: SinkTransactions, producer: TransactionalProducer, _: TaskResult
    ) -> None:
        try:
            transactions.end(producer, committed=False)
        except KafkaError as error:
            if error.code.retriable:
                raise  # no broker responds: the others would not be aborted either

    with suppress(KafkaError):
        client = replace(options.client, delivery_timeout_ms=patience_ms)
        _for_each_open(abort, results, replace(options, client=client))


def _for_each_open(
    act: Callable[[SinkTransactions, TransactionalProducer, TaskResult], None],
    results: Sequence[TaskResult],
    options: WriteOptions,
) -> None:
    """Run ``act`` on every open transaction, in several threads: each waits for coordinators."""
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
