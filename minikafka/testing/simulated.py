"""A cluster in one process under simulated time, for tests of applications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from minikafka.client import (
    Admin,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
)
from minikafka.simulator.cluster import SimCluster

T = TypeVar("T")


class SimulatedCluster:
    """The cluster that a scenario gets. It creates clients, and kills and restarts brokers.

    Time is simulated: ``asyncio.sleep`` takes no real time. Two runs with the same seed are equal.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.simulation = cluster

    def producer(self, **keys: Any) -> Producer:
        """Return a producer; ``keys`` are fields of ``ProducerConfig``."""
        world, config = self.simulation.client_host.world, self.simulation.client_config
        return Producer(world, config, replace(ProducerConfig(), **keys))

    def consumer(self, **keys: Any) -> Consumer:
        """Return a consumer; ``keys`` are fields of ``ConsumerConfig``."""
        world, config = self.simulation.client_host.world, self.simulation.client_config
        return Consumer(world, config, replace(ConsumerConfig(), **keys))

    def admin(self) -> Admin:
        return Admin(self.simulation.client_host.world, self.simulation.client_config)

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
    """The type of ``play``, which is also the type of the fixture ``simulated_cluster``."""

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
    factor = str(min(3, brokers))
    defaults = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": factor,
    }
    ids = range(1, brokers + 1)
    cluster = SimCluster(seed, tuple(ids), defaults | dict(settings or {}))

    async def run(simulation: SimCluster) -> T:
        simulation.start()
        await simulation.until("brokers up", lambda: len(simulation.nodes()) == brokers)
        return await scenario(SimulatedCluster(simulation))

    return cluster.run(run)
