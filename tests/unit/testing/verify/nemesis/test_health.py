"""Health of a cluster: what is reported, and since when a cluster counts as whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import ClientConfig
from minikafka.core.client.cluster_view import Node, PartitionView, TopicView
from minikafka.testing.verify.nemesis.health import (
    STEADY_MS,
    BrokerSight,
    ClusterHealth,
    problems,
)
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world, jumping

pytestmark = pytest.mark.mission("JUDGE-84")


def sight(**changes: Any) -> BrokerSight:
    view = PartitionView(0, leader=1, replicas=(1, 2), isr=(2, 1))
    whole = BrokerSight(1, (1, 2), [TopicView("t", partitions={0: view})])
    return whole._replace(**changes)


def lame(**changes: Any) -> list[TopicView]:
    view = PartitionView(0, leader=1, replicas=(1, 2), isr=(1, 2))._replace(**changes)
    return [TopicView("t", partitions={0: view})]


def test_a_whole_cluster_has_no_problem() -> None:
    assert list(problems({1: sight(), 2: sight()})) == []


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (BrokerSight(error="gone"), "broker 2 does not respond: gone"),
        (sight(brokers=(2,)), "broker 2 does not know broker 1"),
        (sight(controller=-1), "broker 2 knows no controller"),
        (sight(topics=lame(leader=-1)), "t-0 has no leader, says broker 2"),
        (sight(topics=lame(leader=9)), "t-0 has no leader, says broker 2"),
        (sight(topics=lame(isr=(1,))), "t-0 lacks replica 2, says broker 2"),
    ],
)
def test_what_one_broker_knows_is_a_problem(second: BrokerSight, expected: str) -> None:
    assert list(problems({1: sight(), 2: second})) == [expected]


@jumping
async def test_a_broker_that_comes_back() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t")
    await cluster.start()
    client = ClientConfig(bootstrap_servers=cluster.bootstrap)
    nodes = {broker: Node(broker, *cluster.addresses[broker], None) for broker in cluster.brokers}
    async with ClusterHealth(world, client, nodes) as health:
        found = await health.until_whole(10_000)
        assert found.problem == ""
        assert world.clock.monotonic_ms() - found.since_ms >= STEADY_MS
        cluster.stop_broker(2)
        found = await health.until_whole(5_000)
        assert found.problem.startswith("broker 1 does not know broker 2")
        before_ms = world.clock.monotonic_ms()

        async def come_back() -> None:
            await asyncio.sleep(3)
            await cluster.start_broker(2)

        coming = asyncio.create_task(come_back())
        found = await health.until_whole(60_000)
        await coming
        assert found.problem == ""
        assert 3_000 <= found.since_ms - before_ms < 6_000


@jumping
async def test_a_frozen_broker_is_a_problem() -> None:
    world = client_world()
    cluster = FakeCluster(world)
    await cluster.start()
    nodes = {broker: Node(broker, *cluster.addresses[broker], None) for broker in cluster.brokers}
    client = ClientConfig(bootstrap_servers=cluster.bootstrap)
    cluster.freeze(2)
    async with ClusterHealth(world, client, nodes) as health:
        found = await health.until_whole(10_000)
    assert found.problem.startswith("broker 2 does not respond")
