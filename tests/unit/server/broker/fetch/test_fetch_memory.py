"""Parked fetches and fetch sessions within the memory of clients."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.replication.fetch_session import PARTITION_BYTES
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.server.broker.fetch.record_fetches import (
    LARGE_FETCH_BYTES,
    PARKED_PARTITION_BYTES,
    UNREAD_MIN_BYTES,
)
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster, values_in

LARGE = LARGE_FETCH_BYTES // PARKED_PARTITION_BYTES + 1  # partitions of a fetch
LIMIT = 1_000_000
EARLY = "minikafka.server:type=DelayedFetchMetrics,name=CompletedEarlyPerSec"


async def leader(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, partitions=range(2 * LARGE), tell=[1])
    return cluster[1]


def park(node: Node, partitions: int, replica_id: int = -1) -> list[Any]:
    """A fetch that waits for a minute. The replies, once there are any."""
    wanted = [FetchPartition(i, partition_max_bytes=1 << 20) for i in range(partitions)]
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(TOPIC, partitions=wanted)],
    )
    return node.ask(request, 11)


def open_session(node: Node, partitions: int, replica_id: int = -1) -> int:
    wanted = [FetchPartition(i, partition_max_bytes=1 << 20) for i in range(partitions)]
    request = FetchRequest(
        replica_id=replica_id, session_epoch=0, topics=[FetchTopic(TOPIC, partitions=wanted)]
    )
    session_id: int = node.ask(request, 11)[0].session_id
    return session_id


@pytest.mark.mission("SAFE-42")
async def test_parked_fetches_are_counted_until_they_complete() -> None:
    memory = MemoryBudget(LIMIT)
    async with ReplicaCluster([1], memory=memory) as cluster:
        node = await leader(cluster)
        by_append, by_time = park(node, 1), park(node, 2)
        one = memory.parked_fetch_bytes
        assert one > 3 * PARKED_PARTITION_BYTES
        node.produce("a", acks=1)
        node.fetch(1, replica_id=2)
        node.fetch(1, replica_id=3)
        await cluster.clock.advance(100)
        assert values_in(by_append[0].responses[0].partitions[0].records) == ["a"]
        assert len(by_time) == 1
        await cluster.clock.advance(60_000)
        assert memory.parked_fetch_bytes == 0


@pytest.mark.mission("SAFE-42")
async def test_the_largest_parked_fetches_complete_when_the_memory_is_used_up() -> None:
    memory = MemoryBudget(LIMIT)
    async with ReplicaCluster([1], memory=memory) as cluster:
        node = await leader(cluster)
        small, large, larger = park(node, 1), park(node, LARGE), park(node, 2 * LARGE)
        memory.set_sessions(LIMIT - memory.parked_fetch_bytes)
        assert not larger
        another = park(node, 1)  # one byte too much
        assert not memory.is_exceeded
        (answer,) = larger
        assert {p.error_code for t in answer.responses for p in t.partitions} == {ErrorCode.NONE}
        assert [small, large, another] == [[], [], []]
        assert node.metrics.snapshot()[EARLY] == 1
        memory.set_sessions(LIMIT)
        assert park(node, 1) == []  # small ones stay
        assert len(large) == 1
        assert len(park(node, LARGE)) == 1
        assert [small, another] == [[], []]


@pytest.mark.mission("SAFE-42")
async def test_fetches_of_followers_stay_parked_unless_they_use_up_the_memory_themselves() -> None:
    memory = MemoryBudget(LIMIT)
    async with ReplicaCluster([1], memory=memory) as cluster:
        node = await leader(cluster)
        memory.set_sessions(LIMIT)
        first = park(node, LARGE, replica_id=2)
        allowed = LIMIT // 4 // memory.parked_fetch_bytes
        parked = [first, *(park(node, LARGE, replica_id=2) for _ in range(allowed))]
        assert sum(map(len, parked)) == 1
        assert memory.parked_fetch_bytes <= LIMIT // 4


@pytest.mark.mission("SAFE-42")
async def test_consumers_get_no_session_while_the_memory_is_used_up() -> None:
    memory = MemoryBudget(10 * PARTITION_BYTES)
    async with ReplicaCluster([1], memory=memory) as cluster:
        node = await leader(cluster)
        first = open_session(node, 6)
        assert first != 0
        assert memory.session_bytes == 6 * PARTITION_BYTES
        assert open_session(node, 5) == 0
        assert memory.session_bytes == 6 * PARTITION_BYTES
        memory.requests.add(10 * PARTITION_BYTES)
        assert open_session(node, 1) == 0
        assert open_session(node, 1, replica_id=2) != 0
        assert node.ask(FetchRequest(session_id=first, session_epoch=1), 11)[0].error_code == 0
        grown = FetchRequest(
            session_id=first,
            session_epoch=2,
            topics=[FetchTopic(TOPIC, partitions=[FetchPartition(9)])],
        )
        with pytest.raises(KafkaError) as refusal:
            node.ask(grown, 11)
        assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert memory.session_bytes == PARTITION_BYTES  # the follower's


@pytest.mark.mission("SAFE-42")
async def test_a_session_that_does_not_grow_is_kept_while_the_memory_is_used_up() -> None:
    memory = MemoryBudget(10 * PARTITION_BYTES)
    async with ReplicaCluster([1], memory=memory) as cluster:
        node = await leader(cluster)
        session_id = open_session(node, 6)
        memory.requests.add(10 * PARTITION_BYTES)
        moved = FetchRequest(
            session_id=session_id,
            session_epoch=1,
            topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0, partition_max_bytes=9)])],
        )
        assert node.ask(moved, 11)[0].session_id == session_id


@pytest.mark.mission("SAFE-42", "SAFE-43")
async def test_fetches_that_complete_together_are_cut_after_the_first_large_ones() -> None:
    """Each waits for more than there is; all expire in the same turn of the loop."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        node, large = cluster[1], "x" * 900_000
        for first in range(40):
            node.produce(f"{first:02}{large}", acks=1)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=2**31 - 1,
            max_bytes=50_000_000,
            topics=[
                FetchTopic(TOPIC, partitions=[FetchPartition(0, partition_max_bytes=50_000_000)])
            ],
        )
        answers = [node.ask(request, 12) for _ in range(3)]
        assert answers == [[], [], []]
        await cluster.clock.advance(501)
        counts = [len(values_in(a[0].responses[0].partitions[0].records)) for a in answers]
        assert counts == [40, 1, 1]


@pytest.mark.mission("SAFE-78")
@pytest.mark.parametrize(
    ("min_bytes", "is_read"),
    [(1, True), (2 * UNREAD_MIN_BYTES, True), (4 * UNREAD_MIN_BYTES, False)],
    ids=["any", "enough", "too few"],
)
async def test_a_consumer_that_waits_for_more_bytes_is_parked_without_a_read(
    monkeypatch: pytest.MonkeyPatch, min_bytes: int, is_read: bool
) -> None:
    reads: list[int] = []
    read = UnifiedLog.read

    def counted(log: UnifiedLog, offset: int, *bounds: Any) -> Any:
        reads.append(offset)
        return read(log, offset, *bounds)

    monkeypatch.setattr(UnifiedLog, "read", counted)
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, replicas=[1])
        node, value = cluster[1], "x" * UNREAD_MIN_BYTES
        for _ in range(3):
            node.produce(value)
        reads.clear()
        response = node.fetch(0, min_bytes=min_bytes, max_wait_ms=10_000)
        assert bool(reads) == bool(response) == is_read
        node.produce(value)
        await cluster.clock.advance(0)
        found = values_in(response[0].records)
        assert found == [value] * (3 if is_read else 4)


@pytest.mark.mission("SAFE-78")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"offset": 99}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 0, "current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_an_error_does_not_wait_for_bytes(fields: dict[str, Any], error: ErrorCode) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, replicas=[1])
        node = cluster[1]
        node.produce("a")
        (response,) = node.fetch(**fields, min_bytes=4 * UNREAD_MIN_BYTES, max_wait_ms=10_000)
        assert response.error_code == error
