"""The interface to the stored states of share-partitions (KIP-932), which share coordinators keep.

A share-partition is a partition of a topic as one share group reads it. The leader of the partition
reads its state when it begins, and writes each change; the group coordinator initializes and
deletes states, and reads where they start. Kafka: ``Persister``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from minikafka.kernel.errors import ErrorCode

# A start offset that is not known yet: the leader of the partition decides by the group's settings.
UNINITIALIZED_START_OFFSET: Final = -1


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


class StateBatch(NamedTuple):
    """Records of one delivery state, both offsets inclusive. Kafka: ``PersisterStateBatch``."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class InitialState(NamedTuple):
    state_epoch: int
    start_offset: int


class StoredState(NamedTuple):
    """The state of a share-partition as it was read; ``error`` excludes the rest."""

    error: ErrorCode
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateUpdate(NamedTuple):
    """A change of the state by the leader of the partition. ``delivery_complete_count`` is the
    number of records from the start offset on that need no delivery any more, or -1 (KIP-1226)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """Where a share-partition starts; ``error`` excludes the rest."""

    error: ErrorCode
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class SharePersister(Protocol):
    """Requests to the share coordinators of a group's share-partitions.

    Each method returns a row for every partition. It retries retriable errors, and returns the last
    error after its last attempt."""

    async def initialize_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, InitialState]
    ) -> Mapping[TopicIdPartition, ErrorCode]: ...

    async def read_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, StoredState]:
        """Read states, as the leader with the given leader epoch of each partition."""
        ...

    async def write_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, StateUpdate]
    ) -> Mapping[TopicIdPartition, ErrorCode]: ...

    async def delete_state(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, ErrorCode]: ...

    async def read_summary(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, StateSummary]: ...
