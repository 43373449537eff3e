"""Each invariant of a log fails when it is broken."""

from collections.abc import Callable

import pytest

from minikafka.core.log.leader_epochs import EpochEntry, LeaderEpochCache
from minikafka.server.storage.log.invariants import check_log
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.logs import NOW, batch, new_log


def log_of(count: int) -> UnifiedLog:
    log = new_log()
    for n in range(count):
        log.append_as_leader(batch(bytes([n]), b"more"), n // 2, NOW)
    check_log(log)
    return log


def end_below_start(log: UnifiedLog) -> None:
    log.log_start_offset = log.log_end_offset + 1


def flushed_past_the_end(log: UnifiedLog) -> None:
    log.recovery_point = log.log_end_offset + 1


def end_within_a_batch(log: UnifiedLog) -> None:
    log.log_end_offset -= 1


def epoch_that_no_batch_has(log: UnifiedLog) -> None:
    log.epochs.take_over([EpochEntry(7, 0)])


def batch_twice(log: UnifiedLog) -> None:
    active = log.segments.active
    assert active is not None
    data = active.read(active.size_bytes, 0)
    active.append(data, log.log_end_offset - 1, NOW)


@pytest.mark.parametrize(
    "harm",
    [end_below_start, flushed_past_the_end, end_within_a_batch, epoch_that_no_batch_has],
)
def test_a_broken_log_is_found(harm: Callable[[UnifiedLog], None]) -> None:
    log = log_of(4)
    harm(log)
    with pytest.raises(AssertionError):
        check_log(log)


def test_a_batch_that_is_there_twice_is_found() -> None:
    log = log_of(1)
    batch_twice(log)
    with pytest.raises(AssertionError, match="overlaps an earlier one"):
        check_log(log)


def test_a_log_never_starts_behind_its_end() -> None:
    log = log_of(2)
    with pytest.raises(AssertionError):
        log.increment_log_start_offset(5)


def test_nothing_is_skipped_backwards() -> None:
    log = log_of(2)
    with pytest.raises(AssertionError):
        log.skip_to(3)


def test_a_segment_takes_no_offset_below_its_base() -> None:
    log = log_of(2)
    log.roll()
    active = log.segments.active
    assert active is not None
    with pytest.raises(AssertionError, match="another segment"):
        active.append(b"", 3, NOW)


def test_epochs_of_a_cache_never_go_back() -> None:
    with pytest.raises(AssertionError, match="below that of an earlier epoch"):
        LeaderEpochCache([EpochEntry(1, 10), EpochEntry(2, 5)])


def test_the_last_stable_offset_is_no_higher_than_the_high_watermark() -> None:
    log = new_log()
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.append_as_leader(data, 0, NOW)
    log.append_as_leader(batch(b"b"), 0, NOW)
    assert log.last_stable_offset(1) == 0
    log.log_start_offset = 2
    with pytest.raises(AssertionError, match="above its high watermark"):
        log.last_stable_offset(1)
