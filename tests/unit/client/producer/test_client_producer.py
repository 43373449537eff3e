"""The producer against a fake cluster: order, retries, limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import ClientConfig, Producer, RecordMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.batch import parse_batches
from minikafka.protocol.records.compression import Compression
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import HANG_UP, SILENCE, FakeCluster, FakePartition
from tests.support.client.scenes import producing
from tests.support.world.client_world import ClientNetwork, client_world, jumping

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@jumping
async def test_send_returns_partition_and_offset_of_the_record() -> None:
    async with producing() as (producer, cluster):
        place = await producer.send_and_wait(
            "t", b"v", b"k", partition=1, timestamp_ms=123, headers=[("h", b"1")]
        )
        assert place == RecordMetadata("t", 1, 0, 123)
        assert (await producer.send_and_wait("t", None, b"k", partition=1)).offset == 1
        first, second = cluster.partitions[T1].records()
        assert first == (0, 123, b"k", b"v", [("h", b"1")])
        assert second.value is None
        assert second.timestamp > 1_600_000_000_000


@pytest.mark.mission("PAR-2", "PAR-3")
@jumping
async def test_explicit_partition_then_key_decide() -> None:
    async with producing(partitions=5) as (producer, _):
        assert (await producer.send_and_wait("t", b"", b"abc", partition=3)).partition == 3
        assert (await producer.send_and_wait("t", b"", b"abc")).partition == 479470107 % 5
        assert (
            await failure_code(producer.send("t", b"", partition=5)) is ErrorCode.REQUEST_TIMED_OUT
        )


@jumping
async def test_a_partition_that_is_not_known_yet_is_waited_for() -> None:
    async with producing(partitions=1) as (producer, cluster):
        await producer.send_and_wait("t", b"", partition=0)
        early = asyncio.ensure_future(producer.send("t", b"", partition=1))
        await asyncio.sleep(1)
        assert not early.done()
        cluster.partitions[T1] = FakePartition(1)
        assert (await (await early)).partition == 1


@pytest.mark.mission("PAR-7")
@jumping
async def test_sticky_makes_fewer_and_larger_requests_than_round_robin() -> None:
    found = {}
    for partitioner in ("sticky", "round_robin"):
        async with producing(
            partitions=8, partitioner=partitioner, linger_ms=5, batch_size=1_000
        ) as (producer, cluster):
            for _ in range(80):
                await producer.send("t", b"x" * 79)
                await asyncio.sleep(0.001)
            await producer.flush()
            batches = [batch for p in cluster.partitions.values() for batch in p.batches]
            assert sum(len(p.records()) for p in cluster.partitions.values()) == 80
            sizes = sum(map(len, batches))
            found[partitioner] = len(cluster.requests(ApiKey.PRODUCE)), len(batches), sizes
    sticky, turns = found["sticky"], found["round_robin"]
    assert sticky[0] * 1.5 < turns[0], "requests"
    assert sticky[1] * 3 < turns[1], "batches"
    assert sticky[2] / sticky[1] > 2 * turns[2] / turns[1], "bytes a batch"
    assert sticky[2] < turns[2], "the same records in fewer bytes"


@jumping
async def test_linger_gathers_records_into_one_batch() -> None:
    async with producing(linger_ms=50) as (producer, cluster):
        promises = [await producer.send("t", b"%d" % i, partition=0) for i in range(10)]
        places = await asyncio.gather(*promises)
        assert [place.offset for place in places] == list(range(10))
        assert len(cluster.partitions[T0].batches) == 1


@pytest.mark.mission("PRD-3", "PRD-4")
@jumping
async def test_one_request_per_leader_with_a_batch_per_partition() -> None:
    async with producing(partitions=6, linger_ms=10) as (producer, cluster):
        for partition in range(6):
            await producer.send("t", b"v", partition=partition)
        await producer.flush()
        shapes = [
            (broker, sorted(row.index for row in topic.partition_data))
            for broker, request in cluster.seen
            if request.SPEC.api_key is ApiKey.PRODUCE
            for topic in request.topic_data
        ]
        assert sorted(shapes) == [(1, [0, 2, 4]), (2, [1, 3, 5])]


@pytest.mark.parametrize("codec", list(Compression))
def test_compression(codec: Compression) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(compression=codec, linger_ms=5) as (producer, cluster):
            for _ in range(50):
                await producer.send("t", b"abc" * 100, partition=0)
            await producer.flush()
            (batch,) = parse_batches(cluster.partitions[T0].batches[0])
            assert batch.compression is codec
            assert cluster.values(T0) == [b"abc" * 100] * 50

    scenario()


@pytest.mark.mission("PRD-5")
@jumping
async def test_acks_0_waits_for_nothing() -> None:
    async with producing(acks=0) as (producer, cluster):
        assert (await producer.send_and_wait("t", b"v", partition=0)).offset == -1
        await asyncio.sleep(0.01)
        assert cluster.values(T0) == [b"v"]
        assert [request.acks for request in cluster.requests(ApiKey.PRODUCE)] == [0]


@pytest.mark.parametrize(
    "fault",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        HANG_UP,
        SILENCE,
    ],
)
def test_retriable_failures_are_tried_again_in_order(fault: Any) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(batch_size=1) as (producer, cluster):
            cluster.fail(ApiKey.PRODUCE, fault, None, fault, fault)
            promises = [await producer.send("t", b"%d" % i, partition=0) for i in range(5)]
            places = await asyncio.gather(*promises)
            assert [place.offset for place in places] == [0, 1, 2, 3, 4]
            assert cluster.values(T0) == [b"0", b"1", b"2", b"3", b"4"]

    scenario()


@jumping
async def test_a_new_leader_is_found() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.move_leader(T0, 2)
        assert (await producer.send_and_wait("t", b"b", partition=0)).offset == 1
        assert cluster.values(T0) == [b"a", b"b"]


@jumping
async def test_a_broker_that_dies_and_a_leader_elsewhere() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.stop_broker(1)
        waiting = await producer.send("t", b"b", partition=0)
        await asyncio.sleep(3)
        assert not waiting.done()
        cluster.move_leader(T0, 2)
        assert (await waiting).offset == 1


@pytest.mark.mission("CFAST-1", "CFAST-2")
@jumping
async def test_a_thousand_batches_of_a_dead_leader_are_one_metadata_request_and_all_move() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t", 2_000)  # broker 1 leads a half
    await cluster.start()
    async with Producer(world, ClientConfig(bootstrap_servers=cluster.bootstrap)) as producer:
        await producer.send_and_wait("t", b"a", partition=1)
        cluster.stop_broker(1)
        for number in range(0, 2_000, 2):
            cluster.move_leader(TopicPartition("t", number), 2)
        before = len(cluster.requests(ApiKey.METADATA))
        begun = asyncio.get_running_loop().time()
        sent = [await producer.send("t", b"b", partition=each) for each in range(0, 2_000, 2)]
        await asyncio.wait(sent)
        assert asyncio.get_running_loop().time() - begun < 0.2
        assert all(future.exception() is None for future in sent)
        assert len(cluster.requests(ApiKey.METADATA)) - before <= 2


@jumping
async def test_final_errors_are_raised_at_once() -> None:
    async with producing() as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        waiting = await producer.send("t", b"a", partition=0)
        assert await failure_code(waiting) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(cluster.requests(ApiKey.PRODUCE)) == 1
        await producer.send_and_wait("t", b"b", partition=0)


@jumping
async def test_an_unknown_error_code_is_an_error() -> None:
    async with producing() as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, 999)
        waiting = await producer.send("t", b"a", partition=0)
        assert await failure_code(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR


@jumping
async def test_delivery_time_out() -> None:
    async with producing(delivery_timeout_ms=10_000) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        waiting = await producer.send("t", b"a", partition=0)
        assert await failure_code(waiting) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert 8 < loop.time() - begun <= 10.1


@jumping
async def test_delivery_time_out_without_a_leader() -> None:
    async with producing(delivery_timeout_ms=10_000) as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.move_leader(T0, -1)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        waiting = await producer.send("t", b"b", partition=0)
        assert await failure_code(waiting) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() - begun <= 10.1


@jumping
async def test_a_batch_too_large_for_the_broker_goes_in_halves() -> None:
    async with producing(linger_ms=5) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        promises = [await producer.send("t", b"%d" % i, partition=0) for i in range(4)]
        places = await asyncio.gather(*promises)
        assert [place.offset for place in places] == [0, 1, 2, 3]
        assert len(cluster.partitions[T0].batches) == 2
        cluster.fail(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        single = await producer.send("t", b"alone", partition=0)
        assert await failure_code(single) is ErrorCode.MESSAGE_TOO_LARGE


@jumping
async def test_a_record_larger_than_a_request_is_refused() -> None:
    async with producing(max_request_size=1_000) as (producer, _):
        assert await failure_code(producer.send("t", b"x" * 1_000)) is ErrorCode.MESSAGE_TOO_LARGE


@jumping
async def test_text_is_refused() -> None:
    async with producing() as (producer, _):
        with pytest.raises(TypeError):
            await producer.send("t", "text")


@jumping
async def test_a_full_buffer_makes_the_application_wait() -> None:
    async with producing(buffer_memory=1_000, max_block_ms=2_000) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        for _ in range(10):
            await producer.send("t", b"x" * 200, partition=0)
        await producer.flush()
        assert len(cluster.values(T0)) == 10
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 50)
        kept = [await producer.send("t", b"x" * 200, partition=0) for _ in range(3)]
        assert await failure_code(producer.send("t", b"x" * 200, partition=0)) is (
            ErrorCode.REQUEST_TIMED_OUT
        )
        cluster.faults.clear()
        await asyncio.gather(*kept)


@pytest.mark.mission("PAR-9")
@jumping
async def test_a_topic_that_is_not_there() -> None:
    async with producing(max_block_ms=2_000) as (producer, cluster):
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (
            await failure_code(producer.send("nope", b"v")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert 1.9 < loop.time() - begun < 2.1
        cluster.auto_create = True
        assert (await producer.send_and_wait("nope", b"v")).offset == 0


@jumping
async def test_no_more_than_so_many_requests_are_in_flight() -> None:
    async with producing(partitions=20, brokers=1) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[SILENCE] * 5)
        for partition in range(20):
            await producer.send("t", b"v", partition=partition)
            await asyncio.sleep(0.01)
        assert len(cluster.requests(ApiKey.PRODUCE)) == 5
        await producer.flush()
        assert sum(len(p.records()) for p in cluster.partitions.values()) == 20


@jumping
async def test_closing_delivers_and_aborting_does_not() -> None:
    async with producing(linger_ms=60_000) as (producer, _):
        promise = await producer.send("t", b"v", partition=0)
    assert promise.result().offset == 0

    async def in_trouble() -> None:
        nonlocal promise
        async with producing(linger_ms=60_000) as (producer, _):
            promise = await producer.send("t", b"v", partition=0)
            raise RuntimeError("trouble")

    with pytest.raises(RuntimeError, match="trouble"):
        await in_trouble()
    assert isinstance(promise.exception(), KafkaError)
    assert await failure_code(producer.send("t", b"late")) is ErrorCode.NETWORK_EXCEPTION


@jumping
async def test_abort_fails_batches_in_flight() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"v", partition=0)
        cluster.fail(ApiKey.PRODUCE, SILENCE)
        flying = await producer.send("t", b"a", partition=0)
        await asyncio.sleep(0.1)
        queued = await producer.send("t", b"b", partition=0)
        await producer.abort()
        assert isinstance(flying.exception(), KafkaError)
        assert isinstance(queued.exception(), KafkaError)


@jumping
async def test_brokers_that_are_away_at_first() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t")
    config = ClientConfig(bootstrap_servers=cluster.bootstrap)
    async with Producer(world, config) as producer:
        sending = asyncio.ensure_future(producer.send_and_wait("t", b"v", partition=0))
        await asyncio.sleep(5)
        network = world.network
        assert isinstance(network, ClientNetwork)
        assert 3 <= network.connects < 40, "tried again, but not all the time"
        await cluster.start()
        assert (await sending).offset == 0
