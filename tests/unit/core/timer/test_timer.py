"""The timer: what fires, when, in which order, and what that costs."""

import gc
import heapq
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import minikafka.core.timer as timer_module
from minikafka.core.timer import Timer, TimerTaskEntry, TimingWheel


def wake_ups(timer: Timer[str]) -> list[tuple[int, list[str]]]:
    """Drive a timer as its reaper does, until it is empty."""
    trace = []
    while (due_ms := timer.next_expiration_ms()) is not None:
        trace.append((due_ms, timer.advance(due_ms)))
    return trace


@pytest.mark.mission("TW-20", "TW-19")
def test_precise_advance_wakes_once_per_bucket_and_never_for_an_empty_tick() -> None:
    timer = Timer[str](start_ms=0, tick_ms=1, wheel_size=1000)
    timer.add("200", 200)
    timer.add("840", 840)
    assert wake_ups(timer) == [(200, ["200"]), (840, ["840"])]


@pytest.mark.mission("TW-20")
def test_with_the_default_wheels_a_wake_up_fires_or_demotes() -> None:
    timer = Timer[str](start_ms=0)
    timer.add("200", 200)
    timer.add("840", 840)
    # 840 lies on level 3 ([800, 1200)), then on level 2 ([840, 860)), which is its own time.
    assert wake_ups(timer) == [(200, ["200"]), (800, []), (840, ["840"])]


@pytest.mark.mission("TW-19")
def test_the_queue_holds_one_item_per_bucket_in_use() -> None:
    timer = Timer[str](start_ms=0)
    for i in range(100):
        timer.add(f"{i}", 3)
        timer.add(f"{i}", 350)
    assert timer.size == 200
    assert timer.queued_buckets == 2
    assert timer.next_expiration_ms() == 3
    assert Timer[str](start_ms=0).next_expiration_ms() is None


@pytest.mark.mission("TW-23")
def test_a_burst_of_due_buckets_is_drained_in_one_pass() -> None:
    timer = Timer[str](start_ms=0)
    for expiration in (9_000, 5, 450, 30, 12, 350, 10_000):
        timer.add(f"{expiration}", expiration)
    assert timer.advance(9_500) == ["5", "12", "30", "350", "450", "9000"]
    assert timer.size == 1
    assert timer.advance(9_999) == []
    assert timer.advance(10_000) == ["10000"]


@pytest.mark.mission("TW-24")
def test_a_due_bucket_is_filed_again_from_the_finest_wheel() -> None:
    timer = Timer[str](start_ms=0)
    due, later = timer.add("due", 400), timer.add("later", 405)
    assert due.bucket is later.bucket
    assert timer.advance(400) == ["due"]
    assert later.bucket is timer.wheel.buckets[5]


@pytest.mark.mission("TW-24")
def test_a_cancelled_task_never_comes_out() -> None:
    timer = Timer[str](start_ms=0)
    for expiration in (0, 5, 30, 450):
        timer.cancel(timer.add("cancelled", expiration))
        timer.add("kept", expiration)
    assert timer.size == 3
    assert timer.advance(1_000) == ["kept"] * 4
    assert timer.size == 0


@pytest.mark.mission("TW-24")
def test_tasks_that_are_due_when_added_come_out_first_in_their_order() -> None:
    timer = Timer[str](start_ms=100)
    timer.add("past", 40)
    timer.add("now", 100)
    timer.add("next", 101)
    assert timer.next_expiration_ms() == 40
    assert timer.advance(101) == ["past", "now", "next"]
    assert timer.advance(101) == []


def test_cancelling_after_the_task_came_out_is_harmless() -> None:
    timer = Timer[str](start_ms=0)
    entry = timer.add("a", 5)
    assert timer.advance(5) == ["a"]
    timer.cancel(entry)
    assert timer.size == 0


def test_a_clock_that_stands_still_or_goes_back_fires_nothing() -> None:
    timer = Timer[str](start_ms=1_000)
    timer.add("a", 1_010)
    assert timer.advance(1_000) == []
    assert timer.advance(0) == []
    assert timer.advance(1_010) == ["a"]


def test_after_an_advance_the_hand_stands_at_now_even_if_nothing_was_due() -> None:
    timer = Timer[str](start_ms=0)
    timer.add("far", 100_000)
    assert timer.advance(1_000) == []
    entry = timer.add("near", 1_005)
    assert entry.bucket is timer.wheel.buckets[1_005 % 20], "on the finest wheel"


TIMER_SOURCE = timer_module.__file__


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of the timer's own code a call executes: work, counted without a stopwatch.

    A garbage collection that falls into the call may run callbacks of others: they do not count."""
    count = 0

    def trace(frame: FrameType, event: Any, arg: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != TIMER_SOURCE:
            return None
        if event == "line":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def add_into(timer: Timer[str], entries: list[TimerTaskEntry[str]]) -> None:
    entries.append(timer.add("y", 30_500))


def advance_into(timer: Timer[str], now_ms: int, out: list[str]) -> None:
    out.extend(timer.advance(now_ms))


@pytest.mark.mission("TW-1", "TW-25")
def test_adding_and_cancelling_cost_the_same_however_many_timers_there_are() -> None:
    costs = []
    for population in (1_000, 100_000):
        timer = Timer[str](start_ms=0)
        for i in range(population):
            timer.add("x", 1 + i * 7919 % 60_000)
        entry: list[TimerTaskEntry[str]] = []
        adding = lines_run(partial(add_into, timer, entry))
        cancelling = lines_run(partial(timer.cancel, entry[0]))
        costs.append((adding, cancelling))
    assert costs[0] == costs[1]
    assert all(cost > 0 for cost in costs[0])


def test_a_garbage_collection_is_no_work_of_the_timer() -> None:
    timer = Timer[str](start_ms=0)
    timer.add("first", 30)  # which makes the second wheel
    collected: list[str] = []

    def noisy(phase: str, info: object) -> None:
        collected.append(phase)

    def with_collection() -> None:
        timer.add("b", 30)
        gc.collect()

    quiet = lines_run(lambda: timer.add("a", 30))
    gc.callbacks.append(noisy)
    try:
        assert lines_run(with_collection) == quiet
    finally:
        gc.callbacks.remove(noisy)
    assert collected


@pytest.mark.mission("TW-25")
def test_a_million_timers_queue_a_few_dozen_buckets() -> None:
    timer = Timer[int](start_ms=0)
    add = timer.add
    for i in range(1_000_000):
        add(i, 1 + i * 7919 % 159_999)
    assert timer.size == 1_000_000
    assert len(timer.levels()) == 4
    assert timer.queued_buckets <= 4 * 20


class WheelAgainstHeap(RuleBasedStateMachine):
    """The wheel and its model, a heap of deadlines, expire the same tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 12_345
        self.timer = Timer[int](start_ms=self.now)
        self.heap: list[tuple[int, int]] = []
        self.entries: dict[int, TimerTaskEntry[int]] = {}
        self.cancelled: set[int] = set()

    @rule(delay=st.one_of(st.integers(-5, 50), st.integers(0, 1_000), st.integers(0, 500_000)))
    def add(self, delay: int) -> None:
        task = len(self.entries)
        self.entries[task] = self.timer.add(task, self.now + delay)
        heapq.heappush(self.heap, (self.now + delay, task))

    @rule(pick=st.integers(0, 10**6))
    def cancel(self, pick: int) -> None:
        if self.entries:
            task = pick % len(self.entries)
            self.timer.cancel(self.entries[task])
            self.cancelled.add(task)

    @rule(step=st.one_of(st.integers(0, 30), st.integers(0, 1_000), st.integers(0, 400_000)))
    def advance(self, step: int) -> None:
        self.now += step
        self.compare()

    @rule()
    def advance_to_the_next_bucket(self) -> None:
        due_ms = self.timer.next_expiration_ms()
        if due_ms is not None:
            self.now = max(self.now, due_ms)
            self.compare()

    def compare(self) -> None:
        expected = []
        while self.heap and self.heap[0][0] <= self.now:
            deadline, task = heapq.heappop(self.heap)
            if task not in self.cancelled:
                expected.append((deadline, task))
        out = self.timer.advance(self.now)
        # Order within one millisecond is not promised; tasks late at their addition come first.
        assert sorted((self.entries[task].expiration_ms, task) for task in out) == expected

    @invariant()
    def pending_tasks_agree(self) -> None:
        waiting = [deadline for deadline, task in self.heap if task not in self.cancelled]
        future = [deadline for deadline in waiting if deadline > self.now]
        assert self.timer.size <= len(waiting)
        assert self.timer.size >= len(future)
        if waiting:
            first = self.timer.next_expiration_ms()
            assert first is not None
            assert first <= max(min(waiting), self.now)

    @invariant()
    def queue_is_bounded_and_consistent(self) -> None:
        wheel: TimingWheel[int] | None = self.timer.wheel
        used = 0
        while wheel is not None:
            for slot, bucket in enumerate(wheel.buckets):
                for entry in bucket:
                    start = bucket.expiration_ms
                    assert start <= entry.expiration_ms < start + wheel.tick_ms
                    assert start // wheel.tick_ms % wheel.wheel_size == slot
                    assert not entry.cancelled
                used += bucket.expiration_ms >= 0
            wheel = wheel.overflow_wheel
        assert self.timer.queued_buckets == used


TestWheelAgainstHeap = WheelAgainstHeap.TestCase
TestWheelAgainstHeap.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWheelAgainstHeap = pytest.mark.mission("TW-13", "TW-22", "TW-24")(TestWheelAgainstHeap)


def test_tasks_of_different_milliseconds_come_out_in_order_of_their_deadlines() -> None:
    timer = Timer[int](start_ms=0)
    deadlines = [1 + i * 7919 % 100_003 for i in range(5_000)]
    for deadline in deadlines:
        timer.add(deadline, deadline)
    assert timer.advance(200_000) == sorted(deadlines)


@pytest.mark.mission("TW-20", "TW-23")
def test_a_clock_that_jumped_far_ahead_costs_no_empty_ticks() -> None:
    """As after the suspension of the machine: the work is that of what waited, not of the time."""
    costs = []
    for away_ms in (86_400_000, 10 * 365 * 86_400_000):
        timer = Timer[str](start_ms=0)
        timer.add("a", 19)
        timer.add("b", 450)
        out: list[str] = []
        costs.append(lines_run(partial(advance_into, timer, away_ms, out)))
        assert out == ["a", "b"]
        assert timer.wheel.current_time_ms == away_ms
        assert timer.next_expiration_ms() is None
    assert costs[0] == costs[1]


def test_the_longest_delay_takes_eight_wake_ups_and_fires_to_the_millisecond() -> None:
    longest = 2**31 - 1
    timer = Timer[str](start_ms=1_234_567)
    timer.add("a", 1_234_567 + longest)
    assert len(timer.levels()) == 8
    trace = wake_ups(timer)
    assert trace[-1] == (1_234_567 + longest, ["a"])
    assert len(trace) <= 8


@pytest.mark.mission("TW-20")
def test_buckets_emptied_by_cancellation_cause_no_expiration() -> None:
    timer = Timer[str](start_ms=0)
    entries = [timer.add("a", expiration) for expiration in (5, 30, 450, 9_000)]
    assert timer.next_expiration_ms() == 5
    for entry in entries:
        entry.cancel()
    assert timer.queued_buckets == 4, "as in Kafka, they leave when their time comes"
    assert timer.next_expiration_ms() is None
    # The same lap still finds them in the queue, and does not put them there again.
    timer.add("b", 455)
    assert timer.queued_buckets == 4
    assert timer.advance(455) == ["b"]


def test_a_timer_that_rested_is_brought_up_to_now_before_the_next_addition() -> None:
    timer = Timer[str](start_ms=0)
    for expiration in (5, 450, 9_000):
        timer.add("a", expiration).cancel()
    timer.catch_up(1_000_000)
    assert timer.queued_buckets == 0
    timer.add("b", 1_000_015)
    assert wake_ups(timer) == [(1_000_015, ["b"])]


def test_catching_up_is_for_a_timer_in_which_nothing_waits() -> None:
    timer = Timer[str](start_ms=0)
    timer.add("a", 5)
    with pytest.raises(AssertionError):
        timer.catch_up(10)


def test_task_already_overdue_when_added_survives_catch_up() -> None:
    timer = Timer[str](start_ms=100)
    timer.add("late", 50)
    timer.catch_up(200)
    assert timer.next_expiration_ms() == 50
    assert timer.advance(200) == ["late"]
