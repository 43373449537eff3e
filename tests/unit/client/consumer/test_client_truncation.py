"""A consumer detects truncated logs with OffsetForLeaderEpoch requests (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.client import ClientConfig, Consumer, ConsumerConfig, LogTruncationError
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from minikafka.protocol.records.batch import parse_batches
from minikafka.protocol.records.builder import build_batch
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)


class EpochCluster(FakeCluster):
    """Knows where leader epochs end, by the batches that are there."""

    def __init__(self, world: Any, serves: bool) -> None:
        super().__init__(world)
        if serves:
            key = ApiKey.OFFSET_FOR_LEADER_EPOCH
            self.versions[int(key)] = (0, key.max_version)

    def _offset_for_leader_epoch(self, broker: int, request: Any, fault: Any, reply: Any) -> None:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                tp = TopicPartition(topic.topic, asked.partition)
                code = fault or self._leader_error(broker, tp, asked.current_leader_epoch)
                epoch, end = -1, -1
                if code is ErrorCode.NONE:
                    epoch, end = self._end_of(tp, asked.leader_epoch)
                rows.append(EpochEndOffset(code, asked.partition, epoch, end))
            topics.append(OffsetForLeaderTopicResult(topic.topic, rows))
        reply(OffsetForLeaderEpochResponse(topics=topics))

    def _end_of(self, tp: TopicPartition, epoch: int) -> tuple[int, int]:
        found = (-1, -1)
        for data in self.partitions[tp].batches:
            (batch,) = parse_batches(data)
            if batch.partition_leader_epoch <= epoch:
                found = (batch.partition_leader_epoch, batch.next_offset)
        return found

    def cut(self, tp: TopicPartition, batches: int) -> None:
        """Another broker leads, and has only the first batches."""
        del self.partitions[tp].batches[batches:]
        self.move_leader(tp, 2 if self.partitions[tp].leader == 1 else 1)

    def write(self, tp: TopicPartition, *values: bytes) -> None:
        for value in values:
            self.partitions[tp].append(build_batch([(0, None, value, [])]))


@asynccontextmanager
async def consuming(
    reset: str = "earliest", serves: bool = True
) -> AsyncIterator[tuple[Consumer, EpochCluster]]:
    world = client_world()
    cluster = EpochCluster(world, serves)
    cluster.create("t", 1)
    await cluster.start()
    config = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    settings = ConsumerConfig(auto_offset_reset=reset)  # type: ignore[arg-type]
    async with Consumer(world, config, settings) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        yield consumer, cluster


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in await consumer.poll(1_000, count - len(values))]
    return values


@jumping
async def test_a_new_leader_with_the_whole_log_is_read_on() -> None:
    async with consuming() as (consumer, cluster):
        cluster.write(T0, b"0", b"1", b"2")
        assert await read(consumer, 3) == [b"0", b"1", b"2"]
        cluster.move_leader(T0, 2)
        cluster.write(T0, b"3")
        assert await read(consumer, 1) == [b"3"]
        (asked,) = cluster.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        row = asked.topics[0].partitions[0]
        assert (row.leader_epoch, row.current_leader_epoch) == (0, 1)


@jumping
async def test_records_that_took_the_place_of_lost_ones_are_read() -> None:
    async with consuming() as (consumer, cluster):
        cluster.write(T0, b"0", b"1", b"lost", b"lost too")
        await read(consumer, 4)
        cluster.cut(T0, 2)
        cluster.write(T0, b"2", b"3", b"4")
        # Offsets 2 and 3 are others now; without the question they would be passed over.
        assert await read(consumer, 3) == [b"2", b"3", b"4"]


@jumping
async def test_without_a_reset_policy_truncation_is_raised() -> None:
    async with consuming("none") as (consumer, cluster):
        cluster.write(T0, b"0", b"1", b"lost", b"lost too")
        await read(consumer, 4)
        cluster.cut(T0, 2)
        cluster.write(T0, b"2", b"3", b"4")
        with pytest.raises(LogTruncationError) as caught:
            await read(consumer, 1)
        assert caught.value.divergent_offset == 2
        assert caught.value.topic_partition == T0
        assert await consumer.position(T0) == 2
        assert await read(consumer, 3) == [b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "fault", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_retriable_errors_of_offset_for_leader_epoch_are_retried(fault: ErrorCode) -> None:
    @jumping
    async def scenario() -> None:
        async with consuming() as (consumer, cluster):
            cluster.write(T0, b"0")
            await read(consumer, 1)
            cluster.fail(ApiKey.OFFSET_FOR_LEADER_EPOCH, fault, fault)
            cluster.move_leader(T0, 2)
            cluster.write(T0, b"1")
            assert await read(consumer, 1) == [b"1"]
            assert len(cluster.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)) == 3

    scenario()


@jumping
async def test_an_authorization_error_of_offset_for_leader_epoch_is_raised() -> None:
    async with consuming() as (consumer, cluster):
        cluster.write(T0, b"0")
        await read(consumer, 1)
        cluster.fail(ApiKey.OFFSET_FOR_LEADER_EPOCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        cluster.move_leader(T0, 2)
        with pytest.raises(KafkaError) as caught:
            await read(consumer, 1)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@jumping
async def test_brokers_that_know_no_epochs_are_believed() -> None:
    async with consuming(serves=False) as (consumer, cluster):
        cluster.write(T0, b"0")
        await read(consumer, 1)
        cluster.move_leader(T0, 2)
        cluster.write(T0, b"1")
        assert await read(consumer, 1) == [b"1"]


@jumping
async def test_a_leader_that_is_away_for_long() -> None:
    async with consuming() as (consumer, cluster):
        cluster.write(T0, b"0")
        await read(consumer, 1)
        cluster.move_leader(T0, 2)
        cluster.stop_broker(2)
        assert await consumer.poll(30_000) == []
        await cluster.start_broker(2)
        cluster.write(T0, b"1")
        async with asyncio.timeout(60):
            assert await read(consumer, 1) == [b"1"]
