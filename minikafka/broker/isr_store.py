"""The state znodes as a leader writes them, on whatever ZooKeeper session the node has now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from minikafka.kernel.cluster import LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.ports import CoordinationError


class PartitionStates(Protocol):
    """What is needed of the store of one session."""

    async def update_isrs(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> Mapping[TopicPartition, int | CoordinationError | None]: ...

    async def propagate_isr_changes(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def propagate_log_dir_event(self, broker_id: int) -> None: ...


class ZkIsrStore:
    """See ``isr_maintenance.IsrStore``. ``store`` gives the store of the current session."""

    def __init__(self, store: Callable[[], PartitionStates]) -> None:
        self._store = store

    async def update_isrs(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> Mapping[TopicPartition, int | CoordinationError | None]:
        return await self._store().update_isrs(states)

    async def propagate_isr_changes(self, partitions: Sequence[TopicPartition]) -> None:
        await self._store().propagate_isr_changes(partitions)

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        await self._store().propagate_log_dir_event(broker_id)
