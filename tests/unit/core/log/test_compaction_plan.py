"""What of a log is dirty, which log waits too long, which segments go together, how fast."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.compaction import (
    CleanableSegment,
    Dirt,
    LogFacts,
    Throttle,
    dirt_of,
    group_segments,
    overdue_ms,
    wants_cleaning,
)
from minikafka.core.log.compaction_map import OffsetMap, slots_for
from minikafka.core.log.config import LogConfig

NOW = 1_000_000
CONFIG = LogConfig(cleanup_policy="compact")


def segment(base: int, size: int = 100, at_ms: int = 0, index: int = 8) -> CleanableSegment:
    return CleanableSegment(base, size, index, index, at_ms)


SEGMENTS = [segment(base, at_ms=base * 1000) for base in (0, 10, 20, 30, 40)]


def log(stable: int = 50, cleaned: int | None = None, start: int = 0) -> LogFacts:
    return LogFacts(start, 50, stable, cleaned, SEGMENTS)


def test_the_active_segment_is_never_cleaned() -> None:
    dirt = dirt_of(log(), CONFIG, NOW)
    assert (dirt.first_dirty, dirt.first_uncleanable) == (0, 40)
    assert (dirt.clean_bytes, dirt.cleanable_bytes, dirt.ratio) == (0, 400, 1.0)


@pytest.mark.parametrize(("stable", "end"), [(50, 40), (40, 40), (39, 30), (30, 30), (5, 0)])
def test_records_above_the_last_stable_offset_are_not_cleanable(stable: int, end: int) -> None:
    dirt = dirt_of(log(stable), CONFIG, NOW)
    assert dirt.first_uncleanable == end
    assert dirt.cleanable_bytes == end * 10


def test_dirty_ratio_excludes_the_clean_section() -> None:
    dirt = dirt_of(log(cleaned=30), CONFIG, NOW)
    assert (dirt.first_dirty, dirt.clean_bytes, dirt.cleanable_bytes) == (30, 300, 100)
    assert dirt.ratio == 0.25
    assert not wants_cleaning(dirt, CONFIG, False)
    assert wants_cleaning(dirt, CONFIG, True)
    assert wants_cleaning(Dirt(0, 1, 10**9, 1), CONFIG, True)
    assert wants_cleaning(dirt, replace(CONFIG, min_cleanable_dirty_ratio=0.2), False)
    assert not wants_cleaning(dirt, replace(CONFIG, min_cleanable_dirty_ratio=0.25), False)
    clean = dirt_of(log(cleaned=40), CONFIG, NOW)
    assert clean.cleanable_bytes == 0
    assert not wants_cleaning(clean, CONFIG, True)


def test_a_log_of_no_bytes_is_not_dirty() -> None:
    facts = LogFacts(0, 0, 0, None, [segment(0, size=0)])
    dirt = dirt_of(facts, CONFIG, NOW)
    assert dirt.ratio == 0.0
    assert not wants_cleaning(dirt, CONFIG, True)


@pytest.mark.parametrize(("cleaned", "end"), [(30, 30), (45, 40), (50, 40)])
def test_first_dirty_offset_does_not_go_back_to_the_last_stable_offset(
    cleaned: int, end: int
) -> None:
    dirt = dirt_of(log(stable=5, cleaned=cleaned), CONFIG, NOW)
    assert (dirt.first_dirty, dirt.first_uncleanable, dirt.cleanable_bytes) == (cleaned, end, 0)


@pytest.mark.parametrize(("cleaned", "start"), [(5, 10), (60, 0), (60, 10), (None, 10)])
def test_a_checkpoint_outside_the_log_means_its_start(cleaned: int | None, start: int) -> None:
    assert dirt_of(log(cleaned=cleaned, start=start), CONFIG, NOW).first_dirty == start


def test_the_last_batch_of_a_log_stays() -> None:
    facts = log()._replace(segments=[*SEGMENTS[:3], segment(30, size=0), segment(40, size=0)])
    assert dirt_of(facts, CONFIG, NOW).first_uncleanable == 20
    facts = facts._replace(segments=[segment(0, size=0), segment(10, size=0)])
    assert dirt_of(facts, CONFIG, NOW).first_uncleanable == 0


def test_a_part_of_a_segment_may_be_clean() -> None:
    dirt = dirt_of(log(cleaned=15), CONFIG, NOW)
    assert (dirt.first_dirty, dirt.clean_bytes, dirt.cleanable_bytes) == (15, 200, 300)


@pytest.mark.parametrize(("lag_ms", "end"), [(1, 40), (10_000, 40), (10_001, 30), (99_999, 0)])
def test_young_segments_wait(lag_ms: int, end: int) -> None:
    config = replace(CONFIG, min_compaction_lag_ms=lag_ms)
    assert dirt_of(log(), config, 40_000).first_uncleanable == end
    assert dirt_of(log(stable=15), config, 40_000).first_uncleanable == min(end, 10)
    assert dirt_of(log(), replace(config, min_compaction_lag_ms=1), 30_000).first_uncleanable == 30


def test_without_a_lag_times_do_not_matter() -> None:
    assert dirt_of(log(), CONFIG, now_ms=0).first_uncleanable == 40


def test_old_segments_have_waited_long_enough() -> None:
    config = replace(CONFIG, max_compaction_lag_ms=100)
    assert overdue_ms([NOW - 50, NOW - 130, -1], config, NOW) == 30
    assert overdue_ms([NOW - 100], config, NOW) == 0
    assert overdue_ms([-1], config, NOW) == 0
    assert overdue_ms([1], CONFIG, NOW) == 0
    assert overdue_ms([1], config, NOW) == NOW - 101
    assert overdue_ms([0, NOW - 130], config, NOW) == 30  # Kafka takes no 0 for a time


# ---- groups


def bases(groups: list[list[CleanableSegment]]) -> list[list[int]]:
    return [[member.base_offset for member in group] for group in groups]


def test_groups_fit_one_segment() -> None:
    config = replace(CONFIG, segment_bytes=250)
    assert bases(group_segments(SEGMENTS, config, 50)) == [[0, 10], [20, 30], [40]]
    config = replace(CONFIG, index_size_max_bytes=24)
    assert bases(group_segments(SEGMENTS, config, 50)) == [[0, 10, 20], [30, 40]]
    assert bases(group_segments(SEGMENTS, CONFIG, 50)) == [[0, 10, 20, 30, 40]]
    assert group_segments([], CONFIG, 50) == []


def test_a_group_may_fill_a_segment_and_both_of_its_indexes() -> None:
    config = replace(CONFIG, segment_bytes=200, index_size_max_bytes=24)
    assert bases(group_segments(SEGMENTS, config, 50)) == [[0, 10], [20, 30], [40]]
    config = replace(CONFIG, index_size_max_bytes=24)
    for sizes in ((12, 4), (4, 12)):
        segments = [CleanableSegment(base, 100, *sizes, 0) for base in (0, 10, 20)]
        assert bases(group_segments(segments, config, 50)) == [[0, 10], [20]]


def test_a_segment_larger_than_all_stays_alone() -> None:
    config = replace(CONFIG, segment_bytes=50)
    assert bases(group_segments(SEGMENTS[:2], config, 50)) == [[0], [10]]


def test_offsets_of_a_group_can_stand_in_its_index() -> None:
    far = 2**31
    two = [segment(0), segment(far - 5)]
    assert bases(group_segments(two, CONFIG, far)) == [[0, far - 5]]
    assert bases(group_segments(two, CONFIG, far + 1)) == [[0], [far - 5]]
    three = [segment(0), segment(10), segment(20)]
    assert bases(group_segments(three, CONFIG, far + 20)) == [[0, 10], [20]]
    four = [segment(0), segment(10), segment(far + 10), segment(far + 20)]
    expected = [[0], [10], [far + 10, far + 20]]
    assert bases(group_segments(four, CONFIG, far + 21)) == expected
    empty = [segment(0), segment(far + 5, size=0)]
    assert bases(group_segments(empty, CONFIG, far + 9)) == [[0, far + 5]]


# ---- throttle


def test_throttle() -> None:
    throttle = Throttle(1000, 0)
    assert throttle.observe(300, 100) == 0
    assert throttle.observe(300, 300) == 300  # 600 bytes want 600 ms
    assert throttle.observe(10, 600) == 0
    assert throttle.observe(400, 900) == 110  # since 600, when the wait was over
    assert throttle.observe(300, 1310) == 0  # since 1,010
    assert throttle.observe(600, 1610) == 300
    assert Throttle(1.7e308, 0).observe(2**60, 1000) == 0
    assert Throttle(1000, 5000).observe(30_000, 5300) == 29_700


# ---- the map


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=120),
    st.integers(1, 90),
    st.floats(0.1, 1.0),
)
@settings(max_examples=80, deadline=None)
def test_the_map_against_a_dict(
    puts: list[tuple[int, int]], slots: int, load_factor: float
) -> None:
    offsets = OffsetMap(slots, load_factor)
    assert offsets.slots <= max(slots, 1)
    twin: dict[bytes, int] = {}
    at = 0
    for number, step in puts:
        at += step
        if offsets.is_full:
            break
        key = b"key-%d" % number
        offsets.put(key, at)
        twin[key] = at
        assert offsets.latest_offset == at
    assert offsets.size == len(twin) <= offsets.slots
    assert offsets.utilization == len(twin) / offsets.slots
    for number in range(70):
        key = b"key-%d" % number
        assert offsets.get(key) == twin.get(key, -1)


def test_a_map_is_no_larger_than_needed_or_allowed() -> None:
    assert slots_for(2400, 1_000_000, 0.9) == 100
    assert slots_for(2400, 9, 0.9) == 12
    assert slots_for(0, 9, 0.9) == 1
    assert OffsetMap(slots_for(10**9, 900, 0.9), 0.9).capacity >= 900 * 0.98


def test_a_map_has_a_prime_number_of_slots() -> None:
    wanted = (0, 1, 2, 3, 4, 8, 9, 10, 11, 25, 26, 49, 100)
    assert [OffsetMap(n, 1.0).slots for n in wanted] == [
        *(1, 1, 2, 3, 3, 7, 7, 7, 11, 23, 23, 47, 97)
    ]
    assert [OffsetMap(n, 0.5).capacity for n in (1, 2, 3, 11)] == [1, 1, 1, 5]


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 23, 97])
def test_a_map_without_a_free_slot_still_finds_its_keys_and_no_others(slots: int) -> None:
    offsets = OffsetMap(slots, 1.0)
    keys = [b"key-%d" % number for number in range(2 * slots)]
    for offset, key in enumerate(keys[:slots]):
        assert not offsets.is_full
        offsets.put(key, offset)
    assert offsets.is_full
    assert [offsets.get(key) for key in keys] == [*range(slots), *[-1] * slots]
    for key in keys[:slots]:
        offsets.put(key, 1000)
    assert {offsets.get(key) for key in keys[:slots]} == {1000}
    assert offsets.size == slots
