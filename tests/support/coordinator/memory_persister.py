"""The states of share-partitions in memory, in the place of the share coordinators."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minikafka.core.share.persister import (
    InitialState,
    StateSummary,
    StateUpdate,
    StoredState,
    TopicIdPartition,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


class MemoryPersister:
    """A SharePersister. ``refusals`` has the error of each partition that is refused; ``complete``
    is the delivery-complete count of every partition."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, TopicIdPartition], InitialState] = {}
        self.refusals: dict[TopicIdPartition, ErrorCode] = {}
        self.complete = 0

    def _errors(self, keys: Collection[TopicIdPartition]) -> dict[TopicIdPartition, ErrorCode]:
        return {key: self.refusals.get(key, ErrorCode.NONE) for key in keys}

    async def initialize_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, InitialState]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        errors = self._errors(partitions.keys())
        made = {(group_id, key): partitions[key] for key, error in errors.items() if not error}
        self.states.update(made)
        return errors

    async def delete_state(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        errors = self._errors(partitions)
        for key, error in errors.items():
            if not error:
                self.states.pop((group_id, key), None)
        return errors

    async def read_summary(
        self, group_id: str, partitions: Collection[TopicIdPartition]
    ) -> Mapping[TopicIdPartition, StateSummary]:
        found: dict[TopicIdPartition, StateSummary] = {}
        for key in partitions:
            state = self.states.get((group_id, key))
            if state is None:
                found[key] = StateSummary(ErrorCode.INVALID_REQUEST, 0, 0, 0, 0)
            else:
                epoch, offset = state
                found[key] = StateSummary(ErrorCode.NONE, epoch, 7, offset, self.complete)
        return found

    async def read_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, int]
    ) -> Mapping[TopicIdPartition, StoredState]:
        raise AssertionError("only leaders of partitions read")

    async def write_state(
        self, group_id: str, partitions: Mapping[TopicIdPartition, StateUpdate]
    ) -> Mapping[TopicIdPartition, ErrorCode]:
        raise AssertionError("only leaders of partitions write")


class FixedEndOffsets:
    """The ends of all partitions, or their error."""

    def __init__(self) -> None:
        self.end: int | ErrorCode = 0

    async def latest(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | ErrorCode]:
        return dict.fromkeys(partitions, self.end)
