"""Python's side of the worker of a browser tab."""

from __future__ import annotations

import asyncio


def leave_pyodides_loop() -> None:
    """Let simulations run their own loops.

    Pyodide marks its loop, which runs callbacks of the browser, as the running one for good, and
    asyncio runs no loop inside another. The worker calls Python synchronously and waits for
    nothing, so no code needs Pyodide's loop. ``_set_running_loop`` is what asyncio exports for
    authors of loops.
    """
    asyncio._set_running_loop(None)
