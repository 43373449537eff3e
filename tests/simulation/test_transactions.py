"""Transactions while brokers die, stop, and are cut off: what `minikafka verify` judges is right,
the last stable offset does not go back in any broker, nothing hangs when all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from minikafka.testing.verify.report import WorkloadVerdict
from minikafka.testing.verify.transactions.load import Transactions
from minikafka.testing.verify.transform.load import ConsumeTransformProduce
from tests.support.simulated.transaction_campaign import (
    SETTINGS,
    VERSION_1,
    coordinator_of,
    partitions_of,
    transacting,
)

COORDINATOR = coordinator_of(Transactions)
PARTITIONS = partitions_of(Transactions)


def play(
    seed: int,
    fault: Callable[[SimCluster], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    workload: type[Transactions] = Transactions,
) -> WorkloadVerdict:
    """Run transactions during ``fault``, those of odd seeds in version 2 (KIP-890)."""
    if settings is None:
        settings = SETTINGS if seed % 2 else VERSION_1
    cluster = SimCluster(seed, settings=settings)
    return cluster.run(lambda cluster: transacting(cluster, fault, workload))


@pytest.mark.mission("DOP-5")
@pytest.mark.mission("TV2-4")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("workload", [Transactions, ConsumeTransformProduce])
def test_the_coordinator_is_killed(workload: type[Transactions], seed: int) -> None:
    coordinator = coordinator_of(workload)

    async def fault(cluster: SimCluster) -> None:
        for _ in range(3):
            await faults.killed(cluster, cluster.leader(coordinator), 8)

    play(seed, fault, workload=workload)


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


@pytest.mark.mission("TV2-4", "JUDGE-13")
@pytest.mark.parametrize("seed", range(4))
def test_a_storm(seed: int) -> None:
    play(seed, lambda cluster: faults.storm(cluster, 6))
