"""A topic that is deleted and created again has a new topic id and none of the old records."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import Admin, Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import NoNode
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.workload import read_all

TP = TopicPartition("again", 0)
COUNT = 20


async def filled(cluster: SimCluster, admin: Admin, mark: str) -> object:
    """Make the topic, on all brokers that live, and write to it; its id."""
    made = await admin.create_topic(TP.topic, 1, len(cluster.nodes()))
    await admin.wait_for_topic(TP.topic, 1)
    async with Producer(cluster.client_host.world, cluster.client_config) as producer:
        promises = [
            await producer.send(TP.topic, f"{mark}{n}".encode(), partition=0) for n in range(COUNT)
        ]
        await asyncio.gather(*promises)
    return made.topic_id


async def as_soon_as_it_goes(cluster: SimCluster, admin: Admin, mark: str) -> object:
    while True:
        try:
            return await filled(cluster, admin, mark)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await asyncio.sleep(0.01)


async def values(cluster: SimCluster) -> list[bytes]:
    found = await read_all(cluster, TP.topic)
    return [value for _, value in sorted(found[TP].items())]


def there(cluster: SimCluster, path: str) -> bool:
    try:
        cluster.simulation.zookeeper.tree.get(path)
    except NoNode:
        return False
    return True


def written(mark: str) -> list[bytes]:
    return [f"{mark}{n}".encode() for n in range(COUNT)]


async def started(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))


@pytest.mark.mission("DEL-1", "DEL-2", "CDU-5")
@pytest.mark.parametrize("seed", range(3))
def test_a_topic_is_created_again_right_after_its_deletion(seed: int) -> None:
    """Creation is refused while the old topic exists, and succeeds right after."""

    async def scenario(cluster: SimCluster) -> None:
        await started(cluster)
        seen = []
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            for mark in "abc":
                seen.append(await as_soon_as_it_goes(cluster, admin, mark))
                assert await values(cluster) == written(mark)
                await admin.delete_topic(TP.topic)
            await cluster.until("it is gone", lambda: not there(cluster, paths.topic(TP.topic)))
        assert len(set(seen)) == 3

    SimCluster(seed).run(scenario)


@pytest.mark.mission("DEL-3", "DEL-4", "CDU-5")
@pytest.mark.parametrize("failover", [False, True])
def test_a_replica_was_dead_during_the_deletion(failover: bool) -> None:
    """The deletion waits for the dead replica, also if the controller dies. Then the replica's log
    and the znodes are deleted, and a topic that is created again is empty."""

    async def scenario(cluster: SimCluster) -> None:
        await started(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            old = await filled(cluster, admin, "old")
            controller = cluster.controller_id()
            victim = next(b for b in cluster.broker_ids if b != controller)
            await cluster.host(victim).kill()
            await cluster.until(
                "its session ended", lambda: not there(cluster, paths.broker_id(victim))
            )
            await admin.delete_topic(TP.topic)
            if failover:
                assert controller is not None
                await cluster.host(controller).kill()
                await cluster.until(
                    "another", lambda: cluster.controller_id() not in (None, controller)
                )
                await cluster.bring_up(controller)
            await asyncio.sleep(10)
            assert there(cluster, paths.topic(TP.topic))
            assert there(cluster, f"{paths.DELETE_TOPICS}/{TP.topic}")
            with pytest.raises(KafkaError) as refused:
                await admin.create_topic(TP.topic, 1, 2)
            assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
            await cluster.bring_up(victim)
            await cluster.until("it is gone", lambda: not there(cluster, paths.topic(TP.topic)))
            assert not there(cluster, f"{paths.DELETE_TOPICS}/{TP.topic}")
            assert not cluster.host(victim).world.files.exists(f"/data/{TP}")
            assert await filled(cluster, admin, "new") != old
            assert await values(cluster) == written("new")
            replicas = cluster.replicas(TP)
            assert sorted(replicas) == sorted(cluster.broker_ids)

    SimCluster(7).run(scenario)
