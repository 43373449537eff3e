"""What recovery trusts: which segments, which batches, which snapshots; index arithmetic."""

import pytest

from minikafka.core.log import segment_limits
from minikafka.core.log.recovery import (
    batch_survives,
    choose_snapshots,
    first_to_recover,
    has_hole,
    recovery_point_after_load,
    stray_snapshots,
)
from minikafka.protocol.records.batch import crc_of, parse_batches
from minikafka.protocol.records.builder import build_batch


@pytest.mark.parametrize(
    ("point", "index"), [(0, 0), (9, 0), (10, 1), (15, 1), (20, 2), (999, 2), (-1, 0)]
)
def test_recovery_starts_in_the_segment_of_the_recovery_point(point: int, index: int) -> None:
    assert first_to_recover([0, 10, 20], point) == index
    assert first_to_recover([], point) == 0


def test_a_batch_survives_if_it_is_true_and_in_its_place() -> None:
    data = build_batch([(1, None, b"v", [])], base_offset=50)
    (batch,) = parse_batches(data)
    assert batch_survives(batch, base_offset=40, end_offset=50)
    assert batch_survives(batch, base_offset=40, end_offset=45)  # compaction leaves gaps
    assert not batch_survives(batch, base_offset=40, end_offset=51)
    assert not batch_survives(batch, base_offset=50 - 2**31, end_offset=45)
    backwards = bytearray(data)
    backwards[23:27] = (-1).to_bytes(4, "big", signed=True)
    backwards[17:21] = crc_of(backwards, 0, len(backwards)).to_bytes(4, "big")
    (batch,) = parse_batches(backwards)
    assert not batch_survives(batch, base_offset=40, end_offset=50)
    (flipped,) = parse_batches(data[:-1] + bytes([data[-1] ^ 1]))
    assert not batch_survives(flipped, base_offset=40, end_offset=50)


def test_holes_are_seen_where_there_is_no_compaction() -> None:
    assert has_hole(19, 20, compacted=False)
    assert not has_hole(20, 20, compacted=False)
    assert not has_hole(19, 20, compacted=True)


@pytest.mark.parametrize(
    ("clean", "checkpointed", "end", "recovered", "point"),
    [
        (True, 5, 30, None, 30),
        (False, 5, 30, None, 5),
        (False, 50, 30, None, 30),
        (False, 5, 30, 20, 5),
        (False, 25, 30, 20, 20),  # the rebuilt indexes of that segment are not on disk
        (True, 5, 30, 10, 10),
    ],
)
def test_the_recovery_point_after_loading(
    clean: bool, checkpointed: int, end: int, recovered: int | None, point: int
) -> None:
    assert recovery_point_after_load(clean, checkpointed, end, recovered) == point


def test_snapshots_within_the_log_are_used_newest_first() -> None:
    assert choose_snapshots([0, 5, 10, 30, 31], 0, 30) == ([30, 10, 5], [31, 0])
    assert choose_snapshots([], 0, 30) == ([], [])


def test_snapshots_of_no_segment_are_strays_but_for_a_shutdowns() -> None:
    assert stray_snapshots([5, 10, 12, 25], [0, 10, 20]) == [5, 12]
    assert stray_snapshots([5, 10, 12], [0, 10, 20]) == [5, 12]
    assert stray_snapshots([5, 7], []) == [5]
    assert stray_snapshots([20], [0, 10]) == []
    assert stray_snapshots([0], []) == []
    assert stray_snapshots([0, 10], [0, 10]) == []


def test_index_arithmetic() -> None:
    assert segment_limits.fits(10, 10)
    assert segment_limits.fits(10, 10 + 2**31 - 1)
    assert not segment_limits.fits(10, 10 + 2**31)
    assert not segment_limits.fits(10, 9)
    assert segment_limits.max_entries(67, 8) == 8
    assert segment_limits.max_entries(4, 8) == 1
    assert segment_limits.first_full(3, 8) == 3
    assert segment_limits.first_full(3, 12) == 2
