"""A truncation that is not flushed yet: no fetch and no append replaces it; others continue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.world.sim.disk import SimFile
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster

OTHER = TopicPartition(TOPIC, 1)


class Disk:
    """Flushes of files wait while it is ``slow``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = asyncio.Event()
        self.free.set()
        real = SimFile.flush

        async def flush(file: SimFile) -> None:
            await self.free.wait()
            await real(file)

        monkeypatch.setattr(SimFile, "flush", flush)


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
async def cluster(disk: Disk) -> AsyncIterator[ReplicaCluster]:
    """Broker 1 led both partitions, and has records in the first one that broker 2, the new leader,
    never fetched. It has just become a follower, and its disk is slow."""
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, [1, 2], replicas=[1, 2], partitions=(0, 1))
        cluster[1].produce("a", "b")
        await cluster.clock.advance(2_000)
        cluster.freeze(1)
        cluster[1].produce("old1", acks=1)
        cluster[1].produce("old2", acks=1)
        await cluster.elect(2, [2], epoch=1, replicas=[1, 2], partitions=(0, 1), tell=[2])
        cluster[2].produce("new1")
        await cluster.clock.advance(500)
        disk.free.clear()
        cluster.thaw(1)
        await cluster.elect(2, [2], epoch=1, replicas=[1, 2], partitions=(0, 1), tell=[1])
        await cluster.clock.advance(1_000)
        yield cluster


def log_of(cluster: ReplicaCluster) -> UnifiedLog:
    return cluster[1].partition().log


async def test_a_follower_goes_on_when_its_cut_is_on_disk(
    cluster: ReplicaCluster, disk: Disk
) -> None:
    assert cluster[1].held() == ["a", "b"]
    assert log_of(cluster).cut_unflushed
    state = cluster[1].replicas.fetchers.fetcher(2).state_of(TP)  # type: ignore[union-attr]
    assert state is not None
    assert state.truncating
    await cluster.clock.advance(5_000)
    assert cluster[1].held() == ["a", "b"]
    disk.free.set()
    await cluster.clock.advance(1_000)
    assert cluster[1].held() == ["a", "b", "new1"]


async def test_other_partitions_continue_during_the_flush(
    cluster: ReplicaCluster, disk: Disk
) -> None:
    cluster[2].produce("x", topic_partition=OTHER)
    await cluster.clock.advance(1_000)
    assert cluster[1].held(OTHER) == ["x"]
    assert cluster[1].held() == ["a", "b"]
    disk.free.set()


async def test_a_leader_that_was_just_cut_takes_nothing_yet(
    cluster: ReplicaCluster, disk: Disk
) -> None:
    await cluster.elect(1, [1], epoch=2, replicas=[1, 2], tell=[1])
    assert cluster[1].partition().is_leader
    (answer,) = cluster[1].produce("too soon", acks=1)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    disk.free.set()
    await cluster.clock.advance(100)
    (answer,) = cluster[1].produce("in time", acks=1)
    assert answer.error_code == ErrorCode.NONE
    assert cluster[1].held() == ["a", "b", "in time"]


async def test_without_a_leader_the_cut_is_flushed_too(cluster: ReplicaCluster, disk: Disk) -> None:
    await cluster.elect(-1, [1], epoch=2, replicas=[1, 2], tell=[1])
    disk.free.set()
    await cluster.clock.advance(100)
    assert not log_of(cluster).cut_unflushed
