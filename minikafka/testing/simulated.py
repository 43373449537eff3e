"""A cluster in one process under simulated time, for tests of applications: an hour passes in a
moment, and a seed decides what happens.

Only our own clients reach the brokers, on the loop of the simulation, so the whole test runs there:
``play``. It cannot be shared by tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from minikafka.aio import Admin, Consumer, Producer
from minikafka.server.zookeeper import paths
from minikafka.testing.clients import ClusterClients
from minikafka.testing.cluster import AnyCluster, NotInThisPlace, Where, client_settings
from minikafka.testing.simulator.cluster import CLIENT, LogEvent, SimCluster, host_name

T = TypeVar("T")


class SimulatedCluster:
    """The cluster that a scenario gets. It creates clients, and kills and restarts brokers.

    Time is simulated: ``asyncio.sleep`` takes no real time. Two runs with the same seed are equal.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.simulation = cluster

    def producer(self, **keys: Any) -> Producer:
        """Return a producer; ``keys`` are those of ``minikafka.aio.Producer``."""
        return Producer(**self._of_clients() | keys)

    def consumer(self, **keys: Any) -> Consumer:
        """Return a consumer; ``keys`` are those of ``minikafka.aio.Consumer``, also ``topics``."""
        return Consumer(**self._of_clients() | keys)

    def _of_clients(self) -> dict[str, Any]:
        config = self.simulation.client_config
        return {
            "bootstrap_servers": config.bootstrap_servers,
            "request_timeout_ms": config.request_timeout_ms,
            "world": self.simulation.client_host.world,
        }

    def admin(self, **keys: Any) -> Admin:
        """Return an admin client; ``keys`` are those of ``minikafka.aio.Admin``."""
        return Admin(**self._of_clients() | keys)

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic with up to three replicas and wait until it is usable."""
        factor = min(3, len(self.simulation.broker_ids))
        async with self.admin() as admin:
            await admin.create_topic(name, partitions, factor)
            await admin.wait_for_topic(name, partitions)

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker as SIGKILL does: unacknowledged records may be lost."""
        await self.simulation.host(broker_id).kill()

    async def restart_broker(self, broker_id: int) -> None:
        """Start a killed broker and wait until it serves."""
        await self.simulation.bring_up(broker_id)


class Play(Protocol):
    """The type of ``play``, which is also the type of the fixture ``minikafka_simulated``."""

    def __call__(
        self,
        scenario: Callable[[SimulatedCluster], Awaitable[T]],
        seed: int = 0,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> T: ...


def play(
    scenario: Callable[[SimulatedCluster], Awaitable[T]],
    seed: int = 0,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
) -> T:
    """Run a scenario on a simulated cluster whose brokers 1, 2, ... are up; return its result.

    Raises what the scenario raises. The simulation has its own event loop: do not call this
    function from a running loop.
    """

    async def run(simulation: SimCluster) -> T:
        return await scenario(SimulatedCluster(simulation))

    return run_with_brokers(simulation_of(seed, brokers, settings or {}), run)


def simulation_of(seed: int, brokers: int, settings: Mapping[str, str]) -> SimCluster:
    """Return a cluster of brokers 1, 2, ... that has not begun."""
    factor = str(min(3, brokers))
    defaults = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": factor,
    }
    return SimCluster(seed, tuple(range(1, brokers + 1)), defaults | dict(settings))


def run_with_brokers(
    cluster: SimCluster, scenario: Callable[[SimCluster], Coroutine[Any, Any, T]]
) -> T:
    """Run a scenario that begins when all brokers are up; see ``SimCluster.run``."""

    async def run(simulation: SimCluster) -> T:
        simulation.start()
        wanted = len(simulation.broker_ids)
        await simulation.until("brokers up", lambda: len(simulation.nodes()) == wanted)
        return await scenario(simulation)

    return cluster.run(run)


ZOOKEEPER = "zookeeper"


class SimulatedPlace(AnyCluster):
    """Brokers in simulated time. They run within ``play`` only."""

    where: Where = "simulated"

    def __init__(self, brokers: int, settings: Mapping[str, str], seed: int = 0) -> None:
        self.simulation = simulation_of(seed, brokers, settings)
        self._events: list[LogEvent] = []
        self.simulation.observers.append(self._events.append)
        self._ended: set[int] = set()
        self._cut: dict[int, set[str]] = {}  # the hosts that a broker is cut off from

    def play(self, scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function in simulated time with all brokers up, and return its result.
        Call this once, and not from a running loop. Raises what the scenario raises."""

        async def run(_: SimCluster) -> T:
            return await scenario()

        return run_with_brokers(self.simulation, run)

    @property
    def bootstrap(self) -> str:
        return self.simulation.client_config.bootstrap_servers

    @property
    def brokers(self) -> Sequence[int]:
        return self.simulation.broker_ids

    def config(self, client: str) -> dict[str, object]:
        found = client_settings(client, self.bootstrap)
        if client != "minikafka":
            raise NotInThisPlace("other_clients", self.where)
        clients = self.clients()
        timeout_ms = clients.config.request_timeout_ms
        return {**found, "world": clients.world, "request_timeout_ms": timeout_ms}

    def clients(self) -> ClusterClients:
        return ClusterClients(self.simulation.client_host.world, self.simulation.client_config)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def call(self, work: Coroutine[Any, Any, T]) -> NoReturn:
        work.close()
        raise NotInThisPlace("blocking", self.where)

    def close(self) -> None:
        """There is nothing to close: the simulation ends with ``play``."""

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker: int) -> bool:
        return broker not in self._ended

    async def stop(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            await self.simulation.stop(broker)

    async def kill(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            await self.simulation.host(broker).kill()

    async def start(self, broker: int) -> None:
        if self.is_running(broker):
            raise RuntimeError(f"broker {broker} runs")
        await self.simulation.bring_up(broker)
        self._ended.discard(broker)

    async def pause(self, broker: int) -> None:
        """Hold all messages of the broker."""
        self._cut_off(broker, [*self._others(broker), ZOOKEEPER, CLIENT])

    async def resume(self, broker: int) -> None:
        await self.heal(broker)

    async def isolate(self, broker: int) -> None:
        self._cut_off(broker, [*self._others(broker), ZOOKEEPER])

    async def heal(self, broker: int) -> None:
        """What another broker is cut off from stays so."""
        name = host_name(broker)
        still = {host_name(other): hosts for other, hosts in self._cut.items() if other != broker}
        for other in self._cut.pop(broker, set()):
            if name not in still.get(other, set()):
                self.simulation.simulation.unclog(name, other)
                self.simulation.simulation.unclog(other, name)

    async def expire_session(self, broker: int) -> None:
        zookeeper = self.simulation.simulation.zookeeper
        _, registration = zookeeper.tree.get(paths.broker_id(broker))
        zookeeper.expire(registration.ephemeral_owner)

    async def restore(self) -> bool:
        cut, ended = list(self._cut), sorted(self._ended)
        for broker in cut:
            await self.heal(broker)
        for broker in ended:
            await self.start(broker)
        return bool(cut or ended)

    def renew(self) -> None:
        """It is new: it begins with its test."""

    def events(self, name: str | None = None) -> list[LogEvent]:
        return [event for event in self._events if name in (None, event.name)]

    def _others(self, broker: int) -> list[str]:
        return [host_name(other) for other in self.brokers if other != broker]

    def _cut_off(self, broker: int, hosts: Iterable[str]) -> None:
        cut = self._cut.setdefault(broker, set())
        for host in hosts:
            if host not in cut:
                cut.add(host)
                self.simulation.simulation.partition(host_name(broker), host)

    @property
    def clock(self) -> SimulatedPlace:
        return self

    async def advance(self, seconds: float) -> None:
        """The time that passes here does not count for the limit that ends a test that hangs."""
        loop = self.simulation.simulation.loop
        if loop.limit_us is not None:
            loop.limit_us += round(seconds * 1_000_000)
        await asyncio.sleep(seconds)
