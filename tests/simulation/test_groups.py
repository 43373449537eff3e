"""Groups while brokers die, stop, and are cut off: one owner for each partition in a generation, no
acknowledged offset is taken back, every group is stable when all is well again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import pytest

from minikafka.client import Admin
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.groups import GroupChecker, SimMember, Travellers
from tests.support.simulated.scenario import PARTITIONS, TOPIC, prepared

OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "1000",
    "offsets.retention.check.interval.ms": "5000",
}
MORE_COMMITS = 20


def play(
    seed: int,
    fault: Callable[[SimCluster], Awaitable[None]],
    settings: Mapping[str, str] = SETTINGS,
) -> SimCluster:
    cluster = SimCluster(seed, settings=settings)
    cluster.run(lambda cluster: travelling(cluster, fault))
    return cluster


async def travelling(cluster: SimCluster, fault: Callable[[SimCluster], Awaitable[None]]) -> None:
    await prepared(cluster)
    travellers = Travellers(cluster, GroupChecker(PARTITIONS), SimMember)
    travellers.start()
    checker = travellers.checker
    await cluster.until("commits", lambda: checker.commits > MORE_COMMITS)
    await fault(cluster)
    before = checker.commits
    await cluster.until("commits go on", lambda: checker.commits > before + MORE_COMMITS)
    travellers.settle()
    await cluster.until("one stable generation", travellers.is_stable, 300)
    before = checker.commits
    await cluster.until("and it works", lambda: checker.commits > before + MORE_COMMITS)


@pytest.mark.mission("HB-6")
@pytest.mark.parametrize("seed", range(3))
def test_the_coordinator_is_killed(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        for _ in range(3):
            await faults.killed(cluster, cluster.leader(OFFSETS), 10)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_coordinator_loses_power(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        await faults.powerless(cluster, cluster.leader(OFFSETS), 10)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_coordinator_is_cut_off_but_for_its_members(seed: int) -> None:
    """It continues for a while after another has taken over; its responses may have no effect."""

    async def fault(cluster: SimCluster) -> None:
        await faults.isolated(cluster, cluster.leader(OFFSETS), 25)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_members_are_cut_off_from_their_coordinator(seed: int) -> None:
    """For longer than their session time-out: it removes all of them, and they join again."""

    async def fault(cluster: SimCluster) -> None:
        await faults.unreachable(cluster, cluster.leader(OFFSETS), 25)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(2))
def test_the_disk_of_the_coordinator_is_full(seed: int) -> None:
    """It keeps coordinating as long as nothing has to be written."""

    async def fault(cluster: SimCluster) -> None:
        await faults.full_disk(cluster, cluster.leader(OFFSETS), 15)

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
        victim = cluster.leader(OFFSETS)
        await faults.broken_directory(cluster, victim, OFFSETS)
        assert resigned == [victim]

    play(seed, fault, SETTINGS | {"log.dirs": "/one,/two"})


@pytest.mark.parametrize("seed", range(2))
def test_brokers_stop_in_order(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        for broker_id in cluster.broker_ids:
            await faults.stopped(cluster, broker_id, seed)

    play(seed, fault)


@pytest.mark.parametrize("seed", range(4))
def test_a_storm(seed: int) -> None:
    play(seed, lambda cluster: faults.storm(cluster, 8))


@pytest.mark.parametrize("seed", range(2))
def test_groups_of_a_single_broker_survive_it_once_there_are_more(seed: int) -> None:
    """Their topic is created with one replica, and gets more replicas when brokers join."""
    told: list[int] = []

    async def scenario(cluster: SimCluster) -> None:
        cluster.observers.append(
            lambda event: told.extend(
                [event.facts["replicas"]] if event.name == "internal_topics_widened" else []
            )
        )
        cluster.start(1)
        await cluster.until("one broker", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TOPIC, len(PARTITIONS), 1)
        travellers = Travellers(cluster, GroupChecker(PARTITIONS), SimMember)
        travellers.start()
        checker = travellers.checker
        await cluster.until("commits", lambda: checker.commits > MORE_COMMITS)
        cluster.start(2, 3)
        await cluster.until_whole(OFFSETS)
        before = checker.commits
        await faults.killed(cluster, 1, 10)
        await cluster.until("commits go on", lambda: checker.commits > before + MORE_COMMITS)

    settings = SETTINGS | {"min.insync.replicas": "1"}
    SimCluster(seed, settings=settings).run(scenario)
    assert told[-1] == 3
