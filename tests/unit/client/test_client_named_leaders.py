"""Producer and consumer go on at the leader that a response names, without metadata (KIP-951)."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import Consumer, ConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.fake_cluster import SILENCE, FakeCluster
from tests.support.client.scenes import client_config, consuming, fill, producing, take
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)


def without_metadata(cluster: FakeCluster) -> None:
    """Let the cluster name leaders, and answer no Metadata request from now on."""
    cluster.names_leaders = True
    cluster.fail(ApiKey.METADATA, *[SILENCE] * 1_000)
    cluster.seen.clear()


@pytest.mark.mission("CFAST-6")
@jumping
async def test_a_producer_sends_again_at_once_to_the_leader_that_is_named() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        without_metadata(cluster)
        for number, leader in enumerate((2, 1, 2), 1):
            cluster.move_leader(T0, leader)
            before = asyncio.get_running_loop().time()
            place = await producer.send_and_wait("t", b"b", partition=0)
            assert place.offset == number
            took_s = asyncio.get_running_loop().time() - before
            assert took_s < 0.02, "a backoff of simulated time"
        assert not cluster.requests(ApiKey.METADATA)
        assert len(cluster.requests(ApiKey.PRODUCE)) == 6


@pytest.mark.mission("CFAST-6")
@jumping
async def test_a_leader_that_metadata_did_not_have_is_reached_at_the_address_beside_it() -> None:
    world = client_world()
    cluster = FakeCluster(world, 3)
    cluster.create("t")
    for broker in (1, 2):
        await cluster.start_broker(broker)
    keys = ConsumerConfig(auto_offset_reset="earliest")
    async with Consumer(world, client_config(cluster), keys) as consumer:
        fill(cluster, T0, 0)
        consumer.assign([T0])
        assert await take(consumer, 2) == [(0, 0), (0, 1)]
        await cluster.start_broker(3)
        without_metadata(cluster)
        cluster.move_leader(T0, 3)
        fill(cluster, T0, 2)
        assert await take(consumer, 2) == [(0, 2), (0, 3)]
        assert not cluster.requests(ApiKey.METADATA)


@pytest.mark.mission("CFAST-6")
@jumping
async def test_a_consumer_takes_over_the_epoch_of_a_leader_that_stayed() -> None:
    async with consuming() as (consumer, cluster):
        fill(cluster, T0, 0)
        consumer.assign([T0])
        await take(consumer, 2)
        without_metadata(cluster)
        cluster.move_leader(T0, cluster.partitions[T0].leader)
        fill(cluster, T0, 2)
        assert await take(consumer, 2) == [(0, 2), (0, 3)]
        assert not cluster.requests(ApiKey.METADATA)


@jumping
async def test_without_a_named_leader_metadata_are_requested() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.seen.clear()
        cluster.move_leader(T0, 2)
        await producer.send_and_wait("t", b"b", partition=0)
        assert cluster.requests(ApiKey.METADATA)
