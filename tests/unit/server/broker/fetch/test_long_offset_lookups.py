"""ListOffsets by timestamp, where a stored batch is huge when decompressed, or invalid."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.records.compression import Compression, compress
from minikafka.server.broker.fetch.offset_lookup import MAX_TIMESTAMP
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster
from tests.support.storage.stored_batches import (
    TIME_MS,
    garbage,
    large_record,
    many_records,
    stored_batch,
)


async def node_with(cluster: ReplicaCluster, *batches: bytes) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1])
    node = cluster[1]
    for batch in batches:
        node.partition().log.append_as_follower(batch)
    return node


def ask(node: Node, *timestamps: int) -> list[Any]:
    """The debugging replica's request: it reads up to the log end."""
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in timestamps]
    return node.ask(ListOffsetsRequest(-2, 0, [ListOffsetsTopic(TOPIC, partitions)]), 7)


def only(replies: list[Any]) -> Any:
    (response,) = replies
    return response.topics[0].partitions[0]


@pytest.mark.mission("SAFE-60")
@pytest.mark.parametrize("timestamp", [TIME_MS, MAX_TIMESTAMP])
@pytest.mark.parametrize("batch", [many_records(30_000), large_record(8 << 20)])
async def test_a_worker_searches_a_huge_batch(batch: bytes, timestamp: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await node_with(cluster, batch)
        cluster.workers.hold()
        replies = ask(node, timestamp)
        await cluster.clock.settle()
        assert (replies, cluster.workers.calls) == ([], 1)
        cluster.workers.release()
        await cluster.clock.settle()
        assert (only(replies).error_code, only(replies).offset) == (0, 0)


async def test_a_small_batch_is_searched_on_the_event_loop() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await node_with(cluster, many_records(100))
        assert only(ask(node, TIME_MS)).offset == 0
        assert cluster.workers.calls == 0


@pytest.mark.mission("SAFE-60")
async def test_a_search_starts_again_if_the_log_is_truncated_during_it() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await node_with(cluster, many_records(30_000))
        log = node.partition().log
        cluster.workers.hold()
        replies = ask(node, MAX_TIMESTAMP)
        await cluster.clock.settle()
        log.truncate_to(0)
        cluster.workers.release()
        await cluster.clock.settle()
        assert (only(replies).error_code, only(replies).offset) == (0, -1)


@pytest.mark.mission("SAFE-60")
@pytest.mark.parametrize(
    "batch",
    [
        garbage(),
        stored_batch(b"", 2**31 - 1),
        stored_batch(b"no zstd", 3, 0, Compression.ZSTD),
        stored_batch(b"\xff" * (1 << 20) * 2, 30_000),
        stored_batch(compress(Compression.ZSTD, b"\0" * (1 << 24)), 7, 0, Compression.ZSTD),
        stored_batch(b"", 1, attributes=7),
    ],
)
async def test_an_invalid_batch_is_an_error_of_its_partition(batch: bytes) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await node_with(cluster, batch)
        replies = ask(node, TIME_MS)
        await cluster.clock.settle()
        expected = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        assert only(replies).error_code in expected
        assert only(ask(node, -1)).offset == node.partition().log.log_end_offset


async def test_a_batch_beyond_the_largest_size_is_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await node_with(cluster, large_record(101 << 20))
        replies = ask(node, TIME_MS)
        await cluster.clock.settle()
        assert only(replies).error_code == ErrorCode.MESSAGE_TOO_LARGE
