"""What one test sees of a cluster and does to it, in methods that block: the fixture ``minikafka``.

``async_view`` has the same methods as coroutines, and their descriptions. The cluster may be shared
with other tests: topics and groups that a test has made are deleted at its end, faults are removed,
and brokers brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from minikafka.client import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.async_view import AsyncBroker, AsyncGroup, AsyncView
from minikafka.testing.cluster import AnyCluster, ClusterEvent, SimulatedClock, Where
from minikafka.testing.faults import Faults

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class BlockingView(Generic[A]):
    """A view of the cluster whose methods block. ``aio`` has the same methods as coroutines."""

    def __init__(self, cluster: AnyCluster, aio: A) -> None:
        self.cluster = cluster
        self.aio = aio


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingView[A], P], T]:
    """Make a method that blocks from a coroutine method of ``aio``."""

    @wraps(method)
    def block(self: BlockingView[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.cluster.call(method(self.aio, *args, **kwargs))

    return block


class TestView(BlockingView[AsyncView]):
    """A cluster as one test sees it. Methods may be called from any thread; in a coroutine use
    ``aio``, whose methods are the same. They raise KafkaError, AssertionError for what has not
    come about in time, and NotInThisPlace for what the place of the cluster cannot do.

    In simulated time all methods that block raise NotInThisPlace: only ``aio`` works there.
    """

    __test__ = False

    def __init__(self, cluster: AnyCluster, name: str) -> None:
        """``name`` begins the names of the topics that ``topic`` creates."""
        super().__init__(cluster, AsyncView(cluster, name))
        self.faults = Faults(cluster, self.aio.added_faults.add)

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

    records = blocking(AsyncView.records)
    expect = blocking(AsyncView.expect)
    committed = blocking(AsyncView.committed)

    @contextmanager
    def produces(
        self, topic: str, count: int = 1, timeout: float = 5.0
    ) -> Iterator[list[ConsumerRecord]]:
        """A context whose list has, at its end, the records that were produced to the topic within.
        Raises AssertionError if they are not at least ``count`` within ``timeout`` seconds after
        the end of the block."""
        found: list[ConsumerRecord] = []
        start = self.cluster.call(self.aio.ends(topic))
        yield found
        found += self.cluster.call(self.aio.records_from(topic, start, count, timeout))

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

    topic = blocking(AsyncView.topic)
    create_topic = blocking(AsyncView.create_topic)
    produce = blocking(AsyncView.produce)
    leader = blocking(AsyncView.leader)
    move_leader = blocking(AsyncView.move_leader)
    coordinator = blocking(AsyncView.coordinator)
    move_coordinator = blocking(AsyncView.move_coordinator)
    expire_session = blocking(AsyncView.expire_session)
    add_broker = blocking(AsyncView.add_broker)
    compact = blocking(AsyncView.compact)
    apply_retention = blocking(AsyncView.apply_retention)
    as_version = blocking(AsyncView.as_version)
    reset = blocking(AsyncView.reset)

    def broker(self, broker: int) -> BrokerHandle:
        """Return the handle of a broker. Raises ValueError if there is none with this id."""
        return BrokerHandle(self.cluster, self.aio.broker(broker))

    # ----------------------------------------------------------------------------- the test's frame

    begin = blocking(AsyncView.begin)

    def check_faults(self) -> None:
        """Raises AssertionError with the faults that have not struck, except those with
        ``must_hit=False``. Call it after a test that has passed."""
        self.aio.added_faults.check()


class BrokerHandle(BlockingView[AsyncBroker]):
    """One broker. Methods return when it is done."""

    @property
    def broker_id(self) -> int:
        return self.aio.broker_id

    @property
    def is_running(self) -> bool:
        """Whether the broker has been started and not ended since; a paused broker runs."""
        return self.aio.is_running

    stop = blocking(AsyncBroker.stop)
    kill = blocking(AsyncBroker.kill)
    start = blocking(AsyncBroker.start)
    pause = blocking(AsyncBroker.pause)
    resume = blocking(AsyncBroker.resume)
    isolate = blocking(AsyncBroker.isolate)
    heal = blocking(AsyncBroker.heal)


class GroupHandle(BlockingView[AsyncGroup]):
    """One group. Each property is read from the cluster; ``now`` has all of one moment."""

    now = blocking(AsyncGroup.now)
    wait = blocking(AsyncGroup.wait)

    @property
    def group_id(self) -> str:
        return self.aio.group_id

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
        committed offsets. Of a share group: that still need delivery."""
        return self.now().lag

    @property
    def type(self) -> str:
        """The type: "classic", "consumer", "share" or "streams"; "" if there is no such group."""
        return self.now().type

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return dict(self.now().committed)
