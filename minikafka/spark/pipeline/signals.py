"""SIGTERM and SIGINT as a wish to end, which a run heeds when it can."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest:
    """``count`` of signals that have come."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.count = 0

    def ask(self) -> None:
        self.count += 1
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Whether it was asked, at once or within that time."""
        return self._event.wait(seconds)


@contextmanager
def asked_to_stop(at_once: Callable[[], object] = lambda: None) -> Iterator[StopRequest]:
    """Within the block a signal asks, calls ``at_once``, and does nothing else."""
    request = StopRequest()

    def on_signal(*_: object) -> None:
        request.ask()
        at_once()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
