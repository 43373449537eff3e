"""The simulated event loop: asyncio's own, except that its clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, NoReturn, Protocol, cast

START_US = 1_000_000_000
MAX_LISTED_TASKS = 20
MIN_CANCELLED_TO_SWEEP = 128
MAX_TURNS_WITHOUT_PROGRESS = 1_000_000


class Deadlock(RuntimeError):
    """All tasks wait and no timer is set."""


class TimeLimitExceeded(RuntimeError):
    """The simulated time has passed the limit that was set."""


class Livelock(RuntimeError):
    """The loop has run many turns without progress of simulated time."""


class TaskOwner(Protocol):
    """The owner of the tasks created in a context."""

    def adopt(self, task: asyncio.Task[Any]) -> None: ...


OWNER: ContextVar[TaskOwner | None] = ContextVar("owner", default=None)


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order in every run.

    ``asyncio.TaskGroup`` keeps its tasks in a set and cancels them in the order of that set.
    """

    def __init__(self, coroutine: Any, *, loop: SimLoop, number: int, context: Context | None):
        self.number = number  # set first: asyncio registers the task by its hash
        super().__init__(coroutine, loop=loop, name=f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its number, because ``asyncio.wait`` uses sets of futures."""

    def __init__(self, *, loop: SimLoop, number: int) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.BaseEventLoop):
    """An asyncio loop without sockets and threads, which never blocks. Its time is in whole
    microseconds. Of two timers that are due at the same time, the one that was set first fires
    first.

    It replaces ``asyncio.BaseEventLoop._run_once``, one turn of the loop, and relies on its
    ``_ready`` and ``_stopping``; the three are unchanged since Python 3.4. ``run_until_complete``
    raises ``Deadlock``, ``Livelock`` and ``TimeLimitExceeded``.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now_us = START_US
        self.limit_us: int | None = None  # the time after which the loop raises TimeLimitExceeded
        self._pause_us: int | None = None  # where ``run_slice`` ends
        self.unhandled: list[
            dict[str, Any]
        ] = []  # asyncio's contexts of exceptions that callbacks raised
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []  # a heap: due, number
        self._cancelled_timers = 0
        self._numbers = 0
        self._turns = 0
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note_unhandled)

    def time(self) -> float:
        return self.now_us / 1_000_000

    def run_slice(self, until_us: int) -> bool:
        """Run all that is due until ``until_us``, set the time to it and return True; return False
        if ``stop`` was called before.

        A slice sets no timer and leaves no trace: a simulation that runs in slices equals one that
        runs to the same time at once.
        """
        assert until_us >= self.now_us
        self._pause_us = until_us
        try:
            self.run_forever()
        finally:
            paused, self._pause_us = self._pause_us is None, None
        return paused

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self, number=self._next_number())

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        # Round up, so that no timer fires early. The subtraction corrects float rounding errors.
        when_us = math.ceil(when * 1_000_000 - 0.01)
        return self.call_at_us(when_us, callback, *args, context=context)

    def call_at_us(
        self,
        when_us: int,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("the loop is closed")
        timer = asyncio.TimerHandle(when_us / 1_000_000, callback, args, self, context)
        heapq.heappush(self._timers, (when_us, self._next_number(), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer; if there are many, remove them from the heap.

        asyncio also calls this for timers that have fired, so the count may be too high.
        """
        self._cancelled_timers += 1
        if self._cancelled_timers > max(MIN_CANCELLED_TO_SWEEP, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> NoReturn:
        raise RuntimeError(f"no threads in a simulation: {func!r}")

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        timers, now_us = self._timers, self.now_us
        while timers and timers[0][0] <= now_us:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        self._turns += 1
        if self._turns > MAX_TURNS_WITHOUT_PROGRESS:
            self._turns = 0
            raise Livelock(
                f"{MAX_TURNS_WITHOUT_PROGRESS} turns at {self.seconds():.6f} s: "
                f"{self._waiting_tasks()}"
            )

    def _jump(self) -> None:
        """Move the time to the next timer that is not cancelled, or to the end of the slice.

        Raises ``Deadlock`` if there is none, ``TimeLimitExceeded`` past the limit.
        """
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if self._pause_us is not None and not (timers and timers[0][0] <= self._pause_us):
            self.now_us, self._pause_us = self._pause_us, None
            self.stop()
            return
        if not timers:
            raise Deadlock(f"{self.seconds():.6f} s in, no timer is set: {self._waiting_tasks()}")
        if timers[0][0] > self.now_us:
            self.now_us = timers[0][0]
            self._turns = 0
        if self.limit_us is not None and self.now_us > self.limit_us:
            self.limit_us = None  # the clean-up that follows has no limit
            raise TimeLimitExceeded(f"{self.seconds():.3f} s in: {self._waiting_tasks()}")

    def seconds(self) -> float:
        """Return the simulated seconds since the start."""
        return (self.now_us - START_US) / 1_000_000

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _write_to_self(self) -> None:
        """Do nothing: the loop never blocks, so it need not be woken."""

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Any,
        context: Context | None = None,
        name: str | None = None,
        **_: Any,
    ) -> SimTask:
        """Create a task. Python 3.14 passes its name; older releases set the name afterwards."""
        task = SimTask(coroutine, loop=self, number=self._next_number(), context=context)
        if name is not None:
            task.set_name(name)
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is not None:
            owner.adopt(task)
        return task

    def _waiting_tasks(self) -> str:
        tasks = sorted(cast("set[SimTask]", asyncio.all_tasks(self)), key=hash)
        listed = [f"{task.get_name()} in {_place(task)}" for task in tasks[:MAX_LISTED_TASKS]]
        return f"{len(tasks)} tasks: {', '.join(listed)}"

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), asyncio.CancelledError):
            return  # a callback of a dead process
        self.unhandled.append(context)
        self.default_exception_handler(context)


def _place(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    if not frames:
        return "its first step"
    code = frames[-1].f_code
    return f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frames[-1].f_lineno})"
