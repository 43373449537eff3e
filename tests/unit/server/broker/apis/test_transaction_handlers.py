"""The transaction handlers in all versions, on a coordinator and on a partition leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from minikafka.core.log.append import AppendOrigin
from minikafka.core.transaction.transaction import TransactionState
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.transactions.add_offsets_to_txn import AddOffsetsToTxnHandler
from minikafka.server.broker.apis.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnHandler,
)
from minikafka.server.broker.apis.transactions.describe_producers import DescribeProducersHandler
from minikafka.server.broker.apis.transactions.describe_transactions import (
    DescribeTransactionsHandler,
)
from minikafka.server.broker.apis.transactions.end_txn import EndTxnHandler
from minikafka.server.broker.apis.transactions.init_producer_id import InitProducerIdHandler
from minikafka.server.broker.apis.transactions.list_transactions import ListTransactionsHandler
from minikafka.server.broker.apis.transactions.txn_offset_commit import TxnOffsetCommitHandler
from minikafka.server.broker.apis.transactions.write_txn_markers import WriteTxnMarkersHandler
from minikafka.server.broker.coordinator_log import CoordinatorLog
from minikafka.server.broker.replication.record_appends import AppendEntry
from minikafka.server.broker.replication.transaction_verification import (
    AdditionRetry,
    TransactionVerification,
    VerificationItem,
)
from tests.support.broker.cluster_metadata import cache_with, partition_state, update
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster
from tests.support.coordinator.group_lab import GROUP, GroupLab
from tests.support.coordinator.transaction_lab import ID, P0, P1, TransactionLab
from tests.support.storage.logs import NOW
from tests.support.world.manual_clock import ManualClock

E = ErrorCode


def send(handler: Any, version: int, request: Any) -> Any:
    replies: list[Any] = []
    context = RequestContext(RequestHeader(0, version, 1), "OUT", "h")
    handler(context, decode(type(request), version, encode(request, version)), replies.append)
    (reply,) = replies
    return decode(type(reply), version, encode(reply, version))


def metadata() -> Any:
    cache = cache_with()
    cache.update(update({"flights": [partition_state(0, 1), partition_state(1, 1)]}))
    return cache


def fenced(version: int, first: int) -> ErrorCode:
    """Older versions have INVALID_PRODUCER_EPOCH instead."""
    return E.PRODUCER_FENCED if version >= first else E.INVALID_PRODUCER_EPOCH


# -- AddPartitionsToTxn


def add(lab: TransactionLab, version: int, epoch: int, *indexes: int, verify: bool = False) -> Any:
    topics = [AddPartitionsToTxnTopic("flights", list(indexes))]
    if version < 4:
        request = AddPartitionsToTxnRequest([], ID, 100, epoch, topics)
    else:
        transaction = AddPartitionsToTxnTransaction(ID, 100, epoch, verify, topics)
        request = AddPartitionsToTxnRequest([transaction])
    response = send(AddPartitionsToTxnHandler(lab.coordinator, metadata()), version, request)
    if version < 4:
        (topic,) = response.results_by_topic_v3_and_below
    else:
        (result,) = response.results_by_transaction
        assert result.transactional_id == ID
        (topic,) = result.topic_results
    return {row.partition_index: row.partition_error_code for row in topic.results_by_partition}


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(version: int) -> None:
    lab = TransactionLab()
    lab.begun()
    assert add(lab, version, 0, 0, 1) == {0: 0, 1: 0}
    assert lab.transaction().facts.partitions == {P0, P1}
    assert add(lab, version, 7, 0) == {0: fenced(version, 2)}


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_partitions_are_added_all_or_none(version: int) -> None:
    lab = TransactionLab()
    lab.begun()
    results = add(lab, version, 0, 0, 9)
    assert results == {0: E.OPERATION_NOT_ATTEMPTED, 9: E.UNKNOWN_TOPIC_OR_PARTITION}
    assert lab.state is TransactionState.EMPTY


@pytest.mark.parametrize("version", [4, 5])
def test_verify_only_adds_no_partitions(version: int) -> None:
    lab = TransactionLab()
    lab.begun()
    add(lab, version, 0, 0)
    results = add(lab, version, 0, 0, 1, verify=True)
    assert results == {0: 0, 1: E.TRANSACTION_ABORTABLE}
    assert lab.transaction().facts.partitions == {P0}
    handler = AddPartitionsToTxnHandler(lab.coordinator, metadata())
    assert send(handler, version, AddPartitionsToTxnRequest()).results_by_transaction == []


# -- AddOffsetsToTxn, EndTxn, InitProducerId


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_added_and_the_transaction_ends(version: int) -> None:
    lab = TransactionLab()
    lab.begun()
    handler = AddOffsetsToTxnHandler(lab.coordinator, lambda group: len(group))
    assert send(handler, version, AddOffsetsToTxnRequest(ID, 100, 0, "four")).error_code == 0
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 4)
    assert lab.transaction().facts.partitions == {offsets}
    stale = AddOffsetsToTxnRequest(ID, 100, 9, "four")
    assert send(handler, version, stale).error_code == fenced(version, 2)
    ends = EndTxnHandler(lab.coordinator)
    assert send(ends, version, EndTxnRequest(ID, 100, 9, True)).error_code == fenced(version, 2)
    assert send(ends, version, EndTxnRequest(ID, 100, 0, True)).error_code == 0
    assert lab.state is TransactionState.PREPARE_COMMIT


@pytest.mark.parametrize("version", range(6))
async def test_a_producer_begins(version: int) -> None:
    lab = TransactionLab()
    handler = InitProducerIdHandler(lab.coordinator)
    context = RequestContext(RequestHeader(0, version, 1), "OUT", "h")
    for epoch in range(2):
        replies = await handler(context, InitProducerIdRequest(ID, 1000))
        assert (replies.error_code, replies.producer_id) == (0, 100)
        assert replies.producer_epoch == epoch
    late = await handler(context, InitProducerIdRequest(ID, 1000, 99, 0))
    assert late.error_code == fenced(version, 4)


# -- administration


def test_describe_and_list() -> None:
    lab = TransactionLab()
    lab.add(lab.begun(), P0)
    described = send(
        DescribeTransactionsHandler(lab.coordinator), 0, DescribeTransactionsRequest([ID, "none"])
    )
    assert [(row.transactional_id, row.error_code) for row in described.transaction_states] == [
        (ID, 0),
        ("none", E.TRANSACTIONAL_ID_NOT_FOUND),
    ]
    for version in (0, 1):
        listed = send(ListTransactionsHandler(lab.coordinator), version, ListTransactionsRequest())
        assert [row.transaction_state for row in listed.transaction_states] == ["Ongoing"]
    for pattern, states in ((None, ["Ongoing"]), (ID, ["Ongoing"]), ("x.*", [])):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        listed = send(ListTransactionsHandler(lab.coordinator), 2, request)
        assert [row.transaction_state for row in listed.transaction_states] == states


# -- at a leader


async def led(cluster: ReplicaCluster, replicas: Sequence[int] = (1,)) -> Node:
    await cluster.elect(1, isr=replicas, replicas=replicas, partitions=[0, 1])
    node = cluster[1]
    data = build_batch(
        [(NOW, None, b"v", [])],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    node.replicas.appends.append(
        AppendOrigin.CLIENT, [AppendEntry(TP, data)], -1, 1000, lambda _: None
    )
    return node


def marker(committed: bool, coordinator_epoch: int, *indexes: int) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic(TOPIC, list(indexes))]
    return WritableTxnMarker(7, 0, committed, topics, coordinator_epoch)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("committed", [True, False])
async def test_markers_are_written(version: int, committed: bool) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        assert (node.partition().last_stable_offset, node.partition().high_watermark) == (0, 1)
        handler = WriteTxnMarkersHandler(node.replicas, ManualClock(), lambda *_: None, 1000)
        request = WriteTxnMarkersRequest([marker(committed, 5, 0, 9), marker(committed, 4, 0)])
        replies = send(handler, version, request)
        codes = [
            [(row.partition_index, row.error_code) for row in result.topics[0].partitions]
            for result in replies.markers
        ]
        assert codes == [
            [(0, 0), (9, E.UNKNOWN_TOPIC_OR_PARTITION)],
            [(0, E.TRANSACTION_COORDINATOR_FENCED)],
        ]
        assert node.partition().last_stable_offset == node.partition().high_watermark == 2
        aborted = node.partition().log.aborted_transactions(0, 2)
        assert len(aborted) == (0 if committed else 1)
        assert send(handler, version, WriteTxnMarkersRequest()).markers == []


async def test_a_leader_describes_producers() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        handler = DescribeProducersHandler(node.replicas.hosted, cast(Any, cluster.metadata))
        request = DescribeProducersRequest([TopicRequest(TOPIC, [0, 1, 9])])
        active, quiet, unknown = send(handler, 0, request).topics[0].partitions
        (producer,) = active.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (7, 0)
        assert (producer.last_sequence, producer.last_timestamp) == (0, NOW)
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, 0)
        assert (quiet.error_code, quiet.active_producers) == (0, [])
        assert unknown.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        others = DescribeProducersRequest([TopicRequest("nowhere", [0]), TopicRequest("a/b", [0])])
        rows = [row for topic in send(handler, 0, others).topics for row in topic.partitions]
        assert [row.error_code for row in rows] == [
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.INVALID_TOPIC_EXCEPTION,
        ]
        assert rows[0].error_message == "This server does not host this topic-partition."


async def test_a_follower_describes_producers() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await led(cluster, replicas=[1, 2])
        await cluster.clock.advance(1_000)
        handler = DescribeProducersHandler(cluster[2].replicas.hosted, cast(Any, cluster.metadata))
        request = DescribeProducersRequest([TopicRequest(TOPIC, [0])])
        (described,) = send(handler, 0, request).topics[0].partitions
        assert described.error_code == E.NONE
        assert [producer.producer_id for producer in described.active_producers] == [7]


# -- TxnOffsetCommit


class Committing:
    """TxnOffsetCommit on a group coordinator with verification. ``verifications``
    are those sent."""

    def __init__(self, node: Node, log: CoordinatorLog | None = None) -> None:
        self.lab = GroupLab(log=log)
        self.verifications: list[VerificationItem] = []
        self.verification = TransactionVerification(
            lambda: True,
            ManualClock(),
            node.replicas.hosted,
            lambda _: 1,
            lambda _, item: self.verifications.append(item),
            AdditionRetry(20, 100),
            Metrics(),
        )
        clock = ManualClock()
        coordinator = self.lab.coordinator
        self.handler = TxnOffsetCommitHandler(coordinator, metadata(), self.verification, clock)

    def commit(self, version: int, *indexes: int, offset: int = 5) -> list[Any]:
        """The response is added to the returned list."""
        rows = [TxnOffsetCommitRequestPartition(index, offset) for index in indexes]
        topics = [TxnOffsetCommitRequestTopic("flights", rows)]
        request = TxnOffsetCommitRequest(ID, GROUP, 7, 0, topics=topics)
        context = RequestContext(RequestHeader(0, version, 1), "OUT", "h")
        replies: list[Any] = []
        self.handler(context, request, replies.append)
        return replies


def codes(replies: list[Any]) -> dict[int, int]:
    (reply,) = replies
    (topic,) = reply.topics
    return {row.partition_index: row.error_code for row in topic.partitions}


@pytest.mark.parametrize("version", range(5))
async def test_offsets_are_committed_in_a_transaction(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0])
        committing = Committing(cluster[1])
        replies = committing.commit(version, 0, 9)
        assert codes(replies) == {0: 0, 9: E.UNKNOWN_TOPIC_OR_PARTITION}
        assert committing.lab.group.offsets.is_unstable(P0)
        committing.lab.resign()
        assert codes(committing.commit(version, 0)) == {0: E.NOT_COORDINATOR}
        nothing: list[Any] = committing.commit(version, 9)
        assert codes(nothing) == {9: E.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize(
    "error", [E.NONE, E.CONCURRENT_TRANSACTIONS, E.INVALID_PRODUCER_ID_MAPPING]
)
async def test_offsets_behind_one_verification_are_committed_in_order(
    error: ErrorCode,
) -> None:
    """The requests come from several connections; one connection serves one at a time."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(
            1, isr=[1], replicas=[1], topic=GROUP_METADATA_TOPIC, topic_id=UUID(int=5)
        )
        log = CoordinatorLog(cluster[1].replicas, GROUP_METADATA_TOPIC, 1000, cluster.workers)
        committing = Committing(cluster[1], log)
        answers = [committing.commit(3, 0, offset=offset) for offset in (5, 6, 7)]
        where = TopicPartition(GROUP_METADATA_TOPIC, 0)
        assert (answers, [item.partitions for item in committing.verifications]) == (
            [[]] * 3,
            [(where,)],
        )
        refused = {where: error} if error else {}
        committing.verifications.pop().then(refused)
        if error is E.INVALID_PRODUCER_ID_MAPPING:  # it may be about an older transaction
            assert (answers[1:], len(committing.verifications)) == ([[]] * 2, 1)
            committing.verifications.pop().then({})
            assert [codes(replies)[0] for replies in answers] == [error, E.NONE, E.NONE]
        else:
            assert [codes(replies)[0] for replies in answers] == [error] * 3
        assert committing.verifications == []
        written = sum(codes(replies)[0] == E.NONE for replies in answers)
        assert log.bounds(0) == (0, written)
        if written:
            committing.lab.coordinator.transaction_ended(7, {0: written}, committed=True)
            assert committing.lab.committed() == {("flights", 0): 7}
