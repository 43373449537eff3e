"""What the state znodes say: from memory where that is safe, else from ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from minikafka.controller.elector import StoreSource
from minikafka.controller.reads import read_states
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.ports import Watcher

FromMemory: TypeAlias = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], bool]


class Leaderships:
    """Leaders write their ISRs to the znodes and announce it later, so what the context remembers
    may be old. That is no harm where a write follows, which is conditional on the version: one
    that is refused reads again. Where a decision not to write rests on it, it has to be fresh:
    read, or written, during the event at hand."""

    def __init__(self, context: ControllerContext, zk: StoreSource) -> None:
        self._context = context
        self._zk = zk
        self._fresh: set[TopicPartition] = set()
        self._missing: set[TopicPartition] = set()  # of the fresh ones: there is no znode
        self._outdated: set[TopicPartition] = set()  # known to be old: memory will not do

    def new_event(self) -> None:
        """Whatever is remembered may be old again."""
        self._fresh.clear()
        self._missing.clear()
        self._outdated.clear()

    def written(self, partitions: Iterable[TopicPartition]) -> None:
        """The context knows these as they were just written."""
        done = set(partitions)
        self._fresh |= done
        self._missing -= done
        self._outdated -= done

    def outdated(self, partitions: Iterable[TopicPartition]) -> None:
        """Somebody else wrote these: a conditional write of ours was refused."""
        self._outdated.update(partitions)
        self._fresh -= self._outdated
        self._missing -= self._outdated

    def is_fresh(self, partition: TopicPartition) -> bool:
        return partition in self._fresh

    async def read(
        self, partitions: Sequence[TopicPartition], from_memory: FromMemory | None = None
    ) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], dict[TopicPartition, str]]:
        """States (of those that have one), and why some cannot be read. ``from_memory`` says for
        which of them memory will do; for what is fresh it always does."""
        known: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        wanted: list[TopicPartition] = []
        for partition in partitions:
            state = self._context.leadership.get(partition)
            if partition in self._missing:
                continue
            if state is None or partition in self._outdated:
                wanted.append(partition)
            elif partition in self._fresh or (from_memory and from_memory(partition, state)):
                known[partition] = state
            else:
                wanted.append(partition)
        unreadable = await self.refresh(wanted)
        known.update({tp: self._context.leadership[tp] for tp in wanted if tp not in self._missing})
        return known, unreadable

    async def refresh(
        self, partitions: Sequence[TopicPartition], watcher: Watcher | None = None
    ) -> dict[TopicPartition, str]:
        """Read these into the context (updateLeaderAndIsrCache), and watch them if ``watcher`` is
        given; why some cannot be read."""
        found, unreadable = await read_states(self._zk.store, partitions, watcher)
        self._context.leadership.update(found)
        self._fresh.update(partitions)
        self._outdated.difference_update(partitions)
        self._missing.difference_update(found)
        self._missing.update(tp for tp in partitions if tp not in found)
        return unreadable
