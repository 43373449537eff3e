"""Logs of topics that are gone: which are put aside, and which stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from minikafka.kernel.ports import CoordinationError
from minikafka.server.broker.replication.stray_replicas import GRACE_MS, OrphanedLogs
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster

Topics = Callable[[], Awaitable[Sequence[str]]]


def topics_are(*names: str) -> Topics:
    async def topics() -> Sequence[str]:
        return names

    return topics


@asynccontextmanager
async def back(
    cluster: ReplicaCluster, topics: Topics, spoken_to: Callable[[], bool] = lambda: True
) -> AsyncIterator[Node]:
    """A broker that has a log with records, and was restarted."""
    await cluster.elect(1, isr=[1], replicas=[1])
    cluster[1].produce("a", acks=1)
    await cluster.start(1, await cluster.stop(1))
    node = cluster[1]
    orphans = OrphanedLogs(cluster.clock, node.replicas, node.logs, topics, spoken_to)
    async with asyncio.TaskGroup() as tasks:
        orphans.start(tasks)
        await cluster.clock.settle()
        yield node
        await orphans.stop()


@pytest.mark.mission("DEL-2", "REA-10")
async def test_a_log_of_a_topic_that_is_gone_is_put_aside() -> None:
    async with ReplicaCluster([1]) as cluster, back(cluster, topics_are("another")) as node:
        await cluster.clock.advance(GRACE_MS - 1)
        assert node.logs.get(TP) is not None  # a controller may remember it
        await cluster.clock.advance(1)
        assert node.logs.get(TP) is None
        await cluster.clock.advance(10 * GRACE_MS)
        (aside,) = (name for name in node.files.list("/data") if name.startswith(TOPIC))
        assert aside.startswith(f"{TP}.")
        assert aside.endswith("-stray")
        assert node.files.exists(f"/data/{aside}/{0:020d}.log")
        await cluster.elect(1, isr=[1], replicas=[1], topic_id=UUID(int=99))
        assert node.logs.logs()[TP].log_end_offset == 0


async def test_a_log_stays_whose_topic_there_is() -> None:
    async with ReplicaCluster([1]) as cluster, back(cluster, topics_are(TOPIC)) as node:
        await cluster.clock.advance(10 * GRACE_MS)
        assert node.logs.get(TP) is not None


async def test_a_log_stays_that_a_controller_claims() -> None:
    async with ReplicaCluster([1]) as cluster:

        async def claimed_during_the_read() -> Sequence[str]:
            await cluster.elect(1, isr=[1], replicas=[1], epoch=1)
            return ()

        async with back(cluster, claimed_during_the_read) as node:
            await cluster.clock.advance(2 * GRACE_MS)
            assert node.logs.logs()[TP].log_end_offset == 1


async def test_a_zookeeper_that_knows_no_topics_at_all_is_not_believed() -> None:
    async with ReplicaCluster([1]) as cluster, back(cluster, topics_are()) as node:
        await cluster.clock.advance(10 * GRACE_MS)
        assert node.logs.get(TP) is not None


async def test_it_waits_for_a_controller_and_for_a_session() -> None:
    spoken: list[bool] = []
    asked: list[bool] = []

    async def topics() -> Sequence[str]:
        asked.append(True)
        if len(asked) == 1:
            raise CoordinationError("no right to read")
        return ("another",)

    def spoken_to() -> bool:
        return bool(spoken)

    async with ReplicaCluster([1]) as cluster, back(cluster, topics, spoken_to) as node:
        await cluster.clock.advance(3 * GRACE_MS)
        assert asked == []
        spoken.append(True)
        await cluster.clock.advance(GRACE_MS)
        assert node.logs.get(TP) is not None
        await cluster.clock.advance(GRACE_MS)
        assert node.logs.get(TP) is None
        await cluster.clock.advance(5 * GRACE_MS)
        assert len(asked) == 2
