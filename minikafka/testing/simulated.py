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
    """What a scenario gets: clients over simulated wires, and brokers that can die.

    Seconds of ``asyncio.sleep`` pass at once; one seed gives the same run every time.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.simulation = cluster

    def producer(self, **keys: Any) -> Producer:
        """``keys`` are those of ``ProducerConfig``."""
        world, config = self.simulation.client_host.world, self.simulation.client_config
        return Producer(world, config, replace(ProducerConfig(), **keys))

    def consumer(self, **keys: Any) -> Consumer:
        """``keys`` are those of ``ConsumerConfig``."""
        world, config = self.simulation.client_host.world, self.simulation.client_config
        return Consumer(world, config, replace(ConsumerConfig(), **keys))

    def admin(self) -> Admin:
        return Admin(self.simulation.client_host.world, self.simulation.client_config)

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        """On every broker, at most three. Returns when it can be used."""
        factor = min(3, len(self.simulation.broker_ids))
        async with self.admin() as admin:
            await admin.create_topic(name, partitions, factor)
            await admin.wait_for_topic(name, partitions)

    async def kill_broker(self, broker_id: int) -> None:
        """As by SIGKILL: what it wrote is there, what it promised nobody yet may be not."""
        await self.simulation.host(broker_id).kill()

    async def restart_broker(self, broker_id: int) -> None:
        """Returns when it serves."""
        await self.simulation.bring_up(broker_id)


class Play(Protocol):
    """The type of ``play``, and so of the fixture."""

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
    """What the scenario returns, played on brokers 1, 2, ... that are up. Not from inside a running
    loop: the simulation has its own. Raises what the scenario raises."""
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
