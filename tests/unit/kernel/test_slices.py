"""Slices: all elements in their order, pauses as the budget says, and none where there are few."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.slices import (
    BUDGET_US,
    LOOK_EVERY,
    LOOKS,
    Slices,
    in_slices,
    run_at_once,
    run_in_slices,
)

# How long each element takes, in microseconds: many cheap ones, and some that take long.
DURATIONS = st.lists(
    st.integers(0, 40) | st.integers(0, 2 * BUDGET_US), max_size=4 * LOOK_EVERY
) | st.builds(
    lambda cheap, dear: [*cheap, *dear],
    st.integers(0, 3 * LOOKS * LOOK_EVERY).map(lambda count: [1] * count),
    st.lists(st.integers(0, BUDGET_US), max_size=50),
)
LOOK_DISTANCES = st.integers(1, 2 * LOOK_EVERY)


class Run:
    """Elements are handled on a loop whose clock goes on by their durations only. ``turns`` has
    the turn of the loop in which each was handled."""

    def __init__(self) -> None:
        self.turns: list[int] = []
        self._turn = 0
        self._now_us = 0

    def handle(self, duration_us: int) -> None:
        self._now_us += duration_us
        self.turns.append(self._turn)

    async def count_turns(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    def loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.time = lambda: self._now_us / 1_000_000  # type: ignore[method-assign]
        return loop

    def slices(self, durations: Sequence[int]) -> list[list[int]]:
        """Return the durations of the elements of each slice."""
        assert len(self.turns) == len(durations)
        pairs = zip(self.turns, durations, strict=True)
        return [[us for _, us in group] for _, group in groupby(pairs, lambda pair: pair[0])]


def handled(durations: Sequence[int], look_every: int) -> list[list[int]]:
    """Handle elements by ``in_slices``; return the durations of those of each slice."""
    run, seen = Run(), list[int]()

    async def main() -> None:
        counter = asyncio.create_task(run.count_turns())
        async for place in in_slices(range(len(durations)), look_every):
            run.handle(durations[place])
            seen.append(place)
        counter.cancel()

    with asyncio.Runner(loop_factory=run.loop) as runner:
        runner.run(main())
    assert seen == list(range(len(durations)))
    return run.slices(durations)


@pytest.mark.mission("SAFE-33")
@given(DURATIONS, LOOK_DISTANCES)
def test_a_slice_keeps_its_budget(durations: list[int], look_every: int) -> None:
    slices = handled(durations, look_every)
    for each in slices:  # without the elements before the first look and after the last one
        assert sum(each[look_every:-look_every]) < BUDGET_US
        assert len(each) <= LOOKS * look_every
    for each in slices[:-1]:  # no pause without need
        assert sum(each[look_every:]) >= BUDGET_US or len(each) == LOOKS * look_every


@given(st.lists(st.integers(0, 10 * BUDGET_US), max_size=LOOK_EVERY))
def test_few_elements_are_one_slice(durations: list[int]) -> None:
    assert handled(durations, LOOK_EVERY) == ([durations] if durations else [])


@given(st.integers(0, 4 * LOOKS * LOOK_EVERY))
def test_where_time_stands_still_the_number_of_elements_decides(count: int) -> None:
    whole, rest = divmod(count, LOOKS * LOOK_EVERY)
    sizes = [len(each) for each in handled([0] * count, LOOK_EVERY)]
    assert sizes == [LOOKS * LOOK_EVERY] * whole + [rest] * (rest > 0)


@given(st.lists(st.lists(st.just(BUDGET_US // 10), max_size=5), max_size=20))
def test_loops_that_lie_in_each_other_share_a_budget(rows: list[list[int]]) -> None:
    run, durations = Run(), [us for row in rows for us in row]

    async def main() -> None:
        counter = asyncio.create_task(run.count_turns())
        slices = Slices()
        for row in rows:
            async for duration_us in slices.over(row):
                run.handle(duration_us)
        counter.cancel()

    with asyncio.Runner(loop_factory=run.loop) as runner:
        runner.run(main())
    assert run.slices(durations) == handled(durations, LOOK_EVERY)


@given(DURATIONS, LOOK_DISTANCES)
def test_steps_pause_as_elements_do(durations: list[int], look_every: int) -> None:
    run = Run()

    def steps() -> Generator[None, None, int]:
        for duration_us in durations:
            run.handle(duration_us)
            yield
        return len(durations)

    async def main() -> int:
        counter = asyncio.create_task(run.count_turns())
        result = await run_in_slices(steps(), look_every=look_every)
        counter.cancel()
        return result

    with asyncio.Runner(loop_factory=run.loop) as runner:
        assert runner.run(main()) == len(durations)
    assert run.slices(durations) == handled(durations, look_every)
    run.turns.clear()
    assert run_at_once(steps()) == len(durations)
