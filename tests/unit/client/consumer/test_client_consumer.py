"""The consumer against a fake cluster: positions, long polls, leaders that move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import HANG_UP, SILENCE
from tests.support.client.scenes import consuming, fill, take
from tests.support.world.client_world import jumping

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@jumping
async def test_it_reads_all_partitions_from_the_beginning() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 3)
        fill(cluster, T1, 0, 2)
        assert await consumer.assign_topics("t") == [T0, T1]
        taken = await take(consumer, 10)
        assert sorted(taken) == [(0, n) for n in range(6)] + [(1, n) for n in range(4)]
        assert await consumer.position(T0) == 6
        assert consumer.high_watermark(T0) == 6


@jumping
async def test_latest_starts_at_the_log_end() -> None:
    async with consuming(auto_offset_reset="latest") as (consumer, cluster):
        fill(cluster, T0, 0, 3)
        consumer.assign([T0])
        assert await consumer.position(T0) == 6
        waiting = asyncio.ensure_future(take(consumer, 2))
        await asyncio.sleep(30)
        assert not waiting.done()
        fill(cluster, T0, 6)
        assert await waiting == [(0, 6), (0, 7)]


@jumping
async def test_a_poll_waits_for_records_but_not_for_ever() -> None:
    async with consuming() as (consumer, cluster):
        consumer.assign([T0])
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await consumer.poll(timeout_ms=2_000) == []
        assert 1.999 < loop.time() - begun < 2.1
        # Long polls, not a storm of requests.
        assert len(cluster.requests(ApiKey.FETCH)) <= 5
        loop.call_later(0.05, fill, cluster, T0, 0)
        begun = loop.time()
        assert [record.offset for record in await consumer.poll(timeout_ms=2_000)] == [0, 1]
        assert loop.time() - begun < 0.1


@jumping
async def test_seeking_by_offset_and_into_a_batch() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 5)
        consumer.assign([T0])
        consumer.seek(T0, 7)
        assert await take(consumer, 3) == [(0, 7), (0, 8), (0, 9)]
        consumer.seek(T0, 2)
        assert await take(consumer, 1) == [(0, 2)]
        with pytest.raises(KeyError):
            consumer.seek(T1, 0)


@jumping
async def test_seeking_to_the_ends_and_by_timestamp() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 5)
        consumer.assign([T0])
        consumer.seek_to_end()
        assert await consumer.position(T0) == 10
        consumer.seek_to_timestamp(5_500, T0)
        assert await consumer.position(T0) == 6
        consumer.seek_to_timestamp(99_000, T0)
        assert await consumer.position(T0) == 10
        consumer.seek_to_beginning(T0)
        assert await take(consumer, 1) == [(0, 0)]
        found = await consumer.offsets_for_times({T0: 3_000, T1: 3_000})
        assert {tp: (at.offset, at.timestamp) for tp, at in found.items()} == {
            T0: (3, 3_000),
            T1: (-1, -1),
        }


@jumping
async def test_reading_to_the_end_offsets_of_now() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 5)
        await consumer.assign_topics("t")
        seen = []
        async for record in consumer.read_to():
            if record.offset == 0:
                fill(cluster, T0, 10, 5)  # after the question for the ends
            seen.append(record.offset)
        assert seen == list(range(10))
        assert await consumer.position(T0) == 10
        assert [record.offset async for record in consumer.read_to({T0: 13})] == [10, 11, 12]
        assert await consumer.position(T0) == 13
        assert await consumer.end_offsets() == {T0: 20, T1: 0}
        assert await consumer.beginning_offsets() == {T0: 0, T1: 0}


@jumping
async def test_nothing_to_read_ends_at_once() -> None:
    async with consuming() as (consumer, _):
        consumer.assign([T0, T1])
        assert [record async for record in consumer.read_to()] == []


@pytest.mark.parametrize(
    "fault",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, HANG_UP, SILENCE],
)
@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.LIST_OFFSETS])
def test_retriable_errors_are_not_raised(api: ApiKey, fault: Any) -> None:
    @jumping
    async def scenario() -> None:
        async with consuming() as (consumer, cluster):
            fill(cluster, T0, 0, 5)
            cluster.fail(api, fault, fault, fault)
            consumer.assign([T0])
            assert await take(consumer, 10) == [(0, n) for n in range(10)]

    scenario()


@jumping
async def test_a_leader_that_moves_is_followed() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        consumer.assign([T0])
        assert len(await take(consumer, 2)) == 2
        cluster.move_leader(T0, 2)
        fill(cluster, T0, 2)
        assert await take(consumer, 2) == [(0, 2), (0, 3)]


@jumping
async def test_one_partition_without_leader_does_not_hold_up_the_others() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        fill(cluster, T1, 0)
        cluster.stop_broker(2)
        consumer.assign([T0, T1])
        assert await take(consumer, 2) == [(0, 0), (0, 1)]
        assert await consumer.poll(timeout_ms=90_000) == []
        cluster.move_leader(T1, 1)
        assert await take(consumer, 2) == [(1, 0), (1, 1)]


@jumping
async def test_one_partition_without_leader_does_not_hold_up_the_positions_of_others() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T1, 0)
        cluster.partitions[T0].leader = -1
        cluster.partitions[T0].leader_epoch += 1
        consumer.assign([T0, T1])
        assert await take(consumer, 2) == [(1, 0), (1, 1)]
        await consumer.poll(timeout_ms=5_000)  # the other one is looked for all the while
        consumer.seek_to_beginning(T1)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await take(consumer, 2) == [(1, 0), (1, 1)]
        assert loop.time() - begun < 1, "of simulated time"
        cluster.move_leader(T0, 1)
        fill(cluster, T0, 0)
        assert await take(consumer, 2) == [(0, 0), (0, 1)]


@jumping
async def test_out_of_range_goes_where_the_policy_says() -> None:
    async with consuming() as (consumer, cluster):
        cluster.partitions[T0].log_start = 50
        fill(cluster, T0, 50)
        consumer.assign([T0])
        consumer.seek(T0, 3)
        assert await take(consumer, 1) == [(0, 50)]
    async with consuming(auto_offset_reset="none") as (consumer, cluster):
        consumer.assign([T0])
        assert await failure_code(consumer.position(T0)) is ErrorCode.OFFSET_OUT_OF_RANGE
        consumer.seek(T0, 3)
        assert await failure_code(consumer.poll()) is ErrorCode.OFFSET_OUT_OF_RANGE


@jumping
async def test_final_errors_are_raised() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        cluster.fail(ApiKey.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        consumer.assign([T0])
        assert await failure_code(consumer.poll()) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        # Though its code is retriable. Kafka: FetchCollector.handleInitializeErrors.
        cluster.fail(ApiKey.FETCH, ErrorCode.CORRUPT_MESSAGE)
        assert await failure_code(consumer.poll()) is ErrorCode.CORRUPT_MESSAGE
        cluster.fail(ApiKey.LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        consumer.seek_to_end()
        assert await failure_code(consumer.poll()) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@jumping
async def test_a_corrupt_batch_raises_and_can_be_skipped_by_seek() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0, 3)
        broken = bytearray(cluster.partitions[T0].batches[1])
        broken[-1] ^= 1
        cluster.partitions[T0].batches[1] = bytes(broken)
        consumer.assign([T0])
        consumer.seek(T0, 2)
        assert await failure_code(consumer.poll()) is ErrorCode.CORRUPT_MESSAGE
        consumer.seek(T0, 4)
        assert await take(consumer, 1) == [(0, 4)]


@jumping
async def test_pausing() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        fill(cluster, T1, 0)
        consumer.assign([T0, T1])
        consumer.pause(T0)
        assert await take(consumer, 2) == [(1, 0), (1, 1)]
        assert await consumer.poll(timeout_ms=1_000) == []
        consumer.resume(T0)
        assert await take(consumer, 2) == [(0, 0), (0, 1)]


@jumping
async def test_a_poll_returns_at_most_max_poll_records() -> None:
    async with consuming(max_poll_records=3) as (consumer, cluster):
        fill(cluster, T0, 0, 5)
        consumer.assign([T0])
        sizes: list[Any] = []
        while sum(sizes) < 10:
            sizes.append(len(await consumer.poll()))
        assert sizes == [3, 3, 3, 1]
        # All of it came with one fetch.
        offsets = {r.topics[0].partitions[0].fetch_offset for r in cluster.requests(ApiKey.FETCH)}
        assert offsets <= {0, 10}


@pytest.mark.mission("FET-2")
@jumping
async def test_fetch_requests_carry_the_consumer_settings() -> None:
    async with consuming(isolation_level="read_committed", fetch_min_bytes=9) as (
        consumer,
        cluster,
    ):
        fill(cluster, T0, 0)
        consumer.assign([T0])
        await take(consumer, 1)
        request = cluster.requests(ApiKey.FETCH)[0]
        assert (request.replica_id, request.isolation_level) == (-1, 1)
        assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (9, 500, 52_428_800)
        assert cluster.requests(ApiKey.LIST_OFFSETS)[0].isolation_level == 1


@jumping
async def test_a_topic_that_is_not_there() -> None:
    async with consuming() as (consumer, _):
        assert await failure_code(consumer.assign_topics("nope")) is (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
