"""The transaction coordinator: producers, partitions, outcomes, markers, time-outs."""

import pytest

from minikafka.core.coordinator_shard import BATCH_BYTES
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.transaction import TransactionState as S
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from tests.support.coordinator.transaction_lab import ID, P0, P1, P2, TIMEOUT_MS, TransactionLab

E = ErrorCode


# -- a whole transaction


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction(committed: bool) -> None:
    lab = TransactionLab()
    producer = lab.begun()
    assert (producer, lab.state) == (ProducerIdAndEpoch(100, 0), S.EMPTY)
    assert lab.add(producer, P0, P1) == [E.NONE]
    assert lab.add(producer, P0) == [E.NONE]  # no record for a known partition
    assert lab.end(producer, committed) == [E.NONE]
    assert lab.state is (S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
    (item,) = lab.write_markers()
    assert item.partitions == (P0, P1)
    assert (item.markers.producer_id, item.markers.producer_epoch) == (100, 0)
    assert (item.markers.committed, item.context.epoch) == (committed, 1)
    assert lab.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    states = [record.facts.state for record in lab.records() if record.facts is not None]
    assert states == [
        S.EMPTY,
        S.ONGOING,
        S.PREPARE_COMMIT if committed else S.PREPARE_ABORT,
        S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT,
    ]
    assert lab.end(producer, committed) == [E.NONE]
    assert lab.end(producer, not committed) == [E.INVALID_TXN_STATE]
    assert lab.add(producer, P2) == [E.NONE]
    assert lab.transaction().facts.partitions == {P2}


def test_end_txn_responds_when_the_decision_is_replicated() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.log.held = True
    responses = lab.end(producer)
    assert responses == [] == lab.sent
    assert lab.end(producer) == [E.CONCURRENT_TRANSACTIONS]
    assert lab.add(producer, P1) == [E.CONCURRENT_TRANSACTIONS]
    assert lab.init()[0].error is E.CONCURRENT_TRANSACTIONS
    lab.log.release()
    assert responses == [E.NONE]
    assert len(lab.sent) == 1
    assert lab.end(producer) == [E.CONCURRENT_TRANSACTIONS]  # being carried out
    assert lab.end(producer, committed=False) == [E.INVALID_TXN_STATE]


def test_refused_producers() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    stranger = ProducerIdAndEpoch(9, 0)
    older = ProducerIdAndEpoch(producer.producer_id, -1)
    for who, error in ((stranger, E.INVALID_PRODUCER_ID_MAPPING), (older, E.PRODUCER_FENCED)):
        assert lab.add(who, P1) == [error]
        assert lab.end(who) == [error]
        assert lab.coordinator.verify_partitions(ID, who, [P0]) == {P0: error}
    assert lab.add(producer, P1, transactional_id="other") == [E.INVALID_PRODUCER_ID_MAPPING]
    assert lab.add(producer, P1, transactional_id="") == [E.INVALID_REQUEST]
    assert lab.end(producer, transactional_id="") == [E.INVALID_REQUEST]
    fresh = lab.begun("fresh")
    assert lab.end(fresh, transactional_id="fresh") == [E.INVALID_TXN_STATE]


def test_time_outs_have_limits() -> None:
    lab = TransactionLab(transaction_max_timeout_ms=1000)
    for timeout_ms in (0, -1, 1001):
        assert lab.init(timeout_ms=timeout_ms)[0].error is E.INVALID_TRANSACTION_TIMEOUT
    assert lab.init(timeout_ms=1000)[0].error is E.NONE


# -- KIP-890


def test_verification() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    verify = lab.coordinator.verify_partitions
    assert verify(ID, producer, [P0, P1]) == {P0: E.NONE, P1: E.TRANSACTION_ABORTABLE}
    lab.end(producer)
    assert verify(ID, producer, [P0]) == {P0: E.CONCURRENT_TRANSACTIONS}
    lab.write_markers()
    assert verify(ID, producer, [P0]) == {P0: E.TRANSACTION_ABORTABLE}
    assert verify("", producer, [P0]) == {P0: E.INVALID_REQUEST}
    lab.resign()
    assert verify(ID, producer, [P0]) == {P0: E.NOT_COORDINATOR}


# -- the log refuses


@pytest.mark.parametrize(
    ("refusal", "received"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_append_changes_nothing(refusal: ErrorCode, received: ErrorCode) -> None:
    lab = TransactionLab()
    lab.log.refusal = refusal
    assert lab.init()[0].error is received
    assert not lab.coordinator.runtime.require(ID).shard.transactions
    lab.log.refusal = None
    producer = lab.begun()
    lab.log.refusal = refusal
    assert lab.add(producer, P0) == [received]
    assert lab.state is S.EMPTY
    lab.log.refusal = None
    assert lab.add(producer, P0) == [E.NONE]
    lab.log.refusal = refusal
    assert lab.end(producer) == [received]
    assert (lab.state, lab.sent) == (S.ONGOING, [])
    lab.log.refusal = None
    assert lab.end(producer, committed=False) == [E.NONE]


@pytest.mark.parametrize(
    "refusal",
    [
        E.NOT_ENOUGH_REPLICAS,
        E.KAFKA_STORAGE_ERROR,  # a full disk
        E.UNKNOWN_SERVER_ERROR,
        E.NOT_LEADER_OR_FOLLOWER,
    ],
)
def test_a_failed_completion_is_retried(refusal: ErrorCode) -> None:
    """Otherwise every request would fail with CONCURRENT_TRANSACTIONS until a failover."""
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.end(producer)
    lab.log.refusal = refusal
    lab.write_markers()
    lab.clock.advance(1000)
    assert lab.state is S.PREPARE_COMMIT
    lab.log.refusal = None
    lab.clock.advance(100)
    assert lab.state is S.COMPLETE_COMMIT  # type: ignore[comparison-overlap]  # changed since
    assert lab.begun().epoch == producer.epoch + 1


def test_a_stopped_coordinator_retries_nothing() -> None:
    lab = TransactionLab()
    lab.end(lab.open(P0, P1))
    lab.log.refusal = E.NOT_ENOUGH_REPLICAS
    lab.write_markers()
    lab.log.refusal = None
    written = len(lab.log.batches)
    lab.coordinator.close()
    lab.clock.advance(1000)
    assert (len(lab.log.batches), lab.sent) == (written, [])


# -- markers


def test_markers_are_retried_until_they_are_written() -> None:
    lab = TransactionLab()
    lab.leaders.leaders = {P0: 1, P1: 2, P2: -1}
    producer = lab.open(P0, P1, P2)
    lab.end(producer)
    assert [(broker, item.partitions) for broker, item in lab.sent] == [(1, (P0,)), (2, (P1,))]
    lab.write_markers({P1: E.NOT_LEADER_OR_FOLLOWER})
    lab.leaders.leaders = {P0: 1, P1: 3, P2: 3}
    lab.clock.advance(100)
    assert sorted((broker, item.partitions) for broker, item in lab.sent) == [
        (3, (P1,)),
        (3, (P2,)),
    ]
    lab.write_markers(lost=True)
    assert lab.state is S.PREPARE_COMMIT
    lab.clock.advance(100)
    lab.write_markers()
    assert lab.state is S.COMPLETE_COMMIT  # type: ignore[comparison-overlap]  # changed since
    assert lab.coordinator.markers.num_retrying == 0


def test_a_deleted_partition_needs_no_marker() -> None:
    lab = TransactionLab()
    producer = lab.open(P0, P1)
    lab.leaders.leaders = {P0: None, P1: None}
    lab.end(producer)
    assert (lab.sent, lab.state) == ([], S.COMPLETE_COMMIT)


def test_without_metadata_no_partition_counts_as_deleted() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.leaders.leaders = {P0: None, TopicPartition("__transaction_state", 0): None}
    lab.end(producer)
    assert lab.state is S.PREPARE_COMMIT
    lab.leaders.leaders = {}
    lab.clock.advance(100)
    assert len(lab.sent) == 1


def test_a_partition_with_a_later_producer_epoch_counts_as_marked() -> None:
    lab = TransactionLab()
    lab.end(lab.open(P0))
    lab.write_markers({P0: E.INVALID_PRODUCER_EPOCH})
    assert lab.state is S.COMPLETE_COMMIT


def test_a_fenced_coordinator_does_not_retry() -> None:
    lab = TransactionLab()
    lab.end(lab.open(P0))
    lab.write_markers({P0: E.TRANSACTION_COORDINATOR_FENCED})
    lab.clock.advance(1000)
    assert (lab.sent, lab.state) == ([], S.PREPARE_COMMIT)


# -- time


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.clock.advance(TIMEOUT_MS)
    lab.coordinator.abort_timed_out()
    assert lab.state is S.ONGOING
    lab.clock.advance(1)
    lab.coordinator.abort_timed_out()
    assert lab.state is S.PREPARE_ABORT  # type: ignore[comparison-overlap]  # changed since
    lab.write_markers()
    assert (lab.state, lab.transaction().facts.producer_epoch) == (S.COMPLETE_ABORT, 1)
    assert lab.add(producer, P0) == [E.PRODUCER_FENCED]
    lab.coordinator.abort_timed_out()
    assert lab.state is S.COMPLETE_ABORT


def test_unused_transactional_ids_are_deleted() -> None:
    lab = TransactionLab(transactional_id_expiration_ms=1000)
    idle, busy = lab.begun("idle"), lab.begun("busy")
    lab.add(busy, P0, transactional_id="busy")
    lab.clock.advance(999)
    lab.coordinator.expire()
    assert lab.size == 2
    lab.clock.advance(1)
    lab.log.refusal = E.NOT_ENOUGH_REPLICAS
    lab.coordinator.expire()
    assert lab.size == 2
    lab.log.refusal = None
    lab.coordinator.expire()
    assert lab.size == 1
    assert lab.records()[-1] == TransactionStored("idle", None)
    assert lab.add(idle, P0, transactional_id="idle") == [E.INVALID_PRODUCER_ID_MAPPING]
    assert lab.successor().size == 1


def test_long_ids_are_deleted_in_batches_that_fit() -> None:
    lab = TransactionLab(transactional_id_expiration_ms=1000)
    for number in range(100):
        lab.begun(f"{number:02000}")
    lab.clock.advance(1000)
    before = len(lab.log.batches)
    lab.coordinator.expire()
    assert lab.size == 0
    batches = lab.log.batches[before:]
    assert len(batches) == 4
    assert all(len(batch) <= BATCH_BYTES for batch in batches)


# -- administration


def test_describe_and_list() -> None:
    lab = TransactionLab()
    producer = lab.open(P1, P0)
    lab.begun("other")
    received = lab.coordinator.describe(ID)
    assert (received.error_code, received.transaction_state) == (0, "Ongoing")
    assert (received.producer_id, received.producer_epoch) == (producer.producer_id, producer.epoch)
    assert received.transaction_start_time_ms == lab.clock.wall_ms()
    assert [(topic.topic, topic.partitions) for topic in received.topics] == [("flights", [0, 1])]
    lab.end(producer)
    assert lab.coordinator.describe(ID).transaction_state == "PrepareCommit"
    assert lab.coordinator.describe("none").error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert lab.coordinator.describe("").error_code == E.INVALID_REQUEST

    def listed(*filters: object) -> list[str]:
        response = lab.coordinator.list_transactions(*filters)  # type: ignore[arg-type]
        return [row.transactional_id for row in response.transaction_states]

    assert listed([], [], -1) == [ID, "other"]
    assert listed(["Empty"], [], -1) == ["other"]
    assert listed([], [producer.producer_id], -1) == [ID]
    assert listed([], [], 10_000_000) == ["other"]  # it never began: -1 is long ago, as in Kafka
    assert listed([], [], -1, None) == listed([], [], -1, "") == [ID, "other"]
    assert listed([], [], -1, "oth.*") == ["other"]
    assert listed([], [], -1, "oth") == []  # the whole id must match
    assert listed(["Empty"], [], -1, ID) == []
    invalid = lab.coordinator.list_transactions([], [], -1, "(")
    assert (invalid.error_code, invalid.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])
    unknown = lab.coordinator.list_transactions(["Empty", "Odd"], [], -1)
    assert unknown.unknown_state_filters == ["Odd"]
    lab.coordinator.close()
    closed = lab.coordinator.list_transactions([], [], -1)
    assert closed.error_code == E.COORDINATOR_NOT_AVAILABLE
