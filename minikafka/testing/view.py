"""What one test sees of a cluster and does to it, in methods that block: the fixture ``minikafka``.

``aio`` has the same methods as coroutines. The cluster may be shared with other tests: topics and
groups that a test has made are deleted at its end, faults are removed, and brokers brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from minikafka.client import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.async_view import AsyncBroker, AsyncGroup, AsyncView
from minikafka.testing.cluster import AnyCluster, ClusterEvent, SimulatedClock, Where
from minikafka.testing.faults import FaultInTest, Faults
from minikafka.testing.looking import GroupView, IsolationLevel, Predicate

T = TypeVar("T")


class TestView:
    """A cluster as one test sees it. Methods may be called from any thread; in a coroutine use
    ``aio``, whose methods are the same. They raise KafkaError, AssertionError for what has not
    come about in time, and NotInThisPlace for what the place of the cluster cannot do.

    In simulated time all methods that block raise NotInThisPlace: only ``aio`` works there.
    """

    __test__ = False

    def __init__(self, cluster: AnyCluster, name: str) -> None:
        """``name`` begins the names of the topics that ``topic`` creates."""
        self.cluster = cluster
        self.aio = AsyncView(cluster, name)
        self.faults = Faults(cluster, self.aio.added_faults, FaultInTest)

    # --------------------------------------------------------------------------------- the cluster

    @property
    def where(self) -> Where:
        """The place: "inside", "processes" or "simulated"."""
        return self.cluster.where

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return self.cluster.bootstrap

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of all brokers, whether they run or not."""
        return self.cluster.brokers

    def config(self, client: str) -> dict[str, object]:
        """Return the settings that connect a client: ``confluent``, ``kafka-python``, ``aiokafka``,
        ``java``, ``kafkajs``, ``spark``, or ``minikafka`` for keywords of ``minikafka.aio``, the
        only ones in simulated time. Raises ValueError for another name."""
        return self.cluster.config(client)

    @property
    def clock(self) -> SimulatedClock:
        """The clock of a simulated cluster: ``await minikafka.clock.advance(3600)``. Raises
        NotInThisPlace in the other places."""
        return self.cluster.clock

    # ----------------------------------------------------------------------------------------- look

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
        return self._call(self.aio.records(topic, count, timeout, isolation_level))

    def expect(self, topic: str, predicate: Predicate, timeout: float = 5.0) -> ConsumerRecord:
        """Return the first record of a topic for which ``predicate`` is true, as soon as there is
        one. ``predicate`` is called in the cluster's thread. Raises AssertionError with the last
        record after ``timeout`` seconds."""
        return self._call(self.aio.expect(topic, predicate, timeout))

    @contextmanager
    def produces(
        self, topic: str, count: int = 1, timeout: float = 5.0
    ) -> Iterator[list[ConsumerRecord]]:
        """A context whose list has, at its end, the records that were produced to the topic within.
        Raises AssertionError if they are not at least ``count`` within ``timeout`` seconds after
        the end of the block."""
        found: list[ConsumerRecord] = []
        start = self._call(self.aio.ends(topic))
        yield found
        found += self._call(self.aio.records_from(topic, start, count, timeout))

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the offsets that a group has committed."""
        return self._call(self.aio.committed(group_id))

    def group(self, group_id: str) -> GroupHandle:
        """Return the handle of a group, whether the group exists or not."""
        return GroupHandle(self.cluster, self.aio.group(group_id))

    def events(self, name: str | None = None) -> Sequence[ClusterEvent]:
        """Return the last events of the brokers' logs, or those of one name, from the oldest;
        inside the process since the test began."""
        return self.aio.events(name)

    def requests(self, **select: Any) -> Sequence[Any]:
        """Return the last requests that brokers have received since the test began, from the
        oldest. ``select`` are ``api``, ``client_id`` and ``broker``."""
        return self.aio.requests(**select)

    # ------------------------------------------------------------------------------------------- do

    def topic(self, partitions: int = 1, replicas: int | None = None, **settings: str) -> str:
        """Create a topic with a new name, and return the name. It has a replica on each broker, but
        three at most, or ``replicas``. ``settings`` have ``_`` for the dots in their names:
        ``cleanup_policy="compact"``."""
        return self._call(self.aio.topic(partitions, replicas, **settings))

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int | None = None, **settings: str
    ) -> str:
        """Create a topic with a name of your choice, which other tests may use after this one."""
        return self._call(self.aio.create_topic(name, partitions, replicas, **settings))

    def produce(
        self, topic: str, *values: bytes, key: bytes | None = None, partition: int | None = None
    ) -> None:
        """Append records, and return when all in-sync replicas have them."""
        self._call(self.aio.produce(topic, *values, key=key, partition=partition))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads a partition, as soon as there is one."""
        return self._call(self.aio.leader(topic, partition))

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition. If it has no replica, it takes the place of the
        last one."""
        self._call(self.aio.move_leader(topic, partition, broker))

    def coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a group, whether the group exists or not."""
        return self._call(self.aio.coordinator(group_id))

    def move_coordinator(self, group_id: str, broker: int) -> None:
        """Make a broker the coordinator of a group."""
        self._call(self.aio.move_coordinator(group_id, broker))

    def broker(self, broker: int) -> BrokerHandle:
        """Return the handle of a broker. Raises ValueError if there is none with this id."""
        return BrokerHandle(self.cluster, self.aio.broker(broker))

    def expire_session(self, broker: int) -> None:
        """Expire a broker's ZooKeeper session: it registers again under a new one."""
        self._call(self.aio.expire_session(broker))

    def add_broker(self) -> int:
        """Start another broker, and return its id when it serves. The cluster ends with the
        test."""
        return self._call(self.aio.add_broker())

    def compact(self, topic: str) -> None:
        """Compact a topic now, except its active segments."""
        self._call(self.aio.compact(topic))

    def apply_retention(self, topic: str | None = None) -> None:
        """Delete now what the retention of a topic, or of all, allows to delete."""
        self._call(self.aio.apply_retention(topic))

    def as_version(self, version: str | None) -> None:
        """Offer clients only what a release of Kafka has, such as "2.8"; None: everything."""
        self._call(self.aio.as_version(version))

    def reset(self) -> None:
        """Bring the cluster back to where the test found it: without faults, with all brokers, and
        without the topics and groups that have been made since. Inside the process settings,
        quotas, users and ACLs are as they were, too."""
        self._call(self.aio.reset())

    # ----------------------------------------------------------------------------- the test's frame

    def begin(self) -> None:
        """Note what the cluster has, for ``reset``. Call it before the test."""
        self._call(self.aio.begin())

    def check_faults(self) -> None:
        """Raises AssertionError with the faults that have not struck, except those with
        ``must_hit=False``. Call it after a test that has passed."""
        self.aio.added_faults.check()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.cluster.call(work)


class BrokerHandle:
    """One broker. Methods return when it is done."""

    def __init__(self, cluster: AnyCluster, broker: AsyncBroker) -> None:
        self._cluster = cluster
        self._broker = broker
        self.broker_id = broker.broker_id

    @property
    def is_running(self) -> bool:
        """Whether the broker has been started and not ended since; a paused broker runs."""
        return self._broker.is_running

    def stop(self) -> None:
        """Stop the broker by controlled shutdown."""
        self._cluster.call(self._broker.stop())

    def kill(self) -> None:
        """End the broker as SIGKILL does. Its disk is kept."""
        self._cluster.call(self._broker.kill())

    def start(self) -> None:
        """Start the broker again on its disk and its port, and wait until it serves."""
        self._cluster.call(self._broker.start())

    def pause(self) -> None:
        """Stop the broker's time as SIGSTOP does: its connections stay open, and mute."""
        self._cluster.call(self._broker.pause())

    def resume(self) -> None:
        """End a pause."""
        self._cluster.call(self._broker.resume())

    def isolate(self) -> None:
        """Cut the broker off from ZooKeeper and all other brokers; inside the process from
        clients, too."""
        self._cluster.call(self._broker.isolate())

    def heal(self) -> None:
        """Connect the isolated broker again."""
        self._cluster.call(self._broker.heal())


class GroupHandle:
    """One group. Each property is read from the cluster; ``now`` has all of one moment."""

    def __init__(self, cluster: AnyCluster, group: AsyncGroup) -> None:
        self._cluster = cluster
        self._group = group
        self.group_id = group.group_id

    def now(self) -> GroupView:
        """Return what the group is now; a group that does not exist has the state "Dead"."""
        return self._cluster.call(self._group.now())

    @property
    def state(self) -> str:
        return self.now().state

    @property
    def members(self) -> int:
        """The number of members."""
        return self.now().members

    @property
    def lag(self) -> int:
        """The number of records that the group has not consumed, in the partitions in which it has
        committed offsets."""
        return self.now().lag

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return dict(self.now().committed)

    def wait(
        self,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        until: Callable[[GroupView], object] | None = None,
        timeout: float = 10.0,
    ) -> GroupView:
        """Return the group as soon as everything given is true of it. Raises AssertionError with
        its last state after ``timeout`` seconds."""
        return self._cluster.call(self._group.wait(state, members, lag, until, timeout))
