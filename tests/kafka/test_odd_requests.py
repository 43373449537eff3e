"""Kafka's broker and ours respond alike to unusual requests that clients and scripts send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.storage.logs import batch

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

THEIRS_ID, OURS_ID = 1, 2
EACH = pytest.mark.parametrize("broker_id", [THEIRS_ID, OURS_ID], ids=["theirs", "ours"])
TIMEOUT_MS = 20_000
FOR_EVER_MS = 60_000  # longer than the time-out, so a response that waits so long fails the test
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture(scope="module")
def cluster(mixed: Mixed) -> Iterator[MixedCluster]:
    """Broker 1 is Kafka's and the controller, 2 is ours; each leads the partition before its
    number."""
    properties = {"auto.create.topics.enable": "true", "offsets.topic.replication.factor": 1}
    with mixed(NEWEST, OURS, properties=properties) as running:
        running.make_controller(THEIRS_ID)
        running.create_topic("t", [THEIRS_ID], [OURS_ID])
        yield running


def talk(
    cluster: MixedCluster, broker_id: int, scenario: Callable[[Channel], Coroutine[Any, Any, Any]]
) -> Any:
    async def run() -> Any:
        host, _, port = cluster.address(broker_id).rpartition(":")
        channel = await Channel.open(
            RealNetwork(), RealClock(), host, int(port), "odd", ChannelConfig()
        )
        try:
            return await scenario(channel)
        finally:
            channel.close()

    return asyncio.run(run())


def ask(cluster: MixedCluster, broker_id: int, message: Any, version: int) -> Any:
    return talk(cluster, broker_id, lambda channel: channel.request(message, version, TIMEOUT_MS))


def fetching(*topics: FetchTopic, **fields: Any) -> FetchRequest:
    return FetchRequest(topics=list(topics), min_bytes=1, max_bytes=1 << 20, **fields)


def of(name: str, topic_id: UUID, *partitions: int) -> FetchTopic:
    rows = [FetchPartition(i, partition_max_bytes=1 << 20) for i in partitions]
    return FetchTopic(name, topic_id, rows)


def errors(response: FetchResponse) -> dict[int, int]:
    return {p.partition_index: p.error_code for t in response.responses for p in t.partitions}


@EACH
@pytest.mark.parametrize("version", [12, 17])
def test_a_fetch_waits_although_a_partition_is_unknown(
    cluster: MixedCluster, broker_id: int, version: int
) -> None:
    name = f"waits-{broker_id}-{version}"
    cluster.create_topic(name, [broker_id])
    known = of(name, topic_id_of(cluster, name), 0, 7)
    unknown = of("unknown", UUID(int=99), 9)

    async def scenario(channel: Channel) -> None:
        alone = await channel.request(
            fetching(unknown, max_wait_ms=FOR_EVER_MS), version, TIMEOUT_MS
        )
        expected = UNKNOWN if version < 13 else UNKNOWN_ID
        assert errors(alone) == {9: expected}
        request = fetching(known, unknown, max_wait_ms=FOR_EVER_MS)
        waiting = asyncio.create_task(channel.request(request, version, 2 * FOR_EVER_MS))
        done, _ = await asyncio.wait([waiting], timeout=1)
        assert not done
        await asyncio.to_thread(
            ask,
            cluster,
            broker_id,
            ProduceRequest(
                None,
                1,
                10_000,
                [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch(b"v"))])],
            ),
            9,
        )
        response = await asyncio.wait_for(waiting, TIMEOUT_MS / 1000)
        assert errors(response) == {0: 0, 7: UNKNOWN, 9: expected}

    talk(cluster, broker_id, scenario)


def topic_id_of(cluster: MixedCluster, name: str) -> UUID:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    found: UUID = ask(cluster, OURS_ID, request, 12).topics[0].topic_id
    return found


@EACH
def test_a_session_keeps_the_name_of_a_topic_that_was_made_again_elsewhere(
    cluster: MixedCluster, broker_id: int
) -> None:
    name, other = f"again-{broker_id}", OURS_ID + THEIRS_ID - broker_id
    cluster.create_topic(name, [broker_id])
    old = of(name, topic_id_of(cluster, name), 0)

    async def scenario(channel: Channel) -> None:
        first = await channel.request(fetching(old, session_epoch=0, max_wait_ms=0), 17, TIMEOUT_MS)
        assert errors(first) == {0: 0}
        await asyncio.to_thread(make_again)
        session = {"session_id": first.session_id, "max_wait_ms": 0}
        for epoch, topics in ((1, []), (2, [old])):
            response = await channel.request(
                fetching(*topics, session_epoch=epoch, **session), 17, TIMEOUT_MS
            )
            assert errors(response) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    def knows_the_new_one(broker: int) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        found = ask(cluster, broker, request, 12).topics[0].topic_id
        return found not in (old.topic_id, UUID(int=0))

    def make_again() -> None:
        admin = cluster.admin()  # the client must live until the result is there
        admin.delete_topics([name])[name].result(60)
        until(lambda: cluster.znode(f"/brokers/topics/{name}") is None, "the topic is gone")
        cluster.create_topic(name, [other])
        for each in (broker_id, other):
            until(partial(knows_the_new_one, each), "the broker knows the new topic")

    talk(cluster, broker_id, scenario)


def alter(
    cluster: MixedCluster, broker_id: int, name: str, **values: str | None
) -> tuple[int, Any]:
    """Set these keys, or delete those with None; return the error and its message."""
    rows = [
        IncrementalAlterableConfig(
            key.replace("_", "."), AlterOperation.DELETE if v is None else AlterOperation.SET, v
        )
        for key, v in values.items()
    ]
    resource = IncrementalAlterConfigsResource(ResourceType.BROKER, name, rows)
    (result,) = ask(cluster, broker_id, IncrementalAlterConfigsRequest([resource]), 1).responses
    return result.error_code, result.error_message


@EACH
@pytest.mark.parametrize("of_all", [True, False], ids=["of all", "of one"])
def test_custom_keys_and_negative_retentions(
    cluster: MixedCluster, broker_id: int, of_all: bool
) -> None:
    name = "" if of_all else str(broker_id)
    given = {"log_retention_ms": "-2", "log_retention_bytes": "-7", "some_custom_key": "v"}
    assert alter(cluster, broker_id, name, **given) == (0, None)
    request = DescribeConfigsRequest([DescribeConfigsResource(ResourceType.BROKER, name, None)])

    def described() -> dict[str, tuple[str | None, int, bool, bool]]:
        (result,) = ask(cluster, broker_id, request, 4).results
        return {
            e.name: (e.value, e.config_source, e.is_sensitive, e.read_only) for e in result.configs
        }

    source = 3 if of_all else 2
    until(lambda: described().get("some.custom.key"), "the broker has the settings")
    found = described()
    assert found["some.custom.key"] == (None, source, True, True)
    assert found["log.retention.ms"] == ("-2", source, False, False)
    assert found["log.retention.bytes"] == ("-7", source, False, False)
    code, _ = alter(cluster, broker_id, name, log_retention_ms="0")
    assert code == ErrorCode.INVALID_REQUEST
    assert alter(cluster, broker_id, name, **dict.fromkeys(given)) == (0, None)


@EACH
def test_an_offset_fetch_that_names_a_partition_twice_has_it_once(
    cluster: MixedCluster, broker_id: int
) -> None:
    def group_of() -> str | None:
        for number in range(100):
            found = ask(cluster, broker_id, FindCoordinatorRequest(f"g{number}"), 3)
            if found.error_code == 0 and found.node_id == broker_id:
                return f"g{number}"
        return None

    group = until(group_of, "the broker coordinates a group")
    named = [OffsetFetchRequestTopics("t", partition_indexes=each) for each in ([1, 0, 1], [0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=named)])

    def rows() -> list[tuple[str, int]] | None:
        (result,) = ask(cluster, broker_id, request, 8).groups
        if result.error_code:  # the coordinator loads
            return None
        return sorted((t.name, p.partition_index) for t in result.topics for p in t.partitions)

    assert until(rows, "the group is loaded") == [("t", 0), ("t", 1)]


def test_our_broker_has_the_error_of_a_creation_that_kafkas_controller_refuses(
    cluster: MixedCluster,
) -> None:
    cluster.create_topic("ok.one", [OURS_ID])

    def error_of(broker_id: int, name: str) -> ErrorCode:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        return ErrorCode(ask(cluster, broker_id, request, 9).topics[0].error_code)

    assert error_of(THEIRS_ID, "ok_one") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_of(OURS_ID, "ok_one") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_of(OURS_ID, "good") is ErrorCode.LEADER_NOT_AVAILABLE
