"""Clients of a topic that was deleted and created again with fewer partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.client import Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.scenes import consuming, fill, producing, take
from tests.support.world.client_world import jumping

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


def last_partition(
    topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
) -> int:
    return count - 1


async def shrink(producer: Producer, cluster: FakeCluster, partitions: int) -> None:
    cluster.recreate("t", partitions)
    producer.session.metadata.request_update()
    await asyncio.sleep(1)


@pytest.mark.mission("PAR-11")
@pytest.mark.parametrize("partitioner", ["sticky", "round_robin", last_partition])
@pytest.mark.parametrize("key", [None, b"abc", b"foobar"])
def test_a_producer_goes_on_after_its_topic_shrank(partitioner: Any, key: bytes | None) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(partitions=50, partitioner=partitioner) as (producer, cluster):
            for _ in range(60):
                await producer.send_and_wait("t", b"before", key)
            await shrink(producer, cluster, 2)
            places = [await producer.send_and_wait("t", b"after", key) for _ in range(6)]
            assert {place.partition for place in places} <= {0, 1}
            assert cluster.values(T0) + cluster.values(T1) == [b"after"] * 6

    scenario()


@pytest.mark.mission("PAR-11")
@pytest.mark.parametrize("idempotent", [True, False])
def test_batches_of_a_partition_that_is_gone_expire_and_others_go_on(idempotent: bool) -> None:
    """As Kafka's producer does: a partition may come back until the delivery time-out."""

    @jumping
    async def scenario() -> None:
        keys = {"delivery_timeout_ms": 20_000, "enable_idempotence": idempotent, "batch_size": 1}
        async with producing(partitions=4, **keys) as (producer, cluster):
            for partition in range(4):
                await producer.send_and_wait("t", b"before", partition=partition)
            cluster.recreate("t", 2)  # the response to the first batch shows it to the producer
            loop = asyncio.get_running_loop()
            begun = loop.time()
            lost = [await producer.send("t", b"lost", partition=3) for _ in range(3)]
            after = []
            for _ in range(10):
                after.append(await producer.send_and_wait("t", b"after", partition=1))
                await asyncio.sleep(0.1)
            assert [place.offset for place in after] == list(range(10))
            assert loop.time() - begun < 5
            outcomes = await asyncio.gather(*lost, return_exceptions=True)
            assert 18 < loop.time() - begun <= 20.1
            codes = {outcome.code for outcome in outcomes}  # type: ignore[union-attr]
            assert codes <= {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert (await producer.send_and_wait("t", b"after", partition=1)).offset == 10
            assert await failure_code(producer.send("t", b"", partition=3)) is (
                ErrorCode.REQUEST_TIMED_OUT
            )
            asked = len(cluster.requests(ApiKey.METADATA))
            seconds = loop.time() - begun
            assert asked <= 11 * seconds, "metadata are requested every retry.backoff.ms at most"
            cluster.recreate("t", 4)
            assert (await producer.send_and_wait("t", b"again", partition=3)).offset == 0
            assert cluster.values(T3) == [b"again"]

    scenario()


@pytest.mark.mission("PAR-3")
@jumping
async def test_a_partition_missing_from_metadata_is_counted() -> None:
    """A broker that has just started may not know of all partitions: keys stay where they are."""
    async with producing(partitions=5) as (producer, cluster):
        whole = dict(cluster.partitions)
        for gone in (TopicPartition("t", 0), TopicPartition("t", 479470107 % 5)):
            del cluster.partitions[gone]
        waiting = [await producer.send("t", b"v", b"abc") for _ in range(3)]
        keyless = await (await producer.send("t", b"v"))
        assert keyless.partition in (1, 3, 4)
        cluster.partitions.update(whole)
        places = await asyncio.gather(*waiting)
        assert [place.partition for place in places] == [479470107 % 5] * 3


@pytest.mark.mission("PAR-11")
@jumping
async def test_a_consumer_of_a_partition_that_is_gone_reads_the_others() -> None:
    async with consuming(partitions=4) as (consumer, cluster):
        for tp in (T0, T1, T2, T3):
            fill(cluster, tp, 0, 3)
        await consumer.assign_topics("t")
        assert len(await take(consumer, 24)) == 24
        cluster.recreate("t", 2)
        await consumer.poll(2_000)
        fill(cluster, T0, 0, 1)
        fill(cluster, T1, 0, 2)
        assert sorted(await take(consumer, 6)) == [(0, 0), (0, 1), *((1, n) for n in range(4))]
        asked, fetches = (len(cluster.requests(api)) for api in (ApiKey.METADATA, ApiKey.FETCH))
        await consumer.poll(60_000)
        assert len(cluster.requests(ApiKey.METADATA)) - asked < 150
        assert len(cluster.requests(ApiKey.FETCH)) - fetches < 300
        assert await consumer.position(T3) == 6
        assert await failure_code(consumer.end_offsets()) is ErrorCode.REQUEST_TIMED_OUT
        consumer.assign([T0, T1])
        assert await consumer.end_offsets() == {T0: 2, T1: 4}
