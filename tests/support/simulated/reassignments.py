"""Partitions of a simulated cluster that move from broker to broker, under load and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from minikafka.client import Admin
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import TopicZnode
from minikafka.testing.simulator.checkers import (
    ElectionChecker,
    check_acknowledged,
    check_context,
    check_leadership_known,
    check_replicas_alike,
)
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.scenario import MORE_RECORDS, PARTITIONS, REST_S, TOPIC, prepared
from tests.support.simulated.workload import Writer, read_all

REPLICAS = 3
LONGEST_PAUSE_S = 3
ONE_OF_THIS_MANY_IS_GIVEN_UP = 5


class Mover:
    """Reassigns partitions to random replicas, and replaces and cancels reassignments, until
    ``stop``. ``begun`` counts those that the controller has accepted."""

    def __init__(self, cluster: SimCluster, partitions: Sequence[TopicPartition]) -> None:
        self.begun = 0
        self._cluster = cluster
        self._partitions = partitions
        self._dice = cluster.simulation.entropy.fork("mover")
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._cluster.spawn_client(self._move(), "mover")

    async def stop(self) -> None:
        assert self._task is not None
        self._stopping = True
        await self._task

    async def _move(self) -> None:
        dice = self._dice
        async with Admin(self._cluster.client_host.world, self._cluster.client_config) as admin:
            while not self._stopping:
                partition = self._partitions[dice.randrange(len(self._partitions))]
                target = (
                    None if not dice.randrange(ONE_OF_THIS_MANY_IS_GIVEN_UP) else self._target()
                )
                try:
                    outcomes = await admin.alter_partition_reassignments(
                        {partition: target}, timeout_ms=10_000
                    )
                except KafkaError:
                    continue  # no controller to be found now
                if outcomes[partition] is None:
                    self.begun += 1
                await asyncio.sleep(dice.between(0, LONGEST_PAUSE_S * 1000) / 1000)

    def _target(self) -> list[int]:
        left = list(self._cluster.broker_ids)
        return [left.pop(self._dice.randrange(len(left))) for _ in range(REPLICAS)]


def assignment(cluster: SimCluster, partition: TopicPartition) -> ReplicaAssignment:
    """Return the assignment in the topic's znode."""
    data, _ = cluster.simulation.zookeeper.tree.get(paths.topic(partition.topic))
    return TopicZnode.decode(partition.topic, data).assignment[partition.partition]


async def until_moved(cluster: SimCluster, partitions: Sequence[TopicPartition]) -> None:
    """Wait until all brokers are up, no partition is being reassigned, and every ISR is
    complete."""

    def at_rest() -> bool:
        found = {tp: assignment(cluster, tp) for tp in partitions}
        return len(cluster.nodes()) == len(cluster.broker_ids) and all(
            not plan.adding
            and not plan.removing
            and set(cluster.state(tp).leader_and_isr.isr) == set(plan.replicas)
            for tp, plan in found.items()
        )

    await cluster.until("every reassignment done", at_rest)


async def moved_under_load(
    cluster: SimCluster, fault: Callable[[SimCluster], Awaitable[None]]
) -> None:
    """Run ``fault`` while partitions are reassigned. All brokers must be back when it ends.

    Raises AssertionError if a guarantee is broken: an acknowledged record lost or moved, two
    leaders in one epoch, a leader without committed records, a reassignment that does not end,
    replicas that are not assigned or differ at rest, a context that differs from ZooKeeper.
    """
    cluster.observers.append(ElectionChecker(cluster, PARTITIONS))
    await prepared(cluster)
    writer, mover = Writer(cluster, PARTITIONS), Mover(cluster, PARTITIONS)
    writer.start()
    mover.start()
    await fault(cluster)
    before = writer.acknowledged_count
    await cluster.until("load goes on", lambda: writer.acknowledged_count > before + MORE_RECORDS)
    await mover.stop()
    await until_moved(cluster, PARTITIONS)
    await writer.stop()
    await asyncio.sleep(REST_S)
    check_context(cluster)
    for partition in PARTITIONS:
        check_leadership_known(cluster, partition)
        check_replicas_alike(cluster, partition, assignment(cluster, partition).replicas)
    check_acknowledged(writer, await read_all(cluster, TOPIC), {})
