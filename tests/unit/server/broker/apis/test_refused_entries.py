"""Entries of controller requests that are refused, while the rest of the request is applied."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import structlog

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import BURST, ClientEvents
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.leader_and_isr import (
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
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
)
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.brokers.update_metadata import UpdateMetadataHandler
from minikafka.server.broker.apis.request import RequestContext
from tests.support.broker.cluster_metadata import cache_with, live_broker, partition_state, update
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster

BAD_NAMES = ("..", "../../..", "a/b", "", "x" * 250, "\0")


def state(partition: int = 0, leader: int = 1, isr: Any = (1, 2)) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition, leader=leader, isr=list(isr), replicas=[1, 2], is_new=True
    )


@pytest.mark.mission("DOOR-1")
async def test_leader_and_isr_makes_no_directory_outside_of_the_data() -> None:
    async with ReplicaCluster([1]) as cluster:
        bad = [LeaderAndIsrTopicState(name, partition_states=[state()]) for name in BAD_NAMES]
        good = LeaderAndIsrTopicState(
            TOPIC, partition_states=[state(), state(-1), state(1, isr=[2]), state(2, isr=[1, 1])]
        )
        request = LeaderAndIsrRequest(controller_epoch=1, topic_states=[*bad, good])
        response = await cluster[1].command(request, 4)
        entries = response.partition_errors
        assert [entry.error_code for entry in entries[: len(BAD_NAMES)]] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION
        ] * len(BAD_NAMES)
        assert [(e.partition_index, e.error_code) for e in entries[len(BAD_NAMES) :]] == [
            (0, ErrorCode.NONE),
            (-1, ErrorCode.INVALID_REQUEST),
            (1, ErrorCode.INVALID_REQUEST),
            (2, ErrorCode.INVALID_REQUEST),
        ]
        assert [partition.topic_partition for partition in cluster[1].replicas.hosted] == [TP]


@pytest.mark.mission("DOOR-1")
async def test_stop_replica_stops_the_good_entries_only() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        topics = [
            StopReplicaTopicState(name, [StopReplicaPartitionState(0, -2, True)])
            for name in (*BAD_NAMES, TOPIC)
        ]
        request = StopReplicaRequest(controller_epoch=1, topic_states=topics)
        response = await cluster[1].command(request, 4)
        errors = {entry.topic_name: entry.error_code for entry in response.partition_errors}
        assert errors == dict.fromkeys(BAD_NAMES, ErrorCode.INVALID_TOPIC_EXCEPTION) | {
            TOPIC: ErrorCode.NONE
        }
        assert cluster[1].replicas.hosted.get(TP) is None


@pytest.mark.mission("DOOR-1")
async def test_update_metadata_adds_the_good_entries_only() -> None:
    cache = cache_with()
    changed: list[str] = []
    handler = UpdateMetadataHandler(cache, ControllerFence(1, lambda: 0), changed.append)
    topics = {name: [partition_state(0, 1)] for name in (*BAD_NAMES, "a")}
    topics["a"].append(partition_state(-1, 1))
    request = update(topics, brokers=[live_broker(1)])
    bad_hosts = ("", "a b", "h" * 300, "\0", "a/b")
    request.live_brokers += [
        UpdateMetadataBroker(7 + n, endpoints=[UpdateMetadataEndpoint(9092, host, "PLAINTEXT")])
        for n, host in enumerate(bad_hosts)
    ]
    request.live_brokers.append(
        UpdateMetadataBroker(2, endpoints=[UpdateMetadataEndpoint(70_000, "h", "PLAINTEXT")])
    )
    header = RequestHeader(6, 7, 1, "controller")
    response = await handler(RequestContext(header, "PLAINTEXT", "h"), request)
    assert response.error_code == ErrorCode.NONE
    assert changed == ["a"]
    assert list(cache.topics()) == ["a"]
    assert not cache.contains(TopicPartition("a", -1))
    assert list(cache.image.brokers) == [1]


@pytest.mark.mission("SAFE-24")
async def test_refused_entries_of_one_request_do_not_fill_the_log() -> None:
    async with ReplicaCluster([1]) as cluster:
        bad = [
            LeaderAndIsrTopicState(f"../{number}", partition_states=[state()])
            for number in range(500)
        ]
        request = LeaderAndIsrRequest(controller_epoch=1, topic_states=bad)
        with structlog.testing.capture_logs() as events:
            await cluster[1].command(request, 4)
    refused = [e for e in events if e["event"] == "controller_request_entry_refused"]
    assert len(refused) == len(bad)
    bounded = ClientEvents(lambda: 0)
    written = 0
    for event in refused:
        with contextlib.suppress(structlog.DropEvent):
            bounded(None, "error", event)
            written += 1
    assert written == BURST
