"""Producer epochs of transactional ids: fenced, continued, used up."""

import pytest

from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import ProducerResult
from minikafka.core.transaction.transaction import MAX_EPOCH, TransactionFacts
from minikafka.core.transaction.transaction import TransactionState as S
from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from minikafka.server.coordinator.transaction_markers import markers_request
from tests.support.coordinator.transaction_lab import ID, P0, TIMEOUT_MS, TransactionLab

E = ErrorCode


def test_the_next_producer_fences_its_predecessor() -> None:
    lab = TransactionLab()
    zombie = lab.begun()
    successor = lab.begun()
    assert successor == ProducerIdAndEpoch(zombie.producer_id, zombie.epoch + 1)
    assert lab.add(zombie, P0) == [E.PRODUCER_FENCED]
    assert lab.add(successor, P0) == [E.NONE]


def test_an_open_transaction_is_aborted_for_the_next_producer() -> None:
    lab = TransactionLab()
    zombie = lab.open(P0)
    assert lab.init()[0].error is E.CONCURRENT_TRANSACTIONS
    assert lab.state is S.PREPARE_ABORT
    assert lab.end(zombie) == [E.PRODUCER_FENCED]
    (item,) = lab.write_markers()
    assert (item.markers.producer_epoch, item.markers.committed) == (1, False)
    assert lab.begun() == ProducerIdAndEpoch(100, 2)


def test_a_producer_continues_in_the_next_epoch_after_an_error() -> None:
    """KIP-360: it names its epoch and gets the next one; a repeated request gets the same one."""
    lab = TransactionLab()
    first = lab.begun()
    assert lab.init(first)[0].producer_epoch == 1
    assert lab.init(first)[0].producer_epoch == 1
    assert lab.init(ProducerIdAndEpoch(100, 1))[0].producer_epoch == 2
    assert lab.init(first)[0].error is E.PRODUCER_FENCED
    assert lab.init(ProducerIdAndEpoch(7, 0))[0].error is E.PRODUCER_FENCED
    successor = lab.begun()
    assert lab.init(ProducerIdAndEpoch(100, 2))[0].error is E.PRODUCER_FENCED
    assert successor.epoch == 3


def test_a_zombie_does_not_end_its_successors_transaction() -> None:
    lab = TransactionLab()
    zombie = lab.begun()
    successor = lab.open(P0)
    assert lab.init(zombie)[0].error is E.PRODUCER_FENCED
    assert lab.state is S.ONGOING
    assert lab.end(successor) == [E.NONE]


def at_epoch(epoch: int, state: S = S.EMPTY, version: int = 0) -> TransactionLab:
    lab = TransactionLab(elect=False, version=version)
    lab.elect()
    partitions = frozenset({P0} if state is S.ONGOING else ())
    facts = TransactionFacts(5, epoch, TIMEOUT_MS, state, partitions, 0, 0)
    lab.coordinator.runtime.require(ID).shard.replay(TransactionStored(ID, facts), 0)
    return lab


def test_a_producer_gets_a_new_id_when_the_epochs_are_used_up() -> None:
    lab = at_epoch(MAX_EPOCH - 2)
    assert lab.begun() == ProducerIdAndEpoch(5, MAX_EPOCH - 1)
    assert lab.begun() == ProducerIdAndEpoch(100, 0)


def test_the_last_epoch_can_be_fenced() -> None:
    lab = at_epoch(MAX_EPOCH - 1, S.ONGOING)
    assert lab.init()[0].error is E.CONCURRENT_TRANSACTIONS
    (item,) = lab.write_markers()
    assert item.markers.producer_epoch == MAX_EPOCH
    assert lab.begun() == ProducerIdAndEpoch(100, 0)


def test_no_producer_gets_the_last_epoch() -> None:
    """It fenced the one before; who names it made it up. Else there would be a transaction that no
    epoch is left to abort in."""
    lab = at_epoch(MAX_EPOCH - 1, S.ONGOING)
    lab.clock.advance(TIMEOUT_MS + 1)
    lab.coordinator.abort_timed_out()
    lab.write_markers()
    assert lab.state is S.COMPLETE_ABORT
    made_up = ProducerIdAndEpoch(5, MAX_EPOCH)
    assert lab.add(made_up, P0) == [E.PRODUCER_FENCED]
    assert lab.end(made_up) == [E.PRODUCER_FENCED]
    assert lab.coordinator.verify_partitions(ID, made_up, [P0]) == {P0: E.PRODUCER_FENCED}
    assert lab.state is S.COMPLETE_ABORT


def test_a_transaction_in_the_last_epoch_is_aborted_in_the_same_epoch() -> None:
    """Such a record must not stop the coordinator."""
    lab = at_epoch(MAX_EPOCH, S.ONGOING)
    lab.clock.advance(TIMEOUT_MS + 1)
    lab.coordinator.abort_timed_out()
    (item,) = lab.write_markers()
    assert (item.markers.producer_epoch, item.markers.committed) == (MAX_EPOCH, False)
    assert lab.begun() == ProducerIdAndEpoch(100, 0)


def test_a_request_for_a_new_id_may_be_repeated() -> None:
    lab = at_epoch(MAX_EPOCH - 1)
    last = ProducerIdAndEpoch(5, MAX_EPOCH - 1)
    for _ in range(2):
        (response,) = lab.init(last)
        assert (response.error, response.producer_id, response.producer_epoch) == (E.NONE, 100, 0)


# -- transactions of version 2 (KIP-890)


@pytest.mark.mission("TV2-2")
def test_every_end_raises_the_epoch() -> None:
    lab = TransactionLab(version=2)
    first = lab.open(P0)
    (committed,) = lab.ended(first)
    (item,) = lab.write_markers()
    assert (item.markers.producer_epoch, item.markers.client_version) == (1, 2)
    assert committed == ProducerResult(E.NONE, first.producer_id, 1)
    assert lab.ended(first) == [committed]  # repeated
    second = ProducerIdAndEpoch(first.producer_id, 1)
    assert lab.add(first, P0) == [E.PRODUCER_FENCED]
    assert lab.add(second, P0) == [E.NONE]
    assert lab.ended(first) == [ProducerResult(E.PRODUCER_FENCED)]
    (aborted,) = lab.ended(second, committed=False)
    assert aborted == ProducerResult(E.NONE, first.producer_id, 2)


@pytest.mark.mission("TV2-2")
def test_a_producer_continues_with_a_new_id_when_its_epochs_are_used_up() -> None:
    lab = at_epoch(MAX_EPOCH - 1, S.ONGOING, version=2)
    last = ProducerIdAndEpoch(5, MAX_EPOCH - 1)
    (committed,) = lab.ended(last)
    assert committed == ProducerResult(E.NONE, 100, 0)
    assert lab.ended(last) == [ProducerResult(E.CONCURRENT_TRANSACTIONS)]
    assert lab.add(ProducerIdAndEpoch(100, 0), P0) == [E.INVALID_PRODUCER_ID_MAPPING]
    (item,) = lab.write_markers()
    assert (item.markers.producer_id, item.markers.producer_epoch) == (5, MAX_EPOCH)
    assert lab.ended(last) == [committed]
    assert lab.add(ProducerIdAndEpoch(100, 0), P0) == [E.NONE]


@pytest.mark.mission("TV2-2")
def test_the_next_coordinator_knows_the_new_id() -> None:
    lab = at_epoch(MAX_EPOCH - 1, S.ONGOING, version=2)
    last = ProducerIdAndEpoch(5, MAX_EPOCH - 1)
    (committed,) = lab.ended(last)
    successor = lab.successor()
    successor.write_markers()
    assert successor.ended(last) == [committed]
    assert successor.successor().ended(last) == [committed]


@pytest.mark.mission("TV2-2")
def test_a_late_producer_learns_the_epoch_after_a_time_out() -> None:
    lab = TransactionLab(version=2)
    late = lab.open(P0)
    lab.clock.advance(TIMEOUT_MS + 1)
    lab.coordinator.abort_timed_out()
    lab.write_markers()
    assert lab.ended(late) == [ProducerResult(E.INVALID_TXN_STATE)]
    assert lab.ended(late, committed=False) == [ProducerResult(E.NONE, late.producer_id, 1)]


def test_a_time_out_in_the_last_epoch_leaves_only_a_new_id() -> None:
    lab = at_epoch(MAX_EPOCH - 1, S.ONGOING, version=2)
    last = ProducerIdAndEpoch(5, MAX_EPOCH - 1)
    lab.clock.advance(TIMEOUT_MS + 1)
    lab.coordinator.abort_timed_out()
    (item,) = lab.write_markers()
    assert item.markers.producer_epoch == MAX_EPOCH
    assert lab.ended(last, committed=False) == [ProducerResult(E.PRODUCER_FENCED)]
    (response,) = lab.init(last)
    assert (response.error, response.producer_id, response.producer_epoch) == (E.NONE, 100, 0)


def test_nothing_is_aborted_in_the_next_epoch() -> None:
    """The producer does not know whether its request has begun the transaction."""
    lab = TransactionLab(version=2)
    producer = lab.begun()
    assert lab.ended(producer) == [ProducerResult(E.INVALID_TXN_STATE)]
    (aborted,) = lab.ended(producer, committed=False)
    assert aborted == ProducerResult(E.NONE, producer.producer_id, 1)
    assert lab.state is S.COMPLETE_ABORT
    assert lab.sent == []


def test_markers_have_no_version_that_the_cluster_has_not() -> None:
    """Not even one that is retried: its leader may be an older release after the downgrade."""
    lab = TransactionLab(version=2)
    producer = lab.open(P0)
    lab.coordinator.end(ID, producer, True, 2, lambda result: None)
    (_, item) = lab.sent[0]
    for level, version_of_request in ((2, 2), (1, 1)):
        lab.version = level
        request, version = markers_request([item])
        assert isinstance(request, WriteTxnMarkersRequest)
        (marker,) = request.markers
        assert (marker.producer_epoch, marker.transaction_version) == (1, level)
        assert version == version_of_request
