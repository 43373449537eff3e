"""The descriptions of groups of both protocols, by one request to each coordinator where it can."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from minikafka.client import Consumer, ConsumerConfig
from minikafka.core.client.admin.groups import GroupDescription
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.testing.inside.cluster import InsideCluster

TPS = tuple(TopicPartition("shared", number) for number in range(3))


async def described(cluster: InsideCluster, *protocols: str) -> dict[str, GroupDescription]:
    """Describe the groups of consumers of these protocols, which are named so, and one more."""
    errors: list[FailedCall] = []
    world, config = cluster.client()
    async with AsyncExitStack() as stack:
        for protocol in protocols:
            keys: Any = {"group_id": protocol, "group_protocol": protocol}
            consumer = await stack.enter_async_context(
                Consumer(world, config, ConsumerConfig(**keys))
            )
            consumer.subscribe(["shared"])
            while not consumer.assignment:
                await consumer.poll(10)
        reader = ClusterReader(await stack.enter_async_context(cluster.admin()))
        await reader.all_topics(0)
        listed = await reader.list_groups(errors)
        coordinators = {name: broker for name, (broker, _) in listed.items()} | {"unknown": 1}
        found = await reader.describe_groups(coordinators, errors)
    assert errors == []
    return found


def test_consumer_groups_are_described_beside_classic_ones() -> None:
    with InsideCluster() as cluster:
        cluster.create_topic("shared", 3)
        found = cluster.call(described(cluster, "consumer", "classic"))
    assert {name: group.group_type for name, group in found.items()} == {
        "consumer": "consumer",
        "classic": "classic",
        "unknown": "classic",
    }
    for name in ("consumer", "classic"):
        (member,) = found[name].members
        assert (found[name].state, member.assignment) == ("Stable", TPS)
    assert found["unknown"].state == "Dead"
    (member,) = found["consumer"].members
    assert member.consumer is not None
    assert member.consumer.target_assignment == TPS


@pytest.mark.parametrize("version", [None, "2.8"])
def test_groups_of_one_protocol_cost_one_request(version: str | None) -> None:
    """Brokers before Kafka 4 do not know the other request, which is no error."""
    with InsideCluster() as cluster:
        cluster.create_topic("shared", 3)
        cluster.as_version(version)
        found = cluster.call(described(cluster, "classic"))
        asked = len(cluster.requests("ConsumerGroupDescribe"))
    assert found["classic"].state == "Stable"
    assert asked == (1 if version is None else 0), "for the unknown group"
