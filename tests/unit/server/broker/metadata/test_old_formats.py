"""Produce v0-v2 and Fetch v0-v3: any version reads what any version wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import (
    encode_message,
    encode_message_set,
    iterate_messages,
)
from minikafka.protocol.records.record import Record, decode_records
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.record_formats import CONVERTED_BYTES
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster, batch, error_of
from tests.support.protocol.message_sets import decode_message_set
from tests.support.storage.stored_batches import garbage

T0 = 1_700_000_000_000
PRODUCE_VERSIONS = range(12)
FETCH_VERSIONS = range(17)


def magic_of_produce(version: int) -> int:
    return 0 if version < 2 else 1 if version < 3 else 2


def magic_of_fetch(version: int) -> int:
    return 0 if version < 2 else 1 if version < 4 else 2


def records_of(version: int, *values: str, codec: Compression = Compression.NONE) -> bytes:
    """As a producer of that version sends them."""
    rows = [Record(i, T0 + i, None, v.encode(), []) for i, v in enumerate(values)]
    magic = magic_of_produce(version)
    if magic < 2:
        return encode_message_set(rows, magic, codec)
    return build_batch(rows, compression=codec)


def produce(
    node: Node, records: bytes, version: int, acks: int = 1, partition: int = 0
) -> PartitionProduceResponse:
    data = PartitionProduceData(partition, bytearray(records))
    request = ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(TOPIC, partition_data=[data])]
    )
    response = node.ask(request, version)[0]
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def fetch(node: Node, version: int, offset: int = 0, **fields: Any) -> Any:
    """The response, by partition."""
    (response,) = send_fetch(node, version, offset, **fields)
    return response.responses[0].partitions


def send_fetch(
    node: Node, version: int, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any
) -> list[Any]:
    """The responses so far."""
    partitions = [
        FetchPartition(partition=i, fetch_offset=offset, partition_max_bytes=max_bytes)
        for i in fields.pop("partitions", [0])
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(TOPIC, TOPIC_ID, partitions)], **fields
    )
    return node.ask(request, version)


def read(records: Any, version: int) -> list[Record]:
    magic = magic_of_fetch(version)
    if magic == 2:
        return list(decode_records(records))
    assert {m.magic for m in iterate_messages(records)} <= {magic}
    assert all(m.crc_is_valid for m in iterate_messages(records))
    return list(decode_message_set(records))


async def alone(cluster: ReplicaCluster, partitions: int = 1, **config: Any) -> Node:
    """Broker 1 leads, without followers."""
    cluster.configs.by_topic[TOPIC] = TopicConfig(log=replace(LogConfig(), **config))
    await cluster.elect(1, isr=[1], replicas=[1], partitions=range(partitions))
    return cluster[1]


@pytest.mark.mission("PRD-2", "FET-1", "R-9")
@pytest.mark.parametrize("written", PRODUCE_VERSIONS)
async def test_every_version_of_fetch_reads_every_version_of_produce(written: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        for codec in (Compression.NONE, Compression.GZIP):
            for acks in (1, -1):
                answer = produce(node, records_of(written, "a", "b", codec=codec), written, acks)
                assert answer.error_code == ErrorCode.NONE
        assert answer.base_offset == 6
        for version in FETCH_VERSIONS:
            (data,) = fetch(node, version)
            assert data.error_code == ErrorCode.NONE
            assert data.high_watermark == 8
            found = read(data.records, version)
            assert [(r.offset, r.value) for r in found] == [
                (i, b"ab"[i % 2 : i % 2 + 1]) for i in range(8)
            ]
            timed = magic_of_produce(written) > 0 and magic_of_fetch(version) > 0
            assert [r.timestamp for r in found] == [T0 + i % 2 if timed else -1 for i in range(8)]


@pytest.mark.mission("PRD-2")
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
async def test_formats_that_a_version_does_not_take(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        for magic in (0, 1, 2):
            record = Record(0, T0, b"k", b"v", [])
            data = build_batch([record]) if magic == 2 else encode_message_set([record], magic)
            expected = ErrorCode.NONE if magic == 2 or version < 3 else ErrorCode.INVALID_RECORD
            assert produce(node, data, version).error_code == expected
        for data in (b"", batch("v")[:-1], encode_message(0, 1, T0, None, b"v" * 40)[:-1]):
            assert produce(node, data, version).error_code == ErrorCode.INVALID_RECORD
        assert len(node.held()) == (3 if version < 3 else 1)


@pytest.mark.mission("PRD-4")
@pytest.mark.parametrize("version", [7, 8, 11])
async def test_records_for_which_a_batch_was_refused_are_named_from_version_8_on(
    version: int,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, cleanup_policy="compact")
        rows: Any = [(T0, key, b"v", []) for key in (b"k", None, b"k", None)]
        answer = produce(node, build_batch(rows), version)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        named = [error.batch_index for error in answer.record_errors]
        assert named == ([] if version < 8 else [1, 3])
        assert (answer.error_message is None) == (version < 8)


async def test_log_append_time_is_in_produce_and_fetch_responses() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, message_timestamp_type="LogAppendTime")
        for version in (1, 2, 3):
            answer = produce(node, records_of(version, "a"), version)
            expected = cluster.clock.wall_ms() if version > 1 else -1
            assert answer.log_append_time_ms == expected
        for version in (3, 4):
            (data,) = fetch(node, version)
            times = {r.timestamp for r in read(data.records, version)}
            assert times == {cluster.clock.wall_ms()}


async def test_a_message_set_that_grows_too_large_is_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, max_message_bytes=200)
        data = records_of(2, *("x" * 50 for _ in range(5)))
        assert produce(node, data, 2).error_code == ErrorCode.MESSAGE_TOO_LARGE


# ---- fetch: what cannot be converted


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_zstd_is_for_version_10_on(version: int) -> None:
    """By what the topic is set to; batches that producers compressed so go out from version 4."""
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, compression_type="zstd")
        produce(node, records_of(2, "a"), 2)
        expected = ErrorCode.NONE if version >= 10 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        (data,) = fetch(node, version)
        assert data.error_code == expected
        assert bool(data.records) == (version >= 10)
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        produce(node, records_of(7, "a", codec=Compression.ZSTD), 7)
        expected = ErrorCode.NONE if version >= 4 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert fetch(node, version)[0].error_code == expected


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_topics_may_allow_no_conversion(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, message_downconversion_enable=False)
        produce(node, records_of(3, "a"), 3)
        expected = ErrorCode.NONE if version >= 4 else ErrorCode.UNSUPPORTED_VERSION
        assert fetch(node, version)[0].error_code == expected


@pytest.mark.parametrize("version", [0, 3])
async def test_errors_come_through_as_they_are(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, message_downconversion_enable=False)
        (data,) = fetch(node, version, offset=5)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(node, version, partitions=[9])[0].error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )


@pytest.mark.parametrize("version", [0, 2, 3])
async def test_a_parked_fetch_is_converted_too(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        answers = node.fetch(0, version=version, max_wait_ms=1_000)
        assert answers == []
        node.produce("a")
        assert [r.value for r in read(answers[0].records, version)] == [b"a"]
        waiting = node.fetch(1, version=version, max_wait_ms=1_000)
        await cluster.clock.advance(1_001)
        assert error_of(waiting) is ErrorCode.NONE
        assert waiting[0].records == b""


# ---- fetch: how much


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_uncompressed_response_starts_at_the_fetch_offset(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a", "b", "c")
        (data,) = fetch(node, version, offset=1)
        assert [r.offset for r in read(data.records, version)] == [1, 2]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_response_has_at_least_one_record_and_respects_max_bytes(version: int) -> None:
    """Before version 3 from every partition, from 3 on from the first alone (KIP-74)."""
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, partitions=3)
        for partition in range(3):
            for _ in range(4):
                node.produce("x" * 100, topic_partition=TP._replace(partition=partition))
        answers = fetch(node, version, max_bytes=10, partitions=[0, 1, 2])
        counts = [len(read(a.records, version)) for a in answers]
        assert counts == ([1, 1, 1] if version < 3 else [1, 0, 0])
        size = 2 * len(encode_message(0, magic_of_fetch(version), T0, None, b"x" * 100))
        answers = fetch(node, version, max_bytes=2 * len(batch("x" * 100)), partitions=[0, 1, 2])
        assert all(len(a.records) == size for a in answers)
        assert [len(read(a.records, version)) for a in answers] == [2, 2, 2]


@pytest.mark.parametrize("version", [0, 3])
async def test_one_response_converts_a_bounded_number_of_bytes(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, partitions=2)
        value = "x" * 100_000
        for partition in (0, 1):
            for _ in range(15):
                node.produce(value, topic_partition=TP._replace(partition=partition))
        answers = fetch(node, version, max_bytes=1 << 30, partitions=[0, 1])
        sizes = [len(a.records) for a in answers]
        assert 0 < sum(sizes) <= CONVERTED_BYTES
        assert min(sizes) > CONVERTED_BYTES // 2 - 110_000
        (alone_,) = fetch(node, version, max_bytes=1 << 30)
        assert CONVERTED_BYTES - 110_000 < len(alone_.records) <= CONVERTED_BYTES


@pytest.mark.mission("SAFE-64")
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_a_worker_converts_many_records(codec: Compression) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        produce(node, build_batch([(T0, None, b"", ())] * 3000, compression=codec), 3, acks=1)
        cluster.workers.hold()
        responses = send_fetch(node, 3)
        await cluster.clock.settle()
        assert (responses, cluster.workers.calls) == ([], 1)
        cluster.workers.release()
        await cluster.clock.settle()
        assert len(read(responses[0].responses[0].partitions[0].records, 3)) == 3000


@pytest.mark.mission("SAFE-64")
async def test_an_invalid_batch_is_an_error_of_its_partition_for_old_consumers() -> None:
    """Newer ones get the bytes as they are."""
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, partitions=2)
        node.partition().log.append_as_follower(garbage())
        node.produce("b")
        node.produce("a", topic_partition=TP._replace(partition=1))
        bad, good = fetch(node, 3, partitions=[0, 1])
        assert (bad.error_code, bad.records) == (ErrorCode.CORRUPT_MESSAGE, b"")
        assert [record.value for record in read(good.records, 3)] == [b"a"]
        assert fetch(node, 4)[0].records[: len(garbage())] == garbage()
