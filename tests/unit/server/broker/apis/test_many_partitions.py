"""Requests that name thousands of existing partitions are served in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import Slices
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.server.broker.replication import record_deletion
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element

COUNT = 1_000
LATEST = -1


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)
    monkeypatch.setattr(record_deletion, "WAITING_TOGETHER", 5)


def list_offsets(topics: Sequence[Sequence[int]]) -> tuple[Any, int]:
    """``topics`` has the partitions of each entry of the request."""
    named = [
        ListOffsetsTopic(TOPIC, [ListOffsetsPartition(p, timestamp=LATEST) for p in partitions])
        for partitions in topics
    ]
    return ListOffsetsRequest(replica_id=-1, topics=named), 7


def list_offsets_v0(topics: Sequence[Sequence[int]]) -> tuple[Any, int]:
    return list_offsets(topics)[0], 0


def offsets_for_leader_epoch(topics: Sequence[Sequence[int]]) -> tuple[Any, int]:
    named = [
        OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(p, 0, 0) for p in partitions])
        for partitions in topics
    ]
    return OffsetForLeaderEpochRequest(topics=named), 4


def delete_records(topics: Sequence[Sequence[int]]) -> tuple[Any, int]:
    """Nothing is deleted, so that no checkpoint of all logs is written."""
    named = [
        DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(p, 0) for p in partitions])
        for partitions in topics
    ]
    return DeleteRecordsRequest(topics=named, timeout_ms=1_000), 2


MakeRequest = Callable[[Sequence[Sequence[int]]], tuple[Any, int]]
one_topic = [range(COUNT + 1)]
many_topics = [[partition] for partition in range(COUNT + 1)]


async def serve(node: Node, request: Any, version: int) -> Any:
    """Return the handler's response."""
    replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.serve(request, version, replied.set_result)
    return await replied


def rows_of(response: Any) -> list[Any]:
    return [row for topic in response.topics for row in topic.partitions]


@pytest.mark.mission("SAFE-73")
@pytest.mark.parametrize("topics", [one_topic, many_topics], ids=["one topic", "many topics"])
@pytest.mark.parametrize(
    "make", [list_offsets, list_offsets_v0, offsets_for_leader_epoch, delete_records]
)
async def test_the_loop_runs_between_slices(
    make: MakeRequest, topics: Sequence[Sequence[int]]
) -> None:
    """The response is that of a request that is served at once. The last partition is unknown."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, [1], replicas=[1], partitions=range(COUNT))
        for partition in (0, COUNT - 1):
            produced = cluster[1].produce("a", topic_partition=TopicPartition(TOPIC, partition))
            assert [row.error_code for row in produced] == [ErrorCode.NONE]
        request, version = make(topics)
        response, most = await most_calls_in_a_turn(serve(cluster[1], request, version))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Slices, "ended", lambda self: False)
            expected = await serve(cluster[1], request, version)
    assert rows_of(response)[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(rows_of(response)) == COUNT + 1
    # Of DeleteRecords, entries of one topic share an entry of the response.
    assert response == expected
    assert most < COUNT


@pytest.mark.mission("SAFE-73")
async def test_each_slice_of_deletions_waits_for_its_replicas() -> None:
    """Of two partitions in different slices a follower does not report the deletion in time."""
    count, late = 12, (0, 6)
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=range(count))
        await cluster.clock.settle()
        for partition in range(count):
            cluster[1].produce("a", "b", topic_partition=TopicPartition(TOPIC, partition), acks=1)
        await cluster.clock.advance(1_000)

        def delete(before: Callable[[int], int]) -> list[Any]:
            rows = [DeleteRecordsPartition(p, before(p)) for p in range(count)]
            topics = [DeleteRecordsTopic(TOPIC, rows)]
            return cluster[1].ask(DeleteRecordsRequest(topics=topics, timeout_ms=3_000), 2)

        replies = delete(lambda partition: 1)
        await cluster.clock.advance(2_000)
        rows = [(row.low_watermark, row.error_code) for row in rows_of(replies[0])]
        assert rows == [(1, ErrorCode.NONE)] * count
        cluster.freeze(3)
        replies = delete(lambda partition: 2 if partition in late else 1)
        await cluster.clock.advance(2_000)
        assert replies == []
        await cluster.clock.advance(2_000)
    failed = [row.partition_index for row in rows_of(replies[0]) if row.error_code]
    assert tuple(failed) == late
    errors = {row.error_code for row in rows_of(replies[0])}
    assert errors == {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
