"""The defaults of Kafka's clients, and how they reach the broker."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from minikafka import aio
from minikafka.client import ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.compression import Compression
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)


@pytest.mark.mission("CFG-1")
def test_defaults_are_kafkas() -> None:
    assert ProducerConfig().acks == -1  # since 3.0; 1 before that
    assert ClientConfig().request_timeout_ms == 30_000
    assert ConsumerConfig().fetch_min_bytes == 1
    assert ConsumerConfig().isolation_level == "read_uncommitted"


@pytest.mark.mission("CFG-1", "R-12")
@pytest.mark.parametrize(
    ("producer_keys", "shared_keys", "told"),
    [
        ({}, {}, (-1, 30_000)),
        ({"acks": 0}, {}, (0, 30_000)),
        ({"acks": 1}, {"request_timeout_ms": 4_321}, (1, 4_321)),
    ],
)
def test_a_produce_request_names_its_acks_and_its_time_out(
    producer_keys: Any, shared_keys: Any, told: Any
) -> None:
    @jumping
    async def scenario() -> None:
        world = client_world()
        cluster = FakeCluster(world, 1)
        cluster.create("t", 1)
        await cluster.start()
        config = ClientConfig(bootstrap_servers=cluster.bootstrap, **shared_keys)
        async with Producer(world, config, ProducerConfig(**producer_keys)) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
            await asyncio.sleep(0.01)  # acks=0 does not wait for the append
        (request,) = cluster.requests(ApiKey.PRODUCE)
        assert (request.acks, request.timeout_ms) == told

    scenario()


@pytest.mark.mission("CFG-1")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, (1, 0)),
        ({"fetch_min_bytes": 77}, (77, 0)),
        ({"isolation_level": "read_committed"}, (1, 1)),
    ],
)
def test_a_fetch_request_names_its_least_bytes_and_its_isolation_level(
    keys: Any, told: Any
) -> None:
    @jumping
    async def scenario() -> None:
        world = client_world()
        cluster = FakeCluster(world, 1)
        cluster.create("t", 1)
        await cluster.start()
        config = ClientConfig(bootstrap_servers=cluster.bootstrap)
        async with Consumer(world, config, ConsumerConfig(**keys)) as consumer:
            consumer.assign([T0])
            await consumer.poll(timeout_ms=1_000)
        request = cluster.requests(ApiKey.FETCH)[0]
        assert (request.min_bytes, request.isolation_level) == told

    scenario()


@pytest.mark.mission("CFG-1")
def test_kafkas_words_are_understood() -> None:
    assert ProducerConfig(acks=cast(Any, "all")).acks == -1
    assert ProducerConfig(acks=cast(Any, "0")).acks == 0
    assert ProducerConfig(compression=cast(Any, "lz4")).compression is Compression.LZ4
    assert (
        ProducerConfig(compression=cast(Any, "gzip"), compression_level=-1).compression_level == -1
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"acks": 2}, "acks must be 0, 1, -1 or all, not 2"),
        ({"acks": "most"}, "acks must be"),
        ({"compression": "lzma"}, r"compression\.type must be none, gzip, .* not 'lzma'"),
        ({"compression": 3}, r"compression\.type must be"),
        ({"compression": "zstd", "compression_level": 99}, r"zstd\.level .* to 22, not 99"),
        ({"compression": "lz4", "compression_level": -1}, r"lz4\.level"),
        ({"partitioner": "murmur"}, "partitioner must be sticky, round_robin or a function"),
        ({"linger_ms": -1}, r"linger\.ms must be a whole number from 0 on, not -1"),
        ({"linger_ms": "5"}, "not '5'"),
        ({"delivery_timeout_ms": 1.5}, r"delivery\.timeout\.ms"),
        ({"retries": -1}, "retries"),
        ({"transactional_id": ""}, r"transactional\.id"),
    ],
)
def test_values_that_no_producer_can_have(keys: Any, message: Any) -> None:
    with pytest.raises(ValueError, match=message):
        ProducerConfig(**keys)


def test_values_that_no_client_can_have() -> None:
    several: list[dict[str, Any]] = [
        {"request_timeout_ms": -1},
        {"max_in_flight_requests_per_connection": 0},
    ]
    for keys in several:
        with pytest.raises(ValueError, match="must be a whole number from"):
            ClientConfig(**keys)


class Upper:
    def serialize(self, topic: str, data: str) -> bytes:
        return data.upper().encode()


@pytest.mark.parametrize("given", [Upper, str, bytes])
@pytest.mark.parametrize("name", ["key_serializer", "value_serializer"])
def test_a_serializer_is_no_class(name: str, given: Any) -> None:
    key = name.replace("_", ".")
    with pytest.raises(
        ValueError, match=f"{key} must be a function or have a method serialize, not <class"
    ):
        ProducerConfig(**{name: given})


@pytest.mark.parametrize(
    ("client", "key", "hint"),
    [
        (aio.Producer, "linger", "; did you mean linger_ms?"),
        (aio.Consumer, "topic", "; did you mean topics?"),
        (aio.Consumer, "group", "; did you mean group_id?"),
        (aio.Admin, "client", "; did you mean client_id?"),
        (aio.Admin, "linger_ms", ""),
        (aio.Producer, "zzz", ""),
    ],
)
def test_an_unknown_keyword_names_the_client_and_the_nearest_key(
    client: Any, key: Any, hint: Any
) -> None:
    with pytest.raises(TypeError) as refused:
        client(**{key: 1})
    assert str(refused.value) == (
        f"{client.__name__}() got an unexpected keyword argument {key!r}{hint}"
    )
