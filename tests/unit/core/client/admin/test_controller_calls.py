"""The administration calls to the controller: topics and placement."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.core.client.admin.replicas import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from minikafka.core.client.admin.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    is_final,
)
from minikafka.core.client.calls import ControllerCall, request_version
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.support.client.failures import code_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPIC_ID = UUID(int=7)


def test_topics_are_created_with_their_assignments_and_configs() -> None:
    placed = NewTopic("a", assignments={1: (2, 1), 0: (1, 2)}, configs={"retention.ms": "5"})
    call = create_topics([placed, NewTopic("b", 3, 2)], 900, validate_only=True)
    assert isinstance(call, ControllerCall)
    request: Any = call.request
    assert (request.timeout_ms, request.validate_only) == (900, True)
    first, second = request.topics
    assert [(r.partition_index, r.broker_ids) for r in first.assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]
    assert [(row.name, row.value) for row in first.configs] == [("retention.ms", "5")]
    assert (first.num_partitions, first.replication_factor) == (-1, -1)
    assert (second.num_partitions, second.replication_factor, second.assignments) == (3, 2, [])


def test_each_created_topic_has_its_outcome() -> None:
    call = create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")], 900)
    outcomes = call.read(
        CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name="b", error_code=36, error_message="it exists"),
                CreatableTopicResult("a", TOPIC_ID, num_partitions=3, replication_factor=2),
            ]
        )
    )
    assert outcomes["a"] == CreatedTopic("a", TOPIC_ID, 3, 2)
    assert code_of(outcomes["b"]) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert "it exists" in str(outcomes["b"])
    assert code_of(outcomes["c"]) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "not in the response" in str(outcomes["c"])


@pytest.mark.parametrize("newest", [2, 5, 6])
def test_deletions_name_topics_to_old_and_new_brokers(newest: int) -> None:
    """The newest versions of Kafka 2.0, 2.7 and 3.9."""
    call = delete_topics(["a", "b"], 900)
    assert isinstance(call, ControllerCall)
    served: dict[int, tuple[int, int]] = {ApiKey.DELETE_TOPICS: (0, newest)}
    version = request_version(call.request, served, "peer", call.highest_version)
    sent: Any = decode(DeleteTopicsRequest, version, encode(call.request, version))
    assert sent.topic_names == ["a", "b"]
    outcomes = call.read(
        DeleteTopicsResponse(
            responses=[DeletableTopicResult("a"), DeletableTopicResult("b", error_code=3)]
        )
    )
    assert outcomes["a"] is None
    assert code_of(outcomes["b"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_only_topics_with_assignments_name_the_replicas_of_new_partitions() -> None:
    call = create_partitions({"a": 3, "b": 2}, {"b": [(1, 2)], "gone": [(1,)]}, 900)
    request: Any = call.request
    a, b = request.topics
    assert (a.name, a.count, a.assignments) == ("a", 3, None)
    assert (b.name, b.count, [row.broker_ids for row in b.assignments]) == ("b", 2, [[1, 2]])
    rows = [CreatePartitionsTopicResult("a", 37, "too few"), CreatePartitionsTopicResult("b")]
    outcomes = call.read(CreatePartitionsResponse(results=rows))
    assert code_of(outcomes["a"]) is ErrorCode.INVALID_PARTITIONS
    assert outcomes["b"] is None


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        (None, True),
        (CreatedTopic("a"), True),
        (KafkaError(ErrorCode.NOT_CONTROLLER), False),
        (KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED), False),
        # Retriable in the table of errors, final for a topic to be deleted.
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), True),
    ],
)
def test_outcomes_of_topics_worth_another_attempt(outcome: object, final: bool) -> None:
    assert is_final(outcome) is final


def election(code: ErrorCode) -> ElectLeadersResponse:
    rows = [ElectLeadersPartitionResult(0), ElectLeadersPartitionResult(1, code, "why")]
    return ElectLeadersResponse(replica_election_results=[ElectLeadersTopicResult("a", rows)])


def test_an_election_has_an_outcome_for_each_partition() -> None:
    call = elect_leaders(ElectionType.UNCLEAN, [A0, B0, A1], 900)
    request: Any = call.request
    assert (request.election_type, request.timeout_ms) == (ElectionType.UNCLEAN, 900)
    topics = {row.topic: row.partitions for row in request.topic_partitions}
    assert topics == {"a": [0, 1], "b": [0]}
    outcomes = call.read(election(ErrorCode.ELECTION_NOT_NEEDED))
    assert outcomes[A0] is None
    assert code_of(outcomes[A1]) is ErrorCode.ELECTION_NOT_NEEDED


def test_an_election_of_all_partitions_names_none() -> None:
    request: Any = elect_leaders(ElectionType.PREFERRED, None, 900).request
    assert request.topic_partitions is None


def test_an_election_at_another_broker_than_the_controller_fails_as_a_whole() -> None:
    call = elect_leaders(ElectionType.PREFERRED, [A0, A1], 900)
    for response in (ElectLeadersResponse(error_code=41), election(ErrorCode.NOT_CONTROLLER)):
        with pytest.raises(KafkaError) as failure:
            call.read(response)
        assert failure.value.code is ErrorCode.NOT_CONTROLLER


def test_reassignments_are_begun_and_cancelled_by_topic() -> None:
    call = alter_partition_reassignments({A0: (3, 1), B0: None, A1: (2,)}, 900)
    request: Any = call.request
    assert [
        (topic.name, row.partition_index, row.replicas)
        for topic in request.topics
        for row in topic.partitions
    ] == [("a", 0, [3, 1]), ("a", 1, [2]), ("b", 0, None)]
    rows = [ReassignablePartitionResponse(0), ReassignablePartitionResponse(1, 39, "no broker")]
    outcomes = call.read(
        AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse("a", rows)])
    )
    assert outcomes[A0] is None
    assert code_of(outcomes[A1]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(outcomes[B0]) is ErrorCode.UNKNOWN_SERVER_ERROR  # not in the response
    with pytest.raises(KafkaError, match="elsewhere"):
        call.read(AlterPartitionReassignmentsResponse(error_code=41, error_message="elsewhere"))


def test_reassignments_in_progress_are_listed() -> None:
    some: Any = list_partition_reassignments([A1, A0], 900).request
    assert [(t.name, t.partition_indexes) for t in some.topics] == [("a", [1, 0])]
    call = list_partition_reassignments(None, 900)
    request: Any = call.request
    assert request.topics is None
    rows = [OngoingPartitionReassignment(1, [1, 2, 3], [3], [1])]
    response = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment("a", rows)])
    assert call.read(response) == {A1: ReplicaAssignment((1, 2, 3), (3,), (1,))}
    with pytest.raises(KafkaError, match="elsewhere"):
        call.read(ListPartitionReassignmentsResponse(error_code=41, error_message="elsewhere"))
