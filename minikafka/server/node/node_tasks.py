"""The task group of a broker node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NodeTasks(asyncio.TaskGroup):
    """A task group that cancels the tasks which are started while it ends.

    When a task fails, the group ends at once, in the middle of a turn of the loop. Connections are
    still open then: their callbacks serve requests, and start tasks for these, until the process
    exits. ``asyncio.TaskGroup`` would raise RuntimeError in the callbacks.
    """

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None
    ) -> asyncio.Task[T]:
        """Start a task. If the group ends, return a cancelled one, of which nothing has run."""
        try:
            return super().create_task(coro, name=name)
        except RuntimeError:
            coro.close()
            task = asyncio.get_running_loop().create_task(_never(), name=name)
            task.cancel()
            return task


async def _never() -> Any:
    """Return nothing: the task is cancelled before."""
