"""What one test sees of a cluster inside the process: its own topics, records, groups.

``TestView`` is the fixture ``minikafka``. The cluster is shared by the tests of a session; topics
and groups that a test has made are deleted at its end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from minikafka.client import Consumer, ConsumerConfig, ConsumerRecord, Producer
from minikafka.inside.cluster import InsideCluster
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.world.real.clock import RealClock

POLL_S = 0.01
IsolationLevel: TypeAlias = Literal["read_committed", "read_uncommitted"]

INTERNAL = "__"  # begins the names of topics that tests leave alone

# How each client spells the addresses of the brokers.
_SPELLINGS: Mapping[str, Callable[[str], dict[str, object]]] = {
    "confluent": lambda bootstrap: {"bootstrap.servers": bootstrap},
    "java": lambda bootstrap: {"bootstrap.servers": bootstrap},
    "kafka-python": lambda bootstrap: {"bootstrap_servers": bootstrap.split(",")},
    "aiokafka": lambda bootstrap: {"bootstrap_servers": bootstrap},
    "kafkajs": lambda bootstrap: {"brokers": bootstrap.split(",")},
    "spark": lambda bootstrap: {"kafka.bootstrap.servers": bootstrap},
}


class GroupView(NamedTuple):
    """A group at one moment. ``lag`` is the number of records before the end of the partitions
    that it has committed offsets of."""

    state: str
    members: int
    committed: Mapping[TopicPartition, int]
    lag: int


class TestView:
    """All methods but the constructor block, and may be called from any thread; in a coroutine use
    ``asyncio.to_thread``. They raise KafkaError."""

    __test__ = False  # it is no class of tests

    def __init__(self, cluster: InsideCluster, name: str) -> None:
        self.cluster = cluster
        self._name = name
        self._numbers = itertools.count(1)
        self._topics, self._groups = cluster.call(self._existing())

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def config(self, client: str) -> dict[str, object]:
        """Return the settings that connect a client: ``confluent``, ``kafka-python``, ``aiokafka``,
        ``java``, ``kafkajs`` or ``spark``. Raises ValueError for another name."""
        if client not in _SPELLINGS:
            raise ValueError(f"no client {client!r}; there are {', '.join(_SPELLINGS)}")
        return _SPELLINGS[client](self.bootstrap)

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """Create a topic with a new name, and return the name. ``settings`` have ``_`` for
        the dots in their names: ``cleanup_policy="compact"``."""
        name = f"{self._name}-{next(self._numbers)}"
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.cluster.create_topic(name, partitions, settings=named)
        return name

    def produce(self, topic: str, *values: bytes, key: bytes | None = None) -> None:
        """Append records, and return when all in-sync replicas have them."""
        self.cluster.call(self._produce(topic, values, key))

    def records(
        self,
        topic: str,
        count: int | None = None,
        timeout: float = 5.0,
        isolation_level: IsolationLevel = "read_committed",
    ) -> list[ConsumerRecord]:
        """Return all records of a topic, in the order of their offsets in each partition.

        With ``count`` wait until there are as many. Raises AssertionError with their number if
        they are not there within ``timeout`` seconds."""
        return self.cluster.call(self._records(topic, count, timeout, isolation_level))

    def group(self, group_id: str) -> GroupView:
        """Return what a group is now; a group that does not exist has the state "Dead"."""
        return self.cluster.call(self._group(group_id))

    def wait_for_group(
        self, group_id: str, until: Callable[[GroupView], bool], timeout: float = 10.0
    ) -> GroupView:
        """Return the group as soon as ``until`` is true of it. Raises AssertionError with its last
        state after ``timeout`` seconds."""
        return self.cluster.call(self._wait_for_group(group_id, until, timeout))

    def clean(self) -> None:
        """Delete the topics and groups that were made since the view was."""
        self.cluster.call(self._clean())

    # ---------------------------------------------------------------------- on the cluster's thread

    async def _existing(self) -> tuple[set[str], set[str]]:
        async with self.cluster.admin() as admin:
            topics = {topic.name for topic in await admin.list_topics()}
            return topics, {group.group_id for group in await admin.list_groups()}

    async def _clean(self) -> None:
        topics, groups = await self._existing()
        async with self.cluster.admin() as admin:
            await admin.delete_groups(groups - self._groups)
            made = {name for name in topics - self._topics if not name.startswith(INTERNAL)}
            if made:
                await admin.delete_topics(made)

    async def _produce(self, topic: str, values: tuple[bytes, ...], key: bytes | None) -> None:
        world, config = self.cluster.client()
        async with Producer(world, config) as producer:
            waiting = [await producer.send(topic, value, key=key) for value in values]
            await asyncio.gather(*waiting)

    async def _records(
        self, topic: str, count: int | None, timeout_s: float, isolation_level: IsolationLevel
    ) -> list[ConsumerRecord]:
        world, config = self.cluster.client()
        reading = ConsumerConfig(auto_offset_reset="earliest", isolation_level=isolation_level)
        found: list[ConsumerRecord] = []
        async with Consumer(world, config, reading) as consumer:
            await consumer.assign_topics(topic)
            for _ in attempts(timeout_s):
                found += [record async for record in consumer.read_to()]
                if count is None or len(found) >= count:
                    return sorted(found, key=lambda record: (record.partition, record.offset))
                await asyncio.sleep(POLL_S)
        raise AssertionError(f"{len(found)} of {count} records in {topic} after {timeout_s} s")

    async def _group(self, group_id: str) -> GroupView:
        world, config = self.cluster.client()
        async with self.cluster.admin() as admin:
            described = (await admin.describe_groups([group_id]))[group_id]
            if isinstance(described, KafkaError):
                raise described
            offsets = await admin.group_offsets(group_id)
        async with Consumer(world, config, ConsumerConfig()) as consumer:
            consumer.assign(offsets)
            ends = await consumer.end_offsets() if offsets else {}
        committed = {tp: each.offset for tp, each in offsets.items() if each.offset >= 0}
        lag = sum(max(0, ends[tp] - offset) for tp, offset in committed.items())
        return GroupView(described.state, len(described.members), committed, lag)

    async def _wait_for_group(
        self, group_id: str, until: Callable[[GroupView], bool], timeout_s: float
    ) -> GroupView:
        view = await self._group(group_id)
        for _ in attempts(timeout_s):
            if until(view):
                return view
            await asyncio.sleep(POLL_S)
            view = await self._group(group_id)
        raise AssertionError(f"after {timeout_s} s the group {group_id} is {view}")


def attempts(timeout_s: float) -> Iterator[int]:
    """Count from 0 until the time has passed; at least one attempt."""
    clock = RealClock()
    deadline_ms = clock.monotonic_ms() + round(timeout_s * 1000)
    for number in itertools.count():
        yield number
        if clock.monotonic_ms() >= deadline_ms:
            return
