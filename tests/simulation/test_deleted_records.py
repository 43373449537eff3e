"""Records are deleted under load while brokers die: what is gone stays gone, everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.scenario import PARTITIONS, under_load

pytestmark = pytest.mark.mission("DOP-8")
WATCHED = PARTITIONS[0]


@pytest.mark.parametrize("seed", range(8))
def test_leader_killed(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        leader = cluster.leader(WATCHED)
        await faults.killed(cluster, leader, 8)
        assert cluster.leader(WATCHED) != leader

    play(seed, fault)


@pytest.mark.parametrize("seed", range(8))
def test_brokers_are_killed_one_after_the_other(seed: int) -> None:
    """Each returns, and may lead again, before the others know its log start offset."""

    async def fault(cluster: SimCluster) -> None:
        dice = cluster.simulation.entropy.fork("kills")
        for _ in range(4):
            broker_id = cluster.broker_ids[dice.randrange(len(cluster.broker_ids))]
            await faults.killed(cluster, broker_id, dice.randrange(10))

    play(seed, fault)


@pytest.mark.parametrize("seed", range(4))
def test_all_brokers_killed_at_once(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        away = [faults.killed(cluster, broker_id, 3) for broker_id in cluster.broker_ids]
        await asyncio.gather(*away)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(3))
def test_brokers_stopped_in_order(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        for broker_id in cluster.broker_ids:
            await faults.stopped(cluster, broker_id, seed)

    play(seed, fault)


def play(seed: int, fault: Callable[[SimCluster], Awaitable[None]]) -> None:
    SimCluster(seed).run(lambda cluster: under_load(cluster, fault, deleting=True))
