"""Begins the windows of a node's histograms."""

from __future__ import annotations

from minikafka.kernel.metrics import WINDOW_MS, Metrics
from minikafka.kernel.ports import Clock, TimerHandle


class MetricWindows:
    """Rotates the histograms every ``WINDOW_MS``, from ``start`` until ``close``."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(WINDOW_MS, self._rotate)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rotate(self) -> None:
        self._metrics.rotate()
        self.start()
