"""A new transaction coordinator: what it continues, and what has no effect."""

import pytest

from minikafka.core.transaction.records import TransactionStored, encode_record
from minikafka.core.transaction.transaction import TransactionFacts
from minikafka.core.transaction.transaction import TransactionState as S
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.builder import build_batch
from tests.support.coordinator.transaction_lab import ID, P0, P1, TransactionLab

E = ErrorCode


@pytest.mark.parametrize("committed", [True, False])
def test_the_next_coordinator_completes_a_decided_transaction(committed: bool) -> None:
    lab = TransactionLab()
    producer = lab.open(P0, P1)
    lab.end(producer, committed)
    (stale,) = [item for _, item in lab.sent]
    after = lab.successor()
    (item,) = [item for _, item in after.sent]
    assert (item.markers.committed, item.context.epoch) == (committed, after.epoch)
    lab.write_markers()  # the responses to the previous coordinator have no effect
    assert not stale.context.shard.is_current(stale.markers)
    assert after.state is (S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
    after.write_markers()
    assert after.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    assert after.end(producer, committed) == [E.NONE]


def test_the_next_coordinator_sends_markers_after_its_log_is_replicated() -> None:
    """It has the decision in its log; a later leader may not, and may decide differently."""
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.log.held = True
    assert lab.end(producer) == []
    after = lab.successor()
    assert after.sent == []
    assert after.end(producer) == [E.COORDINATOR_LOAD_IN_PROGRESS]
    again = after.successor()  # it has to wait too
    again.log.release()
    assert len(again.sent) == 1
    after.log.release()
    assert after.sent == []
    again.write_markers()
    assert again.state is S.COMPLETE_COMMIT


def test_a_decision_that_was_not_replicated_has_no_effect() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.log.held = True
    lab.end(producer)
    between = lab.successor()
    between.log.truncate(between.log.unreplicated)
    after = between.successor()
    assert (after.state, between.sent, after.sent) == (S.ONGOING, [], [])
    assert after.end(producer, committed=False) == [E.NONE]


def test_requests_in_flight_fail_when_the_coordinator_resigns() -> None:
    lab = TransactionLab()
    producer = lab.open(P0)
    lab.log.held = True
    responses = lab.end(producer)
    lab.resign()
    lab.log.release()
    assert responses == [E.NOT_COORDINATOR]
    assert lab.sent == []
    with pytest.raises(KafkaError) as refused:
        lab.coordinator.runtime.require(ID)
    assert refused.value.code is E.NOT_COORDINATOR


def test_an_aborted_load_unloads_the_partition() -> None:
    """The log directory failed during the load: clients get NOT_COORDINATOR and look for another
    coordinator."""
    lab = TransactionLab(elect=False)
    lab.log.is_led = False
    lab.elect()
    with pytest.raises(KafkaError) as refused:
        lab.coordinator.runtime.require(ID)
    assert refused.value.code is E.NOT_COORDINATOR
    assert not lab.coordinator.runtime.is_loading
    lab.log.is_led = True
    lab.elect()
    assert lab.begun().epoch == 0


def test_damaged_records_do_not_block_other_transactional_ids() -> None:
    lab = TransactionLab()
    lab.init()
    lab.init(transactional_id="broken")
    batch = lab.log.batches[-1]
    lab.log.batches[-1] = batch[:61] + b"\xff\xff\xff\xff" + batch[65:]
    impossible = encode_record(TransactionStored("fenced", TransactionFacts(5, 0, 1, S.DEAD)))
    lab.log.append(0, build_batch([(0, *impossible, ())]), lambda *_: None)
    after = lab.successor()
    said = [event for _, event, _ in after.events.events]
    assert said.count("batch_skipped") == said.count("malformed_record_skipped") == 1
    assert after.size == 1
    assert after.state is S.EMPTY
    for transactional_id in (ID, "broken", "fenced"):
        (begun,) = after.init(transactional_id=transactional_id)
        assert begun.error is E.NONE
