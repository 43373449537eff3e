"""The first batch of a transaction waits for its coordinator; what comes of every answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.broker.delayed_produce import AppendResult
from minikafka.broker.transaction_verification import (
    TransactionVerification,
    VerificationItem,
    verification_request,
)
from minikafka.broker.transactional_appends import TransactionalAppends
from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.records.builder import build_batch
from tests.support.logs import NOW
from tests.support.manual_clock import ManualClock
from tests.support.replicas import TP, Node, ReplicaCluster
from tests.support.transactions import marker

E = ErrorCode
OTHER = TP._replace(partition=1)
PID = 7


def batch(value: str, sequence: int = 0, producer_id: int = PID, **fields: Any) -> bytearray:
    fields = {"transactional": True, **fields}
    records = [(NOW, None, value.encode(), [])]
    return bytearray(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            **fields,
        )
    )


class Asked:
    """Questions that went to coordinators, and the answers that they get here."""

    def __init__(self, node: Node, coordinator: int | None = 3, enabled: bool = True) -> None:
        self.items: list[VerificationItem] = []
        self.brokers: list[int] = []
        self.verification = TransactionVerification(
            lambda: enabled,
            ManualClock(),
            node.replicas.hosted,
            lambda transactional_id: coordinator,
            self._put,
            Metrics(),
        )
        self.appends = TransactionalAppends(node.replicas, self.verification)

    def _put(self, broker: int, item: VerificationItem) -> None:
        self.brokers.append(broker)
        self.items.append(item)

    def refuse(self, error: int) -> None:
        """Not a word of any partition."""
        item = self.items.pop(0)
        self.verification.answered([item], AddPartitionsToTxnResponse(error_code=error))

    def answer(self, error: int = E.NONE, lost: bool = False) -> None:
        item = self.items.pop(0)
        rows = [
            AddPartitionsToTxnTopicResult(
                tp.topic, [AddPartitionsToTxnPartitionResult(tp.partition, error)]
            )
            for tp in item.partitions
        ]
        result = AddPartitionsToTxnResult(item.transactional_id, rows)
        response = AddPartitionsToTxnResponse(results_by_transaction=[result])
        self.verification.answered([item], None if lost else response)

    def append(
        self, *entries: tuple[TopicPartition, bytearray], knows_abortable: bool = True
    ) -> list[AppendResult]:
        """The list gets the results."""
        results: list[AppendResult] = []

        def reply(found: Sequence[AppendResult]) -> None:
            results.extend(found)

        self.appends.append("tx", entries, -1, 1000, knows_abortable, reply)
        return results


async def led(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
    return cluster[1]


async def test_the_first_batch_waits_and_the_others_do_not() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        lent = batch("a", 0)
        results = asked.append((TP, lent))
        lent[:] = bytes(len(lent))  # the connection reads on
        assert (results, asked.brokers, node.held()) == ([], [3], [])
        (transaction,) = verification_request(asked.items)[0].transactions  # type: ignore[attr-defined]
        assert (transaction.transactional_id, transaction.verify_only) == ("tx", True)
        assert (transaction.producer_id, transaction.producer_epoch) == (PID, 0)
        asked.answer()
        assert [result.error for result in results] == [E.NONE]
        assert asked.append((TP, batch("b", 1)))[0].error is E.NONE
        assert (node.held(), asked.items) == (["a", "b"], [])


async def test_partitions_are_verified_each_for_itself_and_answered_in_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        asked.append((TP, batch("a", 0)))
        asked.answer()
        results = asked.append((OTHER, batch("x", 0)), (TP, batch("b", 1)))
        assert asked.items[0].partitions == (OTHER,)
        asked.answer(E.TRANSACTION_ABORTABLE)
        assert [(result.topic_partition, result.error) for result in results] == [
            (OTHER, E.TRANSACTION_ABORTABLE),
            (TP, E.NONE),
        ]
        assert (node.held(), node.held(OTHER)) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("error", "told", "told_before"),
    [
        (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE),
        (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
        (E.INVALID_PRODUCER_ID_MAPPING,) * 3,
    ],
)
async def test_refusals(error: ErrorCode, told: ErrorCode, told_before: ErrorCode) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        for knows, wanted in ((True, told), (False, told_before)):
            results = asked.append((TP, batch("a")), knows_abortable=knows)
            asked.answer(error)
            assert [result.error for result in results] == [wanted]
        assert node.held() == []


async def test_without_an_answer_or_a_coordinator_it_may_be_tried_again() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        results = asked.append((TP, batch("a")))
        asked.answer(lost=True)
        nobody = Asked(node, coordinator=None)
        results += nobody.append((TP, batch("a")))
        assert [result.error for result in results] == [E.NOT_ENOUGH_REPLICAS] * 2


async def test_an_error_of_a_later_kafka_is_one_that_nobody_expects() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        of_partition = asked.append((TP, batch("a")))
        asked.answer(131)
        of_request = asked.append((TP, batch("a")))
        asked.refuse(131)
        for results in (of_partition, of_request):
            assert [result.error for result in results] == [E.UNKNOWN_SERVER_ERROR]
        assert node.held() == []


async def test_a_marker_that_comes_before_the_answer_makes_it_void() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        results = asked.append((TP, batch("a")))
        node.replicas.append_records(
            [(TP, marker(PID, 0, False))], -1, 1000, lambda _: None, origin=AppendOrigin.COORDINATOR
        )
        asked.answer()
        assert [result.error for result in results] == [E.INVALID_TXN_STATE]
        assert node.partition().last_stable_offset == 1


async def test_where_verification_is_off_nobody_is_asked() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node, enabled=False)
        assert asked.append((TP, batch("a")))[0].error is E.NONE
        assert asked.brokers == []


async def test_a_request_is_of_one_producer() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        with pytest.raises(KafkaError) as refused:
            asked.append((TP, batch("a")), (OTHER, batch("b", producer_id=8)))
        assert refused.value.code is E.INVALID_PRODUCER_ID_MAPPING


async def test_who_does_not_lead_says_so() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        asked = Asked(node)
        elsewhere = TP._replace(partition=5)
        results = asked.append((elsewhere, batch("a")))
        assert [result.error for result in results] == [E.UNKNOWN_TOPIC_OR_PARTITION]
