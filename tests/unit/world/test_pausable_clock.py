"""Timers of a broker that is paused."""

from __future__ import annotations

import asyncio
import gc

import pytest

from minikafka.world.memory.pausable_clock import PausableClock
from minikafka.world.real.world import RealClock
from tests.support.world.manual_clock import ManualClock


@pytest.mark.mission("IN-90")
def test_timers_that_are_due_in_a_pause_fire_after_it_in_order() -> None:
    below = ManualClock()
    clock = PausableClock(below)
    fired: list[str] = []
    clock.call_later(10, lambda: fired.append("early"))
    clock.call_later(20, lambda: fired.append("late"))
    clock.call_later(90, lambda: fired.append("after"))
    gone = clock.call_later(15, lambda: fired.append("cancelled"))
    clock.pause()
    below.advance(50)
    gone.cancel()
    assert fired == []
    assert clock.monotonic_ms() == 50
    clock.resume()
    below.advance(0)
    assert fired == ["early", "late"]
    below.advance(40)
    assert fired == ["early", "late", "after"]


@pytest.mark.mission("IN-90")
def test_no_timer_fires_after_the_end() -> None:
    below = ManualClock()
    clock = PausableClock(below)
    fired: list[str] = []
    clock.call_later(5, lambda: fired.append("during the pause"))
    clock.call_later(50, lambda: fired.append("later"))
    clock.pause()
    below.advance(10)
    clock.end()
    clock.resume()
    below.advance(100)
    assert fired == []


@pytest.mark.mission("IN-90")
async def test_a_sleep_ends_after_the_pause() -> None:
    below = ManualClock()
    clock = PausableClock(below)
    clock.pause()
    sleeping = [asyncio.ensure_future(clock.sleep(ms)) for ms in (0, 5)]
    await asyncio.sleep(0)
    below.advance(10)
    await asyncio.sleep(0)
    assert not any(each.done() for each in sleeping)
    clock.resume()
    below.advance(0)
    await asyncio.gather(*sleeping)
    await clock.sleep(0)


@pytest.mark.mission("SAFE-81")
async def test_a_timer_that_has_fired_is_no_cycle() -> None:
    clock = PausableClock(RealClock())

    def timers() -> int:  # of this clock: clusters in other threads have theirs
        held = [each for each in gc.get_objects() if type(each).__name__ == "_HeldTimer"]
        return sum(each._pausable is clock for each in held)

    gc.disable()
    try:
        fired = asyncio.Event()
        clock.call_later(0, fired.set)
        assert timers() == 1
        await fired.wait()
        await asyncio.sleep(0)
        assert timers() == 0
    finally:
        gc.enable()
