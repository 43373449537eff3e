"""An event loop in another thread, for callers that block."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from minikafka.world.real.loop import RealLoop

T = TypeVar("T")

# Signals that end a process are for the main thread, which may be waiting for them.
FOR_MAIN_THREAD: Final = frozenset({signal.SIGINT, signal.SIGTERM})


class LoopThread:
    """Runs a ``RealLoop`` from ``start`` to ``stop``. ``begun`` is called on the loop's thread
    before the loop runs."""

    def __init__(self, name: str, begun: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._begun = begun
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    @property
    def is_current(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name=self._name, daemon=True
        )
        self._thread.start()
        ready.result()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the context of the caller, and return its result."""
        assert self._loop is not None, "call start() before call()"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """End the loop as it is: tasks that still run are not cancelled."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _run(self, ready: Future[None]) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_MAIN_THREAD)
        loop = RealLoop()
        asyncio.set_event_loop(loop)
        try:
            self._begun()
            self._loop = loop
            loop.call_soon(ready.set_result, None)
            loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            loop.close()
