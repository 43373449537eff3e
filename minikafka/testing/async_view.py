"""``minikafka.aio``: what a test sees of a cluster and does to it, as coroutines for any loop.

``TestView`` has the same methods, which block.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing import looking
from minikafka.testing.clients import in_thread
from minikafka.testing.cluster import AnyCluster, ClusterEvent, Undo, on_cluster
from minikafka.testing.faults import AddedFaults, AsyncFault, Faults
from minikafka.testing.looking import GroupView, IsolationLevel, Predicate

MAX_REPLICAS = 3


class AsyncView:
    """A cluster as one test sees it. Coroutines raise KafkaError, AssertionError for what has not
    come about in time, and NotInThisPlace."""

    def __init__(self, cluster: AnyCluster, name: str) -> None:
        self.cluster = cluster
        self.added_faults = AddedFaults()
        self.faults = Faults(
            cluster, lambda fault, must_hit: AsyncFault(self.added_faults.add(fault, must_hit))
        )
        self._name = name
        self._numbers = itertools.count(1)
        self._undo: Undo | None = None

    # ----------------------------------------------------------------------------------------- look

    @on_cluster
    async def records(
        self,
        topic: str,
        count: int | None = None,
        timeout: float = 5.0,
        isolation_level: IsolationLevel = "read_committed",
    ) -> list[ConsumerRecord]:
        """Return all records of a topic, in the order of their offsets in each partition.

        With ``count`` wait until there are as many. Raises AssertionError with their number if
        they are not there within ``timeout`` seconds."""
        clients = self.cluster.clients()
        return await looking.read_records(clients, topic, count, timeout, isolation_level)

    @on_cluster
    async def expect(
        self, topic: str, predicate: Predicate, timeout: float = 5.0
    ) -> ConsumerRecord:
        """Return the first record of a topic for which ``predicate`` is true, as soon as there is
        one. ``predicate`` is called in the cluster's thread. Raises AssertionError with the last
        record after ``timeout`` seconds."""
        return await looking.expect_record(self.cluster.clients(), topic, predicate, timeout)

    @asynccontextmanager
    async def produces(
        self, topic: str, count: int = 1, timeout: float = 5.0
    ) -> AsyncIterator[list[ConsumerRecord]]:
        """A context whose list has, at its end, the records that were produced to the topic within.
        Raises AssertionError if they are not at least ``count`` within ``timeout`` seconds after
        the end of the block."""
        found: list[ConsumerRecord] = []
        start = await self.ends(topic)
        yield found
        found += await self.records_from(topic, start, count, timeout)

    @on_cluster
    async def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the offsets that a group has committed."""
        return await looking.committed_offsets(self.cluster.clients(), group_id)

    def group(self, group_id: str) -> AsyncGroup:
        """Return the handle of a group, whether the group exists or not."""
        return AsyncGroup(self, group_id)

    def events(self, name: str | None = None) -> Sequence[ClusterEvent]:
        """Return the last events of the brokers' logs, or those of one name, from the oldest;
        inside the process since the test began."""
        return self.cluster.events(name)

    def requests(self, **select: Any) -> Sequence[Any]:
        """Return the last requests that brokers have received since the test began, from the
        oldest. ``select`` are ``api``, ``client_id`` and ``broker``."""
        return self.cluster.requests(**select)

    # ------------------------------------------------------------------------------------------- do

    async def topic(
        self, /, partitions: int = 1, replicas: int | None = None, **settings: str
    ) -> str:
        """Create a topic with a new name, and return the name. It has a replica on each broker, but
        three at most, or ``replicas``. ``settings`` have ``_`` for the dots in their names:
        ``cleanup_policy="compact"``."""
        name = f"{self._name}-{next(self._numbers)}"
        return await self.create_topic(name, partitions, replicas, **settings)

    @on_cluster
    async def create_topic(
        self, /, name: str, partitions: int = 1, replicas: int | None = None, **settings: str
    ) -> str:
        """Create a topic with a name of your choice, which other tests may use after this one."""
        running = [each for each in self.cluster.brokers if self.cluster.is_running(each)]
        factor = replicas or min(MAX_REPLICAS, len(running))
        named = {key.replace("_", "."): value for key, value in settings.items()}
        async with self.cluster.clients().admin() as admin:
            await admin.create_topic(name, partitions, factor, named)
            await admin.wait_for_topic(name, partitions)
        return name

    @on_cluster
    async def produce(
        self, topic: str, *values: bytes, key: bytes | None = None, partition: int | None = None
    ) -> None:
        """Append records, and return when all in-sync replicas have them."""
        async with self.cluster.clients().producer() as producer:
            waiting = [
                await producer.send(topic, value, key=key, partition=partition) for value in values
            ]
            for each in waiting:
                await each

    @on_cluster
    async def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads a partition, as soon as there is one."""
        return await looking.leader_of(self.cluster.clients(), topic, partition)

    @on_cluster
    async def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition. If it has no replica, it takes the place of the
        last one."""
        await looking.move_leader(self.cluster.clients(), topic, partition, broker)

    @on_cluster
    async def coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a group, whether the group exists or not."""
        return await looking.coordinator_of(self.cluster.clients(), group_id)

    @on_cluster
    async def move_coordinator(self, group_id: str, broker: int) -> None:
        """Make a broker the coordinator of a group."""
        await looking.move_coordinator(self.cluster.clients(), group_id, broker)

    def broker(self, broker: int) -> AsyncBroker:
        """Return the handle of a broker. Raises ValueError if there is none with this id."""
        check_broker(self.cluster, broker)
        return AsyncBroker(self.cluster, broker)

    @on_cluster
    async def expire_session(self, broker: int) -> None:
        """Expire a broker's ZooKeeper session: it registers again under a new one."""
        check_broker(self.cluster, broker)
        await self.cluster.expire_session(broker)

    @on_cluster
    async def add_broker(self) -> int:
        """Start another broker, and return its id when it serves. The cluster ends with the
        test."""
        return await self.cluster.add_broker()

    @on_cluster
    async def compact(self, topic: str) -> None:
        """Compact a topic now, except its active segments."""
        await self.cluster.compact(topic)

    @on_cluster
    async def apply_retention(self, topic: str | None = None) -> None:
        """Delete now what the retention of a topic, or of all, allows to delete."""
        await self.cluster.apply_retention(topic)

    @on_cluster
    async def as_version(self, version: str | None) -> None:
        """Offer clients only what a release of Kafka has, such as "2.8"; None: everything."""
        await self.cluster.as_version(version)

    @on_cluster
    async def reset(self) -> None:
        """Bring the cluster back to where the test found it: without faults, with all brokers, and
        without the topics and groups that have been made since. Inside the process settings,
        quotas, users and ACLs are as they were, too."""
        await in_thread(self.added_faults.remove_all)  # which waits for the cluster's loop
        if await self.cluster.restore():
            await looking.until_known(self.cluster.clients(), self.cluster.brokers)
        if self._undo is not None:
            await self._undo()

    # ----------------------------------------------------------------------------- the test's frame

    @on_cluster
    async def begin(self) -> None:
        """Note what the cluster has, for ``reset``. Call it before the test."""
        self._undo = await self.cluster.way_back()

    @on_cluster
    async def ends(self, topic: str) -> dict[TopicPartition, int]:
        return await looking.ends_of(self.cluster.clients(), topic)

    @on_cluster
    async def records_from(
        self, topic: str, start: Mapping[TopicPartition, int], count: int, timeout: float
    ) -> list[ConsumerRecord]:
        clients = self.cluster.clients()
        return await looking.read_records(clients, topic, count, timeout, start=start)

    @on_cluster
    async def wait_for_group(
        self, group_id: str, until: Callable[[GroupView], object], timeout: float
    ) -> GroupView:
        return await looking.wait_for_group(self.cluster.clients(), group_id, until, timeout)

    @on_cluster
    async def group_now(self, group_id: str) -> GroupView:
        return await looking.group_now(self.cluster.clients(), group_id)


class AsyncBroker:
    """One broker. Coroutines return when it is done."""

    def __init__(self, cluster: AnyCluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id

    @property
    def is_running(self) -> bool:
        """Whether the broker has been started and not ended since; a paused broker runs."""
        return self.cluster.is_running(self.broker_id)

    @on_cluster
    async def stop(self) -> None:
        """Stop the broker by controlled shutdown."""
        await self.cluster.stop(self.broker_id)

    @on_cluster
    async def kill(self) -> None:
        """End the broker as SIGKILL does. Its disk is kept."""
        await self.cluster.kill(self.broker_id)

    @on_cluster
    async def start(self) -> None:
        """Start the broker again on its disk and its port, and wait until it serves."""
        await self.cluster.start(self.broker_id)

    @on_cluster
    async def pause(self) -> None:
        """Stop the broker's time as SIGSTOP does: its connections stay open, and mute."""
        await self.cluster.pause(self.broker_id)

    @on_cluster
    async def resume(self) -> None:
        """End a pause."""
        await self.cluster.resume(self.broker_id)

    @on_cluster
    async def isolate(self) -> None:
        """Cut the broker off from ZooKeeper and all other brokers; inside the process from
        clients, too."""
        await self.cluster.isolate(self.broker_id)

    @on_cluster
    async def heal(self) -> None:
        """Connect the isolated broker again."""
        await self.cluster.heal(self.broker_id)


class AsyncGroup:
    """One group."""

    def __init__(self, view: AsyncView, group_id: str) -> None:
        self._view = view
        self.group_id = group_id

    async def now(self) -> GroupView:
        """Return what the group is now; a group that does not exist has the state "Dead"."""
        return await self._view.group_now(self.group_id)

    async def wait(
        self,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        until: Callable[[GroupView], object] | None = None,
        timeout: float = 10.0,
    ) -> GroupView:
        """Return the group as soon as everything given is true of it. Raises AssertionError with
        its last state after ``timeout`` seconds."""
        condition = group_condition(state, members, lag, until)
        return await self._view.wait_for_group(self.group_id, condition, timeout)


def group_condition(
    state: str | None,
    members: int | None,
    lag: int | None,
    until: Callable[[GroupView], object] | None,
) -> Callable[[GroupView], bool]:
    """Return a function that is true of a group of which everything given is."""

    def fits(group: GroupView) -> bool:
        return (
            state in (None, group.state)
            and members in (None, group.members)
            and lag in (None, group.lag)
            and (until is None or bool(until(group)))
        )

    return fits


def check_broker(cluster: AnyCluster, broker: int) -> None:
    """Raises ValueError if the cluster has no such broker."""
    if broker not in cluster.brokers:
        raise ValueError(f"no broker {broker}; there are {', '.join(map(str, cluster.brokers))}")
