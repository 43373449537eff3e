"""Batches of transactions that have to be verified before they may begin one (KIP-890)."""

from typing import Any

import pytest

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.verification import Verification
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.logs import NOW, new_log
from tests.support.storage.transactions import marker

PID = 7


def begin(log: UnifiedLog, sequence: int = 0, epoch: int = 0) -> Verification | None:
    return log.producers.states.verification_of(PID, epoch, sequence, NOW)


def append(
    log: UnifiedLog,
    guard: Verification | None,
    sequence: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    **fields: Any,
) -> int:
    """The offset that it got."""
    fields = {"producer_id": PID, "producer_epoch": 0, "transactional": True, **fields}
    batch = build_batch([(NOW, None, b"v", [])], base_sequence=sequence, **fields)
    return log.append_as_leader(batch, 0, NOW, origin, guard).first_offset


def end(log: UnifiedLog, commit: bool = True) -> None:
    log.append_as_leader(marker(PID, 0, commit), 0, NOW, AppendOrigin.COORDINATOR)


def refused(log: UnifiedLog, guard: Verification | None, sequence: int = 0) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        append(log, guard, sequence)
    assert log.log_end_offset == before
    return error.value.code


def test_only_the_first_batch_of_a_transaction_is_verified() -> None:
    log = new_log()
    assert refused(log, None) is ErrorCode.INVALID_TXN_STATE
    guard = begin(log)
    assert guard is not None
    assert begin(log) is guard
    append(log, guard, 0)
    assert begin(log) is None
    append(log, None, 1)
    end(log)
    assert begin(log) is not None


def test_transaction_marker_invalidates_a_pending_verification() -> None:
    """Otherwise a late response for an aborted transaction would open one that never ends."""
    log = new_log()
    late = begin(log)
    end(log, commit=False)
    assert refused(log, late) is ErrorCode.INVALID_TXN_STATE
    again = begin(log)
    assert again is not late
    assert refused(log, late) is ErrorCode.INVALID_TXN_STATE
    append(log, again)


def test_duplicate_batch_needs_no_verification() -> None:
    log = new_log()
    append(log, begin(log), 0)
    end(log)
    assert append(log, None, 0) == 0
    assert log.log_end_offset == 2


def test_no_batch_overtakes_one_that_waits() -> None:
    log = new_log()
    guard = begin(log, 0)
    assert begin(log, 1) is guard
    assert refused(log, guard, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, guard, 0)
    append(log, guard, 1)


def test_the_lowest_sequence_is_that_of_the_latest_epoch() -> None:
    log = new_log()
    guard = begin(log, 5, epoch=0)
    assert guard is not None
    begin(log, 3, epoch=0)
    assert guard.lowest_sequence == 3
    begin(log, 4, epoch=1)
    assert (guard.lowest_sequence, guard.producer_epoch) == (4, 1)
    begin(log, 0, epoch=0)
    assert guard.lowest_sequence == 4


def test_offsets_have_no_sequence_numbers_and_are_never_repetitions() -> None:
    """Those of a second transaction are not taken for those of the first."""
    log = new_log()
    for offset in (0, 2):
        guard = begin(log, -1)
        assert append(log, guard, -1, AppendOrigin.COORDINATOR) == offset
        end(log)


def test_verifications_that_lead_to_nothing_expire() -> None:
    log = new_log()
    guard = begin(log)
    log.producers.states.expire(NOW + 999, 1000)
    assert begin(log) is guard
    log.producers.states.expire(NOW + 1000, 1000)
    assert begin(log) is not guard


# -- transactions of version 2: each has its own epoch, and begins at sequence number 0


def begin_2(log: UnifiedLog, sequence: int = 0, epoch: int = 0) -> Verification | None:
    return log.producers.states.verification_of(PID, epoch, sequence, NOW, adds=True)


def mark(log: UnifiedLog, epoch: int, version: int = 2) -> int:
    """Append a marker, and return its offset."""
    data = marker(PID, epoch, commit=True)
    return log.append_as_leader(
        data, 0, NOW, AppendOrigin.COORDINATOR, transaction_version=version
    ).first_offset


def error_of_marker(log: UnifiedLog, epoch: int, version: int = 2) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        mark(log, epoch, version)
    assert log.log_end_offset == before
    return error.value.code


@pytest.mark.mission("TV2-6")
def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    log = new_log()
    append(log, begin_2(log), producer_epoch=0)
    assert error_of_marker(log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    mark(log, 1)
    append(log, begin_2(log, epoch=1), producer_epoch=1)
    assert error_of_marker(log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of_marker(log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.producers.states.transactions.first_ongoing == 2
    mark(log, 2)
    assert log.producers.states.transactions.first_ongoing is None


@pytest.mark.mission("TV2-6")
def test_a_marker_may_be_written_again_while_no_transaction_is_open() -> None:
    log = new_log()
    append(log, begin_2(log))
    assert [mark(log, 1), mark(log, 1)] == [1, 2]
    assert error_of_marker(log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.mission("TV2-6")
def test_the_marker_of_the_transaction_before_keeps_the_verification_of_the_next() -> None:
    """The producer knows the next epoch before all markers are written."""
    log = new_log()
    append(log, begin_2(log))
    guard = begin_2(log, epoch=1)
    mark(log, 1)
    assert begin_2(log, epoch=1) is guard
    append(log, guard, producer_epoch=1)
    original = new_log()
    append(original, begin(original))
    later = begin(original, epoch=1)
    mark(original, 1, version=0)
    assert begin(original, epoch=1) is not later


@pytest.mark.mission("TV2-6")
def test_a_transaction_of_version_2_begins_with_sequence_number_0() -> None:
    log = new_log()
    assert refused(log, begin_2(log, 3), 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(original := new_log(), begin(original, 3), 3)


def test_a_former_epoch_is_refused_before_it_is_verified() -> None:
    log = new_log()
    append(log, begin_2(log))
    mark(log, 1)
    assert begin_2(log, epoch=0) is None
    assert refused(log, None) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_next_epoch_is_verified_though_a_transaction_is_open() -> None:
    log = new_log()
    append(log, begin_2(log))
    assert begin_2(log, epoch=0) is None
    assert begin_2(log, epoch=1) is not None
