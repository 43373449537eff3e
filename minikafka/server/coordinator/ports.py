"""The interfaces of the broker that coordinators use: internal topics, purgatories, leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Protocol, TypeAlias

from minikafka.core.log.verification import Verification
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import RecordBatch

# Called with the outcome of an append: the error or NONE, and the offset of the first record (-1
# after an error).
AppendDone: TypeAlias = Callable[[ErrorCode, int], None]


class DelayedOperationPurgatory(Protocol):
    """A purgatory whose operations expire by themselves."""

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Sequence[Hashable]
    ) -> bool: ...

    def check_and_complete(self, key: Hashable) -> int: ...


class InternalLog(Protocol):
    """The partitions of one internal topic that this broker leads."""

    def append(self, partition: int, batch: bytes, done: AppendDone) -> None:
        """Append one batch. ``done`` is called exactly once, when all in-sync replicas have the
        batch or the time-out has passed."""
        ...

    def append_on_leader(self, partition: int, batch: bytes, done: AppendDone) -> None:
        """Append one batch without waiting for replicas. ``done`` is called when the leader has the
        batch, usually before this method returns."""
        ...

    def append_in_transaction(
        self, partition: int, batch: bytes, guard: Verification | None, done: AppendDone
    ) -> None:
        """Append one transactional batch. ``guard`` is the verification that admits it; with None
        a batch that needs verification is refused. ``done`` is called as by ``append``."""
        ...

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Return log start offset and log end offset; None if this broker does not lead the
        partition."""
        ...

    async def replicated(self, partition: int) -> bool:
        """Wait until the high watermark reaches the current log end offset.

        Returns False if this broker stops leading the partition before.
        """
        ...

    async def opened(self, batch: RecordBatch) -> bytes:
        """Return the records of ``batch``, decompressed, without blocking the event loop for a huge
        batch. Raises KafkaError."""
        ...

    async def read(self, partition: int, offset: int, max_bytes: int) -> Buffer:
        """Read whole batches from ``offset`` on, at least one if there is one.

        Raises KafkaError and OSError.
        """
        ...


class PartitionEnds(Protocol):
    """The ends of partitions, wherever their leaders are."""

    async def latest(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        """Return the offset after the last record of each partition, or its error."""
        ...


class PartitionLeaders(Protocol):
    """The current leaders of partitions, from the broker's metadata."""

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return broker id and leader epoch of the leader; None for an unknown partition."""
        ...
