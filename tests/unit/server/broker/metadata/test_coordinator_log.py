"""CoordinatorLog: waiting until the whole log is replicated."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from minikafka.protocol.records.batch import parse_batch
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.server.broker.coordinator_log import CoordinatorLog
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster
from tests.support.storage.stored_batches import large_record, many_records

COMMIT_TIMEOUT_MS = 5_000


def log_of(cluster: ReplicaCluster, broker_id: int = 1) -> CoordinatorLog:
    replicas, workers = cluster[broker_id].replicas, cluster.workers
    return CoordinatorLog(replicas, TOPIC, COMMIT_TIMEOUT_MS, workers)


async def left_behind(cluster: ReplicaCluster) -> None:
    """Broker 1 leads and has records that its follower does not have."""
    await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
    await cluster.clock.advance(1000)
    cluster.freeze(2)
    await cluster.clock.advance(600)
    cluster[1].produce("a", acks=1)
    assert cluster[1].partition().high_watermark == 0


def begun(waiting: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
    return asyncio.get_running_loop().create_task(waiting)


async def test_replicated_waits_for_the_followers() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await left_behind(cluster)
        waiting = begun(log_of(cluster).replicated(0))
        await cluster.clock.advance(COMMIT_TIMEOUT_MS + 1000)  # an append would be given up
        assert not waiting.done()
        cluster.thaw(2)
        await cluster.clock.advance(3000)
        assert cluster[1].partition().high_watermark == 1
        assert await waiting
        assert await log_of(cluster).replicated(0), "at once"


async def test_replicated_does_not_wait_for_replicas_outside_the_isr() -> None:
    """Also if the remaining replicas are too few for a write."""
    async with ReplicaCluster([1, 2]) as cluster:
        await left_behind(cluster)
        waiting = begun(log_of(cluster).replicated(0))
        await cluster.clock.advance(20_000)
        assert cluster.znodes.states[TP].isr == (1,)
        assert waiting.done()
        assert await waiting
        cluster[1].partition().configure(TopicConfig(min_insync_replicas=2))
        assert await log_of(cluster).replicated(0)


async def test_replicated_returns_false_on_a_follower() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await left_behind(cluster)
        waiting = begun(log_of(cluster).replicated(0))
        await cluster.elect(2, isr=[1, 2], replicas=[1, 2], epoch=1, tell=[1])
        await cluster.clock.advance(10)
        assert not await waiting
        assert not await log_of(cluster).replicated(0)


async def test_replicated_may_be_cancelled() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await left_behind(cluster)
        waiting = begun(log_of(cluster).replicated(0))
        await cluster.clock.advance(10)
        waiting.cancel()
        cluster.thaw(2)
        await cluster.clock.advance(3000)
        assert waiting.cancelled()
        assert cluster[1].partition().high_watermark == 1


@pytest.mark.mission("SAFE-63")
async def test_a_worker_decompresses_a_huge_batch() -> None:
    async with ReplicaCluster([1]) as cluster:
        log = log_of(cluster)
        await log.opened(parse_batch(many_records(10), 0))
        assert cluster.workers.calls == 0
        assert len(await log.opened(parse_batch(large_record(1 << 20), 0))) > 1 << 20
        assert cluster.workers.calls == 1
        with pytest.raises(DecompressedTooLarge):
            await log.opened(parse_batch(large_record(101 << 20), 0))
