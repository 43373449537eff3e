"""Clusters whose brokers have different or changing inter-broker protocols."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import SimCluster

TP = TopicPartition("t", 0)
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}


def protocol(version: str) -> dict[str, str]:
    return {"inter.broker.protocol.version": version}


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


async def create(cluster: SimCluster) -> None:
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.create_topic("t", 1, len(cluster.broker_ids))
        await admin.wait_for_topic("t", 1)


def znode(cluster: SimCluster, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.simulation.zookeeper.tree.get(path)[0])
    return found


async def consumed(cluster: SimCluster, count: int) -> list[bytes | None]:
    """Return the values of the topic from its start on, at least ``count`` if there are so many."""
    config = ConsumerConfig(group_id="g", auto_offset_reset="earliest")
    values: list[bytes | None] = []
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        consumer.subscribe(["t"])
        until = cluster.simulation.loop.seconds() + 60
        while len(values) < count and cluster.simulation.loop.seconds() < until:
            values += [record.value for record in await consumer.poll(1_000)]
        values += [record.value for record in await consumer.poll(2_000)]
    return values


@pytest.mark.mission("MIX-16")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("before", "after"), [("2.6", "3.9"), ("3.9", "2.6")])
def test_the_protocol_is_changed_broker_by_broker_under_load(
    seed: int, before: str, after: str
) -> None:
    """Nothing is lost, doubled or reordered, and topics get an id that they keep."""

    async def scenario(cluster: SimCluster) -> tuple[int, list[bytes | None]]:
        cluster.own = dict.fromkeys(cluster.broker_ids, protocol(before))
        await up(cluster)
        await create(cluster)
        assert ("topic_id" in znode(cluster, "/brokers/topics/t")) is (before == "3.9")
        acknowledged, done = 0, asyncio.Event()

        async def load() -> None:
            nonlocal acknowledged
            config = ProducerConfig(acks=-1, enable_idempotence=True)
            world = cluster.client_host.world
            async with Producer(world, cluster.client_config, config) as producer:
                while not done.is_set():
                    await producer.send("t", b"%d" % acknowledged)
                    acknowledged += 1
                    await asyncio.sleep(0.2)

        client = cluster.spawn_client(load(), "load")
        for broker_id in cluster.broker_ids:
            await cluster.stop(broker_id)
            cluster.own[broker_id] = protocol(after)
            await cluster.bring_up(broker_id)
            await cluster.until_whole(TP)
            await asyncio.sleep(3)  # of the simulated clock
        done.set()
        await client
        new = after == "3.9"
        feature, broker = znode(cluster, "/feature"), znode(cluster, "/brokers/ids/1")
        assert (feature["version"], feature["status"]) == ((2, 1) if new else (1, 0))
        assert broker["version"] == (5 if new else 4)
        kept = {str(p.log.topic_id) for p in cluster.replicas(TP).values()}
        assert len(kept) == 1
        assert "None" not in kept
        assert "topic_id" in znode(cluster, "/brokers/topics/t")
        return acknowledged, await consumed(cluster, acknowledged)

    acknowledged, values = SimCluster(seed, (1, 2, 3), SETTINGS).run(scenario)
    assert acknowledged > 20
    assert values == [b"%d" % number for number in range(acknowledged)]


@pytest.mark.mission("MIX-16")
@pytest.mark.parametrize("seed", range(3))
def test_brokers_of_different_protocols_replicate_and_fail_over(seed: int) -> None:
    """Each broker is once the controller and once the leader that dies."""

    async def scenario(cluster: SimCluster) -> list[bytes | None]:
        versions = ("2.1", "2.6", "2.8", "3.9")
        cluster.own = {b: protocol(v) for b, v in zip(cluster.broker_ids, versions, strict=True)}
        await up(cluster)
        await create(cluster)
        config = ProducerConfig(acks=-1, enable_idempotence=True)
        async with Producer(cluster.client_host.world, cluster.client_config, config) as producer:
            for number, broker_id in enumerate(cluster.broker_ids):
                await producer.send("t", b"%d" % number)
                await cluster.host(broker_id).kill()
                await cluster.bring_up(broker_id)
                await cluster.until_whole(TP)
        return await consumed(cluster, len(versions))

    values = SimCluster(seed, (1, 2, 3, 4), SETTINGS).run(scenario)
    assert values == [b"%d" % number for number in range(4)]


@pytest.mark.mission("MIX-14")
@pytest.mark.parametrize(
    ("version", "has_id", "broker", "feature"),
    [
        ("2.6", False, 4, (1, 0)),
        ("2.7-IV0", False, 5, (1, 1)),
        ("2.8-IV0", True, 5, (1, 1)),
        ("3.3", True, 5, (2, 1)),
    ],
)
def test_znodes_are_those_of_the_protocol(
    version: str, has_id: bool, broker: int, feature: tuple[int, int]
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        await create(cluster)
        assert ("topic_id" in znode(cluster, "/brokers/topics/t")) is has_id
        registration = znode(cluster, "/brokers/ids/1")
        assert registration["version"] == broker
        assert ("features" in registration) is (broker == 5)
        found = znode(cluster, "/feature")
        assert (found["version"], found["status"]) == feature
        log_id = cluster.replicas(TP)[1].log.topic_id
        # LeaderAndIsr has ids from 2.8-IV1 on.
        assert (log_id is not None) is (version == "3.3")

    SimCluster(5, (1,), SETTINGS | protocol(version)).run(scenario)
