"""Partitions that join a fetcher: the first interrupts its poll, unless it is a large one."""

from __future__ import annotations

import pytest

from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.server.broker.replication import replica_fetcher
from tests.support.broker.replicas import ReplicaCluster

MANY = 20


def fetches(cluster: ReplicaCluster, source: int) -> int:
    return sum(
        asker == source and isinstance(request, FetchRequest)
        for asker, _, request, _ in cluster.requests
    )


async def test_partitions_that_join_one_by_one_share_one_fetch() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        both = (1, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both)
        await cluster.clock.advance(2_000)  # at rest, in a long poll
        before = fetches(cluster, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[1])
        await cluster.clock.settle()
        assert fetches(cluster, 2) == before + 1  # at once
        for number in range(2, MANY):
            await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[number])
            await cluster.clock.settle()
        assert fetches(cluster, 2) == before + 1
        await cluster.clock.advance(1_000)
        assert fetches(cluster, 2) <= before + 5
        node = cluster[2]
        fetcher = node.replicas.fetchers.fetcher(1)
        assert fetcher is None or len(fetcher) == MANY


async def test_large_poll_is_not_interrupted_and_the_next_names_only_joined_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_fetcher, "INTERRUPT_UP_TO", MANY)
    async with ReplicaCluster([1, 2]) as cluster:
        both = (1, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=range(MANY))
        await cluster.clock.advance(2_000)
        before = fetches(cluster, 2)
        await cluster.elect(1, isr=both, replicas=both, tell=both, partitions=[MANY])
        await cluster.clock.settle()
        assert fetches(cluster, 2) == before
        await cluster.clock.advance(500)
        asked = [r for asker, _, r, _ in cluster.requests if asker == 2][before:]
        assert isinstance(asked[0], FetchRequest)
        assert [p.partition for t in asked[0].topics for p in t.partitions] == [MANY]
