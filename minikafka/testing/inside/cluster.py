"""A cluster inside this process: real brokers on TCP ports, files and ZooKeeper in memory.

It is up in some milliseconds, for clients in any language, and nothing is left of it:

    with InsideCluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

The brokers run on an event loop in another thread. They print nothing; see ``events``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from minikafka.client import Admin, ClientConfig
from minikafka.kernel.events import kept
from minikafka.kernel.listeners import DEBUG_LISTENER, debug_listener_text
from minikafka.kernel.ports import World
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.server.faults.injected import InjectedFaults, SeenRequest
from minikafka.server.node.broker import BrokerNode
from minikafka.testing.inside.brokers import BrokerState, until
from minikafka.testing.inside.clearing import ClusterClearing
from minikafka.testing.inside.environment_faults import EnvironmentFaults
from minikafka.testing.inside.log_maintenance import LogMaintenance
from minikafka.testing.inside.operations import ClusterOperations
from minikafka.testing.request_faults import RequestFaults
from minikafka.world.inside import LinkedNetwork, inside_process
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.memory.file_tree import FileTree
from minikafka.world.memory.links import ClusterLinks, LinkFault
from minikafka.world.real.loop_thread import LoopThread
from minikafka.world.real.world import RealClock

T = TypeVar("T")

HOST = "127.0.0.1"
START_LIMIT_S = 30
MAX_EVENTS = 10_000
# Kafka's defaults are for clusters that live longer.
DEFAULTS = {
    "zookeeper.connect": "inside:2181",
    "log.dirs": "/data",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "replica.lag.time.max.ms": "2000",
    "controlled.shutdown.retry.backoff.ms": "100",
}


class BrokerEvent(NamedTuple):
    """An event of a broker's log, at ``monotonic_ms``."""

    monotonic_ms: int
    level: str
    name: str
    facts: Mapping[str, Any]


class InsideCluster:
    """Brokers 1, 2, ... as a context. ``settings`` are broker properties for all of them. Their
    ports are ``base_port`` and the next ones; with 0 the system chooses them. ``debug_ports`` are
    those of their debug listeners, which are off without them.

    All methods may be called from any thread but the cluster's own.
    """

    def __init__(
        self,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        base_port: int = 0,
        debug_ports: Sequence[int] = (),
    ) -> None:
        factor = min(3, brokers)
        self._settings = {
            **DEFAULTS,
            "offsets.topic.replication.factor": str(factor),
            "transaction.state.log.replication.factor": str(factor),
            "transaction.state.log.min.isr": str(max(1, factor - 1)),
            "default.replication.factor": str(factor),
            **{key: str(value) for key, value in (settings or {}).items()},
        }
        self._first_brokers = range(1, brokers + 1)
        ports = [base_port and base_port + index for index in range(brokers)]
        self._has_debug_listeners = bool(debug_ports)
        debug: Sequence[int | None] = debug_ports or [None] * brokers
        self._brokers = {
            number: BrokerState(number, port, debug_port)
            for number, port, debug_port in zip(self._first_brokers, ports, debug, strict=True)
        }
        self._links = ClusterLinks()
        self._isolated: dict[int, LinkFault] = {}
        self._paused: dict[int, LinkFault] = {}
        self.environment_faults = EnvironmentFaults(self._brokers, self._run_on_loop, self._links)
        self._operations = ClusterOperations(self._brokers, self.admin)
        self._release = Release.NEWEST
        self._events: deque[BrokerEvent] = deque(maxlen=MAX_EVENTS)
        self._clock = RealClock()
        self._faults = InjectedFaults(self._clock.monotonic_ms)
        self.request_faults = RequestFaults(self.call, self._faults)
        self._maintenance = LogMaintenance(self._brokers, self._clock)
        self._zookeeper: MemoryZookeeper
        self._clearing: ClusterClearing
        self._thread = LoopThread("minikafka", self._make_zookeeper)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ---------------------------------------------------------------------------- the whole cluster

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self._brokers.values())

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of all brokers, whether they run or not."""
        return tuple(self._brokers)

    def start(self) -> None:
        """Start the brokers, and return when all of them serve. Raises ConfigError for settings
        that cannot be used, and OSError."""
        self._thread.start()
        try:
            self.call(self._start_all())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the brokers at once, and the thread. Nothing is kept."""
        if self._thread.is_running:
            self.call(self._end_all())
            self._thread.stop()

    def reset(self) -> None:
        """Make the cluster equal to a new one, at the same addresses.

        Topics and groups are deleted, which takes milliseconds. If anything else has changed
        (brokers stopped or added, leaders of internal topics moved, settings, quotas, ACLs, users,
        transactions), all brokers start again on empty disks, which takes about as long as
        ``start``. The events are forgotten. Close the clients before: a consumer that still runs
        joins its group again, and a client with a subscription may create a topic again.
        """
        self.environment_faults.remove_all()
        for broker_id in list(self._paused):
            self.resume_broker(broker_id)
        for broker_id in list(self._isolated):
            self.heal_broker(broker_id)
        self.call(self._reset())

    @property
    def clearing(self) -> ClusterClearing:
        """What deletes the traces of a test, for coroutines on the cluster's event loop."""
        return self._clearing

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's event loop, and return its result."""
        if not self._thread.is_running:
            work.close()
            raise RuntimeError("the cluster is not running")
        with kept(self._keep):  # the work runs in a copy of this context
            return self._thread.call(work)

    def _run_on_loop(self, work: Callable[[], object]) -> None:
        async def run() -> None:
            work()

        self.call(run())

    def client(self) -> tuple[World, ClientConfig]:
        """Return what our own clients need, on the cluster's event loop."""
        world = inside_process(self._zookeeper, FileTree()).world
        return world, ClientConfig(bootstrap_servers=self.bootstrap)

    def admin(self) -> Admin:
        """Return an admin client for the cluster's event loop."""
        return Admin(*self.client())

    def events(self, name: str | None = None) -> list[BrokerEvent]:
        """Return the last events of the brokers' logs, or those of one name, from the oldest."""
        return [event for event in list(self._events) if name in (None, event.name)]

    def requests(
        self,
        api: str | ApiKey | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> list[SeenRequest]:
        """Return the last requests that brokers have received, from the oldest; of 10,000."""
        return self.request_faults.requests(api, client_id, broker)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until it is usable. Raises KafkaError."""
        self.call(self._create_topic(name, partitions, replication_factor, settings or {}))

    def as_version(self, version: str | None) -> None:
        """Serve clients as brokers of Kafka 4.2 (or 4.1, 4.0, 3.9, 2.8, 2.0) do, until this is
        called with None: ApiVersions lists the APIs and versions of that release, and no others are
        served; before 4.0, requests for the controller get NOT_CONTROLLER from other brokers.
        What brokers call of each other, Fetch among it, is only not listed. Raises ValueError for
        any other version."""
        release = Release.NEWEST if version is None else Release(version)
        self._run_on_loop(lambda: self._serve_as(release))

    def compact(self, topic: str) -> None:
        """Compact a topic now, on all replicas: of each key the last value remains. Records of open
        transactions and behind them are left alone. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_CONFIG if the topic is not compacted."""
        self.call(self._maintenance.compact(topic))

    def apply_retention(self, topic: str | None = None) -> int:
        """Delete what the retention of a topic, or of all topics, leaves to delete, now and on all
        replicas. Returns the number of deleted segments. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, and OSError."""
        return self.call(self._maintenance.apply_retention(topic))

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker_id: int) -> bool:
        """Whether a broker has been started and not ended since, not even by itself."""
        running = self._brokers[broker_id].running
        return running is not None and not running.done()

    def kill_broker(self, broker_id: int) -> None:
        """End a broker as SIGKILL does. Its disk is kept, and its session expires at once."""
        self.call(self._kill(self._brokers[broker_id]))

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker by controlled shutdown."""
        self.call(self._stop(self._brokers[broker_id]))

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that has ended, on its disk and its port, and wait until it serves."""
        self.call(self._start(self._brokers[broker_id]))

    def pause_broker(self, broker_id: int) -> None:
        """Stop a broker as SIGSTOP does, until ``resume_broker``: it receives and sends nothing, no
        timer of it fires, and its ZooKeeper session expires after its time-out. Connections stay
        open. Work that it has begun with its memory and its disk goes on unseen."""
        self.call(self._pause(self._brokers[broker_id]))

    def resume_broker(self, broker_id: int) -> None:
        """Let a paused broker go on, as SIGCONT does: it finds what was sent to it, and the timers
        that have become due. One that is not paused stays as it is."""
        self.call(self._resume(self._brokers[broker_id]))

    def isolate_broker(self, broker_id: int) -> None:
        """Cut a broker off from all others, from clients and from ZooKeeper.

        Nothing is delivered on its connections in either direction; the kernel still accepts new
        ones from clients, on which nothing is delivered either. ZooKeeper ends its session after
        ``zookeeper.session.timeout.ms``. Raises ValueError if it does not run."""
        self.call(self._isolate(self._brokers[broker_id]))

    def heal_broker(self, broker_id: int) -> None:
        """Undo ``isolate_broker``: what was held back is delivered, and a broker without a session
        registers again. Returns when all brokers know it."""
        self.call(self._heal(self._brokers[broker_id]))

    def add_broker(self) -> int:
        """Start one more broker on an empty disk, and return its id when all brokers know it. No
        partition moves to it."""
        return self.call(self._add_broker())

    def expire_session(self, broker_id: int) -> None:
        """Expire a broker's ZooKeeper session. Returns when the broker is registered again. Raises
        ValueError if it does not run."""
        self.call(self._operations.expire_session(broker_id))

    # --------------------------------------------------------------------- leaders and coordinators

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE."""

        async def read() -> int:
            return self._operations.leader(topic, partition)

        return self.call(read())

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make a broker the leader of a partition, by a reassignment and an election; it need not
        have had a replica. Returns when it serves. Raises KafkaError, and ValueError for a broker
        that does not run."""
        self.call(self._operations.move_leader(topic, partition, broker_id))

    def coordinator(self, group: str) -> int:
        """Return the broker that coordinates a group, which need not exist. Raises KafkaError."""
        return self.call(self._operations.coordinator(group))

    def move_coordinator(self, group: str, broker_id: int) -> None:
        """Make a broker the coordinator of a group. Returns when it has loaded the group. Raises as
        ``move_leader``."""
        self.call(self._operations.move_coordinator(group, broker_id))

    # ---------------------------------------------------------------------- on the cluster's thread

    def _make_zookeeper(self) -> None:
        self._zookeeper = MemoryZookeeper()

    def _keep(self, level: str, name: str, facts: dict[str, Any]) -> None:
        self._events.append(BrokerEvent(self._clock.monotonic_ms(), level, name, facts))

    async def _start_all(self) -> None:
        async with asyncio.timeout(START_LIMIT_S):
            await asyncio.gather(*(self._start(broker) for broker in self._brokers.values()))
            await self._until_known()
            await self._operations.create_group_topic()
        self._clearing = ClusterClearing(self._brokers, self._zookeeper)

    def _serve_as(self, release: Release) -> None:
        self._release = release
        for broker in self._brokers.values():
            if broker.node is not None:
                broker.node.serve_clients_as(release)

    async def _reset(self) -> None:
        if self._release is not Release.NEWEST:
            self._serve_as(Release.NEWEST)
        if not await self._clearing.clear():
            await self._begin_again()
        self._events.clear()

    async def _begin_again(self) -> None:
        for broker in self._brokers.values():
            await self._kill(broker)
        for number in set(self._brokers).difference(self._first_brokers):
            del self._brokers[number]
        for broker in self._brokers.values():
            broker.tree = FileTree()
        users = self._zookeeper.users
        self._zookeeper = MemoryZookeeper()
        self._zookeeper.users = users
        await self._start_all()

    async def _until_known(self) -> None:
        """Wait until every broker knows all brokers."""
        nodes = [broker.node for broker in self._brokers.values() if broker.node is not None]
        await until(
            lambda: all(len(node.entities.metadata.live_brokers()) >= len(nodes) for node in nodes),
            "every broker knows all brokers",
        )

    async def _start(self, broker: BrokerState) -> None:
        if broker.node is not None:
            raise RuntimeError(f"broker {broker.broker_id} runs")
        own = {"broker.id": str(broker.broker_id), "listeners": f"PLAINTEXT://{HOST}:{broker.port}"}
        if broker.debug_port is not None:
            own[DEBUG_LISTENER] = debug_listener_text(HOST, broker.debug_port)
        network = LinkedNetwork(self._links, broker.broker_id)
        process = inside_process(self._zookeeper, broker.tree, network)
        node = BrokerNode(
            process.world, BROKER_CONFIG.parse(self._settings | own), HOST, self._faults
        )
        running = asyncio.create_task(node.run(), name=f"broker-{broker.broker_id}")
        started = asyncio.create_task(node.started.wait())
        await asyncio.wait([started, running], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if running.done():
            process.end()
            running.result()  # raises
            raise RuntimeError(f"broker {broker.broker_id} ended at its start")
        broker.process, broker.node, broker.running = process, node, running
        broker.port = node.ports[0]
        if self._release is not Release.NEWEST:
            node.serve_clients_as(self._release)
        running.add_done_callback(partial(self._note_failure, broker))

    def _note_failure(self, broker: BrokerState, running: asyncio.Task[None]) -> None:
        """End a broker that has failed, as the kernel does when its process has exited."""
        if broker.running is not running or running.cancelled() or broker.node is None:
            return
        error = running.exception()
        if error is not None:
            self._keep("error", "broker_failed", {"broker": broker.broker_id, "error": repr(error)})
            broker.node.abandon()
            self._end(broker)

    async def _add_broker(self) -> int:
        debug_port = 0 if self._has_debug_listeners else None
        broker = BrokerState(max(self._brokers) + 1, debug_port=debug_port)
        await self._start(broker)
        self._brokers[broker.broker_id] = broker
        await self._until_known()
        return broker.broker_id

    async def _isolate(self, broker: BrokerState) -> None:
        if broker.process is None:
            raise ValueError(f"broker {broker.broker_id} does not run")
        if broker.broker_id in self._isolated:
            return
        fault = self._isolated[broker.broker_id] = LinkFault(broker.broker_id, None)
        self._links.add(fault)
        broker.process.coordination.cut_off()

    async def _heal(self, broker: BrokerState) -> None:
        if self._connect_again(broker, self._isolated):
            await self._until_known()

    async def _pause(self, broker: BrokerState) -> None:
        if broker.process is None:
            raise ValueError(f"broker {broker.broker_id} does not run")
        if broker.broker_id in self._paused:
            return
        fault = self._paused[broker.broker_id] = LinkFault(broker.broker_id, None)
        self._links.add(fault)
        broker.process.clock.pause()
        broker.process.coordination.cut_off()

    async def _resume(self, broker: BrokerState) -> None:
        if self._go_on(broker):
            await self._until_known()

    def _go_on(self, broker: BrokerState) -> bool:
        """Return False if the broker is not paused."""
        is_paused = self._connect_again(broker, self._paused)
        if is_paused and broker.process is not None:
            broker.process.clock.resume()
        return is_paused

    def _connect_again(self, broker: BrokerState, faults: dict[int, LinkFault]) -> bool:
        """End the isolation or the pause of a broker, unless it is in the other, too. Return False
        if it is not in ``faults``."""
        fault = faults.pop(broker.broker_id, None)
        if fault is None:
            return False
        self._links.remove(fault)
        is_free = broker.broker_id not in self._isolated and broker.broker_id not in self._paused
        if broker.process is not None and is_free:
            broker.process.coordination.connect_again()
        return True

    def _connect_wholly(self, broker: BrokerState) -> None:
        self._go_on(broker)
        self._connect_again(broker, self._isolated)

    async def _stop(self, broker: BrokerState) -> None:
        if broker.node is None or broker.running is None:
            return
        self._connect_wholly(broker)
        broker.node.request_stop()
        await broker.running
        self._end(broker)

    async def _kill(self, broker: BrokerState) -> None:
        if broker.node is None or broker.running is None:
            return
        broker.node.abandon()
        broker.running.cancel()
        await asyncio.wait([broker.running])
        self._end(broker)

    def _end(self, broker: BrokerState) -> None:
        self._connect_wholly(broker)
        if broker.process is not None:
            broker.process.end()
        broker.process = broker.node = broker.running = None

    async def _end_all(self) -> None:
        for broker in self._brokers.values():
            await self._kill(broker)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int | None,
        settings: Mapping[str, str],
    ) -> None:
        factor = replication_factor or min(3, len(self._brokers))
        async with self.admin() as admin:
            await admin.create_topic(name, partitions, factor, settings)
            await admin.wait_for_topic(name, partitions)
