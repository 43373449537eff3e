"""Waits of an open-loop load by the interval in which each was due, and figures over intervals.

A wait is counted from the time at which a request was due, not from the time at which the client
came to send it: a server that stands still for a second delays all requests of that second.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

SHARES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


class Waits:
    """All waits (ms) of a run, by stream and interval. ``began`` is set when the load begins."""

    def __init__(self, interval_s: float) -> None:
        self.began, self.interval_s = time.monotonic(), interval_s
        self._by_stream: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, stream: str, due: float, done: float) -> None:
        interval = int((due - self.began) / self.interval_s)
        self._by_stream[stream][interval].append((done - due) * 1000)

    @property
    def streams(self) -> list[str]:
        return sorted(self._by_stream)

    def of(self, stream: str, interval: int) -> list[float]:
        """Return the waits of an interval, sorted."""
        return sorted(self._by_stream[stream].get(interval, ()))

    def all_of(self, stream: str) -> list[float]:
        intervals = list(self._by_stream[stream].values())
        return sorted(wait for waits in intervals for wait in waits)


def due_times(per_second: float, began: float, stop: threading.Event) -> Iterator[float]:
    """Yield when each request is due. The caller waits; one that is late finds the next at once."""
    number = 0
    while not stop.is_set():
        yield began + number / per_second
        number += 1


def sleep_until(due: float, stop: threading.Event) -> None:
    left = due - time.monotonic()
    if left > 0:
        stop.wait(left)


def drift(values: Sequence[float]) -> float:
    """Return the median of the last quarter over that of the first; 1 of fewer than four."""
    quarter = len(values) // 4
    if not quarter:
        return 1.0
    first = median(values[:quarter])
    return median(values[-quarter:]) / first if first else 1.0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line of least squares through points; 0 of fewer than two."""
    if len(points) < 2:
        return 0.0
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    both = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return both / spread if spread else 0.0
