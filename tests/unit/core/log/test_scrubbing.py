"""The checks of the scrubber, and its pace."""

from __future__ import annotations

import pytest

from minikafka.core.log.scrubbing import Checked, ScrubPace, check_batches
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
    assert check_batches(whole, 10, 17) == Checked(len(whole), 15, 17, None)
    assert check_batches(whole[:-1], 10, 17) == Checked(len(batch(10)), 10, 12, None)
    assert check_batches(b"", 10, 17) == Checked(0, None, 10, None)


@pytest.mark.mission("SAFE-65")
@pytest.mark.parametrize("position", range(len(batch(12))))
def test_any_flipped_byte_is_found(position: int) -> None:
    """But for the leader epoch, which no CRC covers, and for a length beyond the data."""
    first, second = batch(10), bytearray(batch(12))
    second[position] ^= 0x41
    checked = check_batches(first + bytes(second), 10, 14)
    assert checked[:3] == (len(first), 10, 12) or position in range(12, 16)
    unseen = position in range(12, 16) or position in range(8, 11)
    assert (checked.fault is None) == unseen


@pytest.mark.parametrize(("start", "end"), [(11, 14), (10, 13)])
def test_offsets_outside_of_the_segment_are_a_fault(start: int, end: int) -> None:
    checked = check_batches(batch(10) + batch(12), start, end)
    assert checked.fault is not None
    assert "is expected" in checked.fault
