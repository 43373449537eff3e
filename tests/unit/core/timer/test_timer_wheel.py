"""The wheels: slots, levels, and the worked numbers of the source documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.timer import (
    ExpirationQueue,
    TaskCounter,
    Timer,
    TimerTaskEntry,
    TimerTaskList,
    TimingWheel,
)


def wheel_at(start_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> TimingWheel[str]:
    return TimingWheel(start_ms, ExpirationQueue(), TaskCounter(), tick_ms, wheel_size)


def place(timer: Timer[str], entry: TimerTaskEntry[str]) -> tuple[int, int, int] | None:
    """(level, slot, the bucket's expiration) of an entry; None once it is out."""
    level = 1
    wheel: TimingWheel[str] | None = timer.wheel
    while wheel is not None:
        for slot, bucket in enumerate(wheel.buckets):
            if entry.bucket is bucket:
                return level, slot, bucket.expiration_ms
        level, wheel = level + 1, wheel.overflow_wheel
    return None


@pytest.mark.mission("TW-5", "TW-3")
def test_the_finest_wheel_has_twenty_slots_of_one_millisecond() -> None:
    wheel = Timer[str](start_ms=0).wheel
    assert (wheel.tick_ms, wheel.wheel_size, wheel.interval_ms) == (1, 20, 20)
    assert len(wheel.buckets) == 20


@pytest.mark.mission("TW-2", "TW-26")
def test_timer_queues_one_task_list_for_all_tasks_of_a_bucket() -> None:
    timer = Timer[str](start_ms=0)
    assert all(isinstance(bucket, TimerTaskList) for bucket in timer.wheel.buckets)
    entries = [timer.add(name, 5) for name in ("a", "b", "c")]
    assert {entry.bucket for entry in entries} == {timer.wheel.buckets[5]}
    assert timer.queued_buckets == 1
    assert timer.advance(5) == ["a", "b", "c"]


@pytest.mark.mission("TW-3")
def test_the_dump_shows_ticks_sizes_and_intervals() -> None:
    timer = Timer[str](start_ms=0)
    timer.add("near", 3)
    timer.add("far", 350)
    dump = timer.levels()
    assert [(row.level, row.tick_ms, row.wheel_size, row.interval_ms) for row in dump] == [
        (1, 1, 20, 20),
        (2, 20, 20, 400),
    ]
    assert dump[0].tasks_by_slot[3] == 1
    assert dump[1].tasks_by_slot[17] == 1
    assert sum(dump[0].tasks_by_slot) == sum(dump[1].tasks_by_slot) == 1


@pytest.mark.mission("TW-4", "TW-17")
@given(
    start=st.integers(0, 10**7),
    steps=st.lists(st.integers(0, 30_000), max_size=20),
    reach=st.integers(0, 10**6),
)
def test_the_hand_is_always_a_multiple_of_the_tick_on_every_level(
    start: Any, steps: Any, reach: Any
) -> None:
    timer = Timer[str](start_ms=start)
    timer.add("far", start + reach)
    now = start
    for step in [0, *steps]:
        now += step
        timer.wheel.advance_clock(now)
        wheel: TimingWheel[str] | None = timer.wheel
        while wheel is not None:
            assert wheel.current_time_ms == now - now % wheel.tick_ms
            assert wheel.end_ms == wheel.current_time_ms + wheel.interval_ms
            wheel = wheel.overflow_wheel


def test_the_hand_never_goes_back() -> None:
    wheel = wheel_at(1000)
    for earlier_ms in (999, 400):
        wheel.advance_clock(earlier_ms)
        assert wheel.current_time_ms == 1000


@pytest.mark.mission("TW-4")
def test_the_slot_that_the_hand_points_at_is_due() -> None:
    timer = Timer[str](start_ms=100)
    timer.add("now", 100)
    timer.add("next", 101)
    assert timer.size == 1
    assert timer.advance(100) == ["now"]
    assert timer.advance(101) == ["next"]


@pytest.mark.mission("TW-6", "TW-7", "TW-8")
def test_slots_of_the_worked_example_and_their_reuse() -> None:
    timer = Timer[str](start_ms=0)
    assert place(timer, timer.add("2 ms", 2)) == (1, 2, 2)
    assert timer.advance(2) == ["2 ms"]
    assert place(timer, timer.add("8 ms", 2 + 8)) == (1, 10, 10)
    assert place(timer, timer.add("19 ms", 2 + 19)) == (1, 1, 21)


@pytest.mark.mission("TW-9")
@pytest.mark.parametrize("start", [0, 1, 7, 19, 20, 399, 12_345])
def test_a_wheel_serves_from_its_hand_up_to_its_interval(start: int) -> None:
    timer = Timer[str](start_ms=start)
    assert place(timer, timer.add("due", start)) is None
    for offset in range(1, 20):
        assert place(timer, timer.add("in", start + offset)) == (
            1,
            (start + offset) % 20,
            start + offset,
        )
    level, _, _ = place(timer, timer.add("beyond", start + 20)) or (0, 0, 0)
    assert level == 2


@pytest.mark.mission("TW-10", "TW-18")
def test_upper_levels_come_on_demand_and_hang_from_the_one_below() -> None:
    timer = Timer[str](start_ms=0)
    assert timer.wheel.overflow_wheel is None
    timer.add("a", 19)
    assert timer.wheel.overflow_wheel is None
    timer.add("b", 20)
    second = timer.wheel.overflow_wheel
    assert second is not None
    assert (second.tick_ms, second.wheel_size, second.interval_ms) == (20, 20, 400)
    assert second.overflow_wheel is None
    timer.add("c", 400)
    third = second.overflow_wheel
    assert third is not None
    assert (third.tick_ms, third.wheel_size, third.interval_ms) == (400, 20, 8000)
    assert third.overflow_wheel is None
    # The timer itself refers to the finest wheel only.
    assert [name for name in Timer.__slots__ if "wheel" in name] == ["wheel"]


@pytest.mark.mission("TW-11")
def test_350_ms_goes_to_slot_17_of_level_2() -> None:
    timer = Timer[str](start_ms=0)
    assert place(timer, timer.add("350", 350)) == (2, 17, 340)


@pytest.mark.mission("TW-12")
def test_450_ms_shares_slot_1_of_level_3_with_its_neighbours() -> None:
    timer = Timer[str](start_ms=0)
    first = timer.add("450", 450)
    assert place(timer, first) == (3, 1, 400)
    for expiration in (400, 446, 455, 473, 799):
        assert timer.add("neighbour", expiration).bucket is first.bucket
    assert timer.add("800", 800).bucket is not first.bucket
    assert timer.queued_buckets == 2


@pytest.mark.mission("TW-13")
def test_demotion_level_by_level_until_it_fires() -> None:
    timer = Timer[str](start_ms=0)
    entry = timer.add("450", 450)
    moves = [place(timer, entry)]
    fired_at = None
    while fired_at is None:
        now = timer.next_expiration_ms()
        assert now is not None
        if timer.advance(now) == ["450"]:
            fired_at = now
        moves.append(place(timer, entry))
    assert moves == [(3, 1, 400), (2, 2, 440), (1, 10, 450), None]
    assert fired_at == 450


@pytest.mark.mission("TW-16")
def test_an_upper_wheel_starts_at_the_lower_hand_trimmed_to_its_tick() -> None:
    timer = Timer[str](start_ms=1234)
    timer.add("far", 1234 + 500)
    second = timer.wheel.overflow_wheel
    assert second is not None
    assert second.overflow_wheel is not None
    assert timer.wheel.current_time_ms == 1234
    assert second.current_time_ms == 1220
    assert second.overflow_wheel.current_time_ms == 1200
    timer.advance(5_000)
    timer.add("farther", 5_000 + 10_000)
    fourth = second.overflow_wheel.overflow_wheel
    assert fourth is not None
    assert fourth.current_time_ms == 0  # 5000 - 5000 % 8000
    assert wheel_at(1234, tick_ms=20).current_time_ms == 1220


@pytest.mark.mission("TW-17")
def test_advancing_cascades_to_every_level() -> None:
    wheel = wheel_at(0)
    wheel.add(TimerTaskEntry("far", 5_000))
    wheel.advance_clock(4_433)
    second = wheel.overflow_wheel
    assert second is not None
    assert second.overflow_wheel is not None
    hands = (
        wheel.current_time_ms,
        second.current_time_ms,
        second.overflow_wheel.current_time_ms,
    )
    assert hands == (4_433, 4_420, 4_400)


class TestTheFourBranchesOfAdd:
    @pytest.mark.mission("TW-22")
    def test_cancelled(self) -> None:
        wheel = wheel_at(0)
        entry = TimerTaskEntry("a", 5)
        entry.cancel()
        assert not wheel.add(entry)
        assert wheel.counter.value == 0
        assert len(wheel.queue) == 0

    @pytest.mark.mission("TW-22")
    @pytest.mark.parametrize("expiration", [0, 39, 40, 59])
    def test_expired(self, expiration: int) -> None:
        wheel = wheel_at(40, tick_ms=20)
        assert not wheel.add(TimerTaskEntry("a", expiration))
        assert wheel.counter.value == 0
        assert wheel.add(TimerTaskEntry("b", 60))

    @pytest.mark.mission("TW-22")
    def test_within_the_interval_and_queued_once_per_lap(self) -> None:
        wheel = wheel_at(0, tick_ms=20)
        for expiration in (45, 50, 59):
            entry = TimerTaskEntry("a", expiration)
            assert wheel.add(entry)
            assert entry.bucket is wheel.buckets[2]
        assert wheel.buckets[2].expiration_ms == 40
        assert len(wheel.queue) == 1
        # The next lap queues the same bucket again, under a new expiration.
        bucket = wheel.queue.pop_due(40)
        assert bucket is wheel.buckets[2]
        wheel.advance_clock(60)
        bucket.drain()
        assert wheel.add(TimerTaskEntry("b", 445))
        assert list(bucket)
        assert bucket.expiration_ms == 440
        assert wheel.queue.first_expiration_ms() == 440

    @pytest.mark.mission("TW-22")
    def test_beyond_the_interval(self) -> None:
        wheel = wheel_at(0)
        entry = TimerTaskEntry("a", 20)
        assert wheel.add(entry)
        assert wheel.overflow_wheel is not None
        assert entry.bucket is wheel.overflow_wheel.buckets[1]
