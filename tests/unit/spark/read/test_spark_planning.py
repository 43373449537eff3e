"""Ranges of a batch: split, limited, and what was lost on the way."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.read.planning import (
    OffsetRange,
    check_same_partitions,
    check_start_within,
    new_records,
    plan_ranges,
    rate_limit,
    small_ranges_together,
    split_ranges,
    without_recreated,
)

OLD, NEW = UUID(int=1), UUID(int=2)
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 10, 10 + size) for number, size in enumerate(sizes)]


def test_from_start_to_end_with_a_new_partition() -> None:
    plan = plan_ranges({P0: 3}, {P0: 5, P1: 7}, {P1: 0}, {"t": OLD})
    assert plan == ([OffsetRange("t", 0, 3, 5, OLD), OffsetRange("t", 1, 0, 7, OLD)], [])


@pytest.mark.parametrize(
    ("start", "end", "earliest", "loss"),
    [
        ({P0: 3}, {}, {}, "partitions were deleted: t-0"),
        ({P0: 3}, {P0: 2}, {}, "the end of t-0 went back from 3 to 2"),
        ({}, {P0: 9}, {P0: 4}, "added partition t-0 starts at 4"),
        ({}, {P0: 9}, {}, "new partitions were deleted: t-0"),
    ],
)
@pytest.mark.mission("SPK-2")
def test_losses_are_named(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    earliest: dict[TopicPartition, int],
    loss: str,
) -> None:
    assert plan_ranges(start, end, earliest, {}).losses == [loss]


@pytest.mark.mission("SPK-2")
def test_partitions_of_a_topic_that_was_created_again_are_new() -> None:
    other = TopicPartition("other", 0)
    start = {P0: 3, P1: 4, other: 5}
    found = without_recreated(start, {"t": OLD, "other": OLD}, {"t": NEW, "other": OLD})
    assert found.start == {other: 5}
    (loss,) = found.losses
    assert loss.startswith("topic t was deleted and created again: its id was AAAA")


@pytest.mark.mission("SPK-2")
@pytest.mark.parametrize(("known", "current"), [({}, {"t": NEW}), ({"t": OLD}, {}), ({}, {})])
def test_a_topic_without_an_id_counts_as_the_same(
    known: dict[str, UUID], current: dict[str, UUID]
) -> None:
    assert without_recreated({P0: 3}, known, current) == ({P0: 3}, [])


def test_nothing_is_split_without_need_and_empty_ranges_are_dropped() -> None:
    assert split_ranges(ranges(5, 0, 9), None, None) == [ranges(5)[0], ranges(0, 0, 9)[2]]
    assert split_ranges(ranges(5, 9), 2, None) == ranges(5, 9)


@pytest.mark.parametrize(
    ("sizes", "least", "pieces"),
    [
        ((100,), 4, [25, 25, 25, 25]),
        ((100,), 3, [33, 33, 34]),
        ((1, 100), 4, [1, 33, 33, 34]),
        ((100, 200), 4, [100, 66, 67, 67]),
        ((2,), 5, [1, 1]),
    ],
)
def test_ranges_are_split_into_about_min_partitions(
    sizes: tuple[int, ...], least: int, pieces: list[int]
) -> None:
    assert [each.size for each in split_ranges(ranges(*sizes), least, None)] == pieces


def test_split_by_size_and_then_by_number() -> None:
    assert [e.size for e in split_ranges(ranges(10, 3), None, 4)] == [3, 3, 4, 3]
    assert [e.size for e in split_ranges(ranges(10, 3), 2, 4)] == [3, 3, 4, 3]
    assert len(split_ranges(ranges(100), 8, 50)) == 8


@given(
    st.lists(st.integers(0, 500), max_size=6),
    st.none() | st.integers(1, 30),
    st.none() | st.integers(1, 100),
)
def test_pieces_cover_all_exactly(sizes: list[int], least: int | None, most: int | None) -> None:
    pieces = split_ranges(ranges(*sizes), least, most)
    wanted = [(r.partition, offset) for r in ranges(*sizes) for offset in range(r.start, r.end)]
    assert [(p.partition, offset) for p in pieces for offset in range(p.start, p.end)] == wanted
    assert all(piece.size <= (most or piece.size) for piece in pieces)


@pytest.mark.mission("SPS-3")
@pytest.mark.parametrize(
    ("sizes", "most", "grouped"),
    [
        ((10, 10, 10), None, [[10, 10, 10]]),
        ((300, 200, 1), None, [[300, 200], [1]]),
        ((300, 201, 1), None, [[300], [201, 1]]),
        ((9000, 10, 10), None, [[9000], [10, 10]]),
        ((10, 10, 10), 25, [[10, 10], [10]]),
        ((), None, []),
    ],
)
def test_small_ranges_are_read_by_one_task(
    sizes: tuple[int, ...], most: int | None, grouped: list[list[int]]
) -> None:
    groups = small_ranges_together(ranges(*sizes), most)
    assert [[each.size for each in group] for group in groups] == grouped
    assert [each for group in groups for each in group] == ranges(*sizes)


def test_a_rate_limit_is_shared_by_lag_and_each_partition_progresses() -> None:
    latest = {P0: 1000, P1: 10, P2: 50}
    ends = rate_limit(100, {P0: 0, P1: 9, P2: 50}, latest, {})
    assert ends == {P0: 99, P1: 10, P2: 50}
    assert rate_limit(10, {}, {P0: 100}, {P0: 40}) == {P0: 50}
    assert rate_limit(10_000, {P0: 0}, {P0: 100}, {}) == {P0: 100}
    assert rate_limit(10, {P0: 5}, {P0: 5}, {}) == {P0: 5}


@given(
    st.dictionaries(
        st.integers(0, 5), st.tuples(st.integers(0, 99), st.integers(0, 999)), min_size=1
    ),
    st.integers(1, 300),
)
@pytest.mark.mission("SPK-2")
def test_a_limit_makes_progress_and_never_passes_the_end(
    spans: dict[int, tuple[int, int]], limit: int
) -> None:
    start = {TopicPartition("t", n): first for n, (first, _) in spans.items()}
    latest = {TopicPartition("t", n): first + size for n, (first, size) in spans.items()}
    ends = rate_limit(limit, start, latest, {})
    taken = {p: ends[p] - start[p] for p in start}
    assert all(0 <= taken[p] <= latest[p] - start[p] for p in start)
    assert all(taken[p] > 0 for p in start if latest[p] > start[p])
    assert sum(taken.values()) <= limit + len(start)


def test_waiting_records_are_counted_from_the_start() -> None:
    assert new_records({P0: 5}, {P0: 9, P1: 3}) == 7


def test_offsets_must_name_all_partitions() -> None:
    check_same_partitions([P0, P1], [P1, P0], "startingOffsets")
    with pytest.raises(ValueError, match=r"Specified: t-0\. Assigned: t-0, t-1"):
        check_same_partitions([P0], [P0, P1], "startingOffsets")


@pytest.mark.mission("SPK-1")
def test_a_start_beyond_the_end_is_refused() -> None:
    check_start_within({P0: 5, P1: 0}, {P0: 5, P1: 3})
    with pytest.raises(ValueError, match="t-1: start offset 4 is greater than end offset 3"):
        check_start_within({P0: 5, P1: 4}, {P0: 5, P1: 3})
