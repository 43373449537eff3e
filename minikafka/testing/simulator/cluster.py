"""A simulated cluster under one seed: brokers on simulated hosts, ZooKeeper, a client host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from minikafka.client import ClientConfig
from minikafka.kernel import events
from minikafka.kernel.cluster import LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import CoordinationError, NoNode
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.node.broker import BrokerNode
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import ControllerZnode, PartitionStateZnode
from minikafka.world.sim.world import SimHost, SimWorld

T = TypeVar("T")

PORT = 9092
CLIENT = "client"
POLL_MS = 100
TIMEOUT_S = 180
RUN_LIMIT_S = 3600

# Kafka's defaults, except shorter time-outs, so that a scenario takes fewer simulated minutes.
SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "controller.socket.timeout.ms": "10000",
    "listeners": f"PLAINTEXT://:{PORT}",
    "log.dirs": "/data",
}


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event in a broker's log, ``seconds`` after the start of the simulation. Its ``level`` is
    empty if it is from no log: a fault, or a client."""

    seconds: float
    name: str
    facts: Mapping[str, Any]
    level: str = ""


class NotReached(AssertionError):
    """A condition that a scenario waited for was not reached in time."""


class SimCluster:
    """A cluster in one process. ``run`` calls a scenario, a coroutine function, with it.

    The scenario starts the brokers. A broker that ends by itself fails the scenario. ``observers``
    are called synchronously with each event of the brokers' logs and at each start of a fault; the
    simulation's trace has the same events.
    """

    def __init__(
        self,
        seed: int,
        broker_ids: Sequence[int] = (1, 2, 3),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.simulation = SimWorld(seed)
        self.broker_ids = tuple(broker_ids)
        self.observers: list[Callable[[LogEvent], None]] = []
        self.settings: Mapping[str, str] = SETTINGS | dict(settings or {})
        self.own: dict[int, Mapping[str, str]] = {}  # settings of a broker from its next start on
        self._nodes: dict[int, BrokerNode] = {}
        self._processes: dict[int, asyncio.Task[None]] = {}
        self._clients: list[asyncio.Task[None]] = []
        self._ends: set[asyncio.Task[None]] = set()  # broker tasks that may end

    def run(self, scenario: Callable[[SimCluster], Coroutine[Any, Any, T]]) -> T:
        """Run a scenario and return its result.

        Raises what the scenario, an observer or a broker raises; see ``SimWorld.run``.
        """
        with events.diverted(self._on_event):
            return self.simulation.run(scenario(self), RUN_LIMIT_S)

    def run_slice(self, until_us: int) -> bool:
        """Run until ``until_us`` microseconds after the start; call ``end`` at last. This is for a
        driver outside the simulation that looks at it, and acts, between slices.

        Returns False if ``simulation.loop.stop`` was called before. Raises the error of a broker or
        client that has failed.
        """
        with events.diverted(self._on_event):
            reached = self.simulation.run_slice(until_us)
        self._check_processes()
        return reached

    def end(self) -> None:
        """End a simulation that has run in slices. Raises what ``SimWorld.run`` raises."""
        with events.diverted(self._on_event):
            self.simulation.end()

    def _on_event(self, level: str, name: str, facts: dict[str, Any]) -> None:
        assert name != "request_handler_failed", f"a bug in a handler: {facts}"
        assert name != "metadata_epochs_decreased", f"{facts}: ZooKeeper loses no data here"
        self._add(name, facts, level)

    def note(self, name: str, /, **facts: Any) -> None:
        """Add an event to the trace and call the observers with it."""
        self._add(name, facts)

    def _add(self, name: str, facts: Mapping[str, Any], level: str = "") -> None:
        self.simulation.tracer.add(name, **facts)
        event = LogEvent(self.simulation.loop.seconds(), name, facts, level)
        for observe in self.observers:
            observe(event)

    # ------------------------------------------------------------------------------------ clients

    @property
    def client_host(self) -> SimHost:
        return self.simulation.host(CLIENT)

    @property
    def client_config(self) -> ClientConfig:
        servers = ",".join(f"{host_name(broker_id)}:{PORT}" for broker_id in self.broker_ids)
        return ClientConfig(bootstrap_servers=servers, request_timeout_ms=5_000)

    def spawn_client(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task on the client host; its failure fails the scenario."""
        task = self.client_host.spawn(coro, name)
        self._clients.append(task)
        return task

    # ------------------------------------------------------------------------------------ brokers

    def host(self, broker_id: int) -> SimHost:
        return self.simulation.host(host_name(broker_id))

    def start(self, *broker_ids: int) -> None:
        """Start or restart brokers on their files; without ``broker_ids`` all of them."""
        for broker_id in broker_ids or self.broker_ids:
            host = self.host(broker_id)
            world = host.restart() if broker_id in self._processes else host.world
            own = {**self.own.get(broker_id, {}), "broker.id": str(broker_id)}
            config = BROKER_CONFIG.parse({**self.settings, **own})
            node = self._nodes[broker_id] = BrokerNode(world, config, host.name)
            self._processes[broker_id] = host.start(node.run(), f"broker-{broker_id}")

    async def bring_up(self, broker_id: int) -> None:
        """Start a broker and wait until it is up. Retry failed starts, as a supervisor does."""
        while True:
            self.start(broker_id)
            node, process = self._nodes[broker_id], self._processes[broker_id]
            started = asyncio.ensure_future(node.started.wait())
            await asyncio.wait([started, process], return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            if node.started.is_set():
                return
            try:
                process.result()
            except (ConfigError, CoordinationError) as error:
                self.simulation.tracer.add("not-started", broker=broker_id, error=error)

    async def stop(self, broker_id: int) -> None:
        """Stop a broker by controlled shutdown and wait for its end."""
        self._nodes[broker_id].request_stop()
        await self._processes[broker_id]

    async def end_of(self, broker_id: int) -> BaseException | None:
        """Wait until a broker ends by itself; return its exception, None if there was none."""
        process = self._processes[broker_id]
        self._ends.add(process)
        await asyncio.wait([process])
        await self.host(broker_id).kill()
        return process.exception()

    def nodes(self) -> dict[int, BrokerNode]:
        """Return the brokers that are up, by id."""
        return {
            broker_id: node
            for broker_id, node in sorted(self._nodes.items())
            if self.host(broker_id).alive and node.started.is_set()
        }

    def is_alive(self, broker_id: int) -> bool:
        """Return whether the process of a broker runs; it may not be up yet."""
        return broker_id in self._processes and self.host(broker_id).alive

    def replicas(self, topic_partition: TopicPartition) -> dict[int, Partition]:
        """Return the replicas of a partition on the brokers that are up, by broker id."""
        hosted = {
            i: node.entities.partitions.get(topic_partition) for i, node in self.nodes().items()
        }
        return {i: partition for i, partition in hosted.items() if partition is not None}

    # ---------------------------------------------------------------------------------- ZooKeeper

    def controller_id(self) -> int | None:
        """Return the broker id in /controller; None if there is no controller."""
        try:
            data, _ = self.simulation.zookeeper.tree.get(paths.CONTROLLER)
        except NoNode:
            return None
        return ControllerZnode.decode(data).broker_id

    def state(self, topic_partition: TopicPartition) -> LeaderIsrAndControllerEpoch:
        """Return the partition state in ZooKeeper. Raises ``NoNode``."""
        path = paths.partition_state(topic_partition)
        data, stat = self.simulation.zookeeper.tree.get(path)
        return PartitionStateZnode.decode(topic_partition, data, stat.version).state

    def leader(self, topic_partition: TopicPartition) -> int:
        return self.state(topic_partition).leader_and_isr.leader

    # ------------------------------------------------------------------------------------ waiting

    async def until(
        self, what: str, reached: Callable[[], bool], timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until ``reached`` returns True, polling in simulated time.

        Raises ``NotReached`` after ``timeout_s`` seconds, or the error of a broker or client that
        has failed.
        """
        loop = self.simulation.loop
        deadline_s = loop.seconds() + timeout_s
        while not reached():
            self._check_processes()
            if loop.seconds() > deadline_s:
                raise NotReached(f"{what}: not within {timeout_s} s")
            await asyncio.sleep(POLL_MS / 1000)

    async def until_whole(self, *topic_partitions: TopicPartition) -> None:
        """Wait until all brokers are up and every ISR in ZooKeeper has all brokers."""
        brokers = len(self.broker_ids)

        def whole() -> bool:
            return len(self.nodes()) == brokers and all(
                len(self.state(tp).leader_and_isr.isr) == brokers for tp in topic_partitions
            )

        await self.until("every ISR complete", whole)

    def _check_processes(self) -> None:
        for process in (*self._processes.values(), *self._clients):
            if process.done() and not process.cancelled() and process not in self._ends:
                process.result()


def host_name(broker_id: int) -> str:
    return f"broker-{broker_id}"
