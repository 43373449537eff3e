"""The admin client and the connections below it, against a fake cluster."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    CreatedTopic,
    NewTopic,
)
from minikafka.client.admin.broker_calls import call_every_broker
from minikafka.client.config import parse_bootstrap_servers
from minikafka.core.client.calls import Call
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.records.builder import build_batch
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import HANG_UP, SILENCE
from tests.support.client.scenes import administering
from tests.support.world.client_world import ClientNetwork, jumping


@jumping
async def test_the_life_of_a_topic() -> None:
    async with administering() as (admin, cluster):
        created = await admin.create_topic("t", 3, 1, {"retention.ms": "1"})
        assert created == CreatedTopic("t", cluster.topic_ids["t"], 3, 1)
        (wanted,) = cluster.requests(ApiKey.CREATE_TOPICS)[0].topics
        assert [(row.name, row.value) for row in wanted.configs] == [("retention.ms", "1")]
        view = await admin.wait_for_topic("t", 3)
        assert sorted(view.partitions) == [0, 1, 2]
        assert view.partitions[1].leader == 2
        assert view.partitions[1].replicas == view.partitions[1].isr == (1, 2)
        assert [topic.name for topic in await admin.list_topics()] == ["t"]
        assert await failure_code(admin.create_topic("t")) is ErrorCode.TOPIC_ALREADY_EXISTS
        await admin.delete_topic("t")
        assert await admin.list_topics() == []
        assert await failure_code(admin.delete_topic("t")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@jumping
async def test_outcomes_by_topic() -> None:
    async with administering() as (admin, cluster):
        cluster.create("there")
        outcomes = await admin.create_topics(
            [NewTopic("new", 1, 1), NewTopic("there"), NewTopic("placed", assignments={0: [2, 1]})]
        )
        assert isinstance(outcomes["new"], CreatedTopic)
        refused = outcomes["there"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        rows = cluster.requests(ApiKey.CREATE_TOPICS)[0].topics[2].assignments
        assert [(row.partition_index, row.broker_ids) for row in rows] == [(0, [2, 1])]
        described = await admin.describe_topics(["new", "gone"])
        assert not isinstance(described["new"], KafkaError)
        assert isinstance(described["gone"], KafkaError)
        deleted = await admin.delete_topics(["new", "gone"])
        assert deleted["new"] is None
        assert isinstance(deleted["gone"], KafkaError)


@jumping
async def test_validating_creates_nothing() -> None:
    async with administering() as (admin, _):
        await admin.create_topics([NewTopic("t", 1, 1)], validate_only=True)
        assert await admin.list_topics() == []


@jumping
async def test_a_broker_that_leaves_has_no_result_of_a_call_to_all() -> None:
    async with administering() as (admin, cluster):
        session, call = (
            admin.session,
            Call(DescribeClusterRequest(), lambda found: found.cluster_id),
        )
        found = await call_every_broker(session, call, session.deadline_ms())
        assert found == {1: "fake", 2: "fake"}
        cluster.stop_broker(2)  # the metadata of the client has it still
        found = await call_every_broker(session, call, session.deadline_ms())
        assert found == {1: "fake"}


@jumping
async def test_internal_topics_are_listed_on_demand() -> None:
    async with administering() as (admin, cluster):
        cluster.create("__consumer_offsets")
        assert await admin.list_topics() == []
        (internal,) = await admin.list_topics(include_internal=True)
        assert internal.is_internal


@jumping
async def test_the_controller_is_followed() -> None:
    async with administering() as (admin, cluster):
        await admin.create_topic("a", 1, 1)
        cluster.controller = 2
        await admin.create_topic("b", 1, 1)
        asked = [
            broker
            for broker, request in cluster.seen
            if request.SPEC.api_key is ApiKey.CREATE_TOPICS
        ]
        assert asked[0] == 1
        assert asked[-1] == 2
        assert sorted(cluster.topic_ids) == ["a", "b"]


@pytest.mark.parametrize("fault", [HANG_UP, SILENCE])
def test_requests_are_retried_after_lost_responses(fault: str) -> None:
    @jumping
    async def scenario() -> None:
        async with administering() as (admin, cluster):
            for api in (ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.API_VERSIONS):
                cluster.fail(api, fault)
            await admin.create_topic("t", 1, 1)
            assert list(cluster.topic_ids) == ["t"]

    scenario()


@jumping
async def test_without_a_controller_time_runs_out() -> None:
    async with administering() as (admin, cluster):
        cluster.controller = -1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        code = await failure_code(admin.create_topic("t", timeout_ms=3_000))
        assert code is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() - begun <= 3.1


@jumping
async def test_the_cluster_is_described_by_old_brokers_too() -> None:
    async with administering() as (admin, cluster):
        new = await admin.describe_cluster()
        del cluster.versions[ApiKey.DESCRIBE_CLUSTER]
    async with administering() as (admin, cluster):
        del cluster.versions[ApiKey.DESCRIBE_CLUSTER]
        old = await admin.describe_cluster()
        assert cluster.requests(ApiKey.DESCRIBE_CLUSTER) == []
    assert new == old
    assert (new.cluster_id, new.controller_id) == ("fake", 1)
    assert [(node.id, node.host) for node in new.nodes] == [(1, "host-1"), (2, "host-2")]


@jumping
async def test_offsets() -> None:
    async with administering() as (admin, cluster):
        cluster.create("t")
        tp, other = TopicPartition("t", 0), TopicPartition("t", 1)
        cluster.partitions[tp].append(build_batch([(5, None, b"v", []), (9, None, b"w", [])]))
        for at, expected in ((LATEST_TIMESTAMP, 2), (EARLIEST_TIMESTAMP, 0), (6, 1), (10, -1)):
            found = await admin.list_offsets({tp: at, other: at})
            assert found[tp].offset == expected
        cluster.fail(ApiKey.LIST_OFFSETS, ErrorCode.LEADER_NOT_AVAILABLE)
        assert (await admin.list_offsets({tp: -1}))[tp].offset == 2
        missing = {TopicPartition("nope", 0): -1}
        assert await failure_code(admin.list_offsets(missing, timeout_ms=1_000)) in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.REQUEST_TIMED_OUT,
        )


@jumping
async def test_the_highest_common_version_is_spoken() -> None:
    async with administering() as (admin, cluster):
        cluster.versions[ApiKey.METADATA] = (0, 5)
        cluster.versions[ApiKey.CREATE_TOPICS] = (0, 1)
        created = await admin.create_topic("t", 1, 1)
        assert created.partitions == -1, "version 1 does not tell"
        cluster.versions[ApiKey.CREATE_TOPICS] = (90, 99)
    async with administering() as (admin, cluster):
        cluster.versions[ApiKey.CREATE_TOPICS] = (90, 99)
        assert await failure_code(admin.create_topic("t")) is ErrorCode.UNSUPPORTED_VERSION


@jumping
async def test_all_callers_share_one_connection_per_broker() -> None:
    async with administering() as (admin, cluster):
        cluster.create("t", 8)
        at = {TopicPartition("t", number): -1 for number in range(8)}
        await asyncio.gather(*(admin.list_offsets(at) for _ in range(10)))
        network = admin.session.world.network
        assert isinstance(network, ClientNetwork)
        assert network.connects <= 3, "a bootstrap server, then each broker"


@jumping
async def test_a_broker_that_moves_is_found_at_its_new_address() -> None:
    async with administering() as (admin, cluster):
        await admin.describe_cluster()
        cluster.stop_broker(1)
        cluster.controller = 2
        await admin.create_topic("t", 1, 1)
        await cluster.start_broker(1)
        cluster.controller = 1
        await admin.create_topic("u", 1, 1)
        assert sorted(cluster.topic_ids) == ["t", "u"]


def test_bootstrap_servers() -> None:
    assert parse_bootstrap_servers("a:1, b:2,") == [("a", 1), ("b", 2)]
    assert parse_bootstrap_servers("a") == [("a", 9092)]
    assert parse_bootstrap_servers("[::1]:5,[::2]") == [("::1", 5), ("::2", 9092)]
    for wrong in ("", ",", "a:b", "a:0", ":1", "a:70000"):
        with pytest.raises(ValueError, match="bootstrap"):
            parse_bootstrap_servers(wrong)


def test_error_codes_from_the_wire() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode(12_345) is ErrorCode.UNKNOWN_SERVER_ERROR


@jumping
async def test_a_frozen_bootstrap_server_does_not_keep_anybody() -> None:
    for _ in range(4):  # whichever is tried first
        async with administering(request_timeout_ms=30_000) as (admin, cluster):
            cluster.freeze(1)
            begun = asyncio.get_running_loop().time()
            assert [node.id for node in (await admin.describe_cluster()).nodes] == [1, 2]
            assert await admin.list_topics() == []
            assert asyncio.get_running_loop().time() - begun < 3


@jumping
async def test_an_unresponsive_broker_is_tried_last() -> None:
    async with administering(request_timeout_ms=30_000) as (admin, cluster):
        await admin.session.metadata.wait_until(lambda view: view.nodes or None, 1_000, "nodes")
        connections = admin.session.connections
        await connections.request(1, DescribeClusterRequest())
        await connections.request(2, DescribeClusterRequest())
        cluster.freeze(1)
        begun = asyncio.get_running_loop().time()
        for _ in range(20):
            await admin.describe_cluster()
        assert asyncio.get_running_loop().time() - begun < 2


@jumping
async def test_a_broker_that_leaves_during_a_request_fails_it_at_once() -> None:
    async with administering() as (admin, cluster):
        await admin.session.metadata.wait_until(lambda view: view.nodes or None, 1_000, "nodes")
        cluster.stop_broker(2)
        begun = asyncio.get_running_loop().time()
        code = await failure_code(admin.broker_configs(2, ["log.dirs"], timeout_ms=30_000))
        assert code is ErrorCode.BROKER_NOT_AVAILABLE
        assert asyncio.get_running_loop().time() - begun < 3
