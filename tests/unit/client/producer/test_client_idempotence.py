"""The idempotent producer against a fake cluster; partitioners, callbacks and metrics of users."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import ClientConfig, Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.batch import parse_batches
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import HANG_UP, SILENCE, FakeCluster
from tests.support.client.scenes import producing
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)
TEN = [b"%d" % number for number in range(10)]


@jumping
async def test_a_batch_appended_despite_an_error_is_not_appended_again() -> None:
    async with producing(batch_size=1) as (producer, cluster):
        cluster.partitions[T0].append_and_fail = 3
        promises = [await producer.send("t", value, partition=0) for value in TEN]
        places = await asyncio.gather(*promises)
        assert cluster.values(T0) == TEN
        assert [place.offset for place in places] == list(range(10))
        (batch, *_) = parse_batches(cluster.partitions[T0].batches[0])
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1000, 0, 0)


@jumping
async def test_several_batches_of_a_partition_are_on_their_way() -> None:
    async with producing(batch_size=1) as (producer, cluster):
        await producer.send_and_wait("t", b"first", partition=0)
        cluster.seen.clear()
        cluster.fail(ApiKey.PRODUCE, *[SILENCE] * 5)
        promises = [await producer.send("t", value, partition=0) for value in TEN]
        await asyncio.sleep(1)
        assert len(cluster.requests(ApiKey.PRODUCE)) == 5
        await asyncio.gather(*promises)
        assert cluster.values(T0) == [b"first", *TEN]


@pytest.mark.parametrize("keys", [{"acks": 1}, {"enable_idempotence": False}])
def test_without_idempotence_one_is_on_its_way(keys: dict[str, Any]) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(batch_size=1, **keys) as (producer, cluster):
            cluster.fail(ApiKey.PRODUCE, None, HANG_UP, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            promises = [await producer.send("t", value, partition=0) for value in TEN]
            await asyncio.gather(*promises)
            assert cluster.values(T0) == TEN
            assert not cluster.requests(ApiKey.INIT_PRODUCER_ID)

    scenario()


@jumping
async def test_brokers_without_producer_ids() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t")
    del cluster.versions[int(ApiKey.INIT_PRODUCER_ID)]
    await cluster.start()
    config = ClientConfig(bootstrap_servers=cluster.bootstrap)
    async with Producer(world, config) as producer:
        assert (await producer.send_and_wait("t", b"v", partition=0)).offset == 0
    async with Producer(world, config, ProducerConfig(enable_idempotence=True)) as producer:
        waiting = await producer.send("t", b"v", partition=0)
        assert await failure_code(waiting) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.mission("CFG-1")
def test_keys_that_exclude_each_other() -> None:
    several: list[dict[str, Any]] = [{"acks": 1}, {"acks": 0}, {"retries": 0}]
    for keys in several:
        with pytest.raises(ValueError, match=r"enable\.idempotence"):
            ProducerConfig(enable_idempotence=True, **keys).idempotent(5)
        assert ProducerConfig(**keys).idempotent(5) is False
    with pytest.raises(ValueError, match="5 requests"):
        ProducerConfig(enable_idempotence=True).idempotent(6)
    assert ProducerConfig().idempotent(5) is None


@jumping
async def test_an_unexplained_sequence_gap_fails_only_one_batch() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.partitions[T0].producers[1000] = (0, 17, {})  # the broker thinks otherwise
        waiting = await producer.send("t", b"b", partition=0)
        assert await failure_code(waiting) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await producer.send_and_wait("t", b"c", partition=0)).offset == 1
        (batch,) = parse_batches(cluster.partitions[T0].batches[-1])
        assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


@jumping
async def test_so_many_retries_and_no_more() -> None:
    async with producing(retries=2) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 9)
        waiting = await producer.send("t", b"v", partition=0)
        assert await failure_code(waiting) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert len(cluster.requests(ApiKey.PRODUCE)) == 3
        assert producer.metrics()["record-retry-total"] == 2


@pytest.mark.mission("PAR-9")
@jumping
async def test_a_partitioner_of_the_users_own() -> None:
    seen = []

    def last(topic: str, key: Any, value: Any, count: int, available: Any) -> int:
        seen.append((topic, key, value, count, list(available)))
        return count - 1 if value != b"bad" else count

    async with producing(partitions=3, partitioner=last) as (producer, _):
        assert (await producer.send_and_wait("t", b"v", b"k")).partition == 2
        assert seen == [("t", b"k", b"v", 3, [0, 1, 2])]
        assert (await producer.send_and_wait("t", b"v", partition=0)).partition == 0
        with pytest.raises(ValueError, match="3 of 3"):
            await producer.send("t", b"bad")


@jumping
async def test_callbacks_and_metrics() -> None:
    heard: list[tuple[RecordMetadata | None, BaseException | None]] = []
    async with producing() as (producer, cluster):
        await producer.send("t", b"v", partition=0, on_delivery=lambda *told: heard.append(told))
        await producer.flush()
        cluster.fail(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await producer.send("t", b"v", partition=0, on_delivery=lambda *told: heard.append(told))
        await producer.flush()
        await asyncio.sleep(0)
        (place, nothing), (no_place, error) = heard
        assert (place and place.offset, nothing, no_place) == (0, None, None)
        assert isinstance(error, KafkaError)
        metrics = producer.metrics()
        assert metrics["record-send-total"] == metrics["record-error-total"] == 1
        assert metrics["buffer-available-bytes"] == 33_554_432
        assert metrics["outgoing-byte-total"] > 100


@pytest.mark.mission("PAR-8")
@jumping
async def test_records_of_one_key_keep_their_order() -> None:
    async with producing(partitions=7, batch_size=200) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, None, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, HANG_UP)
        for number in range(300):
            await producer.send("t", b"%d" % number, b"key-%d" % (number % 5))
        await producer.flush()
        where: dict[bytes | None, set[int]] = {}
        for tp, partition in cluster.partitions.items():
            by_key: dict[bytes | None, list[int]] = {}
            for record in partition.records():
                where.setdefault(record.key, set()).add(tp.partition)
                by_key.setdefault(record.key, []).append(int(record.value or b""))
            assert all(values == sorted(values) for values in by_key.values())
        assert all(len(partitions) == 1 for partitions in where.values())
        assert sum(len(p.records()) for p in cluster.partitions.values()) == 300


@jumping
async def test_a_leader_that_falls_after_the_append_costs_no_later_record() -> None:
    """The leader appends the batch and responds NOT_LEADER_OR_FOLLOWER; then there is no leader
    until the batch expires. If the next batch had the same sequence numbers, the new leader would
    drop it as a duplicate."""
    async with producing(delivery_timeout_ms=6_000) as (producer, cluster):
        await producer.send_and_wait("t", b"warm", partition=0)
        partition = cluster.partitions[T0]
        partition.append_and_fail, partition.failure = 1, ErrorCode.NOT_LEADER_OR_FOLLOWER
        one = await producer.send("t", b"one", partition=0)
        await asyncio.sleep(0.01)
        cluster.move_leader(T0, -1)
        await asyncio.sleep(5)
        two = await producer.send("t", b"two", partition=0)
        assert await failure_code(one) is ErrorCode.REQUEST_TIMED_OUT
        cluster.move_leader(T0, 2)
        assert (await two).offset == 2
        assert cluster.values(T0) == [b"warm", b"one", b"two"]
