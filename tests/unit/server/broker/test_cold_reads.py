"""Fetches of records outside the page cache: other requests continue, no event is missed."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Buffer
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.server.storage.log import reader as log_reader
from minikafka.world.memory.files import MemoryFile
from minikafka.world.sim.disk import SimFile
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster, error_of, values_in

OTHER = TP._replace(partition=1)


class Disk:
    """Nothing is in the page cache until ``come`` is set."""

    def __init__(self) -> None:
        self.come = asyncio.Event()
        self.reads = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    real = SimFile.read_cold

    async def slow(self: SimFile, length: int, offset: int) -> bytes:
        disk.reads += 1
        await disk.come.wait()
        return await real(self, length, offset)

    monkeypatch.setattr(log_reader, "RECENT_BYTES", -1)
    cached = MemoryFile.view_cached

    def view_cached(self: SimFile, length: int, offset: int) -> Buffer | None:
        return cached(self, length, offset) if disk.come.is_set() else None

    monkeypatch.setattr(SimFile, "view_cached", view_cached)
    monkeypatch.setattr(SimFile, "read_cold", slow)
    return disk


async def test_a_consumer_waits_and_others_do_not(disk: Disk) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, [1], tell=[1])
        cluster[1].produce("a", "b", acks=1)
        fetched = cluster[1].fetch(0, max_wait_ms=0)
        await cluster.clock.settle()
        assert (fetched, disk.reads) == ([], 1)
        assert cluster[1].produce("c", acks=1)
        disk.come.set()
        await cluster.clock.settle()
        assert values_in(fetched[0].records) == ["a", "b", "c"]


async def test_followers_get_on_and_are_counted(disk: Disk) -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, tell=[1])
        answers = cluster[1].produce("a")
        await cluster.elect(1, tell=[2, 3])
        await cluster.clock.advance(600)
        assert (answers, disk.reads) == ([], 2)
        disk.come.set()
        await cluster.clock.advance(600)
        assert error_of(answers) is ErrorCode.NONE
        assert cluster[2].held() == cluster[3].held() == ["a"]


async def test_fetch_advances_the_high_watermark_before_its_cold_read_completes(disk: Disk) -> None:
    async with ReplicaCluster([1]) as cluster:
        leader = cluster[1]
        await cluster.elect(1, partitions=[0, 1], tell=[1])
        leader.produce("a")
        leader.produce("b", topic_partition=OTHER)
        leader.fetch(1, replica_id=3, max_wait_ms=0, current_leader_epoch=0)  # tells of 0
        parked = leader.fetch(1, replica_id=3, max_wait_ms=10_000, current_leader_epoch=0)
        ask_both = FetchRequest(
            replica_id=2,
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(
                    TOPIC,
                    partitions=[
                        FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20),
                        FetchPartition(1, fetch_offset=0, partition_max_bytes=1 << 20),
                    ],
                )
            ],
        )
        cold = leader.ask(ask_both, 12)
        await cluster.clock.advance(100)
        assert (cold, disk.reads) == ([], 1)
        assert [answer.high_watermark for answer in parked] == [1]


async def test_cold_read_of_a_deposed_leader_returns_not_leader_or_follower(disk: Disk) -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, [1], tell=[1])
        cluster[1].produce("a", acks=1)
        fetched = cluster[1].fetch(0, max_wait_ms=0, version=10)
        await cluster.clock.settle()
        await cluster.elect(2, [2], epoch=1, tell=[1])
        disk.come.set()
        await cluster.clock.settle()
        assert fetched[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_broker_that_stops_does_not_wait_for_a_disk_that_hangs(disk: Disk) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, [1], tell=[1])
        cluster[1].produce("a", acks=1)
        fetched = cluster[1].fetch(0, max_wait_ms=0)
        await cluster.clock.settle()
        assert disk.reads == 1
    disk.come.set()
    await asyncio.sleep(0)
    assert fetched == []
