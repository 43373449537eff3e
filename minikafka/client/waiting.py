"""Waiting for an event, but not for ever; for the end of a task."""

from __future__ import annotations

import asyncio


async def wait_for_event(event: asyncio.Event, timeout_ms: int | None) -> bool:
    """True when the event is set; False when ``timeout_ms`` passed before. None waits on."""
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
    """Cancel it, and return when it has ended, however that was."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
