"""An operation on several partitions that waits until each of them has settled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


class PartitionResult(Protocol):
    """What came of one partition. Its ``error`` stays NONE until it has settled."""

    topic_partition: TopicPartition
    error: ErrorCode


R = TypeVar("R", bound=PartitionResult)


class DelayedResults(DelayedOperation, Generic[R]):
    """``reply`` gets ``results`` when all have settled, or when time runs out: what has not by then
    is REQUEST_TIMED_OUT, and ``on_expired`` hears how many that are."""

    __slots__ = ("_hosted", "_on_expired", "_pending", "_reply", "_results")

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
    def _settle(self, result: R) -> bool:
        """Whether it has settled; with its error then, if there was one."""

    def try_complete(self) -> bool:
        pending = self._pending
        if len(pending) == 1 and not self._settle(pending[0]):
            return False  # mostly
        self._pending = [result for result in pending if not self._settle(result)]
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for result in self._pending:
            result.error = ErrorCode.REQUEST_TIMED_OUT
        reply, results = self._reply, self._results
        del self._reply, self._results  # this may linger in watch lists until a purge
        reply(results)

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (result.topic_partition for result in self._pending)

    def on_expiration(self) -> None:
        self._on_expired(len(self._pending))
