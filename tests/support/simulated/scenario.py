"""A scenario: a cluster with a topic under load, a fault, and all checks afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.checkers import ElectionChecker, check_acknowledged, check_at_rest
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.deletions import Deleter
from tests.support.simulated.workload import Writer, read_all

TOPIC = "flights"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))
TOPIC_SETTINGS = {"min.insync.replicas": "2"}
WARM_UP_S = 2.5
MORE_RECORDS = 50
DELETIONS = 5
REST_S = 12  # ISR changes reach the controller after 5 to 7.5 s of quiet


async def prepared(cluster: SimCluster) -> None:
    """Start all brokers and create the topic: each partition has three replicas, of which two must
    be in sync."""
    cluster.start()
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.create_topic(TOPIC, len(PARTITIONS), 3, TOPIC_SETTINGS)
        await admin.wait_for_topic(TOPIC, len(PARTITIONS))


async def under_load(
    cluster: SimCluster, fault: Callable[[SimCluster], Awaitable[None]], deleting: bool = False
) -> None:
    """Run ``fault`` at a random time under load. All brokers must be back when it ends. With
    ``deleting``, records are deleted all the time.

    Raises AssertionError if a guarantee is broken: an acknowledged record lost or moved, a deleted
    one back, two leaders in one epoch, replicas that differ at rest, a context that differs from
    ZooKeeper.
    """
    cluster.observers.append(ElectionChecker(cluster, PARTITIONS))
    await prepared(cluster)
    writer = Writer(cluster, PARTITIONS)
    writer.start()
    deleter = Deleter(cluster, PARTITIONS, writer)
    if deleting:
        deleter.start()
    dice = cluster.simulation.entropy.fork("scenario")
    await asyncio.sleep(dice.between(500, int(WARM_UP_S * 1000)) / 1000)
    await fault(cluster)
    before = writer.acknowledged_count
    await cluster.until("load goes on", lambda: writer.acknowledged_count > before + MORE_RECORDS)
    await cluster.until_whole(*PARTITIONS)
    if deleting:
        await cluster.until("deletions go on", lambda: deleter.confirmations >= DELETIONS)
        await deleter.stop()
    await writer.stop()
    await asyncio.sleep(REST_S)
    check_at_rest(cluster, PARTITIONS)
    check_acknowledged(writer, await read_all(cluster, TOPIC), deleter.starts())
