"""Deserializers of a consumer: what they get, and what becomes of a record that they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minikafka.client import (
    Consumer,
    ConsumerConfig,
    ConsumerRecord,
    RecordDeserializationError,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.scenes import consuming
from tests.support.world.client_world import jumping

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def put(cluster: FakeCluster, tp: TopicPartition, *rows: tuple[bytes | None, bytes | None]) -> None:
    """Append one batch of keys and values."""
    cluster.partitions[tp].append(build_batch([(1_000, key, value, []) for key, value in rows]))


async def pairs(consumer: Consumer, count: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    while len(found) < count:
        found += [(record.key, record.value) for record in await consumer.poll(1_000)]
    return found


async def poll_in_vain(consumer: Consumer, max_records: int) -> None:
    """Poll until it raises."""
    for _ in range(10):
        assert not await consumer.poll(1_000, max_records)


@pytest.mark.mission("PAR-12")
@jumping
async def test_keys_and_values_are_deserialized_and_nulls_stay() -> None:
    async with consuming(
        partitions=1, key_deserializer=bytes.decode, value_deserializer=json.loads
    ) as (consumer, cluster):
        put(cluster, T0, (b"k", b'{"n": 1}'), (None, b"2"), (b"gone", None))
        consumer.assign([T0])
        assert await pairs(consumer, 3) == [("k", {"n": 1}), (None, 2), ("gone", None)]


class OfTopic:
    """Kafka's interface."""

    def deserialize(self, topic: str, data: bytes) -> str:
        return f"{topic}/{data.decode()}"


@jumping
async def test_a_deserializer_with_kafkas_interface_gets_the_topic() -> None:
    async with consuming(partitions=1, value_deserializer=OfTopic()) as (consumer, cluster):
        put(cluster, T0, (b"k", b"v"))
        consumer.assign([T0])
        async for record in consumer:
            assert (record.key, record.value) == (b"k", "t/v")
            assert (record.offset, record.timestamp, record.topic) == (0, 1_000, "t")
            break


@pytest.mark.mission("PAR-12")
@pytest.mark.parametrize("max_records", [1, 2, 500])
def test_a_record_that_cannot_be_deserialized_comes_after_those_before_it(max_records: int) -> None:
    @jumping
    async def scenario() -> None:
        async with consuming(partitions=1, value_deserializer=int) as (consumer, cluster):
            put(cluster, T0, (None, b"0"), (None, b"1"), (b"key", b"two"), (None, b"3"))
            put(cluster, T0, (None, b"4"))
            consumer.assign([T0])
            found: list[ConsumerRecord] = []
            while len(found) < 2:
                found += await consumer.poll(1_000, max_records)
            assert [record.value for record in found] == [0, 1]
            for _ in range(2):  # again and again, until the application goes past it
                with pytest.raises(RecordDeserializationError) as caught:
                    await poll_in_vain(consumer, max_records)
                assert await consumer.position(T0) == 2
            error = caught.value
            assert (error.topic_partition, error.offset, error.origin) == (T0, 2, "value")
            assert (error.record.key, error.record.value) == (b"key", b"two")
            assert isinstance(error.__cause__, ValueError)
            assert not error.code.retriable
            assert "t-0 at offset 2: value.deserializer failed (ValueError" in str(error)
            consumer.seek(T0, error.offset + 1)
            assert await pairs(consumer, 2) == [(None, 3), (None, 4)]

    scenario()


@jumping
async def test_the_key_that_cannot_be_deserialized_is_named() -> None:
    async with consuming(partitions=1, key_deserializer=int) as (consumer, cluster):
        put(cluster, T0, (b"key", b"value"))
        consumer.assign([T0])
        with pytest.raises(RecordDeserializationError) as caught:
            await consumer.poll(1_000)
        assert caught.value.origin == "key"


@jumping
async def test_other_partitions_are_read_on() -> None:
    async with consuming(partitions=2, value_deserializer=int) as (consumer, cluster):
        put(cluster, T0, (None, b"bad"))
        put(cluster, T1, (None, b"1"))
        consumer.assign([T0, T1])
        found: list[Any] = []
        errors = 0
        for _ in range(20):
            try:
                found += [record.value for record in await consumer.poll(100)]
            except RecordDeserializationError:
                errors += 1
        assert found == [1]
        assert errors > 1


@pytest.mark.parametrize("name", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_is_a_function_or_has_kafkas_method(name: str) -> None:
    key = name.replace("_", ".")
    with pytest.raises(ValueError, match=f"{key} must be a function .* not 3"):
        ConsumerConfig(**{name: 3})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{key} must be a function .* not <class .*OfTopic'>"):
        ConsumerConfig(**{name: OfTopic})  # type: ignore[arg-type]
