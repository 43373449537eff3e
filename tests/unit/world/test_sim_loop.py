"""The simulated loop: time jumps, order is fixed, and what can never end is said so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from minikafka.world.sim.loop import (
    START_US,
    Deadlock,
    Livelock,
    SimLoop,
    TimeLimitExceeded,
)


def run(main: Coroutine[Any, Any, Any], limit_s: float | None = None) -> Any:
    loop = SimLoop()
    if limit_s is not None:
        loop.limit_us = START_US + round(limit_s * 1_000_000)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


def test_time_jumps_to_the_next_timer_exactly() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        start = loop.time()
        seen = []
        for delay in (0.001, 0.1, 0.2, 86_400.0):
            await asyncio.sleep(delay)
            seen.append(round(loop.time() - start, 6))
        return seen

    assert run(main()) == [0.001, 0.101, 0.301, 86_400.301]


def test_timers_of_one_instant_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        at = loop.time() + 1
        for number in range(500):
            loop.call_at(at, fired.append, number)
        await asyncio.sleep(2)
        return fired

    assert run(main()) == list(range(500))


def test_cancelled_timers_are_swept_and_the_rest_fires_in_order() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        timers = [loop.call_later(1 + n % 7, fired.append, n) for n in range(2000)]
        for timer in timers[::2] + timers[1::4]:
            timer.cancel()
        await asyncio.sleep(10)
        return fired

    kept = [n for n in range(2000) if n % 4 == 3]
    assert run(main()) == sorted(kept, key=lambda n: (n % 7, n))


def test_a_task_group_cancels_its_tasks_in_the_order_they_were_made() -> None:
    ended: list[int] = []

    async def member(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def culprit() -> None:
        await asyncio.sleep(1)
        raise ValueError

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(50):
                tasks.create_task(member(number))
            tasks.create_task(culprit())

    with pytest.raises(ExceptionGroup):
        run(main())
    assert ended == list(range(50))


def test_sets_of_futures_are_walked_in_the_order_they_were_made() -> None:
    async def main() -> None:
        futures = [asyncio.get_running_loop().create_future() for _ in range(50)]
        for future in reversed(futures):
            future.set_result(None)
        done, _ = await asyncio.wait(futures)
        assert list(done) == futures

    run(main())


def test_a_deadlock_names_the_waiting_tasks() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"1 tasks: task-\d+ in .*test_sim_loop.py|Event.wait"):
        run(main())


def test_a_livelock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.world.sim.loop.MAX_TURNS_WITHOUT_PROGRESS", 1000)

    async def main() -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(main())


def test_simulated_time_has_a_limit() -> None:
    async def main() -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitExceeded, match="main"):
        run(main(), limit_s=60)


def test_there_are_no_threads() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="no threads"):
            await asyncio.to_thread(len, "")

    run(main())


def test_asyncio_tools_work_unchanged() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)

        async def produce() -> None:
            for number in range(5):
                await queue.put(number)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(produce())
            for _ in range(5):
                told.append(str(await queue.get()))
        try:
            await asyncio.wait_for(queue.get(), timeout=3600)
        except TimeoutError:
            told.append("late")
        async with asyncio.timeout(1), asyncio.Lock(), asyncio.Semaphore(1):
            await asyncio.gather(*(asyncio.sleep(0.5) for _ in range(3)))
        condition = asyncio.Condition()
        async with condition:
            asyncio.get_running_loop().call_later(1, lambda: asyncio.ensure_future(wake(condition)))
            await condition.wait()
        return told

    async def wake(condition: asyncio.Condition) -> None:
        async with condition:
            condition.notify_all()

    assert run(main()) == ["0", "1", "2", "3", "4", "late"]
