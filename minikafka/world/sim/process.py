"""A simulated process: the tasks, timers and resources of a host from its start to its death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

from minikafka.world.sim.loop import OWNER, SimLoop

T = TypeVar("T")

# Waiting times between cancellations: a task may swallow one, and is then cancelled again.
CANCEL_AGAIN_S = (0.001, 1.0, 10.0, 60.0)


class HostDown(asyncio.CancelledError):
    """Raised when a dead process uses a port. Its tasks are being cancelled, and for them this is
    one more cancellation: their ``finally`` blocks run, but have no effect outside."""


class Process:
    """The tasks, timers and resources of a host between two restarts.

    Every method of the process's ports calls ``check`` first. So nothing that its tasks do while
    they are cancelled after its death can be seen from outside.
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
        """Run a coroutine as a task of this process. Raises ``HostDown``."""
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
        """Call ``callback`` when the process dies, before its tasks are cancelled. Callbacks close
        the process's ports and are called in the order of registration."""
        self._at_death.append(callback)

    def die(self) -> None:
        """Close the ports, then cancel the tasks, oldest first. Do nothing if already dead."""
        if not self.alive:
            return
        self.alive = False
        for close_port in self._at_death:
            close_port()
        for task in list(self._tasks):
            task.cancel()

    async def end(self) -> None:
        """Wait after ``die`` until every task has ended. This takes no simulated time unless a
        ``finally`` block waits. Raises ``RuntimeError`` if a task does not end."""
        current = asyncio.current_task()
        for pause_s in CANCEL_AGAIN_S:
            rest = [task for task in self._tasks if task is not current]
            if not rest:
                return
            await asyncio.wait(rest, timeout=pause_s)
            for task in [task for task in self._tasks if task is not current]:
                task.cancel()
        names = ", ".join(task.get_name() for task in self._tasks if task is not current)
        if names:
            raise RuntimeError(f"tasks of the dead process on {self.host} do not end: {names}")
