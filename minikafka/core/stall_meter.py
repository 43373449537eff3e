"""How long the event loop stood still, how often, and which request it served then.

A timer calls ``tick`` every ``tick_ms``. A tick that comes late shows a stall of any cause, which
may have lasted longer by up to one period. The request path calls ``note`` for a request that ran
for ``threshold_ms`` or longer without a pause, so that the next tick can name it.
"""

from __future__ import annotations

from collections import deque

from minikafka.kernel.lazy_dataclass import dataclass

WINDOW_MS = 60_000  # the longest stall is that of the last minute
SLOT_MS = 5_000
HISTOGRAM_MS = (100, 300, 1_000, 3_000, 10_000, 30_000)


@dataclass(frozen=True, slots=True)
class StallMeterConfig:
    """``event.loop.stall.threshold.ms``."""

    threshold_ms: int = 100

    @property
    def tick_ms(self) -> int:
        return max(1, self.threshold_ms // 2)


@dataclass(frozen=True, slots=True)
class NotedRequest:
    """A request that kept the loop busy. ``ran_ms`` is the longest time without a pause."""

    api: str
    client_id: str
    client_host: str
    request_bytes: int
    ran_ms: int


@dataclass(frozen=True, slots=True)
class Stall:
    """The loop stood still for ``stalled_ms``. ``request`` is None if it was no request: a timer,
    the operations of a parked request, or a machine that gave the process no time."""

    stalled_ms: int
    request: NotedRequest | None


@dataclass(slots=True)
class _Slot:
    start_ms: int
    longest_ms: int


class StallMeter:
    """Measures the stalls of one event loop."""

    def __init__(self, config: StallMeterConfig, now_ms: int) -> None:
        self.threshold_ms = config.threshold_ms
        self._tick_ms = config.tick_ms
        self._due_ms = now_ms + config.tick_ms
        self._noted: NotedRequest | None = None  # the longest since the last tick
        self._slots: deque[_Slot] = deque()  # oldest first; bound: WINDOW_MS / SLOT_MS + 1
        self.stalls = 0  # of threshold_ms or longer
        self.at_least = dict.fromkeys(HISTOGRAM_MS, 0)  # the number of stalls so long or longer

    def note(self, request: NotedRequest) -> None:
        """Keep a request that ran for ``threshold_ms`` or longer, if it is the longest one."""
        if self._noted is None or request.ran_ms > self._noted.ran_ms:
            self._noted = request

    def tick(self, now_ms: int) -> Stall | None:
        """Return the stall since the last tick, if it lasted for ``threshold_ms`` or longer."""
        late_ms = now_ms - self._due_ms  # negative for an early tick, which shows no stall
        self._due_ms = now_ms + self._tick_ms
        request, self._noted = self._noted, None
        stalled_ms = late_ms if request is None else max(late_ms, request.ran_ms)
        self._record(stalled_ms, now_ms)
        if stalled_ms < self.threshold_ms:
            return None
        self.stalls += 1
        return Stall(stalled_ms, request)

    def longest_ms(self, now_ms: int) -> int:
        """Return the longest stall of the last ``WINDOW_MS``, to within a slot."""
        self._forget(now_ms)
        return max((slot.longest_ms for slot in self._slots), default=0)

    def _record(self, stalled_ms: int, now_ms: int) -> None:
        self._forget(now_ms)
        if not self._slots or now_ms - self._slots[-1].start_ms >= SLOT_MS:
            self._slots.append(_Slot(now_ms, 0))
        self._slots[-1].longest_ms = max(self._slots[-1].longest_ms, stalled_ms)
        for limit_ms in HISTOGRAM_MS:
            if stalled_ms < limit_ms:
                return
            self.at_least[limit_ms] += 1

    def _forget(self, now_ms: int) -> None:
        while self._slots and now_ms - self._slots[0].start_ms >= WINDOW_MS + SLOT_MS:
            self._slots.popleft()
