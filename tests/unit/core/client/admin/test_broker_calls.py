"""The administration calls to brokers, leaders and coordinators, and what responses mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.client.admin import configs, groups, replicas, topics, transactions
from minikafka.core.client.admin.topics import describe_topics
from minikafka.core.client.calls import CoordinatorKey, outcome_of
from minikafka.core.client.cluster_view import Node, PartitionView, TopicView
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.cluster import CoordinatorType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages import consumer_group_describe
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from minikafka.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsResponse
from minikafka.protocol.messages.list_transactions import ListedTransaction
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.client.failures import code_of, error_in

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NODE = Node(2, "h2", 9)
GROUP = CoordinatorKey(CoordinatorType.GROUP, "g")
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


# -- topics and the cluster


def test_topics_are_described_by_name_without_creating_any() -> None:
    call = describe_topics(["b", "a"])
    request: Any = call.request
    assert request.allow_auto_topic_creation is False
    rows = [MetadataResponseTopic(name="b", error_code=3), MetadataResponseTopic(name="a")]
    response = MetadataResponse(brokers=[MetadataResponseBroker(1, "h1", 8)], topics=rows)
    assert [(view.name, view.error) for view in call.read(response)] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_broker_that_has_no_metadata_yet_describes_no_topics() -> None:
    with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE: brokers are starting"):
        describe_topics(["a"]).read(MetadataResponse(topics=[]))


def test_the_cluster_is_described_alike_by_both_calls() -> None:
    described = topics.ClusterDescription("id", 2, (Node(1, "h1", 8, "r"), NODE))
    brokers = [DescribeClusterBroker(2, "h2", 9), DescribeClusterBroker(1, "h1", 8, "r")]
    response = DescribeClusterResponse(cluster_id="id", controller_id=2, brokers=brokers)
    assert topics.describe_cluster().read(response) == described
    older = [MetadataResponseBroker(2, "h2", 9), MetadataResponseBroker(1, "h1", 8, "r")]
    metadata = MetadataResponse(brokers=older, cluster_id="id", controller_id=2)
    by_metadata = topics.describe_cluster_by_metadata()
    assert by_metadata.read(metadata) == described
    request: Any = by_metadata.request
    assert request.topics == []


# -- configurations


@pytest.mark.parametrize(
    ("resource_type", "name", "one"),
    [
        (BROKER, "1", True),
        (ResourceType.BROKER_LOGGER, "1", True),
        (BROKER, configs.CLUSTER_DEFAULT, False),
        (TOPIC, "1", False),
    ],
)
def test_one_broker_serves_its_own_settings(
    resource_type: ResourceType, name: str, one: bool
) -> None:
    assert configs.served_by_one_broker(resource_type, name) is one


def test_a_broker_is_found_by_the_name_of_its_resource() -> None:
    assert configs.broker_named("2", [10, 2]) == 2
    with pytest.raises(KafkaError, match="no broker 02, there are 2, 10") as failure:
        configs.broker_named("02", [10, 2])
    assert failure.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert not failure.value.code.retriable


def test_settings_are_described_with_synonyms_and_sources() -> None:
    call = configs.describe_configs(BROKER, "1", ["k"])
    request: Any = call.request
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name) == (BROKER, "1")
    assert resource.configuration_keys == ["k"]
    assert request.include_synonyms
    row = DescribeConfigsResourceResult(
        "k", "v", True, config_source=4, synonyms=[DescribeConfigsSynonym("k", "w", 99)]
    )
    response = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[row])])
    synonyms = (("k", "w", ConfigSource.UNKNOWN),)  # 99 is from a newer broker
    assert call.read(response) == {
        "k": configs.ConfigValue("k", "v", ConfigSource.STATIC_BROKER_CONFIG, True, False, synonyms)
    }
    rejected = DescribeConfigsResponse(results=[DescribeConfigsResult(40, "why")])
    assert "why" in str(error_in(call, rejected))


def test_the_settings_of_topics_are_those_that_are_not_defaults() -> None:
    rows = [
        DescribeConfigsResourceResult("changed", "1", config_source=1),
        DescribeConfigsResourceResult("hidden", None, config_source=1),
        DescribeConfigsResourceResult("default", "2", config_source=5),
    ]
    result = DescribeConfigsResult(resource_name="a", configs=rows)
    call = configs.topic_configs(["a"])
    assert call.read(DescribeConfigsResponse(results=[result])) == {
        "a": {"changed": "1", "hidden": ""}
    }


def test_settings_are_altered_one_by_one() -> None:
    changes = [
        configs.ConfigAlteration("k", "v"),
        configs.ConfigAlteration("gone", None, AlterOperation.DELETE),
    ]
    call = configs.incremental_alter_configs(TOPIC, "a", changes, validate_only=True)
    request: Any = call.request
    assert request.validate_only
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name) == (TOPIC, "a")
    assert [(row.name, row.config_operation, row.value) for row in resource.configs] == [
        ("k", AlterOperation.SET, "v"),
        ("gone", AlterOperation.DELETE, None),
    ]
    rejected = IncrementalAlterConfigsResourceResponse(40, "no such key")
    error = error_in(call, IncrementalAlterConfigsResponse(responses=[rejected]))
    assert error.code is ErrorCode.INVALID_CONFIG
    assert "no such key" in str(error)


# -- groups


def test_group_filters_are_sorted() -> None:
    call = groups.list_groups({"Stable", "Empty"}, {"classic"})
    request: Any = call.request
    assert (request.states_filter, request.types_filter) == (["Empty", "Stable"], ["classic"])
    assert error_in(call, ListGroupsResponse(error_code=14)).code is (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


@pytest.mark.parametrize(
    ("protocol_type", "assigned"), [("consumer", (A0, A1)), ("", (A0, A1)), ("connect", ())]
)
def test_only_assignments_of_consumers_are_read(
    protocol_type: str, assigned: tuple[TopicPartition, ...]
) -> None:
    # Version 0; one topic "a" with the partitions 1 and 0; no user data.
    assignment = bytes.fromhex("0000 00000001 0001 61 00000002 00000001 00000000 ffffffff")
    member = DescribedGroupMember("m", None, "c", "/h", b"", assignment)
    row = DescribedGroup(0, None, "g", "Stable", protocol_type, "range", [member])
    described = outcome_of(groups.describe_groups(["g"], NODE), "g").read(
        DescribeGroupsResponse(groups=[row])
    )
    assert described == groups.GroupDescription(
        "g",
        "Stable",
        protocol_type,
        "range",
        (groups.MemberDescription("m", None, "c", "/h", assigned),),
        NODE,
    )


def test_a_group_that_is_not_found_is_described_as_dead() -> None:
    row = DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.", "g", "Dead")
    response = DescribeGroupsResponse(groups=[row])  # of version 6
    described = groups.GroupDescription("g", "Dead", "", "", (), NODE)
    assert outcome_of(groups.describe_groups(["g"], NODE), "g").read(response) == described
    assert groups.describe_groups(["g"], NODE).read(response) == {"g": described}


def described_consumer_group(**changes: Any) -> consumer_group_describe.DescribedGroup:
    def assignment(*partitions: int) -> consumer_group_describe.Assignment:
        row = consumer_group_describe.TopicPartitions(topic_name="a", partitions=list(partitions))
        return consumer_group_describe.Assignment([row])

    member = consumer_group_describe.Member(
        member_id="m",
        instance_id="i",
        member_epoch=6,
        client_id="c",
        client_host="/h",
        assignment=assignment(1, 0),
        target_assignment=assignment(0),
        member_type=consumer_group_describe.CONSUMER_MEMBER_TYPE,
    )
    group = consumer_group_describe.DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member],
    )
    return replace(group, **changes)


def test_consumer_groups_are_described_with_epochs_and_targets() -> None:
    response = ConsumerGroupDescribeResponse(groups=[described_consumer_group()])
    call = outcome_of(groups.describe_consumer_groups(["g"], NODE), "g")
    assert call.request == ConsumerGroupDescribeRequest(["g"])
    described = call.read(response)
    facts = groups.ConsumerGroupMemberFacts(6, (A0,), True)
    assert described == groups.GroupDescription(
        "g",
        "Reconciling",
        "consumer",
        "uniform",
        (groups.MemberDescription("m", "i", "c", "/h", (A0, A1), facts),),
        NODE,
        groups.ConsumerGroupEpochs(8, 7),
    )
    assert described.group_type == "consumer"


def test_a_group_that_is_no_consumer_group_is_an_error() -> None:
    code, text = ErrorCode.GROUP_ID_NOT_FOUND, "Group h is not a consumer group."
    other = described_consumer_group(group_id="h", error_code=code, error_message=text)
    response = ConsumerGroupDescribeResponse(groups=[described_consumer_group(), other])
    found = groups.describe_consumer_groups(["g", "h", "i"], NODE).read(response)
    assert isinstance(found["g"], groups.GroupDescription)
    errors = [found[group_id] for group_id in ("h", "i")]
    assert [error.code for error in errors if isinstance(error, KafkaError)] == [
        code,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
    assert text in str(errors[0])
    response = ConsumerGroupDescribeResponse(groups=[other])
    assert (
        error_in(outcome_of(groups.describe_consumer_groups(["h"], NODE), "h"), response).code
        is code
    )


def test_offsets_are_deleted_by_topic() -> None:
    call = groups.delete_group_offsets("g", [A0, B0, A1])
    assert call.coordinator == GROUP
    request: Any = call.request
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.topics] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]

    def response(code: ErrorCode) -> OffsetDeleteResponse:
        rows = [OffsetDeleteResponsePartition(0), OffsetDeleteResponsePartition(1, code)]
        return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic("a", rows)])

    errors = call.read(response(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
    assert errors[A0] is None
    assert code_of(errors[A1]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    # Errors of the coordinator are retried as a whole.
    error = error_in(call, response(ErrorCode.NOT_COORDINATOR))
    assert error.code is ErrorCode.NOT_COORDINATOR
    error = error_in(call, OffsetDeleteResponse(error_code=69))
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_at_its_coordinator() -> None:
    call = groups.delete_group("g")
    assert call.coordinator == GROUP
    assert call.name == "DeleteGroups of g"
    response = DeleteGroupsResponse(results=[DeletableGroupResult("g", 68)])
    assert error_in(call, response).code is ErrorCode.NON_EMPTY_GROUP


# -- log directories


def test_log_directories_are_described_by_path() -> None:
    rows = [DescribeLogDirsPartition(0, 50, 3, True)]
    response = DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(0, "/d", [DescribeLogDirsTopic("a", rows)], 100, 40),
            DescribeLogDirsResult(56, "/off"),
        ]
    )
    assert replicas.describe_log_dirs().read(response) == {
        "/d": replicas.LogDirDescription(
            ErrorCode.NONE, {A0: replicas.ReplicaInfo(50, 3, True)}, 100, 40
        ),
        "/off": replicas.LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR),
    }


def test_replicas_are_moved_by_path_and_topic() -> None:
    call = replicas.alter_replica_log_dirs({A0: "/x", B0: "/y", A1: "/x"})
    request: Any = call.request
    assert [(d.path, [(t.name, t.partitions) for t in d.topics]) for d in request.dirs] == [
        ("/x", [("a", [0, 1])]),
        ("/y", [("b", [0])]),
    ]
    rows = [AlterReplicaLogDirPartitionResult(0), AlterReplicaLogDirPartitionResult(1, 57)]
    outcomes = call.read(
        AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult("a", rows)])
    )
    assert outcomes[A0] is None
    assert code_of(outcomes[A1]) is ErrorCode.LOG_DIR_NOT_FOUND


# -- the deletion of records


def test_every_partition_of_a_deletion_has_an_outcome() -> None:
    call = replicas.delete_records({A0: 3, B0: -1, A1: 4}, 900)
    request: Any = call.request
    assert request.timeout_ms == 900
    assert [
        (topic.name, row.partition_index, row.offset)
        for topic in request.topics
        for row in topic.partitions
    ] == [("a", 0, 3), ("a", 1, 4), ("b", 0, -1)]
    rows = [DeleteRecordsPartitionResult(0, 3), DeleteRecordsPartitionResult(1, -1, 1)]
    outcomes = call.read(DeleteRecordsResponse(topics=[DeleteRecordsTopicResult("a", rows)]))
    assert outcomes[A0] == 3
    assert code_of(outcomes[A1]) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(outcomes[B0]) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        (0, True),
        (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), True),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), True),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), False),
    ],
)
def test_deletions_worth_another_attempt(outcome: int | KafkaError, final: bool) -> None:
    assert replicas.is_final(outcome) is final


def test_partitions_without_a_leader_have_their_error() -> None:
    a2, c0 = TopicPartition("a", 2), TopicPartition("c", 0)
    views = [
        TopicView("a", partitions={0: PartitionView(0, leader=2), 1: PartitionView(1)}),
        TopicView("b", error=ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    by_leader, errors = replicas.by_leader({A0: 3, A1: 3, a2: 3, B0: 3, c0: 3}, views)
    assert by_leader == {2: {A0: 3}}
    assert {tp: error.code for tp, error in errors.items()} == {
        A1: ErrorCode.LEADER_NOT_AVAILABLE,
        a2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        B0: ErrorCode.INVALID_TOPIC_EXCEPTION,
        c0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


# -- transactions


def test_transactions_of_all_coordinators_are_sorted_by_id() -> None:
    request: Any = transactions.list_transactions({"Ongoing", "Empty"}, {9, 8}, 50).request
    assert (request.state_filters, request.producer_id_filters) == (["Empty", "Ongoing"], [8, 9])
    assert request.duration_filter == 50
    found = {1: [ListedTransaction("y", 8, "Empty")], 2: [ListedTransaction("x", 9, "Ongoing")]}
    assert transactions.transaction_listings(found) == [
        transactions.TransactionListing("x", 2, 9, "Ongoing"),
        transactions.TransactionListing("y", 1, 8, "Empty"),
    ]


def test_a_transaction_is_described_with_its_coordinator() -> None:
    call = transactions.describe_transaction("x", 2)
    row = TransactionState(0, "x", "Ongoing", 60, 70, 9, 1, [TopicData("a", [0, 1])])
    described = call.read(DescribeTransactionsResponse(transaction_states=[row]))
    assert described == transactions.TransactionDescription(
        "x", 2, "Ongoing", 60, 70, 9, 1, (A0, A1)
    )
    unknown = DescribeTransactionsResponse(transaction_states=[TransactionState(105, "x")])
    assert error_in(call, unknown).code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_producers_are_described_at_the_leader_of_their_partition() -> None:
    call = transactions.describe_producers(A1)
    assert call.partition == A1
    request: Any = call.request
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [("a", [1])]

    def response(row: PartitionResponse) -> DescribeProducersResponse:
        return DescribeProducersResponse(topics=[TopicResponse("a", [row])])

    state = ProducerState(9, 1, 5, 70, 3, 40)
    assert call.read(response(PartitionResponse(1, active_producers=[state]))) == [
        transactions.ProducerDescription(9, 1, 5, 70, 3, 40)
    ]
    error = error_in(call, response(PartitionResponse(1, 6)))
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_abort_marker_goes_to_the_leader_of_its_partition() -> None:
    call = transactions.abort_transaction(A1, 9, 1, 3)
    assert call.partition == A1
    request: Any = call.request
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 1, 3)
    assert marker.transaction_result is False
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("a", [1])]
    topics = [WritableTxnMarkerTopicResult("a", [WritableTxnMarkerPartitionResult(1, 47)])]
    response = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(9, topics)])
    assert error_in(call, response).code is ErrorCode.INVALID_PRODUCER_EPOCH
