"""Measures, counts and logs the stalls of a broker's event loop.

All requests of a broker share one event loop, so loops over many elements pause (``kernel/slices``)
and what takes longer goes to a worker. A stall that lasts longer than the ZooKeeper session ends
the session: ``world/real/zookeeper`` closes it from kazoo's thread. Until the loop runs again, the
broker is a zombie like a JVM after a pause: its writes to ZooKeeper are refused, its controller
epoch is stale, and followers no longer fetch from it. Then it resigns and registers as after any
expiry.
"""

from __future__ import annotations

from collections.abc import Callable

from minikafka.core.stall_meter import Stall, StallMeter, StallMeterConfig
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, TimerHandle

GROUP = "minikafka.server:type=EventLoop"  # Kafka has no such metrics, and so no group for them


class LoopStalls:
    """Drives a ``StallMeter`` by a timer, from ``start`` until ``close``.

    A stall of ``event.loop.stall.threshold.ms`` or longer is logged, with the request that ran
    then. Metrics: the longest stall of the last minute, the number of stalls above the threshold,
    and for each bound of a histogram the number of stalls that lasted at least so long.
    """

    def __init__(
        self, clock: Clock, config: StallMeterConfig, metrics: Metrics, broker_id: int
    ) -> None:
        self.meter = StallMeter(config, clock.monotonic_ms())
        self._clock = clock
        self._tick_ms = config.tick_ms
        self._log = event_log("loop", broker=broker_id)
        self._timer: TimerHandle | None = None
        meter = self.meter
        metrics.gauge(f"{GROUP},name=StallMaxMs", lambda: meter.longest_ms(clock.monotonic_ms()))
        metrics.gauge(f"{GROUP},name=StallsPerSec", lambda: meter.stalls)
        for limit_ms in meter.at_least:
            metrics.gauge(f"{GROUP},name=Stalls,atLeastMs={limit_ms}", _at_least(meter, limit_ms))

    def start(self) -> None:
        self._timer = self._clock.call_later(self._tick_ms, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        stall = self.meter.tick(self._clock.monotonic_ms())
        if stall is not None:
            self._report(stall)
        self._timer = self._clock.call_later(self._tick_ms, self._tick)

    def _report(self, stall: Stall) -> None:
        request = stall.request
        if request is None:
            self._log.warning("loop_stalled", stalled_ms=stall.stalled_ms)
            return
        self._log.warning(
            "loop_stalled",
            stalled_ms=stall.stalled_ms,
            api=request.api,
            client=request.client_host,
            client_id=request.client_id,
            request_bytes=request.request_bytes,
            ran_ms=request.ran_ms,
        )


def _at_least(meter: StallMeter, limit_ms: int) -> Callable[[], float]:
    return lambda: meter.at_least[limit_ms]
