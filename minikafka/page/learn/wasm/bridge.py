"""The session of a browser tab: requests and responses are JSON, as on the server of learn mode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from minikafka.page.learn.session import Session


def leave_pyodides_loop() -> None:
    """Let simulations run their own loops.

    Pyodide marks its loop, which runs callbacks of the browser, as the running one for good, and
    asyncio runs no loop inside another. The worker calls Python synchronously and waits for
    nothing, so no code needs Pyodide's loop. ``_set_running_loop`` is what asyncio exports for
    authors of loops.
    """
    asyncio._set_running_loop(None)


def open_session(wall_ms: Callable[[], float]) -> Callable[[str], str]:
    """Return what carries out a request: it takes the JSON of one, and returns that of a list of
    messages. ``wall_ms`` is the browser's clock."""
    leave_pyodides_loop()
    session = Session(wall_ms)

    def carry_out(request: str) -> str:
        return json.dumps(session.request(json.loads(request)))

    return carry_out
