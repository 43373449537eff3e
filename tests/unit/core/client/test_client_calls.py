"""What the calls of clients put into requests, and which errors they read out of responses."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.client.calls import CoordinatorKey, find_coordinator
from minikafka.core.client.cluster_view import ClusterView, merge, metadata_request
from minikafka.core.client.consumer.group_calls import offset_commit, offset_fetch
from minikafka.core.client.consumer.list_offsets_call import list_offsets
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from minikafka.core.client.producer.calls import (
    NO_PRODUCER,
    TransactionalProducer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    new_producer_id,
    produce,
    txn_offset_commit,
)
from minikafka.kernel.cluster import CoordinatorType, ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.messages.end_txn import EndTxnResponse
from minikafka.protocol.messages.find_coordinator import FindCoordinatorResponse
from minikafka.protocol.messages.init_producer_id import InitProducerIdResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.client.failures import error_in

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PRODUCER = TransactionalProducer("id", 7, 3)
TRANSACTION = CoordinatorKey(CoordinatorType.TRANSACTION, "id")
GROUP = CoordinatorKey(CoordinatorType.GROUP, "g")


def test_partitions_are_added_to_a_transaction_by_topic_in_order() -> None:
    call = add_partitions_to_txn(PRODUCER, [B0, A1, A0])
    request: Any = call.request
    assert call.coordinator == TRANSACTION
    assert call.highest_version == 3  # later versions are for brokers
    assert call.name == "AddPartitionsToTxn of id"
    assert (
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    ) == PRODUCER
    rows = [(row.name, row.partitions) for row in request.v3_and_below_topics]
    assert rows == [("a", [0, 1]), ("b", [0])]


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(n, int(code)) for n, code in enumerate(codes)]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("a", rows)]
    )


def test_a_final_error_of_one_partition_counts_more_than_a_retriable_one_of_another() -> None:
    call = add_partitions_to_txn(PRODUCER, [A0, A1])
    busy, fenced = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
    assert call.read(added(ErrorCode.NONE, ErrorCode.NONE)) is None
    assert error_in(call, added(ErrorCode.NONE, busy)).code is busy
    assert error_in(call, added(busy, fenced)).code is fenced


def test_init_producer_id_is_sent_with_and_without_a_transactional_id() -> None:
    fresh: Any = new_producer_id().request
    assert (fresh.transactional_id, fresh.producer_id, fresh.producer_epoch) == (None, -1, -1)
    first: Any = init_producer_id("id", 9, NO_PRODUCER).request
    assert (first.transactional_id, first.transaction_timeout_ms) == ("id", 9)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    call = init_producer_id("id", 9, ProducerIdAndEpoch(7, 3))
    again: Any = call.request
    assert (again.producer_id, again.producer_epoch) == (7, 3)
    assert (call.coordinator, call.highest_version) == (TRANSACTION, 4)
    given = InitProducerIdResponse(producer_id=7, producer_epoch=4)
    assert call.read(given) == new_producer_id().read(given) == ProducerIdAndEpoch(7, 4)
    refused = InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
    assert error_in(call, refused).code is ErrorCode.PRODUCER_FENCED


def test_offsets_go_into_a_transaction_with_the_member_that_consumed_them() -> None:
    group = GroupMetadata("g", 5, "me", "instance")
    adding: Any = add_offsets_to_txn(PRODUCER, "g").request
    assert (adding.transactional_id, adding.producer_id, adding.producer_epoch) == tuple(PRODUCER)
    assert adding.group_id == "g"
    call = txn_offset_commit(PRODUCER, group, {A1: OffsetAndMetadata(9, "text", 2)})
    request: Any = call.request
    assert call.coordinator == GROUP
    assert (request.generation_id, request.member_id, request.group_instance_id) == group[1:]
    (topic,) = request.topics
    (row,) = topic.partitions
    assert (topic.name, row.partition_index, row.committed_offset) == ("a", 1, 9)
    assert (row.committed_metadata, row.committed_leader_epoch) == ("text", 2)
    refused = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                "a", [TxnOffsetCommitResponsePartition(1, ErrorCode.ILLEGAL_GENERATION)]
            )
        ]
    )
    assert error_in(call, refused).code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_one_way_or_the_other(committed: bool) -> None:
    call = end_txn(PRODUCER, committed)
    request: Any = call.request
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == PRODUCER
    assert request.committed is committed
    assert call.read(EndTxnResponse()) == ProducerIdAndEpoch(7, 3)
    assert call.read(EndTxnResponse(0, 0, 8, 0)) == ProducerIdAndEpoch(8, 0)
    code = ErrorCode.INVALID_TXN_STATE
    assert error_in(call, EndTxnResponse(error_code=code)).code is code


def test_a_coordinator_is_a_broker_with_its_address() -> None:
    call = find_coordinator(GROUP)
    request: Any = call.request
    assert (request.key, request.key_type, call.highest_version) == ("g", 0, 3)
    node = call.read(FindCoordinatorResponse(node_id=2, host="h", port=9))
    assert (node.id, node.host, node.port) == (2, "h", 9)
    none = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert error_in(call, none).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def committed(*codes: ErrorCode) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(n, code) for n, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("a", partitions=rows)])


def test_a_commit_has_an_outcome_for_each_partition_unless_the_coordinator_is_the_wrong_one() -> (
    None
):
    call = offset_commit(GroupMetadata("g"), {A0: OffsetAndMetadata(1), A1: OffsetAndMetadata(2)})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    outcomes: Any = call.read(committed(ErrorCode.NONE, unknown))
    assert outcomes[A0] is None
    assert outcomes[A1] is not None
    assert outcomes[A1].code is unknown
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert error_in(call, committed(unknown, code)).code is code


def fetched(*rows: OffsetFetchResponsePartition, code: int = 0) -> OffsetFetchResponse:
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("a", list(rows))], error_code=code)


def test_committed_offsets_are_read_where_there_are_any() -> None:
    call = offset_fetch("g", [B0, A1, A0], require_stable=True)
    request: Any = call.request
    assert (call.coordinator, call.highest_version, request.require_stable) == (GROUP, 7, True)
    assert [(t.name, t.partition_indexes) for t in request.topics] == [("a", [0, 1]), ("b", [0])]
    every: Any = offset_fetch("g", None, require_stable=False).request
    assert every.topics is None
    here = OffsetFetchResponsePartition(0, 9, 4, "text")
    nothing = OffsetFetchResponsePartition(1, -1)
    assert call.read(fetched(here, nothing)) == {A0: OffsetAndMetadata(9, "text", 4)}
    unstable = OffsetFetchResponsePartition(1, -1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert error_in(call, fetched(here, unstable)).code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert error_in(call, fetched(code=ErrorCode.NOT_COORDINATOR)).code is ErrorCode.NOT_COORDINATOR


def test_offsets_are_looked_up_in_the_leader_epochs_that_are_known() -> None:
    rows = [MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=6)]
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)],
        topics=[MetadataResponseTopic(name="a", partitions=rows)],
    )
    view = merge(ClusterView(), response, ["a"])
    call = list_offsets({A0: -1, A1: 77}, view, isolation_level=1)
    request: Any = call.request
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    (topic,) = request.topics
    asked = [(p.partition_index, p.current_leader_epoch, p.timestamp) for p in topic.partitions]
    assert asked == [(0, 6, -1), (1, -1, 77)]
    found = ListOffsetsPartitionResponse(partition_index=0, offset=5, timestamp=8, leader_epoch=2)
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    failed = ListOffsetsPartitionResponse(partition_index=1, error_code=moved)
    listed = call.read(ListOffsetsResponse(topics=[ListOffsetsTopicResponse("a", [found, failed])]))
    assert listed.found == {A0: OffsetAndTimestamp(5, 8, 2)}
    assert [error.code for error in listed.errors] == [moved]


def test_batches_of_one_topic_stand_together_in_a_request() -> None:
    request: Any = produce([(A0, b"1"), (B0, b"2"), (A1, b"3")], -1, 50, "id").request
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 50, "id")
    rows = [(t.name, [(p.index, p.records) for p in t.partition_data]) for t in request.topic_data]
    assert rows == [("a", [(0, b"1"), (1, b"3")]), ("b", [(0, b"2")])]


def test_metadata_are_of_named_topics_or_of_all() -> None:
    named = metadata_request(["a"])
    assert named.topics is not None
    assert [topic.name for topic in named.topics] == ["a"]
    assert not named.allow_auto_topic_creation
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == []
