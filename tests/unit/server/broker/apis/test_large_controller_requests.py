"""Controller requests with thousands of entries: read, checked and answered in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.server.broker.apis.brokers import leader_and_isr, stop_replica
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.brokers.update_metadata import UpdateMetadataHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication import stray_replicas
from minikafka.server.broker.replication.stray_replicas import StrayReplicas
from tests.support.broker.cluster_metadata import live_broker, partition_state
from tests.support.broker.replicas import ReplicaCluster
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element

COUNT = 2_000
FIELDS: dict[str, Any] = {"controller_id": 9, "controller_epoch": 1}


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)
    monkeypatch.setattr(leader_and_isr, "LEADERSHIP_SLICE", 5)
    monkeypatch.setattr(stop_replica, "STOP_SLICE", 5)
    monkeypatch.setattr(stray_replicas, "JUDGED_AT_ONCE", 5)


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(RequestHeader(key, version, 1, "controller"), "PLAINTEXT", "host9")


def shape(topics: int) -> list[tuple[str, range]]:
    """``COUNT`` partitions in so many topics."""
    return [(f"t{number}", range(COUNT // topics)) for number in range(topics)]


@pytest.mark.mission("SAFE-37")
@pytest.mark.parametrize("topics", [1, COUNT])
@pytest.mark.parametrize("replica", [0, 1])
async def test_leader_and_isr(topics: int, replica: int) -> None:
    """The broker is no replica of the partitions, or is one that must not lead them."""
    states = [
        LeaderAndIsrTopicState(
            name,
            UUID(int=number + 2),
            [LeaderAndIsrPartitionState("", p, 1, 1, 0, [], 0, [replica]) for p in partitions],
        )
        for number, (name, partitions) in enumerate(shape(topics))
    ]
    leaders = [LeaderAndIsrLiveLeader(number, "h", 9092) for number in range(COUNT)]
    request = LeaderAndIsrRequest(**FIELDS, topic_states=states, live_leaders=leaders)
    async with ReplicaCluster([1]) as cluster:
        handler = cluster[1].handlers[ApiKey.LEADER_AND_ISR]
        response, most = await most_calls_in_a_turn(
            handler(context(ApiKey.LEADER_AND_ISR, 7), request)
        )
    assert response.error_code == ErrorCode.NONE
    errors = [row.error_code for topic in response.topics for row in topic.partition_errors]
    expected = ErrorCode.INVALID_REQUEST if replica else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [expected] * COUNT
    assert most < COUNT


@pytest.mark.mission("SAFE-37")
@pytest.mark.parametrize("topics", [1, COUNT])
async def test_stop_replica(topics: int) -> None:
    states = [
        StopReplicaTopicState(name, [StopReplicaPartitionState(p, 0, False) for p in partitions])
        for name, partitions in shape(topics)
    ]
    request = StopReplicaRequest(**FIELDS, topic_states=states)
    async with ReplicaCluster([1]) as cluster:
        handler = cluster[1].handlers[ApiKey.STOP_REPLICA]
        response, most = await most_calls_in_a_turn(
            handler(context(ApiKey.STOP_REPLICA, 4), request)
        )
    assert len(response.partition_errors) == COUNT
    assert most < COUNT


def metadata(topics: int, controller_epoch: int = 1, brokers: int = 3) -> UpdateMetadataRequest:
    states = [
        UpdateMetadataTopicState(
            name, UUID(int=number + 2), [partition_state(p, 1) for p in partitions]
        )
        for number, (name, partitions) in enumerate(shape(topics))
    ]
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        topic_states=states,
        live_brokers=[live_broker(number) for number in range(brokers)],
    )


@pytest.mark.mission("SAFE-37", "DOOR-1")
@pytest.mark.parametrize(("topics", "brokers"), [(1, 3), (COUNT, 3), (1, COUNT)])
async def test_update_metadata(topics: int, brokers: int) -> None:
    """Readers see the image of before until all of the next one is there."""
    changed: list[str] = []
    async with ReplicaCluster([1]) as cluster:
        node = cluster[1]
        cache = MetadataCache(1)
        handler = UpdateMetadataHandler(
            cache,
            node.fence,
            changed.append,
            drop_strays=StrayReplicas(node.replicas, node.logs).drop,
        )
        request = metadata(topics, brokers=brokers)
        request.topic_states[0].partition_states.insert(0, partition_state(-1, 1))
        images: list[MetadataImage] = []

        async def watch() -> None:
            while True:
                if not images or images[-1] is not cache.image:
                    images.append(cache.image)
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        response, most = await most_calls_in_a_turn(
            handler(context(ApiKey.UPDATE_METADATA, 7), request)
        )
        watching.cancel()
    assert response.error_code == ErrorCode.NONE
    assert most < COUNT
    assert [len(image.topics) for image in images] == [0, topics]
    assert sum(map(len, cache.image.topics.values())) == COUNT
    assert len(cache.image.brokers) == brokers
    assert len(cache.image.topic_names) == topics
    assert changed == [f"t{number}" for number in range(topics)]


@pytest.mark.mission("SAFE-37")
async def test_update_metadata_of_the_versions_without_topics() -> None:
    flat = [partition_state(p, 1, topic="t") for p in range(COUNT)]
    request = UpdateMetadataRequest(**FIELDS, ungrouped_partition_states=flat)
    cache = MetadataCache(1)
    handler = UpdateMetadataHandler(cache, ControllerFence(1, lambda: 1), lambda _: None)
    _, most = await most_calls_in_a_turn(handler(context(ApiKey.UPDATE_METADATA, 4), request))
    assert most < COUNT
    assert len(cache.image.topics["t"]) == COUNT


@pytest.mark.mission("SAFE-37")
async def test_only_configurations_of_own_replicas_are_read() -> None:
    states = [
        LeaderAndIsrTopicState(
            f"t{number}",
            UUID(int=number + 2),
            [LeaderAndIsrPartitionState("", 0, 1, 1, 0, [1], 0, [number % 2], is_new=True)],
        )
        for number in range(24)
    ]
    request = LeaderAndIsrRequest(**FIELDS, topic_states=states)
    async with ReplicaCluster([1]) as cluster:
        read: list[str] = []
        load = cluster.configs.load

        async def note(topics: Sequence[str]) -> None:
            read.extend(topics)
            await load(topics)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster.configs, "load", note)
            response = await cluster[1].handlers[ApiKey.LEADER_AND_ISR](
                context(ApiKey.LEADER_AND_ISR, 7), request
            )
    assert sorted(read) == sorted(f"t{n}" for n in range(1, 24, 2))
    errors = [row.error_code for topic in response.topics for row in topic.partition_errors]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE] * 12


@pytest.mark.mission("SAFE-37")
async def test_a_newer_controller_between_two_slices_ends_an_update_of_metadata() -> None:
    cache, fence = MetadataCache(1), ControllerFence(1, lambda: 1)
    handler = UpdateMetadataHandler(cache, fence, lambda _: None)
    older = asyncio.ensure_future(handler(context(ApiKey.UPDATE_METADATA, 7), metadata(1)))
    await asyncio.sleep(0)
    newer = UpdateMetadataRequest(controller_id=8, controller_epoch=2)
    assert (await handler(context(ApiKey.UPDATE_METADATA, 7), newer)).error_code == ErrorCode.NONE
    assert not older.done()
    assert (await older).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cache.image.topics == {}
    assert cache.controller_id == 8


@pytest.mark.mission("SAFE-37")
async def test_an_update_of_metadata_keeps_changes_of_an_earlier_one_between_its_slices() -> None:
    """The earlier one arrived over a connection that is closed by now."""
    cache, fence = MetadataCache(1), ControllerFence(1, lambda: 1)
    handler = UpdateMetadataHandler(cache, fence, lambda _: None)
    half = [partition_state(p, 1) for p in range(COUNT // 2)]
    few = UpdateMetadataRequest(
        **FIELDS, topic_states=[UpdateMetadataTopicState("few", UUID(int=1), half)]
    )
    first = asyncio.ensure_future(handler(context(ApiKey.UPDATE_METADATA, 7), few))
    second = asyncio.ensure_future(handler(context(ApiKey.UPDATE_METADATA, 7), metadata(1)))
    responses = await asyncio.gather(first, second)
    assert [response.error_code for response in responses] == [ErrorCode.NONE] * 2
    assert {topic: len(found) for topic, found in cache.image.topics.items()} == {
        "few": COUNT // 2,
        "t0": COUNT,
    }
