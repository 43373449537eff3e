"""The checks of the scrubber, and its pace."""

from __future__ import annotations

import pytest

from minikafka.core.log.scrubbing import (
    Checked,
    Replacement,
    ScrubPace,
    check_batches,
    replacement_for,
)
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.builder import build_batch


def batch(base_offset: int, count: int = 2) -> bytes:
    return build_batch([(0, b"k", b"v", ())] * count, base_offset=base_offset)


def test_the_rate_is_kept_and_nothing_is_saved_up() -> None:
    pace = ScrubPace(1000)
    assert pace.wait_ms(500, now_ms=0) == 500
    assert pace.wait_ms(500, now_ms=500) == 500
    assert pace.wait_ms(500, now_ms=600) == 900  # the caller did not wait for all of it
    assert pace.wait_ms(500, now_ms=100_000) == 500
    assert pace.wait_ms(1, now_ms=200_000) == 1


def test_complete_valid_batches_are_counted() -> None:
    whole = batch(10) + batch(15)
    assert check_batches(whole, 10, 17) == Checked(len(whole), 17, (len(batch(10)), 12), None)
    assert check_batches(whole[:-1], 10, 17) == Checked(len(batch(10)), 12, (0, 10), None)
    assert check_batches(b"", 10, 17) == Checked(0, 10, (0, 10), None)


@pytest.mark.mission("SAFE-65")
@pytest.mark.parametrize("position", range(len(batch(12))))
def test_any_flipped_byte_is_found(position: int) -> None:
    """But for the leader epoch, which no CRC covers, and for a length beyond the data."""
    first, second = batch(10), bytearray(batch(12))
    second[position] ^= 0x41
    checked = check_batches(first + bytes(second), 10, 14)
    assert checked[:2] == (len(first), 12) or position in range(12, 16)
    unseen = position in range(12, 16) or position in range(8, 11)
    assert (checked.fault is None) == unseen


@pytest.mark.parametrize(("start", "end"), [(11, 14), (10, 13)])
def test_offsets_outside_of_the_segment_are_a_fault(start: int, end: int) -> None:
    checked = check_batches(batch(10) + batch(12), start, end)
    assert checked.fault is not None
    assert "is expected" in checked.fault


@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_replacement_is_the_sound_batches_of_the_range(has_gaps: bool) -> None:
    data = batch(10) + batch(12) + batch(14)
    size = len(batch(10))
    for end, expected in [
        (14, Replacement(2 * size, 14)),
        (16, Replacement(3 * size, 16)),
        (20, Replacement(3 * size, 16)),  # the rest comes with another Fetch
    ]:
        assert replacement_for(data, 10, end, has_gaps=has_gaps) == expected
    assert replacement_for(data[:-1], 10, 20, has_gaps=has_gaps) == Replacement(2 * size, 14)
    behind = bytearray(data)
    behind[-1] ^= 1
    assert replacement_for(behind, 10, 14, has_gaps=has_gaps) == Replacement(2 * size, 14)


def test_gaps_are_accepted_of_a_compacted_log_only() -> None:
    data = batch(10) + batch(14)
    size = len(batch(10))
    assert replacement_for(data, 10, 16, has_gaps=True) == Replacement(2 * size, 16)
    assert replacement_for(data, 10, 14, has_gaps=True) == Replacement(size, 14)
    assert replacement_for(data, 9, 14, has_gaps=True) == Replacement(size, 14)
    assert replacement_for(batch(14), 10, 14, has_gaps=True) == Replacement(0, 14)
    for start, end in [(10, 16), (10, 14), (9, 12)]:
        with pytest.raises(CorruptRecordError):
            replacement_for(data, start, end, has_gaps=False)


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize(("start", "end"), [(11, 14), (10, 13), (10, 11)])
def test_a_batch_that_lies_only_in_part_in_the_range_is_no_replacement(
    start: int, end: int, has_gaps: bool
) -> None:
    with pytest.raises(CorruptRecordError):
        replacement_for(batch(10) + batch(12), start, end, has_gaps=has_gaps)


@pytest.mark.parametrize("data", [b"", batch(10)[:-1]])
def test_nothing_complete_is_no_replacement(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        replacement_for(data, 10, 12, has_gaps=True)


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("position", range(len(batch(12))))
def test_no_flipped_byte_becomes_part_of_a_replacement(position: int) -> None:
    """But for the leader epoch, which no CRC covers."""
    first, second = batch(10), bytearray(batch(12))
    second[position] ^= 0x41
    if position in range(12, 16):
        return
    try:
        found = replacement_for(first + bytes(second), 10, 14, has_gaps=False)
    except CorruptRecordError:
        return
    assert found == Replacement(len(first), 12)  # a length beyond the data: fetched again


def test_a_batch_of_one_record_is_valid() -> None:
    data = batch(10, count=1)
    assert check_batches(data, 10, 11) == Checked(len(data), 11, (0, 10), None)


def test_an_unreadable_header_is_described() -> None:
    data = bytearray(batch(10))
    data[16] = 3
    assert check_batches(bytes(data), 10, 12).fault == "invalid magic found in record: 3"
