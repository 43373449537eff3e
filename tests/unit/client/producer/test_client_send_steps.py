"""The steps of a send, those of Kafka's ``doSend``, in their order; serializers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.client import ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.failures import failure_code
from tests.support.client.scenes import producing
from tests.support.world.client_world import jumping

U1 = TopicPartition("u", 1)
RECORD_OVERHEAD, BATCH_OVERHEAD = 21, 61  # upper bounds, as the producer reckons


class Steps:
    """Serializers and a partitioner that note when they are called."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def key(self, data: str) -> bytes:
        self.taken.append(("key.serializer", data))
        return data.encode()

    def value(self, data: Any) -> bytes:
        self.taken.append(("value.serializer", data))
        return json.dumps(data).encode()

    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        count: int,
        available: Sequence[int],
    ) -> int:
        self.taken.append(("partitioner", key, value))
        return 1

    @property
    def keys(self) -> dict[str, Any]:
        return {
            "key_serializer": self.key,
            "value_serializer": self.value,
            "partitioner": self.partition,
        }


@pytest.mark.mission("PAR-9")
@jumping
async def test_metadata_then_serializers_then_the_partitioner_then_the_buffer() -> None:
    steps = Steps()
    async with producing(**steps.keys, linger_ms=500) as (producer, cluster):
        free = producer.metrics()["buffer-available-bytes"]
        sending = asyncio.ensure_future(producer.send("u", {"n": 1}, "k"))
        await asyncio.sleep(2)
        assert not sending.done(), "the topic is not there yet"
        assert steps.taken == []
        cluster.create("u", 2)
        promise = await sending
        assert steps.taken == [
            ("key.serializer", "k"),
            ("value.serializer", {"n": 1}),
            ("partitioner", b"k", b'{"n": 1}'),
        ]
        assert producer.metrics()["buffer-available-bytes"] < free
        assert not cluster.requests(ApiKey.PRODUCE), "it lingers in the buffer"
        assert (await promise).partition == 1
        assert [(r.key, r.value) for r in cluster.partitions[U1].records()] == [(b"k", b'{"n": 1}')]


@pytest.mark.mission("PAR-9", "CFG-5")
@jumping
async def test_nothing_is_serialized_for_a_topic_that_does_not_come() -> None:
    steps = Steps()
    async with producing(**steps.keys, max_block_ms=3_000) as (producer, _):
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (
            await failure_code(producer.send("u", 1, "k")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert 2.9 < loop.time() - begun < 3.1
        assert steps.taken == []


@pytest.mark.mission("PAR-9", "CFG-5")
@jumping
async def test_metadata_and_room_in_the_buffer_share_max_block_ms() -> None:
    async with producing(max_block_ms=5_000, buffer_memory=300) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        await producer.send("t", b"x" * 200, partition=0)  # the buffer is full from here on
        loop = asyncio.get_running_loop()
        begun = loop.time()
        loop.call_later(3, cluster.create, "u", 1)
        assert await failure_code(producer.send("u", b"x" * 200)) is ErrorCode.REQUEST_TIMED_OUT
        assert 4.9 < loop.time() - begun < 5.1, "3 s for the topic, 2 s for room"


@pytest.mark.mission("PAR-9")
@jumping
async def test_the_size_is_checked_once_the_record_is_serialized_and_before_it_is_appended() -> (
    None
):
    steps = Steps()
    async with producing(**steps.keys, max_request_size=1_000) as (producer, cluster):
        free = producer.metrics()["buffer-available-bytes"]
        short, text = "k", "x" * 1_000
        assert await failure_code(producer.send("t", text, short)) is ErrorCode.MESSAGE_TOO_LARGE
        assert [step[0] for step in steps.taken] == [
            "key.serializer",
            "value.serializer",
            "partitioner",
        ]
        assert producer.metrics()["buffer-available-bytes"] == free
        await asyncio.sleep(1)
        assert not cluster.requests(ApiKey.PRODUCE)


@pytest.mark.parametrize(
    ("keys", "bound"),
    [
        ({"buffer_memory": 1_000}, "buffer.memory 1000"),
        ({"max_request_size": 1_000}, "max.request.size 1000"),
        ({"buffer_memory": 1_000, "max_request_size": 900}, "max.request.size 900"),
    ],
)
def test_a_record_larger_than_a_request_or_the_buffer_is_refused_at_once(
    keys: Any, bound: str
) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(**keys) as (producer, cluster):
            await producer.send_and_wait("t", b"first", partition=0)
            most = min(keys.values()) - BATCH_OVERHEAD - RECORD_OVERHEAD
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(KafkaError, match=bound) as caught:
                await producer.send("t", b"x" * (most + 1), partition=0)
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert loop.time() == begun, "it does not wait for room that never comes"
            assert (await producer.send_and_wait("t", b"x" * most, partition=0)).offset == 1
            assert len(cluster.values(TopicPartition("t", 0))) == 2

    scenario()


# ------------------------------------------------------------------------------------ serializers


@pytest.mark.mission("PAR-12")
@jumping
async def test_functions_are_not_called_for_nulls() -> None:
    steps = Steps()
    async with producing(**steps.keys) as (producer, cluster):
        await producer.send_and_wait("t", None, None)
        assert steps.taken == [("partitioner", None, None)]
        (record,) = cluster.partitions[TopicPartition("t", 1)].records()
        assert (record.key, record.value) == (None, None)


class OfTopic:
    """Kafka's interface."""

    def serialize(self, topic: str, data: Any) -> bytes:
        return f"{topic}/{data}".encode()


@pytest.mark.mission("PAR-12")
@jumping
async def test_a_serializer_with_kafkas_interface_gets_the_topic() -> None:
    async with producing(value_serializer=OfTopic()) as (producer, cluster):
        await producer.send_and_wait("t", 5, b"bytes", partition=0)
        (record,) = cluster.partitions[TopicPartition("t", 0)].records()
        assert (record.key, record.value) == (b"bytes", b"t/5")
        with pytest.raises(TypeError, match="bytes or None, not str"):
            await producer.send("t", 5, "text")  # without a serializer


@pytest.mark.mission("PAR-12")
@jumping
async def test_a_serializer_with_kafkas_interface_is_called_for_nulls() -> None:
    """KafkaProducer.doSend calls it for null; a tombstone is then the serializer's choice."""
    taken: list[Any] = []

    class NullIsNone:
        def serialize(self, topic: str, data: Any) -> bytes | None:
            taken.append(data)
            return None if data is None else b"data"

    keys: dict[str, Any] = {"key_serializer": OfTopic(), "value_serializer": NullIsNone()}
    async with producing(**keys) as (producer, cluster):
        await producer.send_and_wait("t", None, None, partition=0)
        (record,) = cluster.partitions[TopicPartition("t", 0)].records()
        assert (record.key, record.value) == (b"t/None", None)
        assert taken == [None]


@jumping
async def test_a_serializer_error_is_raised_to_the_caller() -> None:
    async with producing(value_serializer=str.encode, key_serializer=len) as (producer, cluster):
        with pytest.raises(TypeError) as caught:
            await producer.send("t", 5)
        assert caught.value.__notes__ == ["raised by value.serializer for a record of topic t"]
        with pytest.raises(TypeError, match="bytes or None, not int") as caught:
            await producer.send("t", "text", b"key")
        assert caught.value.__notes__ == ["raised by key.serializer for a record of topic t"]
        assert (await producer.send_and_wait("t", "text", partition=0)).offset == 0
        assert cluster.values(TopicPartition("t", 0)) == [b"text"]


@pytest.mark.parametrize("name", ["key_serializer", "value_serializer"])
def test_a_serializer_is_a_function_or_has_kafkas_method(name: str) -> None:
    with pytest.raises(ValueError, match=name.replace("_", ".") + " must be a function .* not 3"):
        ProducerConfig(**{name: 3})  # type: ignore[arg-type]
