"""Metadata requests in all versions: topics, leaders, listeners, creation on demand."""

from typing import Any, cast

import pytest

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.server.broker.apis.authorization import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics.metadata import MetadataHandler
from tests.support.broker.cluster_metadata import (
    cache_with,
    live_broker,
    partition_state,
    topic_id,
    update,
)
from tests.support.world.standing_clock import standing_clock

VERSIONS = range(14)


class Creation:
    """Note the topics to create; the test calls ``callbacks``."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self.requested: list[list[str]] = []
        self.callbacks: list[Any] = []

    def create(self, topics: Any, callback: Any, take_permits: Any) -> None:
        self.requested.append(list(topics))
        self.callbacks.append(callback)


BROKERS = [
    live_broker(1, ("IN", "OUT"), "r1"),
    live_broker(2, ("IN",)),
    live_broker(3, ("IN", "OUT")),
]
TOPICS = {
    "a": [partition_state(0, 1), partition_state(1, 2, (2, 3), leader_epoch=5, offline=(3,))],
    "gone": [partition_state(0, 4, (4, 1), isr=(4,)), partition_state(1, -1, (1,), isr=())],
    "__consumer_offsets": [partition_state(0, 3)],
}


def send(
    version: int, names: Any = None, creation: Creation | None = None, **fields: Any
) -> MetadataResponse:
    """Send one request on listener OUT; encode and decode both messages."""
    responses: list[MetadataResponse] = []
    if names is None:
        topics: Any = [] if version == 0 else None
    else:
        topics = [MetadataRequestTopic(name=t) if isinstance(t, str) else t for t in names]
    request = decode(
        MetadataRequest, version, encode(MetadataRequest(topics=topics, **fields), version)
    )
    context = RequestContext(RequestHeader(3, version, 1), "OUT", "h")
    cache = cache_with(update(TOPICS, BROKERS))
    handler = MetadataHandler(cache, cast(Any, creation or Creation(False)), "cluster-1")
    with standing_clock():
        handler(context, request, responses.append)
    if not responses:
        return MetadataResponse()
    (response,) = responses
    return decode(MetadataResponse, version, encode(response, version))


def errors(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_of_the_listener_and_the_cluster(version: int) -> None:
    response = send(version)
    rack = "r1" if version >= 1 else None
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host1", 9101, rack),
        (3, "host3", 9103, None),
    ]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("cluster-1" if version >= 2 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(version: int) -> None:
    response = send(version)
    assert [t.name for t in response.topics] == ["__consumer_offsets", "a", "gone"]
    assert [t.is_internal for t in response.topics] == [version >= 1, False, False]
    known = topic_id("a") if version >= 10 else ZERO_UUID
    assert response.topics[1].topic_id == known


def test_an_empty_list_is_all_topics_only_in_version_0() -> None:
    assert len(send(0, []).topics) == 3
    assert send(1, []).topics == []


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_and_their_leaders(version: int) -> None:
    (topic,) = send(version, ["a"]).topics
    first, second = topic.partitions
    epoch = {True: (0, 5), False: (-1, -1)}[version >= 7]
    assert (first.partition_index, first.leader_id, first.leader_epoch) == (0, 1, epoch[0])
    # broker 2 lives but has no listener OUT
    assert (second.leader_id, second.leader_epoch) == (-1, epoch[1])
    expected = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert second.error_code == expected
    assert second.offline_replicas == ([3] if version >= 5 else [])
    if version == 0:
        assert first.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
        assert (first.replica_nodes, first.isr_nodes) == ([1, 3], [1, 3])
    else:
        assert first.error_code == 0
        assert (first.replica_nodes, first.isr_nodes) == ([1, 2, 3], [1, 2, 3])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dead_or_missing_leader_is_not_available(version: int) -> None:
    (topic,) = send(version, ["gone"]).topics
    assert topic.error_code == 0
    assert [p.error_code for p in topic.partitions] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert [p.leader_id for p in topic.partitions] == [-1, -1]


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_and_illegal_names(version: int) -> None:
    response = send(version, ["nope", "a b", "a", "nope"])
    assert errors(response) == {
        "a": 0,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert len(response.topics) == 3


def test_topics_by_id() -> None:
    ids = [MetadataRequestTopic(topic_id("a"), None), MetadataRequestTopic(topic_id("zz"), None)]
    response = send(12, ids)
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
        ("a", topic_id("a"), 0),
        (None, topic_id("zz"), ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "topic", [MetadataRequestTopic(topic_id("a"), "a"), MetadataRequestTopic(name=None)]
)
def test_topic_ids_are_invalid_before_version_12(version: int, topic: str) -> None:
    response = send(version, [topic])
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]


def test_missing_topics_are_created_if_the_request_allows_it() -> None:
    creation = Creation()
    assert send(9, ["a", "new"], creation) == MetadataResponse()  # parked
    assert creation.requested == [["new"]]
    for version in range(4):  # older versions lack the field: creation is always allowed
        send(version, ["new"], creation)
    assert len(creation.requested) == 5


def test_response_holds_the_error_of_the_topic_creation() -> None:
    responses: list[MetadataResponse] = []
    creation = Creation()
    handler = MetadataHandler(cache_with(update(TOPICS, BROKERS)), cast(Any, creation), "c")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in ("new", "a")])
    with standing_clock():
        handler(RequestContext(RequestHeader(3, 9, 1), "OUT", "h"), request, responses.append)
    assert responses == []
    creation.callbacks[0]({"new": ErrorCode.LEADER_NOT_AVAILABLE})
    assert errors(responses[0]) == {"a": 0, "new": ErrorCode.LEADER_NOT_AVAILABLE}


def test_nothing_is_created_when_the_client_or_the_broker_does_not_want_it() -> None:
    creation, off = Creation(), Creation(enabled=False)
    unwanted = send(9, ["new"], creation, allow_auto_topic_creation=False)
    assert errors(unwanted) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert errors(send(9, ["new"], off)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    send(9, None, creation)
    assert (creation.requested, off.requested) == ([], [])


@pytest.mark.parametrize("version", range(8, 13))
def test_all_operations_are_authorized_when_requested(version: int) -> None:
    fields: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    response = send(version, ["a"], **fields)
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS == 0b110111111000
    expected = CLUSTER_OPERATIONS if version <= 10 else AUTHORIZED_OPERATIONS_OMITTED
    assert response.cluster_authorized_operations == expected
    plain = send(version, ["a"])
    assert plain.topics[0].topic_authorized_operations == AUTHORIZED_OPERATIONS_OMITTED
