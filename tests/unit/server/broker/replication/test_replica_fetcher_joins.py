"""Partitions that join a fetcher interrupt its poll, several together, unless it is a large one."""

from __future__ import annotations

import pytest

from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.server.broker.replication import replica_fetcher
from tests.support.broker.replicas import ReplicaCluster

MANY = 20


def named(cluster: ReplicaCluster) -> list[list[int]]:
    """The partitions that each Fetch of the follower names."""
    return [
        sorted(p.partition for t in request.topics for p in t.partitions)
        for asker, _, request, _ in cluster.requests
        if asker == 2 and isinstance(request, FetchRequest)
    ]


async def test_partitions_that_join_one_by_one_share_one_fetch() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        both = (1, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both)
        await cluster.clock.advance(2_000)  # at rest, in a long poll
        before = len(named(cluster))
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[1])
        await cluster.clock.settle()
        assert len(named(cluster)) == before + 1  # at once
        for number in range(2, MANY):
            await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[number])
            await cluster.clock.settle()
        assert len(named(cluster)) == before + 1
        await cluster.clock.advance(replica_fetcher.INTERRUPT_EVERY_MS)
        assert len(named(cluster)) == before + 2
        assert named(cluster)[-1] == list(range(MANY))


async def test_a_poll_that_ends_by_itself_is_not_interrupted_later() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        both = (1, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both)
        await cluster.clock.advance(2_000)
        before = len(named(cluster))
        for number in (1, 2):  # the second has to wait
            await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[number])
            await cluster.clock.settle()
        cluster[1].produce("ends the poll", acks=1)
        await cluster.clock.settle()
        after = len(named(cluster))
        assert after > before + 1
        await cluster.clock.advance(2 * replica_fetcher.INTERRUPT_EVERY_MS)
        assert len(named(cluster)) == after


async def test_large_poll_is_not_interrupted_and_the_next_names_only_joined_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_fetcher, "INTERRUPT_UP_TO", MANY)
    async with ReplicaCluster([1, 2]) as cluster:
        both = (1, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=range(MANY))
        await cluster.clock.advance(2_000)
        before = len(named(cluster))
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[MANY])
        await cluster.clock.settle()
        assert len(named(cluster)) == before
        await cluster.clock.advance(500)
        assert named(cluster)[before] == [MANY]
