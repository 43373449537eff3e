"""Transactions while brokers die, stop, and are cut off: a reader of committed records sees whole
transactions or nothing, the last stable offset does not go back, nothing hangs when all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.scenario import PARTITIONS
from tests.support.simulated.transaction_campaign import COORDINATOR, SETTINGS, transacting
from tests.support.simulated.transactions import Transactors


def play(
    seed: int,
    fault: Callable[[SimCluster], Awaitable[None]],
    settings: Mapping[str, str] = SETTINGS,
) -> Transactors:
    """Run transactions during ``fault``, those of odd seeds in version 2 (KIP-890)."""
    cluster = SimCluster(seed, settings=settings)
    return cluster.run(lambda cluster: transacting(cluster, fault, seed % 2 == 1))


@pytest.mark.mission("DOP-5")
@pytest.mark.mission("TV2-4")
@pytest.mark.parametrize("seed", range(2))
def test_the_coordinator_is_killed(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        for _ in range(3):
            await faults.killed(cluster, cluster.leader(COORDINATOR), 8)

    assert play(seed, fault).offset_commits > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_partitions_leader_loses_power(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        await faults.powerless(cluster, cluster.leader(PARTITIONS[0]), 8)

    play(seed, fault)


def test_the_coordinator_is_cut_off_but_for_its_producers() -> None:
    """It continues for a while after another has taken over; its markers may have no effect."""

    async def fault(cluster: SimCluster) -> None:
        await faults.isolated(cluster, cluster.leader(COORDINATOR), 25)

    play(0, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_disk_of_the_coordinator_is_full(seed: int) -> None:
    """It coordinates on: what it could not write is written, or refused, when there is space."""

    async def fault(cluster: SimCluster) -> None:
        for _ in range(3):
            await faults.full_disk(cluster, cluster.leader(COORDINATOR), 8)
            await asyncio.sleep(8)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_disk_of_the_coordinator_breaks(seed: int) -> None:
    """The broker continues on another disk and drops coordinator partitions that it cannot read."""
    resigned: list[int] = []

    def hear(event: LogEvent) -> None:
        if event.name == "coordinator_resigned" and event.facts["epoch"] is None:
            resigned.append(event.facts["broker"])

    async def fault(cluster: SimCluster) -> None:
        cluster.observers.append(hear)
        victim = cluster.leader(COORDINATOR)
        await faults.broken_directory(cluster, victim, COORDINATOR)
        assert victim in resigned

    play(seed, fault, SETTINGS | {"log.dirs": "/one,/two"})


def test_brokers_stop_in_order() -> None:
    async def fault(cluster: SimCluster) -> None:
        for broker_id in cluster.broker_ids:
            await faults.stopped(cluster, broker_id, 1)

    play(0, fault)


@pytest.mark.mission("TV2-4")
@pytest.mark.parametrize("seed", range(4))
def test_a_storm(seed: int) -> None:
    play(seed, lambda cluster: faults.storm(cluster, 6))
