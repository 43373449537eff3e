"""Handling of SIGTERM and SIGINT during a run: a signal requests a stop, the run stops later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest:
    """The request to stop a run. ``count`` is the number of signals received so far."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.count = 0

    def signal_received(self) -> None:
        self.count += 1
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for a stop request. Return whether there is one."""
        return self._event.wait(seconds)


@contextmanager
def stop_on_signals(
    on_signal: Callable[[], object] = lambda: None, request: StopRequest | None = None
) -> Iterator[StopRequest]:
    """Replace the handlers of SIGTERM and SIGINT within the block.

    Yields the request that each signal is counted in, a new one by default. A signal also calls
    ``on_signal``; it interrupts nothing else."""
    request = StopRequest() if request is None else request

    def handler(*_: object) -> None:
        request.signal_received()
        on_signal()

    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield request
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)
