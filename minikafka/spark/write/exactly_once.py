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

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from minikafka.core.client.calls import CoordinatorCall
from minikafka.core.client.consumer.group_calls import offset_fetch
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.client.producer.calls import (
    NO_PRODUCER,
    TransactionalProducer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.spark.cluster import BlockingCoordinators, Cluster
from minikafka.spark.write.producing import Producing, send_rows
from minikafka.spark.write.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Marker:
    """The record of a committed batch, which a transaction commits together with the rows.

    It is stored as a committed offset of a consumer group: the offset is ``batch + 1``, and the
    metadata are these fields as JSON."""

    query: str
    batch: int
    tasks: int
    rows: int
    plan: str  # fingerprint of the columns and of the topic

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Marker:
        """Decode a committed offset. Raises ValueError if this sink did not write it."""
        try:
            fields = json.loads(metadata or "")
            marker = cls(**fields)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"this sink did not write the committed offset: {metadata!r}"
            ) from error
        if marker.batch + 1 != offset:
            raise ValueError(f"a marker of batch {marker.batch} at offset {offset}")
        return marker


class SinkTransactions:
    """Blocking calls to begin, mark and end the transactions of a batch.

    All raise KafkaError, for example PRODUCER_FENCED if a later attempt of the task has begun or
    the transaction has timed out."""

    def __init__(self, cluster: Cluster) -> None:
        self._coordinators = BlockingCoordinators(cluster)

    def begin(self, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        """Initialize a transactional id: fence older attempts, and wait until their transaction has
        ended. The transaction times out after ``timeout_ms``."""
        call = init_producer_id(transactional_id, timeout_ms, NO_PRODUCER)
        return TransactionalProducer(transactional_id, *self._coordinators.call(call))

    def marker(self, group: str) -> Marker | None:
        """Return the last committed marker, None for none. Raises ValueError if the group has
        offsets that this sink did not write."""
        found = self._coordinators.call(offset_fetch(group, None, require_stable=True))
        if not found:
            return None
        last = max(found.values(), key=lambda committed: committed.offset)
        return Marker.of(last.offset, last.metadata)

    def add_partitions(
        self, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
    ) -> None:
        self._call(add_partitions_to_txn(producer, partitions))

    def mark(self, producer: TransactionalProducer, group: str, topic: str, marker: Marker) -> None:
        """Add a marker to the open transaction, as an offset of partition 0 of ``topic``."""
        self._call(add_offsets_to_txn(producer, group))
        offset = OffsetAndMetadata(marker.batch + 1, json.dumps(asdict(marker)))
        offsets = {TopicPartition(topic, 0): offset}
        self._call(txn_offset_commit(producer, GroupMetadata(group), offsets))

    def end(self, producer: TransactionalProducer, committed: bool) -> None:
        self._call(end_txn(producer, committed))

    def _call(self, call: CoordinatorCall[object]) -> None:
        self._coordinators.call(call)


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
