"""Waits with a time-out: for an event, and for the end of a cancelled task."""

from __future__ import annotations

import asyncio


async def wait_for_event(event: asyncio.Event, timeout_ms: int | None) -> bool:
    """Wait for an event; return False if ``timeout_ms`` passes first. None waits without limit."""
    if event.is_set():
        return True
    if timeout_ms is None:
        await event.wait()
        return True
    if timeout_ms <= 0:
        return False
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait until it has ended. Its exception is not raised."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
