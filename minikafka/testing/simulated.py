"""A cluster in one process under simulated time, for tests of applications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from minikafka.aio import Admin, Consumer, Producer
from minikafka.testing.simulator.cluster import SimCluster

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
