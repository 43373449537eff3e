"""Elections and the requests that are parked then: which of them complete, and what that costs."""

from __future__ import annotations

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, Isolation, ReadResult
from minikafka.server.broker.fetch.record_fetches import (
    ANNOUNCE_AFTER_MS,
    PARKED_PARTITION_BYTES,
    DelayedFetch,
    FetchOperation,
    HighWatermarkAnnouncer,
)
from tests.support.broker.replicas import TOPIC, ReplicaCluster, error_of

MANY = 200


@pytest.mark.mission("DOP-2")
async def test_new_epoch_completes_parked_consumer_fetches_but_not_follower_fetches() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        leader = cluster[1]
        consumer = leader.fetch(0, current_leader_epoch=0)
        follower = leader.fetch(0, current_leader_epoch=0, replica_id=2)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=1)
        assert error_of(consumer) is ErrorCode.FENCED_LEADER_EPOCH
        assert follower == []
        await cluster.clock.advance(501)
        assert error_of(follower) is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_thousand_elections_at_once_look_at_a_parked_fetch_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[DelayedFetch] = []
    try_complete = DelayedFetch.try_complete

    def counted(operation: DelayedFetch) -> bool:
        if operation.memory_bytes > PARKED_PARTITION_BYTES * MANY:  # no other cluster's
            looks.append(operation)
        return try_complete(operation)

    async with ReplicaCluster([1]) as cluster:
        numbers = range(MANY)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=numbers)
        params = FetchParams(2, 500, 1, 1 << 20, Isolation.LOG_END)
        entries = [FetchEntry(TopicPartition(TOPIC, n), None, 0, 1 << 20) for n in numbers]
        answers: list[ReadResult] = []
        cluster[1].fetches.fetch(FetchOperation(params, entries, answers.extend))
        monkeypatch.setattr(DelayedFetch, "try_complete", counted)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=numbers, epoch=1)
        assert len(looks) == 1
        assert answers == []


async def test_announcing_many_high_watermarks_delays_the_next_announcement() -> None:
    async with ReplicaCluster([1]) as cluster:
        partitions = [TopicPartition(TOPIC, n) for n in range(2_000)]
        announced_at: list[int] = []
        announcer = HighWatermarkAnnouncer(
            cluster.clock,
            cluster[1].replicas.hosted,
            lambda _: announced_at.append(cluster.clock.now_ms),
        )
        start = cluster.clock.now_ms
        announcer.add(partitions)
        await cluster.clock.advance(ANNOUNCE_AFTER_MS)
        for _ in range(2):
            announcer.add(partitions[:1])
            await cluster.clock.advance(1_000)
        second = start + ANNOUNCE_AFTER_MS + 200
        assert announced_at == [
            start + ANNOUNCE_AFTER_MS,
            second,
            start + ANNOUNCE_AFTER_MS + 1_000 + 50,
        ]
