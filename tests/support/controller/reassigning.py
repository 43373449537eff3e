"""Reassignments and deletions in a cluster of controllers, and crashes at a chosen await."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers
from tests.support.zookeeper.direct import DirectSession


async def catch_up(cluster: ClusterOfControllers, tp: TopicPartition, *only: int) -> None:
    """Add every live replica, or those in ``only``, to the ISR as the leader does, without a
    notification."""
    store = ZkStore(cluster.zookeeper.new_session())
    found = (await store.leader_isr_states([tp])).get(tp)
    replicas = assigned(cluster, tp)["replicas"]
    if found is None or found.leader_and_isr.leader not in cluster.nodes:
        return
    known = found.leader_and_isr
    more = tuple(
        r for r in only or replicas if r in replicas and r in cluster.nodes and r not in known.isr
    )
    if more:
        grown = replace(known, isr=(*known.isr, *more))
        await store.update_isrs({tp: replace(found, leader_and_isr=grown)})
    await cluster.settle()


async def move(
    cluster: ClusterOfControllers, targets: Mapping[TopicPartition, tuple[int, ...] | None]
) -> None:
    """Request reassignments at the active controller, all accepted, and let the cluster settle."""
    results = await cluster.active.alter_partition_reassignments(targets)
    await cluster.settle()
    assert set(results.values()) == {None}


async def delete(cluster: ClusterOfControllers, *topics: Any) -> None:
    """Request the deletion of topics by their znodes, and let the cluster settle."""
    store = ZkStore(cluster.zookeeper.new_session())
    for topic in topics:
        await store.request_topic_deletion(topic)
    await cluster.settle()


def assigned(cluster: ClusterOfControllers, tp: TopicPartition) -> Any:
    """Return the partition's assignment in its topic's znode."""
    data = json.loads(cluster.zookeeper.nodes[paths.topic(tp.topic)].data)
    number = str(tp.partition)
    return {
        "replicas": tuple(data["partitions"][number]),
        "adding": tuple(data["adding_replicas"].get(number, ())),
        "removing": tuple(data["removing_replicas"].get(number, ())),
    }


def in_zookeeper(cluster: ClusterOfControllers, tp: TopicPartition) -> Any:
    """Return (replicas, leader, ISR) from ZooKeeper; replicas and ISR in ascending order."""
    state = json.loads(cluster.zookeeper.nodes[paths.partition_state(tp)].data)
    replicas = tuple(sorted(assigned(cluster, tp)["replicas"]))
    return replicas, state["leader"], tuple(sorted(state["isr"]))


def wish(cluster: ClusterOfControllers, targets: Mapping[TopicPartition, Iterable[int]]) -> None:
    """Write ``/admin/reassign_partitions``, as kafka-reassign-partitions did before KIP-455."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in targets.items()
    ]
    data = json.dumps({"version": 1, "partitions": rows}).encode()
    cluster.zookeeper.create(paths.REASSIGN_PARTITIONS, data)


class Logs:
    """The brokers that have a log of a partition, which LeaderAndIsr creates and StopReplica
    deletes."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.on: set[int] = set()

    def hear(self, sent: Any) -> None:
        for broker_id, message in sent:
            if isinstance(message, LeaderAndIsrRequest) and self._named(message):
                self.on.add(broker_id)
            elif isinstance(message, StopReplicaRequest) and any(
                state.delete_partition for state in self._named(message)
            ):
                self.on.discard(broker_id)

    def _named(self, message: Any) -> Any:
        return [
            state
            for topic in message.topic_states
            for state in topic.partition_states
            if (topic.topic_name, state.partition_index) == self.tp
        ]


class DeathAt:
    """Stops a process after the ``n``-th response of its ZooKeeper session, or ``before`` the
    ``n``-th request, counted from now."""

    def __init__(self, session: DirectSession, n: int, before: bool) -> None:
        self.came = False
        self._left = n
        self._before = before
        for name in ("get", "exists", "children", "multi"):
            setattr(session, name, self._mortal(getattr(session, name)))

    def _mortal(self, call: Any) -> Any:
        async def mortal(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left <= 0 and self._before:
                await self._die()
            result = await call(*args, **kwargs)
            if self._left <= 0:
                await self._die()
            return result

        return mortal

    async def _die(self) -> None:
        self.came = True
        await asyncio.get_running_loop().create_future()

    async def awaited(self, turns: int = 2_000) -> bool:
        """Return whether the process was stopped; False if it sends no more requests."""
        for _ in range(turns):
            await asyncio.sleep(0)
            if self.came:
                return True
        return False
