"""Offsets of share groups over several brokers: lags from the leaders, states at coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from minikafka.aio import Admin, KafkaError, Producer, TopicPartition
from minikafka.core.client.admin.share_groups import SharePartitionStart
from minikafka.core.share.persister import StateUpdate, TopicIdPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.testing.inside.cluster import InsideCluster

GROUP, TOPIC, PARTITIONS, RECORDS = "sharers", "t", 4, 5


@pytest.fixture(scope="module")
def two() -> Iterator[InsideCluster]:
    with InsideCluster(2) as cluster:
        yield cluster


async def make_topic(cluster: InsideCluster, admin: Admin) -> None:
    await admin.create_topic(TOPIC, PARTITIONS, 1)
    await admin.wait_for_topic(TOPIC)
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                await producer.send(TOPIC, b"v", partition=partition)


def deliver_one(cluster: InsideCluster) -> None:
    """Write the states of share-partitions in which one record has been delivered."""
    node = cluster._brokers[1].node
    assert node is not None
    parts = node._parts
    topic_id = parts.cache.image.topic_ids[TOPIC]
    states = {
        TopicIdPartition(topic_id, number): StateUpdate(0, 0, number, 1, ())
        for number in range(PARTITIONS)
    }
    errors = cluster.call(parts.share_states.persister.write_state(GROUP, states))
    assert not any(errors.values())


@pytest.mark.mission("SHR-4")
async def test_lags_are_those_of_all_leaders(two: InsideCluster) -> None:
    async with Admin(bootstrap_servers=two.bootstrap) as admin:
        await make_topic(two, admin)
        wanted = {TopicPartition(TOPIC, number): number for number in range(PARTITIONS)}
        outcomes = await admin.alter_share_group_offsets(GROUP, wanted)
        assert outcomes == dict.fromkeys(wanted)
        found = await admin.share_group_offsets(GROUP)
        assert found == {tp: SharePartitionStart(n, 0, None) for tp, n in wanted.items()}
        deliver_one(two)
        found = await admin.share_group_offsets(GROUP)
        assert found == {tp: SharePartitionStart(n, 0, RECORDS - n - 1) for tp, n in wanted.items()}
        described = (await admin.describe_share_groups([GROUP]))[GROUP]
        assert not isinstance(described, KafkaError)
        assert (described.state, described.epoch, described.members) == ("Empty", 0, ())
        assert [g.group_type for g in await admin.list_groups(types=["share"])] == ["share"]

        await admin.delete_topic(TOPIC)
        for _ in range(200):
            if not await admin.share_group_offsets(GROUP):
                break
            await asyncio.sleep(0.05)
        assert await admin.share_group_offsets(GROUP) == {}
        assert await admin.delete_groups([GROUP]) == {GROUP: None}
        error = (await admin.describe_share_groups([GROUP]))[GROUP]
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
