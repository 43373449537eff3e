"""Partitions move under load while brokers and controllers die: nothing is lost, and it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication.stray_replicas import GRACE_MS
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.checkers import check_leadership_known, check_replicas_alike
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.reassignments import assignment, moved_under_load, until_moved
from tests.support.simulated.scenario import REST_S

BROKERS = (1, 2, 3, 4, 5)
LONGER_THAN_ITS_SESSION_S = 8
TP = TopicPartition("flights", 0)


@pytest.mark.mission("REA-5", "REA-13")
@pytest.mark.parametrize("seed", range(1))
def test_moves_without_faults(seed: int) -> None:
    async def nothing(cluster: SimCluster) -> None:
        await asyncio.sleep(20)

    SimCluster(seed, BROKERS).run(lambda cluster: moved_under_load(cluster, nothing))


@pytest.mark.mission("REA-7", "REA-11", "CFO-5")
@pytest.mark.parametrize("seed", range(3))
def test_controllers_die(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        for _ in range(3):
            dice = cluster.simulation.entropy
            await asyncio.sleep(dice.between(0, 5_000) / 1000)
            controller = cluster.controller_id()
            assert controller is not None
            await faults.killed(cluster, controller, LONGER_THAN_ITS_SESSION_S)

    SimCluster(seed, BROKERS).run(lambda cluster: moved_under_load(cluster, fault))


@pytest.mark.mission("REA-5", "REA-8", "REA-11")
@pytest.mark.parametrize("seed", [1, 4, 7])
def test_moves_in_a_storm(seed: int) -> None:
    SimCluster(seed, BROKERS).run(
        lambda cluster: moved_under_load(cluster, lambda cluster: faults.storm(cluster, 8))
    )


@pytest.mark.mission("REA-10")
@pytest.mark.parametrize("away", [faults.killed, faults.isolated])
def test_a_replica_moved_away_from_a_broker_that_was_not_there(
    away: Callable[[SimCluster, int, float], Awaitable[None]],
) -> None:
    """It leads when it falls silent, comes back to a partition that is elsewhere, and leaves it:
    no old leader, no fetching from where nothing is to be had, no forgotten log."""

    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(BROKERS))
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TP.topic, 1, 3)
            await admin.wait_for_topic(TP.topic, 1)
            leader, *others = cluster.state(TP).leader_and_isr.isr
            silence = asyncio.ensure_future(away(cluster, leader, 30))
            await faults.until_led_by_another(cluster, TP, leader)
            elsewhere = sorted(set(BROKERS) - {leader, *others})[0]
            outcomes = await admin.alter_partition_reassignments({TP: [*others, elsewhere]})
            assert outcomes == {TP: None}
            await silence
        await until_moved(cluster, [TP])
        await asyncio.sleep(REST_S)
        assert cluster.nodes()[leader].entities.partitions.get(TP) is None
        assert not cluster.host(leader).world.files.exists(f"/data/{TP}")
        check_leadership_known(cluster, TP)
        check_replicas_alike(cluster, TP, [*others, elsewhere])

    SimCluster(1, BROKERS).run(scenario)


@pytest.mark.mission("REA-10", "DEL-2")
@pytest.mark.parametrize(("recreated", "failover"), [(False, False), (True, False), (False, True)])
def test_a_replica_left_behind_of_a_topic_that_is_gone(recreated: bool, failover: bool) -> None:
    """A topic is moved away from a dead broker and then deleted. It may be created again, or the
    next controller may not know it. When the broker restarts, it deletes its old replica."""

    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(BROKERS))
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("another", 1, 1)
            await admin.create_topic(TP.topic, 1, 3)
            await admin.wait_for_topic(TP.topic, 1)
            controller = cluster.controller_id()
            isr = cluster.state(TP).leader_and_isr.isr
            victim = next(broker for broker in isr if broker != controller)
            others = [broker for broker in isr if broker != victim]
            silence = asyncio.ensure_future(faults.killed(cluster, victim, 30))
            await cluster.until(
                "it is out", lambda: victim not in cluster.state(TP).leader_and_isr.isr
            )
            assert await admin.alter_partition_reassignments({TP: others}) == {TP: None}
            await until_reassigned(cluster, TP, others)
            await admin.delete_topic(TP.topic)
            await cluster.until("it is gone", lambda: not cluster.replicas(TP))
            if recreated:
                await asyncio.sleep(1)
                await admin.create_topic(TP.topic, 1, 4)
            if failover:
                assert controller is not None
                await faults.killed(cluster, controller, LONGER_THAN_ITS_SESSION_S)
            await silence
        await asyncio.sleep(2 * GRACE_MS / 1000 if failover else REST_S)
        assert cluster.nodes()[victim].entities.partitions.get(TP) is None
        files = cluster.host(victim).world.files
        assert not files.exists(f"/data/{TP}")
        assert any(name.endswith("-stray") for name in files.list("/data")) == failover
        if recreated:
            check_leadership_known(cluster, TP)

    SimCluster(1, BROKERS).run(scenario)


async def until_reassigned(cluster: SimCluster, partition: TopicPartition, to: list[int]) -> None:
    await cluster.until("reassigned", lambda: list(assignment(cluster, partition).replicas) == to)
