"""Fetches of very many partitions, which are read in slices: the same responses as small ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.server.broker.fetch import record_fetches
from tests.support.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    Node,
    ReplicaCluster,
    batch,
    values_in,
)

PARTITIONS = range(7)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_fetches, "ENTRIES_AT_ONCE", 2)


def fetching(*partitions: int, max_bytes: int = 1 << 20, **fields: Any) -> FetchRequest:
    rows = [FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in partitions]
    request = FetchRequest(topics=[FetchTopic(TOPIC, TOPIC_ID, rows)], **fields)
    request.max_bytes = max_bytes
    return request


async def leading(cluster: ReplicaCluster) -> Node:
    """Broker 1 leads the partitions; each has two records."""
    await cluster.elect(1, isr=[1], replicas=[1], partitions=PARTITIONS)
    for index in PARTITIONS:
        for value in ("x", "y"):
            cluster[1].produce(f"{value}{index}", topic_partition=TP._replace(partition=index))
    return cluster[1]


def rows(response: FetchResponse) -> list[tuple[int, int, list[str]]]:
    return [
        (p.partition_index, p.error_code, values_in(p.records))
        for topic in response.responses
        for p in topic.partitions
    ]


@pytest.mark.mission("SAFE-36")
@pytest.mark.parametrize("max_batches", [1, 3, 100])
async def test_slices_share_the_limit_of_bytes(
    max_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await leading(cluster)
        max_bytes = max_batches * len(batch("x0")) + 5
        request = fetching(*PARTITIONS, 99, max_bytes=max_bytes, max_wait_ms=0, min_bytes=1)
        replies = node.ask(request, 12)
        assert replies == []
        await cluster.clock.settle()
        monkeypatch.setattr(record_fetches, "ENTRIES_AT_ONCE", 100)
        assert rows(replies[0]) == rows(node.ask(request, 12)[0])
        assert rows(replies[0])[0][2][:1] == ["x0"]
        assert rows(replies[0])[-1][:2] == (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.mission("SAFE-36")
async def test_others_are_served_between_slices() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await leading(cluster)
        large = node.ask(fetching(*PARTITIONS, max_wait_ms=0), 12)
        await asyncio.sleep(0)
        assert rows(node.ask(fetching(6, max_wait_ms=0), 12)[0]) == [(6, 0, ["x6", "y6"])]
        assert large == []
        await cluster.clock.settle()
        assert len(rows(large[0])) == len(PARTITIONS)


@pytest.mark.mission("SAFE-36")
async def test_a_large_fetch_waits_for_records() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=PARTITIONS)
        node = cluster[1]
        replies = node.ask(fetching(*PARTITIONS, max_wait_ms=500, min_bytes=1), 12)
        await cluster.clock.advance(100)
        assert replies == []
        node.produce("late", topic_partition=TP._replace(partition=5))
        assert [row for row in rows(replies[0]) if row[2]] == [(5, 0, ["late"])]
        again = node.ask(fetching(0, 1, 2, max_wait_ms=500, min_bytes=1), 12)
        await cluster.clock.advance(499)
        assert again == []
        await cluster.clock.advance(2)
        assert rows(again[0]) == [(0, 0, []), (1, 0, []), (2, 0, [])]


@pytest.mark.mission("SAFE-36")
async def test_a_replica_that_goes_while_a_large_fetch_is_read() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=PARTITIONS)
        node = cluster[1]
        replies = node.ask(fetching(*PARTITIONS, max_wait_ms=500, min_bytes=1), 12)
        await asyncio.sleep(0)
        node.replicas.hosted.remove(TP)
        await cluster.clock.settle()
        assert rows(replies[0]) == [(index, 0, []) for index in PARTITIONS]
        replies = node.ask(fetching(*PARTITIONS, max_wait_ms=500, min_bytes=1), 12)
        await cluster.clock.settle()
        assert rows(replies[0])[0][1] != 0


@pytest.mark.mission("SAFE-36")
async def test_a_followers_large_fetch_completes_produce_requests_slice_by_slice() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=PARTITIONS)
        node = cluster[1]
        produced = [
            node.produce("a", topic_partition=TP._replace(partition=index), acks=-1)
            for index in PARTITIONS
        ]
        request = fetching(*PARTITIONS, max_wait_ms=0, replica_id=2)
        for row in request.topics[0].partitions:
            row.fetch_offset = 1
        replies = node.ask(request, 12)
        await asyncio.sleep(0)
        assert [len(answers) for answers in produced] == [1, 1, 0, 0, 0, 0, 0]
        await cluster.clock.settle()
        assert [len(answers) for answers in produced] == [1] * len(PARTITIONS)
        assert len(replies) == 1
