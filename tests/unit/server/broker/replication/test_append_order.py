"""The first batch of a transaction waits for its coordinator; the effect of each response."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Buffer
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.server.broker.replication.append_order import AppendOrder
from minikafka.server.broker.replication.record_appends import AppendEntry, AppendResult
from minikafka.server.broker.replication.record_preparation import ON_LOOP_BYTES, RecordPreparation
from minikafka.server.broker.replication.transaction_verification import (
    AdditionRetry,
    TransactionSupport,
    TransactionVerification,
    VerificationItem,
    complete_verifications,
    verification_request,
)
from tests.support.broker.replicas import TP, Node, ReplicaCluster
from tests.support.storage.logs import NOW
from tests.support.storage.transactions import marker
from tests.support.world.manual_clock import ManualClock
from tests.support.world.manual_workers import ManualWorkers

E = ErrorCode
OTHER = TP._replace(partition=1)
PID = 7


def batch(value: str, sequence: int = 0, producer_id: int = PID, **fields: Any) -> bytearray:
    fields = {"transactional": True, **fields}
    records: Any = [(NOW, None, value.encode(), [])]
    return bytearray(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            **fields,
        )
    )


class Verifications:
    """Verifications that were sent to coordinators, and the responses of those coordinators."""

    def __init__(self, node: Node, coordinator: int | None = 3, enabled: bool = True) -> None:
        self.items: list[VerificationItem] = []
        self.brokers: list[int] = []
        self.clock = clock = ManualClock()
        self.workers = ManualWorkers()
        preparation = RecordPreparation(self.workers, clock, node.replicas.hosted)
        preparation.start(node.tasks)
        self.verification = TransactionVerification(
            lambda: enabled,
            clock,
            node.replicas.hosted,
            lambda transactional_id: coordinator,
            self._put,
            AdditionRetry(20, 100),
            Metrics(),
        )
        self.appends = AppendOrder(node.replicas.appends, preparation, self.verification)

    def _put(self, broker: int, item: VerificationItem) -> None:
        self.brokers.append(broker)
        self.items.append(item)

    def refuse(self, error: int) -> None:
        """An error of the whole request, without partitions."""
        item = self.items.pop(0)
        complete_verifications([item], AddPartitionsToTxnResponse(error_code=error))

    def respond(self, error: int = E.NONE, lost: bool = False) -> None:
        item = self.items.pop(0)
        rows = [
            AddPartitionsToTxnTopicResult(
                tp.topic, [AddPartitionsToTxnPartitionResult(tp.partition, error)]
            )
            for tp in item.partitions
        ]
        result = AddPartitionsToTxnResult(item.transactional_id, rows)
        response = AddPartitionsToTxnResponse(results_by_transaction=[result])
        complete_verifications([item], None if lost else response)

    def append(
        self,
        *entries: tuple[TopicPartition, bytearray],
        support: TransactionSupport = TransactionSupport.ABORTABLE,
        connection: str | None = None,
    ) -> list[AppendResult]:
        """The list gets the results."""
        results: list[AppendResult] = []

        def reply(found: Sequence[AppendResult]) -> None:
            results.extend(found)

        self.appends.append_in_transaction(
            connection, "tx", entries_of(entries), -1, 1000, support, reply
        )
        return results

    def append_plain(
        self, *entries: tuple[TopicPartition, bytearray], connection: str | None = None
    ) -> list[AppendResult]:
        results: list[AppendResult] = []

        def reply(found: Sequence[AppendResult]) -> None:
            results.extend(found)

        self.appends.append(connection, entries_of(entries), -1, 1000, reply)
        return results


def entries_of(rows: Iterable[tuple[TopicPartition, Buffer]]) -> list[AppendEntry]:
    return [AppendEntry(topic_partition, records) for topic_partition, records in rows]


async def led(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
    return cluster[1]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
async def test_the_first_batch_waits_and_the_others_do_not(codec: Compression) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        lent = batch("a", 0, compression=codec)
        results = verifications.append((TP, lent))
        lent[:] = bytes(len(lent))  # the connection reads on
        assert (results, verifications.brokers, node.held()) == ([], [3], [])
        (transaction,) = verification_request(verifications.items)[0].transactions  # type: ignore[attr-defined]
        assert (transaction.transactional_id, transaction.verify_only) == ("tx", True)
        assert (transaction.producer_id, transaction.producer_epoch) == (PID, 0)
        verifications.respond()
        assert [result.error for result in results] == [E.NONE]
        assert verifications.append((TP, batch("b", 1)))[0].error is E.NONE
        assert (node.held(), verifications.items) == (["a", "b"], [])


async def test_partitions_are_verified_separately_with_results_in_request_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        verifications.append((TP, batch("a", 0)))
        verifications.respond()
        results = verifications.append((OTHER, batch("x", 0)), (TP, batch("b", 1)))
        assert verifications.items[0].partitions == (OTHER,)
        verifications.respond(E.TRANSACTION_ABORTABLE)
        assert [(result.topic_partition, result.error) for result in results] == [
            (OTHER, E.TRANSACTION_ABORTABLE),
            (TP, E.NONE),
        ]
        assert (node.held(), node.held(OTHER)) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("error", "expected", "error_before"),
    [
        (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE),
        (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS),
        (E.INVALID_PRODUCER_ID_MAPPING,) * 3,
    ],
)
async def test_refusals(error: ErrorCode, expected: ErrorCode, error_before: ErrorCode) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        known = {TransactionSupport.ABORTABLE: expected, TransactionSupport.PLAIN: error_before}
        for support, wanted in known.items():
            results = verifications.append((TP, batch("a")), support=support)
            verifications.respond(error)
            assert [result.error for result in results] == [wanted]
        assert node.held() == []


async def test_lost_response_or_missing_coordinator_gives_a_retriable_error() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        results = verifications.append((TP, batch("a")))
        verifications.respond(lost=True)
        without_coordinator = Verifications(node, coordinator=None)
        results += without_coordinator.append((TP, batch("a")))
        assert [result.error for result in results] == [E.NOT_ENOUGH_REPLICAS] * 2


async def test_unknown_error_code_becomes_unknown_server_error() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        of_partition = verifications.append((TP, batch("a")))
        verifications.respond(9_999)
        of_request = verifications.append((TP, batch("a")))
        verifications.refuse(9_999)
        for results in (of_partition, of_request):
            assert [result.error for result in results] == [E.UNKNOWN_SERVER_ERROR]
        assert node.held() == []


async def test_producers_do_not_see_that_their_broker_lacks_an_authorization() -> None:
    async with ReplicaCluster([1]) as cluster:
        verifications = Verifications(await led(cluster))
        results = verifications.append((TP, batch("a")))
        verifications.refuse(E.CLUSTER_AUTHORIZATION_FAILED)
        assert [result.error for result in results] == [E.INVALID_TXN_STATE]


async def test_marker_before_the_response_invalidates_the_verification() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        results = verifications.append((TP, batch("a")))
        node.replicas.appends.append(
            AppendOrigin.COORDINATOR,
            [AppendEntry(TP, marker(PID, 0, False))],
            -1,
            1000,
            lambda _: None,
        )
        verifications.respond()
        assert [result.error for result in results] == [E.INVALID_TXN_STATE]
        assert node.partition().last_stable_offset == 1


async def test_without_verification_the_coordinator_gets_no_request() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node, enabled=False)
        assert verifications.append((TP, batch("a")))[0].error is E.NONE
        assert verifications.brokers == []


async def test_a_request_is_of_one_producer() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        with pytest.raises(KafkaError) as refused:
            verifications.append((TP, batch("a")), (OTHER, batch("b", producer_id=8)))
        assert refused.value.code is E.INVALID_PRODUCER_ID_MAPPING


async def test_an_unknown_partition_is_an_error() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        elsewhere = TP._replace(partition=5)
        results = verifications.append((elsewhere, batch("a")))
        assert [result.error for result in results] == [E.UNKNOWN_TOPIC_OR_PARTITION]


# -- what waits behind a verification


def errors(*results: list[AppendResult]) -> list[list[ErrorCode]]:
    return [[result.error for result in found] for found in results]


@pytest.mark.mission("ORD-2")
async def test_batches_in_flight_wait_for_one_verification_and_are_appended_in_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        order: list[int] = []
        results: list[list[ErrorCode]] = []

        def reply_of(number: int) -> Any:
            def reply(found: Sequence[AppendResult]) -> None:
                order.append(number)
                results.append([result.error for result in found])

            return reply

        for number in range(5):
            entries = [AppendEntry(TP, batch(f"v{number}", number))]
            verifications.appends.append_in_transaction(
                "one", "tx", entries, -1, 1000, TransactionSupport.ABORTABLE, reply_of(number)
            )
        assert (len(verifications.items), order, node.held()) == (1, [], [])
        verifications.respond()
        assert (verifications.items, order, results) == ([], [0, 1, 2, 3, 4], [[E.NONE]] * 5)
        assert node.held() == ["v0", "v1", "v2", "v3", "v4"]
        assert errors(verifications.append((TP, batch("v5", 5)), connection="one")) == [[E.NONE]]


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("connection", ["one", "two"])
async def test_a_batch_for_an_open_transaction_waits_behind_its_producers_verification(
    connection: str,
) -> None:
    """The transaction is open in one partition; another one waits for the coordinator."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        verifications.append((TP, batch("a", 0)), connection="one")
        verifications.respond()
        behind = verifications.append((OTHER, batch("x", 0)), (TP, batch("b", 1)), connection="one")
        late = verifications.append((TP, batch("c", 2)), connection=connection)
        assert (behind, late, node.held(), len(verifications.items)) == ([], [], ["a"], 1)
        verifications.respond()
        assert errors(behind, late) == [[E.NONE, E.NONE], [E.NONE]]
        assert (node.held(), node.held(OTHER)) == (["a", "b", "c"], ["x"])


@pytest.mark.mission("ORD-2")
async def test_plain_batches_wait_behind_a_verification_of_their_connection_only() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        first = verifications.append((TP, batch("t", 0)), connection="one")
        lent = batch("p", -1, producer_id=-1, transactional=False)
        behind = verifications.append_plain((TP, lent), connection="one")
        lent[:] = bytes(len(lent))
        elsewhere = batch("q", -1, producer_id=-1, transactional=False)
        assert errors(verifications.append_plain((TP, elsewhere), connection="two")) == [[E.NONE]]
        other_producer = verifications.append(
            (OTHER, batch("y", 0, producer_id=8)), connection="three"
        )
        assert (first, behind, node.held(), len(verifications.items)) == ([], [], ["q"], 2)
        verifications.respond()
        assert errors(first, behind, other_producer) == [[E.NONE], [E.NONE], []]
        assert node.held() == ["q", "t", "p"]
        verifications.respond()
        assert errors(other_producer) == [[E.NONE]]


@pytest.mark.mission("ORD-2")
async def test_verifications_may_return_in_any_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        results = [
            verifications.append((TP, batch("a", 0)), connection="one"),
            verifications.append((TP, batch("b", 1)), (OTHER, batch("x", 0)), connection="one"),
            verifications.append((OTHER, batch("y", 1)), connection="one"),
        ]
        assert [item.partitions for item in verifications.items] == [(TP,), (OTHER,)]
        verifications.items.reverse()
        verifications.respond()
        assert (results, node.held(), node.held(OTHER)) == ([[], [], []], [], [])
        verifications.respond()
        assert errors(*results) == [[E.NONE], [E.NONE, E.NONE], [E.NONE]]
        assert (node.held(), node.held(OTHER)) == (["a", "b"], ["x", "y"])


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("error", [E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, None])
async def test_retriable_error_refuses_all_parked_batches_of_the_producer(
    error: ErrorCode | None,
) -> None:
    """``error`` is None if no response comes before the time-out."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        results = [
            verifications.append((TP, batch(f"v{number}", number)), connection="one")
            for number in range(3)
        ]
        verifications.respond(error or E.NONE, lost=error is None)
        assert errors(*results) == [[E.NOT_ENOUGH_REPLICAS]] * 3
        assert (verifications.items, node.held()) == ([], [])
        again = [
            verifications.append((TP, batch(f"v{number}", number)), connection="one")
            for number in range(3)
        ]
        verifications.respond()
        assert errors(*again) == [[E.NONE]] * 3
        assert node.held() == ["v0", "v1", "v2"]


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("still", [True, False])
async def test_fatal_error_refuses_only_batches_parked_before_the_verification(
    still: bool,
) -> None:
    """The first one may be late, of a transaction that is over; then the others are of the next."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        late = verifications.append((TP, batch("late", 3)), connection="gone")
        results = [
            verifications.append((TP, batch(f"v{number}", number)), connection="one")
            for number in range(3)
        ]
        verifications.respond(E.INVALID_PRODUCER_ID_MAPPING)
        assert errors(late, *results) == [[E.INVALID_PRODUCER_ID_MAPPING], [], [], []]
        assert [item.partitions for item in verifications.items] == [(TP,)]
        verifications.respond(E.INVALID_PRODUCER_ID_MAPPING if still else E.NONE)
        expected = E.INVALID_PRODUCER_ID_MAPPING if still else E.NONE
        assert errors(*results) == [[expected]] * 3
        assert (verifications.items, node.held()) == ([], [] if still else ["v0", "v1", "v2"])


@pytest.mark.mission("ORD-2")
async def test_abort_marker_refuses_parked_batches_but_not_later_ones() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        before = [verifications.append((TP, batch(f"a{n}", n)), connection="one") for n in range(2)]
        node.replicas.appends.append(
            AppendOrigin.COORDINATOR,
            [AppendEntry(TP, marker(PID, 0, False))],
            -1,
            1000,
            lambda _: None,
        )
        after = [verifications.append((TP, batch(f"b{n}", n)), connection="two") for n in range(2)]
        assert len(verifications.items) == 2
        verifications.respond()
        assert errors(*before, *after) == [[E.INVALID_TXN_STATE], [E.INVALID_TXN_STATE], [], []]
        verifications.respond()
        assert errors(*after) == [[E.NONE], [E.NONE]]
        assert node.held()[1:] == ["b0", "b1"]


@pytest.mark.mission("ORD-2")
async def test_new_producer_epoch_is_verified_separately_and_in_order() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        old = verifications.append((TP, batch("old", 3)), connection="one")
        newer = batch("new", 0)
        newer[:] = build_batch(
            [(NOW, None, b"new", [])],
            producer_id=PID,
            producer_epoch=1,
            base_sequence=0,
            transactional=True,
        )
        new = verifications.append((TP, newer), connection="two")
        assert [item.producer.epoch for item in verifications.items] == [0, 1]
        verifications.respond(E.PRODUCER_FENCED)
        assert errors(old, new) == [[E.INVALID_PRODUCER_EPOCH], []]
        verifications.respond()
        assert (errors(new), node.held()) == ([[E.NONE]], ["new"])


@pytest.mark.mission("ORD-2")
async def test_all_that_wait_learn_of_a_lost_leadership_when_the_verification_returns() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        verifications = Verifications(cluster[1])
        results = [
            verifications.append((TP, batch(f"v{n}", n)), connection="one") for n in range(3)
        ]
        await cluster.elect(2, isr=[1, 2], replicas=[1, 2], epoch=1)
        verifications.respond()
        assert errors(*results) == [[E.NOT_LEADER_OR_FOLLOWER]] * 3
        assert errors(verifications.append_plain((TP, batch("p")), connection="one")) == [
            [E.NOT_LEADER_OR_FOLLOWER]
        ]


@pytest.mark.mission("ORD-2")
async def test_a_batch_that_fails_holds_up_nothing_and_nothing_takes_its_place() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        broken = batch("a", 0)
        broken[-1] ^= 1
        results = [
            verifications.append((TP, broken), connection="one"),
            verifications.append((TP, batch("b", 1)), connection="one"),
        ]
        verifications.respond()
        assert errors(*results) == [[E.CORRUPT_MESSAGE], [E.OUT_OF_ORDER_SEQUENCE_NUMBER]]
        assert node.held() == []


@pytest.mark.mission("ORD-2")
async def test_without_a_coordinator_nothing_is_left_waiting() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        without_coordinator = Verifications(node, coordinator=None)
        for number in range(2):
            results = without_coordinator.append((TP, batch("a", number)), connection="one")
            assert errors(results) == [[E.NOT_ENOUGH_REPLICAS]]
        plain = batch("p", -1, producer_id=-1, transactional=False)
        assert errors(without_coordinator.append_plain((TP, plain), connection="one")) == [[E.NONE]]
        assert node.held() == ["p"]


# -- what a worker prepares meanwhile


LONG = "x" * 2 * ON_LOOP_BYTES


@pytest.mark.mission("ORD-2")
@pytest.mark.parametrize("is_verified_first", [True, False])
@pytest.mark.parametrize("error", [E.NONE, E.TRANSACTION_ABORTABLE])
async def test_append_waits_for_worker_and_coordinator_in_any_order(
    is_verified_first: bool, error: ErrorCode
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        verifications.workers.hold()
        lent = batch(LONG, 0, compression=Compression.LZ4)
        first = verifications.append((TP, lent), connection="one")
        lent[:] = bytes(len(lent))
        behind = verifications.append((OTHER, batch("b", 0)), connection="one")
        if is_verified_first:
            verifications.respond(error)
        else:
            verifications.workers.release()
        await cluster.clock.settle()
        assert (first, behind, node.held()) == ([], [], [])
        if is_verified_first:
            verifications.workers.release()
        else:
            verifications.respond(error)
        await cluster.clock.settle()
        assert errors(first, behind) == [[error], []]
        assert node.held() == ([] if error else [LONG])
        verifications.respond()
        assert (errors(behind), node.held(OTHER)) == ([[E.NONE]], ["b"])


@pytest.mark.mission("ORD-2")
async def test_plain_batch_waits_behind_a_long_preparation_of_its_connection() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        verifications.workers.hold()
        plain: dict[str, Any] = {"producer_id": -1, "transactional": False}
        long = batch(LONG, -1, compression=Compression.LZ4, **plain)
        first = verifications.append_plain((OTHER, batch("x", -1, **plain)), (TP, long))
        behind = verifications.append_plain((TP, batch("b", -1, **plain)))
        await cluster.clock.settle()
        assert (first, behind, node.held(), node.held(OTHER)) == ([], [], [], [])
        verifications.workers.release()
        await cluster.clock.settle()
        assert errors(first, behind) == [[E.NONE, E.NONE], [E.NONE]]
        assert (node.held(), node.held(OTHER)) == ([LONG, "b"], ["x"])


# -- transactions of version 2: the broker adds partitions


@pytest.mark.mission("TV2-7")
async def test_partitions_are_added_without_verification_enabled() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node, enabled=False)
        results = verifications.append((TP, batch("a")), support=TransactionSupport.ADDED)
        (item,) = verifications.items
        request: Any = verification_request([item])[0]
        assert [each.verify_only for each in request.transactions] == [False]
        verifications.respond()
        assert [result.error for result in results] == [E.NONE]


@pytest.mark.mission("TV2-7")
async def test_an_addition_is_tried_again_while_the_transaction_before_is_completed() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        batches = ((TP, batch("a")), (OTHER, batch("b")))
        results = verifications.append(*batches, support=TransactionSupport.ADDED)
        for _ in range(2):
            verifications.respond(E.CONCURRENT_TRANSACTIONS)
            assert verifications.items == []
            verifications.clock.advance(20)
        verifications.respond()
        assert [result.error for result in results] == [E.NONE] * 2
        assert node.held() == ["a"]


@pytest.mark.mission("TV2-7")
async def test_an_addition_is_not_tried_again_for_ever() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster)
        verifications = Verifications(node)
        results = verifications.append((TP, batch("a")), support=TransactionSupport.ADDED)
        for _ in range(6):
            assert results == []
            verifications.respond(E.CONCURRENT_TRANSACTIONS)
            verifications.clock.advance(20)
        assert [result.error for result in results] == [E.CONCURRENT_TRANSACTIONS]
        assert verifications.items == []


async def test_an_addition_and_a_verification_are_two_requests() -> None:
    async with ReplicaCluster([1]) as cluster:
        verifications = Verifications(await led(cluster))
        verifications.append((TP, batch("a")))
        verifications.append((TP, batch("a")), support=TransactionSupport.ADDED)
        assert [item.adds for item in verifications.items] == [False, True]


@pytest.mark.parametrize(
    ("version", "support"),
    [
        (3, TransactionSupport.PLAIN),
        (10, TransactionSupport.PLAIN),
        (11, TransactionSupport.ABORTABLE),
        (12, TransactionSupport.ADDED),
        (13, TransactionSupport.ADDED),
    ],
)
def test_the_version_of_produce_says_what_the_producer_knows(
    version: int, support: TransactionSupport
) -> None:
    assert TransactionSupport.of(version, 11) is support
