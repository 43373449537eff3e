"""What every Clock keeps to."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from minikafka.kernel.ports import World

if TYPE_CHECKING:
    from tests.contract.conftest import Play

JANUARY_2026_MS = 1_767_225_600_000
SLACK_MS = 1  # both ends of a measured time are cut to whole milliseconds


def test_monotonic_time_never_goes_back(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        seen = [world.clock.monotonic_ms()]
        for _turn in range(5):
            await world.clock.sleep(1)
            seen.append(world.clock.monotonic_ms())
        assert seen == sorted(seen)
        assert all(type(ms) is int for ms in seen)

    play(body)


def test_wall_time_is_milliseconds_since_1970(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        assert type(world.clock.wall_ms()) is int
        assert world.clock.wall_ms() >= JANUARY_2026_MS

    play(body)


def test_sleep_lasts_at_least_the_requested_time(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        start_ms = world.clock.monotonic_ms()
        await world.clock.sleep(30)
        assert world.clock.monotonic_ms() - start_ms >= 30 - SLACK_MS

    play(body)


def test_timers_fire_in_order_of_their_time_and_not_early(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        start_ms = world.clock.monotonic_ms()
        fired: list[tuple[int, int]] = []
        last = asyncio.Event()

        def fire(delay_ms: int) -> None:
            fired.append((delay_ms, world.clock.monotonic_ms() - start_ms))
            if delay_ms == 40:
                last.set()

        for delay_ms in (40, 5, 20):
            world.clock.call_later(delay_ms, partial(lambda delay_ms: fire(delay_ms), delay_ms))
        await last.wait()
        assert [delay_ms for delay_ms, _ in fired] == [5, 20, 40]
        assert all(after_ms >= delay_ms - SLACK_MS for delay_ms, after_ms in fired)

    play(body)


def test_a_timer_of_no_delay_fires_after_the_present_step(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        fired = asyncio.Event()
        world.clock.call_later(0, fired.set)
        assert not fired.is_set()
        await fired.wait()

    play(body)


def test_a_cancelled_timer_never_fires_and_may_be_cancelled_again(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        fired: list[str] = []
        done = asyncio.Event()
        timer = world.clock.call_later(5, lambda: fired.append("cancelled"))
        world.clock.call_later(20, done.set)
        timer.cancel()
        timer.cancel()
        await done.wait()
        assert fired == []

    play(body)


def test_asyncio_timeouts_follow_the_same_time(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        start_ms = world.clock.monotonic_ms()
        try:
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()
        except TimeoutError:
            assert world.clock.monotonic_ms() - start_ms >= 20 - SLACK_MS
        else:
            raise AssertionError("no time-out")

    play(body)
