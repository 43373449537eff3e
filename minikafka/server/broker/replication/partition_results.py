"""The base of delayed operations that wait for one result from each of several partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.compiled import mypyc_attr
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionResult:
    """The result of a request for one partition. ``error`` is NONE while the partition is pending,
    and stays NONE after a success."""

    __slots__ = ("error", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        self.topic_partition = topic_partition
        self.error = error


R = TypeVar("R", bound=PartitionResult)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedPartitionResults(DelayedOperation, Generic[R]):
    """A delayed operation that waits for the results of several partitions.

    It calls ``reply`` with ``results`` when no partition is pending, or after ``timeout_ms``. After
    the time-out pending partitions have the error REQUEST_TIMED_OUT, and ``on_expired`` is called
    with their number. Partitions that have an error from the start are never pending. Subclasses
    implement ``_is_settled``.
    """

    __slots__ = ("_hosted", "_on_expired", "_pending", "_reply", "_results")
    __deletable__ = ("_reply", "_results")  # declared for mypyc

    def __init__(
        self,
        timeout_ms: int,
        results: Sequence[R],
        hosted: HostedPartitions,
        reply: Callable[[Sequence[R]], None],
        on_expired: Callable[[int], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._pending = [result for result in results if result.error == 0]
        self._hosted = hosted
        self._reply = reply
        self._on_expired = on_expired

    @abstractmethod
    def _is_settled(self, result: R) -> bool:
        """Check a pending partition. If its result is final, set its error, if any, and return
        True."""

    def try_complete(self) -> bool:
        pending = self._pending
        if len(pending) == 1 and not self._is_settled(pending[0]):
            return False  # the most frequent case
        self._pending = [result for result in pending if not self._is_settled(result)]
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for result in self._pending:
            result.error = ErrorCode.REQUEST_TIMED_OUT
        reply, results = self._reply, self._results
        # A completed operation may stay in watch lists until the next purge; its records must not.
        del self._reply, self._results
        reply(results)

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (result.topic_partition for result in self._pending)

    def on_expiration(self) -> None:
        self._on_expired(len(self._pending))
