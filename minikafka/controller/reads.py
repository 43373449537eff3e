"""Reads that set aside what nobody can read: one garbled znode must not stop a controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

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
