"""Requests for older brokers: decoded as those do, they say the same."""

from __future__ import annotations

from typing import Any, Never, cast
from uuid import UUID

import pytest

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.request_batch import RequestBatch, for_version, request_version
from minikafka.core.metadata_image import MetadataImage, apply
from minikafka.kernel.cluster import Broker, Endpoint, TopicPartition
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.server.broker.apis.brokers.leader_and_isr import instructions
from minikafka.server.broker.apis.brokers.stop_replica import stops
from minikafka.server.controller.channel_manager import VersionedChannel
from tests.support.broker.cluster_metadata import partition_state, update

ID = UUID(int=5)


def leader_and_isr() -> LeaderAndIsrRequest:
    states = [
        LeaderAndIsrPartitionState("", n, 3, 1, 4, [1, 2], 5, [1, 2, 3], [3], [1], True, n)
        for n in range(2)
    ]
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=3,
        broker_epoch=77,
        topic_states=[
            LeaderAndIsrTopicState("t", ID, states),
            LeaderAndIsrTopicState("u", ID, states[:1]),
        ],
    )


def over_the_wire(request: Any, version: int) -> Any:
    return [decode(type(r), version, encode(r, version)) for r in for_version(request, version)]


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr(version: int) -> None:
    (sent,) = over_the_wire(leader_and_isr(), version)
    told = list(instructions(sent))
    assert [i.topic_partition for i in told] == [
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("u", 0),
    ]
    for instruction in told:
        role = instruction.leader_and_isr
        assert (role.leader, role.leader_epoch, role.isr, role.zk_version) == (1, 4, (1, 2), 5)
        assert instruction.assignment.replicas == (1, 2, 3)
        assert instruction.assignment.adding == ((3,) if version >= 3 else ())
        assert instruction.is_new == (version >= 1)
        assert instruction.topic_id == (ID if version >= 5 else None)
    recovery = [i.leader_and_isr.leader_recovery_state for i in told]
    assert recovery == ([0, 1, 0] if version >= 6 else [0, 0, 0])


def stop_replica() -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_epoch=3,
        topic_states=[
            StopReplicaTopicState(
                "t",
                [
                    StopReplicaPartitionState(0, 4, False),
                    StopReplicaPartitionState(1, -2, True),
                ],
            ),
            StopReplicaTopicState("u", [StopReplicaPartitionState(7, -2, True)]),
        ],
    )


@pytest.mark.parametrize("version", range(5))
def test_stop_replica(version: int) -> None:
    sent = over_the_wire(stop_replica(), version)
    assert len(sent) == (1 if version >= 3 else 2)
    told = [stop for request in sent for stop in stops(request)]
    assert [(stop.topic_partition, stop.delete) for stop in told] == [
        (TopicPartition("t", 0), False),
        (TopicPartition("t", 1), True),
        (TopicPartition("u", 7), True),
    ]


@pytest.mark.parametrize("version", range(5))
def test_a_stop_replica_without_deletions_is_one_request(version: int) -> None:
    topic = StopReplicaTopicState("t", [StopReplicaPartitionState(0, 4, False)])
    (sent,) = over_the_wire(StopReplicaRequest(topic_states=[topic]), version)
    assert [(s.topic_partition, s.delete) for s in stops(sent)] == [(TopicPartition("t", 0), False)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_stop_replica_names_only_topics_it_has_partitions_of(version: int) -> None:
    stopping, deleting = over_the_wire(stop_replica(), version)
    assert [topic.name for topic in stopping.topics] == ["t"]
    assert [topic.name for topic in deleting.topics] == ["t", "u"]


def test_the_oldest_update_metadata_has_the_plaintext_address() -> None:
    both = Broker(1, (Endpoint("s", 1, "SSL", "SSL"), Endpoint("p", 2)), None, 5)
    secure = Broker(2, (Endpoint("s", 3, "SSL", "SSL"),), None, 6)
    context = ControllerContext()
    context.set_brokers([both, secure])
    context.epoch = 3
    batch = RequestBatch(1, context, "SSL")
    batch.add_update_metadata((1,), ())
    (request,) = batch.send_requests_to_brokers(3)
    (sent,) = over_the_wire(request.message, 0)
    assert [(b.id, b.v0_host, b.v0_port) for b in sent.live_brokers] == [(1, "p", 2), (2, "", 0)]


@pytest.mark.parametrize("version", range(9))
def test_update_metadata(version: int) -> None:
    states = {"t": [partition_state(0, 1, topic="t"), partition_state(1, 2, topic="t")]}
    request = update(states, brokers=(1, 2))
    (sent,) = over_the_wire(request, version)
    image, _ = apply(MetadataImage(), sent)
    assert sorted(image.topics["t"]) == [0, 1]
    assert image.topics["t"][1].leader == 2
    if version == 0:
        assert [(b.v0_host, b.v0_port) for b in sent.live_brokers] == [
            ("host1", 9001),
            ("host2", 9002),
        ]
    else:
        assert image.brokers[1].endpoints[0].port == 9001


class Old:
    """A broker of Kafka 2.0, and the requests that it got."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.closed = False

    async def request(self, message: Any, version: int, timeout_ms: int) -> Any:
        self.got.append((type(message).__name__, version))
        if len(self.got) == 1:
            rows = [ApiVersion(4, 0, 1), ApiVersion(5, 0, 0), ApiVersion(6, 0, 4)]
            return ApiVersionsResponse(api_keys=rows)
        if isinstance(message, StopReplicaRequest):
            (one, *_) = stops(message)
            return StopReplicaResponse(
                partition_errors=[StopReplicaPartitionError(*one.topic_partition, 0)]
            )
        return None

    def close(self) -> None:
        self.closed = True


async def test_channel_sends_the_versions_that_the_broker_supports() -> None:
    broker = Old()
    channel = await VersionedChannel.negotiate(cast(Any, broker), 1000)
    await channel.request(leader_and_isr(), 7, 1000)
    response = await channel.request(stop_replica(), 4, 1000)
    await channel.request(update({"t": [partition_state(0, 1)]}), 8, 1000)
    assert broker.got == [
        ("ApiVersionsRequest", 0),
        ("LeaderAndIsrRequest", 1),
        ("StopReplicaRequest", 0),
        ("StopReplicaRequest", 0),
        ("UpdateMetadataRequest", 4),
    ]
    assert [(e.topic_name, e.partition_index) for e in response.partition_errors] == [
        ("t", 0),
        ("t", 1),
    ]


async def test_connection_is_closed_when_api_versions_times_out() -> None:
    class Silent(Old):
        async def request(self, message: Any, version: int, timeout_ms: int) -> Never:
            raise TimeoutError("no response")

    broker = Silent()
    with pytest.raises(TimeoutError):
        await VersionedChannel.negotiate(cast(Any, broker), 1000)
    assert broker.closed


@pytest.mark.mission("MIX-12")
@pytest.mark.parametrize(
    ("protocol", "versions"),
    [("2.0", (1, 4, 0)), ("2.6", (4, 6, 3)), ("2.8", (5, 7, 3)), ("3.9", (7, 8, 4))],
)
def test_the_protocol_decides_the_versions_of_requests(
    protocol: str, versions: tuple[int, int, int]
) -> None:
    requests = (LeaderAndIsrRequest(), UpdateMetadataRequest(), StopReplicaRequest())
    known = InterBrokerProtocol.parse(protocol)
    assert tuple(request_version(request, known) for request in requests) == versions
