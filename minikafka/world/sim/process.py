"""A simulated process: the tasks, timers and resources of a host from its start to its death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

from minikafka.world.sim.loop import OWNER, SimLoop

T = TypeVar("T")

END_PATIENCE_S = (0.001, 1.0, 10.0, 60.0)  # a task that swallows its cancellation gets another


class HostDown(asyncio.CancelledError):
    """A port of a dead process was used. To the code that still unwinds there it is one more
    cancellation: ``finally`` blocks run, but reach nothing."""


class Process:
    """Tasks, timers and resources of one incarnation of a host.

    Every port of the process asks ``check`` first, so that nothing it still does after its death
    (its tasks unwind) can be seen from outside.
    """

    def __init__(self, loop: SimLoop, host: str) -> None:
        self.loop = loop
        self.host = host
        self.alive = True
        self._context = copy_context()
        self._context.run(OWNER.set, self)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._at_death: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise ``HostDown`` if the process is dead."""
        if not self.alive:
            raise HostDown(self.host)

    def context(self) -> Context:
        """Return a new context for a callback or a task of this process."""
        return self._context.copy()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        if not self.alive:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def spawn(self, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as this process. Raises ``HostDown``."""
        if not self.alive:
            coro.close()
        self.check()
        task: asyncio.Task[T] = self.loop.create_task(coro, name=name, context=self.context())
        return task

    def call_later_us(self, delay_us: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.check()
        return self.loop.call_at_us(
            self.loop.now_us + max(0, delay_us), self._fire, callback, context=self.context()
        )

    def _fire(self, callback: Callable[[], None]) -> None:
        if self.alive:
            callback()

    def at_death(self, callback: Callable[[], None]) -> None:
        """``callback`` cuts one port. In the order of registration, before any task ends."""
        self._at_death.append(callback)

    def die(self) -> None:
        """Cut the ports, then cancel the tasks, oldest first. Idempotent."""
        if not self.alive:
            return
        self.alive = False
        for cut in self._at_death:
            cut()
        for task in list(self._tasks):
            task.cancel()

    async def end(self) -> None:
        """After ``die``: returns when every task has ended, which takes no simulated time unless
        a task waits for something in its clean-up. Raises ``RuntimeError`` if some do not end."""
        me = asyncio.current_task()
        for patience_s in END_PATIENCE_S:
            rest = [task for task in self._tasks if task is not me]
            if not rest:
                return
            await asyncio.wait(rest, timeout=patience_s)
            for task in [task for task in self._tasks if task is not me]:
                task.cancel()
        names = ", ".join(task.get_name() for task in self._tasks if task is not me)
        if names:
            raise RuntimeError(f"tasks of the dead process on {self.host} do not end: {names}")
