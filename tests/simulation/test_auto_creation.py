"""Every broker responds with the reason why a topic of a Metadata request is not created."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping
from types import ModuleType
from typing import Any

import pytest

from minikafka.client import Admin
from minikafka.core.policies import PolicyViolation, TopicProposal
from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

BROKERS = (1, 2, 3)
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotMine:
    """A policy that refuses names that begin with "mine"."""

    def __init__(self, _: Mapping[str, str]) -> None: ...

    def validate(self, topic: TopicProposal) -> None:
        if topic.name.startswith("mine"):
            raise PolicyViolation("not yours")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("users_policies")
    found.__dict__.update(NotMine=NotMine)
    monkeypatch.setitem(sys.modules, found.__name__, found)


async def error_of(cluster: SimCluster, broker_id: int, topic: str) -> ErrorCode:
    """Return the error of a topic in one Metadata response of a broker."""
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), PORT, "c", ChannelConfig()
    )
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    response = await channel.request(request, 9, 10_000)
    channel.close()
    return ErrorCode(response.topics[0].error_code)


def play(
    settings: Mapping[str, str], scenario: Callable[[SimCluster, Admin], Coroutine[Any, Any, None]]
) -> None:
    async def run(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == len(BROKERS))
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await scenario(cluster, admin)

    SimCluster(7, BROKERS, {"auto.create.topics.enable": "true", **settings}).run(run)


@pytest.mark.parametrize("broker_id", BROKERS)
def test_a_colliding_name_is_invalid_until_the_other_topic_is_deleted(broker_id: int) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        await admin.create_topic("ok.one", 1, 1)
        await admin.wait_for_topic("ok.one")
        for _ in range(3):
            assert await error_of(cluster, broker_id, "ok_one") is INVALID
        await admin.delete_topic("ok.one")
        while (error := await error_of(cluster, broker_id, "ok_one")) is INVALID:
            await cluster.client_host.world.clock.sleep(10)  # its znode goes a moment later
        assert error is ErrorCode.LEADER_NOT_AVAILABLE
        await admin.wait_for_topic("ok_one")

    play({}, scenario)


@pytest.mark.parametrize("broker_id", BROKERS)
def test_a_policy_refuses_a_name_on_every_broker(broker_id: int) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        error = await error_of(cluster, broker_id, "mine")
        assert error is ErrorCode.POLICY_VIOLATION
        assert await error_of(cluster, broker_id, "ours") is ErrorCode.LEADER_NOT_AVAILABLE
        await admin.wait_for_topic("ours")

    play({"create.topic.policy.class.name": "users_policies:NotMine"}, scenario)


@pytest.mark.parametrize("broker_id", BROKERS)
def test_every_broker_refuses_a_replication_factor_above_the_brokers(broker_id: int) -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        error = await error_of(cluster, broker_id, "new")
        assert error is ErrorCode.INVALID_REPLICATION_FACTOR

    play({"default.replication.factor": "5"}, scenario)


def test_without_a_controller_a_topic_is_unknown_and_then_created() -> None:
    async def scenario(cluster: SimCluster, admin: Admin) -> None:
        dead = cluster.controller_id()
        assert dead is not None
        other = next(broker_id for broker_id in BROKERS if broker_id != dead)
        await cluster.host(dead).kill()
        error = await error_of(cluster, other, "new")
        assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await admin.wait_for_topic("new")

    play({"minikafka.fast.failover": "false"}, scenario)
