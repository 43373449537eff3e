"""Records whose validation takes long: a worker does it, and the connection's order is kept."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import LARGEST_RATIO
from minikafka.core.log.validation import LONG_COMPRESSION_BYTES, LONG_RECORD_COUNT
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.legacy import encode_message_set
from minikafka.protocol.records.record import Record, decode_records, encode_record
from minikafka.protocol.records.record_loop import LEAST_RECORD_BYTES
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.record_preparation import ON_LOOP_BYTES
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster, batch

NOW = 1_700_000_000_000
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def large(codec: Compression, plain_bytes: int = 2 * ON_LOOP_BYTES, **fields: Any) -> bytes:
    """A few kilobytes that hold so much."""
    return build_batch([(NOW, b"k", bytes(plain_bytes), [])], compression=codec, **fields)


def many(count: int, offset_step: int = 1) -> bytes:
    """A compressed batch of ``count`` records."""
    payload = b"".join(encode_record(n * offset_step, 0, b"", b"") for n in range(count))
    return claiming(count, compress(Compression.ZSTD, payload), Compression.ZSTD)


def claiming(count: int, payload: bytes, codec: Compression = Compression.NONE) -> bytes:
    """A batch whose header claims ``count`` records."""
    return assemble_batch(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def send(node: Node, *batches: bytes, version: int = 9) -> list[Any]:
    """Produce the batches to the partitions 0, 1, ...; return the list that gets the response."""
    return node.ask(
        ProduceRequest(
            acks=1,
            timeout_ms=1_000,
            topic_data=[
                TopicProduceData(
                    TOPIC,
                    partition_data=[
                        PartitionProduceData(n, bytearray(data)) for n, data in enumerate(batches)
                    ],
                )
            ],
        ),
        version,
    )


def outcomes(replies: list[Any]) -> list[tuple[ErrorCode, int]]:
    (response,) = replies
    return [
        (ErrorCode(partition.error_code), partition.base_offset)
        for partition in response.responses[0].partition_responses
    ]


async def one_broker(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
    return cluster[1]


@pytest.mark.mission("SAFE-2")
@pytest.mark.parametrize("codec", CODECS)
async def test_a_worker_opens_a_large_batch_and_later_requests_wait_for_it(
    codec: Compression,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        cluster.workers.hold()
        first = send(node, large(codec), batch("x"))
        second = send(node, batch("y"), batch("y"))
        await cluster.clock.advance(100)
        assert (first, second) == ([], [])
        cluster.workers.release()
        await cluster.clock.advance(1)
        assert outcomes(first) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
        assert outcomes(second) == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 1)]
        assert cluster.workers.calls == 1


@pytest.mark.parametrize("codec", CODECS)
async def test_small_batches_are_opened_at_once(codec: Compression) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        replies = send(node, large(codec, 10_000), large(codec, 10_000))
        assert outcomes(replies) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
        assert cluster.workers.calls == 0


async def test_the_budget_of_the_event_loop_is_that_of_the_whole_request() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        half = large(Compression.ZSTD, ON_LOOP_BYTES * 2 // 3)
        assert outcomes(send(node, half)) == [(ErrorCode.NONE, 0)]
        assert cluster.workers.calls == 0
        replies = send(node, half, half)
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 0)]
        assert cluster.workers.calls == 1


async def test_many_records_are_a_workers_and_are_renumbered_there() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        count = LONG_RECORD_COUNT + 1
        replies = send(node, many(count, offset_step=2))
        assert replies == []
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.NONE, 0)]
        assert cluster.workers.calls == 1
        log = node.partition().log
        stored = decode_records(log.read(0, 1 << 24, log.log_end_offset, True).records)
        assert [record.offset for record in stored] == list(range(count))


@pytest.mark.mission("SAFE-1")
async def test_many_records_of_the_least_size_are_a_workers() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        least = encode_record(0, 0, None, None)
        assert len(least) == LEAST_RECORD_BYTES
        count = LONG_RECORD_COUNT + 1
        replies = send(node, claiming(count, least * count))
        assert replies == []
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.NONE, 0)]
        assert cluster.workers.calls == 1


@pytest.mark.mission("SAFE-61")
async def test_a_batch_without_room_for_its_records_is_refused_at_once() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        short = claiming(LONG_RECORD_COUNT + 1, encode_record(0, 0, None, None))
        assert outcomes(send(node, short)) == [(ErrorCode.INVALID_RECORD, -1)]
        assert cluster.workers.calls == 0


async def test_a_long_conversion_is_a_workers() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        old = [Record(n, NOW, b"k", bytes(100), []) for n in range(200)]
        replies = send(node, encode_message_set(old, 1, Compression.NONE, False), version=2)
        assert replies == []
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.NONE, 0)]


async def test_a_long_compression_is_a_workers() -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.by_topic[TOPIC] = TopicConfig(log=LogConfig(compression_type="gzip"))
        node = await one_broker(cluster)
        replies = send(node, large(Compression.LZ4, 100))
        assert outcomes(replies) == [(ErrorCode.NONE, 0)]
        noise = build_batch(
            [(NOW, b"k", random.Random(1).randbytes(LONG_COMPRESSION_BYTES), [])],
            compression=Compression.LZ4,
        )
        replies = send(node, noise)
        assert replies == []
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.NONE, 1)]


@pytest.mark.mission("SAFE-2")
@pytest.mark.parametrize("codec", CODECS)
async def test_a_bomb_is_refused_alone(codec: Compression) -> None:
    """More than ``max.message.bytes`` allows when decompressed: MESSAGE_TOO_LARGE, on which a
    producer splits the batch."""
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        limit = LARGEST_RATIO * node.partition().log.config.max_message_bytes
        bomb = large(codec, limit)
        if len(bomb) > node.partition().log.config.max_message_bytes:
            pytest.skip("this codec cannot hold so much in a batch")
        replies = send(node, bomb, batch("x"))
        await cluster.clock.advance(1)
        assert outcomes(replies) == [(ErrorCode.MESSAGE_TOO_LARGE, -1), (ErrorCode.NONE, 0)]


async def test_a_partition_that_is_not_led_is_refused_without_any_work() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await one_broker(cluster)
        replies = send(node, batch("x"), batch("x"), large(Compression.ZSTD))
        assert outcomes(replies)[2] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert cluster.workers.calls == 0
