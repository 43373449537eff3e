"""Produce: rejected requests, appended batches, and the order of responses."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster, batch, error_of

RECORD: Any = (1_700_000_000_000, b"k", b"v", [])


def request(*topics: tuple[str, dict[int, bytes | None]], acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                topic,
                partition_data=[
                    PartitionProduceData(i, None if r is None else bytearray(r))
                    for i, r in partitions.items()
                ],
            )
            for topic, partitions in topics
        ],
    )


def produce(node: Node, records: bytes | None, version: int = 9, acks: int = 1) -> ErrorCode:
    response = node.ask(request((TOPIC, {0: records}), acks=acks), version)[0]
    return error_of(response.responses[0].partition_responses)


@pytest.mark.mission("PRD-3")
@pytest.mark.mission("PRD-4")
async def test_partitions_are_appended_separately_with_results_in_request_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1, 2], topic="a")
        other = UUID(int=8)
        await cluster.elect(
            1, isr=[1], replicas=[1], partitions=[0, 1, 2], topic="b", topic_id=other
        )
        node = cluster[1]
        for round_trip in range(2):
            asked = request(
                ("b", {2: batch("x", "y"), 0: batch("x"), 7: batch("x")}),
                ("a", {1: batch("x"), 0: batch("x"), 2: batch("x")}),
            )
            response = node.ask(asked, 9)[0]
            answers = [
                (topic.name, p.index, p.error_code, p.base_offset)
                for topic in response.responses
                for p in topic.partition_responses
            ]
            assert answers == [
                ("b", 2, 0, 2 * round_trip),
                ("b", 0, 0, round_trip),
                ("b", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
                ("a", 1, 0, round_trip),
                ("a", 0, 0, round_trip),
                ("a", 2, 0, round_trip),
            ]
        assert sum(p.log.log_end_offset for p in node.replicas.hosted) == 12


@pytest.mark.mission("SAFE-34")
async def test_a_partition_that_is_named_twice_is_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1, 2])
        node = cluster[1]
        twice = ErrorCode.INVALID_REQUEST
        asked = request(
            (TOPIC, {0: batch("a"), 1: batch("b"), 7: batch("c")}),
            (TOPIC, {2: None, 0: batch("d")}),
        )
        rows = [
            (p.index, p.error_code)
            for topic in node.ask(asked, 9)[0].responses
            for p in topic.partition_responses
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rows[:3] == [(0, twice), (1, 0), (7, unknown)]
        assert rows[3][0] == 2
        assert rows[3][1] != 0
        assert rows[4] == (0, twice)
        assert [p.log.log_end_offset for p in node.replicas.hosted] == [0, 1, 0]
        only_twice = request((TOPIC, {0: batch("a")}), (TOPIC, {0: batch("a")}))
        (topic,) = node.ask(only_twice, 9)[0].responses
        assert [p.error_code for p in topic.partition_responses] == [twice, twice]


@pytest.mark.mission("PRD-5")
async def test_acks_0_gets_no_response_acks_1_and_all_do() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        for acks, answered in ((0, [None]), (1, None), (-1, None)):
            replies = cluster[1].ask(request((TOPIC, {0: batch("v")}), acks=acks), 9)
            assert len(replies) == 1
            if answered is not None:
                assert replies == answered
            else:
                assert error_of(replies[0].responses[0].partition_responses) is ErrorCode.NONE
        assert cluster[1].held() == ["v"] * 3


@pytest.mark.mission("PRD-5")
async def test_an_error_with_acks_0_closes_the_connection() -> None:
    async with ReplicaCluster([1]) as cluster:
        with pytest.raises(KafkaError) as raised:
            cluster[1].ask(request((TOPIC, {0: batch("v")}), acks=0), 9)
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.mission("PRD-7")
async def test_unknown_partition_fails_immediately_even_with_acks_all() -> None:
    async with ReplicaCluster([1]) as cluster:
        replies = cluster[1].ask(request((TOPIC, {0: batch("v")}), acks=-1), 9)
        answer = replies[0].responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.base_offset == -1


@pytest.mark.mission("PRD-7")
@pytest.mark.parametrize("acks", [0, 1])
async def test_acks_other_than_all_wait_for_no_follower(acks: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2, 3])
        node = cluster[1]
        (reply,) = node.ask(request((TOPIC, {0: batch("v")}), acks=acks), 9)
        assert node.partition().high_watermark == 0, "no follower has it yet"
        assert node.held() == ["v"]
        assert node.replicas.purgatories.produce.purgatory.delayed == 0
        assert (reply is None) == (acks == 0)
        if reply is not None:
            answer = reply.responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        # The same with acks=all waits: only the requested acks differ.
        assert node.ask(request((TOPIC, {0: batch("w")}), acks=-1), 9) == []
        assert node.replicas.purgatories.produce.purgatory.delayed == 1


@pytest.mark.mission("PRD-7")
async def test_acks_all_without_any_append_does_not_wait() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2, 3])
        corrupt = bytearray(batch("value"))
        corrupt[-1] ^= 1
        replies = cluster[1].ask(request((TOPIC, {0: bytes(corrupt), 7: batch("v")}), acks=-1), 9)
        codes = [p.error_code for p in replies[0].responses[0].partition_responses]
        assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert cluster[1].replicas.purgatories.produce.purgatory.delayed == 0


@pytest.mark.mission("PRD-7")
async def test_acks_all_on_several_partitions_waits_for_the_slowest() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1], tell=[1])
        replies = cluster[1].ask(
            request((TOPIC, {0: batch("a"), 1: batch("b"), 5: batch("c")}), acks=-1), 9
        )
        second = TP._replace(partition=1)
        assert replies == []
        cluster[1].fetch(1, replica_id=2)
        assert replies == []
        cluster[1].fetch(1, replica_id=2, topic_partition=second)
        codes = [p.error_code for p in replies[0].responses[0].partition_responses]
        assert codes == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert cluster[1].replicas.purgatories.produce.purgatory.delayed == 0


@pytest.mark.parametrize("acks", [2, -2])
async def test_other_acks_are_invalid(acks: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        assert produce(cluster[1], batch("v"), acks=acks) is ErrorCode.INVALID_REQUIRED_ACKS
        assert cluster[1].held() == []


async def test_bad_records_are_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        node = cluster[1]
        corrupt = bytearray(batch("value"))
        corrupt[-1] ^= 1
        zstd = build_batch([RECORD], compression=Compression.ZSTD)
        transactional = build_batch(
            [RECORD], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        control = build_batch([RECORD], control=True)
        assert produce(node, None) is ErrorCode.INVALID_RECORD
        assert produce(node, b"") is ErrorCode.INVALID_RECORD
        assert produce(node, batch("v") + batch("w")) is ErrorCode.INVALID_RECORD
        assert produce(node, bytes(corrupt)) is ErrorCode.CORRUPT_MESSAGE
        assert produce(node, control) is ErrorCode.INVALID_RECORD
        assert produce(node, transactional) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert produce(node, zstd, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert node.held() == []
        assert produce(node, zstd, version=7) is ErrorCode.NONE


async def test_clients_may_not_write_to_internal_topics_but_the_admin_client_may() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(
            1, isr=[1], replicas=[1], topic=GROUP_METADATA_TOPIC, topic_id=UUID(int=3)
        )
        asked = request((GROUP_METADATA_TOPIC, {0: batch("v")}))
        refused = cluster[1].ask(asked, 9)[0].responses[0].partition_responses
        assert error_of(refused) is ErrorCode.INVALID_TOPIC_EXCEPTION
        allowed = cluster[1].ask(asked, 9, "__admin_client")[0].responses[0].partition_responses
        assert error_of(allowed) is ErrorCode.NONE


async def test_the_current_leader_is_named_from_version_10_on() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(2, epoch=4, tell=[1])
        asked = request((TOPIC, {0: batch("v")}))
        response = cluster[1].ask(asked, 10)[0]
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 4)
        node = response.node_endpoints[0]
        assert (node.node_id, node.host, node.port, node.rack) == (2, "host2", 2, "r2")
        older = cluster[1].ask(asked, 9)[0].responses[0].partition_responses[0]
        assert older.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert older.current_leader is None


async def test_a_replica_knows_of_its_leader_before_the_metadata_do() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(2, epoch=4, tell=[1])
        cluster.metadata.leaders[TP] = (1, 3)  # UpdateMetadata is still to come
        answer = cluster[1].ask(request((TOPIC, {0: batch("v")})), 10)[0]
        told = answer.responses[0].partition_responses[0].current_leader
        assert (told.leader_id, told.leader_epoch) == (2, 4)
        assert [node.node_id for node in answer.node_endpoints] == [2]


async def test_a_partition_elsewhere_is_not_unknown() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(2, isr=[2], replicas=[2], tell=[])
        assert produce(cluster[1], batch("v")) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_failing_disk_takes_its_partitions_offline_and_no_others() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1], tell=[1])
        node = cluster[1]
        assert produce(node, batch("a")) is ErrorCode.NONE
        parked = node.fetch(0, max_wait_ms=10_000)
        waiting = node.produce("b")
        assert parked == []
        assert waiting == []
        node.files.break_below("/data")
        assert produce(node, batch("c")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of(parked) is ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of(waiting) is ErrorCode.KAFKA_STORAGE_ERROR
        node.files.repair()
        assert produce(node, batch("c")) is ErrorCode.KAFKA_STORAGE_ERROR
        other = node.produce("d", acks=1, topic_partition=TopicPartition(TOPIC, 1))
        assert error_of(other) is ErrorCode.NONE


async def test_retried_batch_returns_its_original_offset() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        retried = build_batch([RECORD], producer_id=5, producer_epoch=0, base_sequence=0)
        assert produce(cluster[1], batch("a")) is ErrorCode.NONE
        offsets = []
        for _ in range(2):
            response = cluster[1].ask(request((TOPIC, {0: retried}), acks=-1), 9)[0]
            offsets.append(response.responses[0].partition_responses[0].base_offset)
        assert offsets == [1, 1]
        assert cluster[1].held() == ["a", "v"]


async def test_transactional_batches_of_two_producers_are_refused_partition_by_partition() -> None:
    """The connection stays open: Kafka responds INVALID_PRODUCER_ID_MAPPING for each."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1], topic="a")
        batches = {
            index: build_batch(
                [RECORD],
                producer_id=7 + index,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            for index in (0, 1)
        }
        asked = request(cast(Any, ("a", batches)), acks=-1)
        asked.transactional_id = "tx"
        response = cluster[1].ask(asked, 9)[0]
        rows = response.responses[0].partition_responses
        assert [row.error_code for row in rows] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def by_id(*topics: tuple[UUID, dict[int, bytes | None]], acks: int = 1) -> ProduceRequest:
    asked = request(*[("", rows) for _, rows in topics], acks=acks)
    for topic, (topic_id, _) in zip(asked.topic_data, topics, strict=True):
        topic.topic_id = topic_id
    return asked


@pytest.mark.mission("TV2-8")
async def test_topics_are_named_by_id() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
        unknown = UUID(int=77)
        asked = by_id((TOPIC_ID, {1: batch("a"), 9: batch("b")}), (unknown, {0: batch("c")}))
        (response,) = cluster[1].ask(asked, 13)
        rows = [
            (topic.topic_id, p.index, p.error_code)
            for topic in response.responses
            for p in topic.partition_responses
        ]
        assert rows == [
            (TOPIC_ID, 1, ErrorCode.NONE),
            (TOPIC_ID, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (unknown, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ]


@pytest.mark.mission("TV2-8")
async def test_an_unknown_id_with_acks_0_closes_the_connection() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        unknown: tuple[UUID, dict[int, bytes | None]] = UUID(int=77), {0: batch("c")}
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
            cluster[1].ask(by_id((TOPIC_ID, {0: batch("a")}), unknown, acks=0), 13)
        assert cluster[1].held() == ["a"]
        assert cluster[1].ask(by_id((TOPIC_ID, {0: batch("a")}), acks=0), 13) == [None]
