"""Reads of znodes by the controller: unreadable ones are set aside, state znodes are cached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from minikafka.controller.elector import StoreSource
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import Broker, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.ports import Watcher
from minikafka.zookeeper.store import MalformedZnode, TopicAssignment, ZkStore

K = TypeVar("K")
V = TypeVar("V")


async def _readable(
    read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], keys: Sequence[K]
) -> tuple[dict[K, V], dict[K, str]]:
    """What can be read, and why the rest cannot. One by one only where the whole fails."""
    if not keys:
        return {}, {}
    try:
        return dict(await read(keys)), {}
    except MalformedZnode as error:
        if len(keys) == 1:
            return {}, {keys[0]: str(error)}
    found: dict[K, V] = {}
    unreadable: dict[K, str] = {}
    for key in keys:
        one, bad = await _readable(read, [key])
        found.update(one)
        unreadable.update(bad)
    return found, unreadable


async def read_states(
    store: ZkStore, partitions: Sequence[TopicPartition], watcher: Watcher | None = None
) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], dict[TopicPartition, str]]:
    """State znodes, and those that are garbled. The watch is on all that there are."""

    async def read(
        some: Sequence[TopicPartition],
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        return await store.leader_isr_states(some, watcher)

    return await _readable(read, partitions)


async def read_assignments(
    store: ZkStore, topics: Sequence[str], watcher: Watcher | None = None
) -> tuple[dict[str, TopicAssignment], dict[str, str]]:
    """Topics' assignments, and those that are garbled. The watch is on all of them."""

    async def read(some: Sequence[str]) -> dict[str, TopicAssignment]:
        return await store.topic_assignments(some, watcher)

    return await _readable(read, topics)


async def read_topic_configs(
    store: ZkStore, topics: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Topics' own configuration, and whose is garbled."""
    return await _readable(store.topic_configs, topics)


async def read_brokers(
    store: ZkStore, watcher: Watcher | None = None
) -> tuple[dict[int, Broker], dict[int, str]]:
    """Live brokers, and those whose registration is garbled. The watch is on their coming and
    going."""

    async def read(ids: Sequence[int]) -> dict[int, Broker]:
        found = {i: await store.broker(i) for i in ids}
        return {i: broker for i, broker in found.items() if broker is not None}

    return await _readable(read, await store.broker_ids(watcher))


async def read_isr_changes(
    store: ZkStore, sequences: Sequence[str]
) -> tuple[set[TopicPartition], Iterable[str]]:
    """The partitions that notifications name, and why some name none."""

    async def read(some: Sequence[str]) -> dict[str, set[TopicPartition]]:
        return {some[0]: await store.isr_change_partitions(some)}

    found, unreadable = await _readable(read, sequences)
    return set().union(*found.values()), unreadable.values()


async def read_log_dir_events(
    store: ZkStore, sequences: Sequence[str]
) -> tuple[set[int], Iterable[str]]:
    """The brokers that notifications name, and why some name none."""

    async def read(some: Sequence[str]) -> dict[str, set[int]]:
        return {some[0]: await store.log_dir_event_brokers(some)}

    found, unreadable = await _readable(read, sequences)
    return set().union(*found.values()), unreadable.values()


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
