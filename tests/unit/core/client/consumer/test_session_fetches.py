"""A consumer's fetch sessions: by topic id where the broker allows it, otherwise by name."""

from __future__ import annotations

from uuid import UUID

from minikafka.core.client.cluster_view import ClusterView, PartitionView, TopicView
from minikafka.core.client.consumer.fetch_requests import FetchLimits, SessionFetches
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = UUID(int=7), UUID(int=8)
OFFSETS = {T0: 0, T1: 5}


def view(topic_id: UUID) -> ClusterView:
    partitions = {number: PartitionView(number, 1, 3) for number in (0, 1)}
    return ClusterView(topics={"t": TopicView("t", topic_id, partitions=partitions)})


def named(request: FetchRequest) -> list[tuple[UUID, list[int]]]:
    return [(each.topic_id, [row.partition for row in each.partitions]) for each in request.topics]


def response(topic: str, topic_id: UUID, *numbers: int) -> FetchResponse:
    rows = [PartitionData(number) for number in numbers]
    topics = [FetchableTopicResponse(topic, topic_id, rows)] if rows else []
    return FetchResponse(session_id=9, responses=topics)


def test_a_topic_created_again_replaces_the_old_id_in_the_session() -> None:
    fetches = SessionFetches(FetchLimits(0, 0, 0, 0, 0))
    request, version = fetches.build(1, OFFSETS, view(OLD), 17)
    assert (named(request), version) == ([(OLD, [0, 1])], 17)
    rows = fetches.handle_response(1, response("", OLD, 0, 1))
    assert [tp for tp, _ in rows] == [T0, T1]
    request, _ = fetches.build(1, OFFSETS, view(OLD), 17)
    assert not request.topics
    assert [tp for tp, _ in fetches.handle_response(1, response("", OLD, 1))] == [T1]
    request, _ = fetches.build(1, OFFSETS, view(NEW), 17)
    assert named(request) == [(NEW, [0, 1])]
    assert [(row.topic_id, row.partitions) for row in request.forgotten_topics_data] == [
        (OLD, [0, 1])
    ]


def test_names_where_the_version_or_an_id_is_missing() -> None:
    fetches = SessionFetches(FetchLimits(0, 0, 0, 0, 0))
    for topic_id, served, used in ((OLD, 12, 12), (ZERO_UUID, 17, 12), (OLD, 11, 11)):
        request, version = fetches.build(1, OFFSETS, view(topic_id), served)
        assert version == used
        assert [row.topic for row in request.topics] == ["t"]
        rows = fetches.handle_response(1, response("t", ZERO_UUID, 0, 1))
        assert [tp for tp, _ in rows] == [T0, T1]
        fetches.handle_error(1)


def test_a_broker_that_goes_on_by_names_gets_a_full_request() -> None:
    fetches = SessionFetches(FetchLimits(0, 0, 0, 0, 0))
    fetches.build(1, OFFSETS, view(OLD), 17)
    fetches.handle_response(1, response("", OLD, 0, 1))
    fetches.build(1, OFFSETS, view(OLD), 17)
    assert fetches.handle_response(1, response("t", ZERO_UUID, 0)) == []
    request, _ = fetches.build(1, OFFSETS, view(OLD), 12)
    assert [row.topic for row in request.topics] == ["t"]
    assert request.session_epoch == 0
