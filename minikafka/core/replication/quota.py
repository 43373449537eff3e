"""A limit on what replication moves in a second, measured over a sliding window (KIP-73)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """Kafka's ``replication.quota.window.*``, ``alter.log.dirs.replication.quota.window.*``."""

    window_num: int = 11
    window_size_seconds: int = 1


@dataclass(slots=True)
class _Sample:
    """The bytes of one window, which began at ``start_ms``; the last came at ``last_ms``."""

    start_ms: int
    last_ms: int
    size: int = 0


class SlidingRate:
    """Bytes a second, by samples of one window each; the youngest ``window_num`` count.

    Kafka's ``SampledStat`` and ``SimpleRate``: a sample counts until nothing of it is within the
    whole span any more, and the time goes from the start of the oldest that counts, but is one
    window at least.
    """

    def __init__(self, config: QuotaConfig) -> None:
        self._window_ms = config.window_size_seconds * 1000
        self._span_ms = config.window_num * self._window_ms
        self._samples: deque[_Sample] = deque()  # oldest first, one at least after ``_counting``
        self._size = 0  # of all samples

    def record(self, size: int, now_ms: int) -> None:
        samples = self._counting(now_ms)
        if now_ms - samples[-1].start_ms >= self._window_ms:
            samples.append(_Sample(now_ms, now_ms))
        samples[-1].size += size
        samples[-1].last_ms = now_ms
        self._size += size

    def per_second(self, now_ms: int) -> float:
        samples = self._counting(now_ms)
        return self._size * 1000 / max(now_ms - samples[0].start_ms, self._window_ms)

    def above_until_ms(self, bytes_per_second: float, now_ms: int) -> int:
        """The time until which the rate stays above the limit if nothing is recorded, or at which
        the oldest sample stops counting, if that is earlier. ``now_ms`` if it is not above."""
        if self.per_second(now_ms) <= bytes_per_second:
            return now_ms
        oldest = self._samples[0]
        gone_ms = oldest.last_ms + self._span_ms
        if bytes_per_second <= 0:
            return gone_ms
        spread_ms = -(-self._size * 1000 // bytes_per_second)  # rounded up
        return min(gone_ms, oldest.start_ms + int(spread_ms))

    def _counting(self, now_ms: int) -> deque[_Sample]:
        """The samples that count; after a long silence a new one."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._span_ms:
            self._size -= samples.popleft().size
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        return samples


class ReplicationQuota:
    """The limit of one side of replication. Kafka's ``ReplicationQuotaManager``, without its list
    of partitions.

    ``limited`` is False while there is no limit; then the other methods need not be called. A limit
    holds on average: the bytes that exceed it are moved, and then none until the rate is back."""

    __slots__ = ("_bytes_per_second", "_rate", "limited")

    def __init__(self, config: QuotaConfig) -> None:
        self._rate = SlidingRate(config)
        self._bytes_per_second = 0
        self.limited = False

    def limit(self, bytes_per_second: int | None) -> None:
        """None lifts it."""
        self.limited = bytes_per_second is not None
        self._bytes_per_second = bytes_per_second or 0

    def record(self, size: int, now_ms: int) -> None:
        if self.limited:
            self._rate.record(size, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.limited and self._rate.per_second(now_ms) > self._bytes_per_second

    def wait_ms(self, now_ms: int) -> int:
        """How long to move nothing before the next look; 0 if the rate is within the limit."""
        if not self.limited:
            return 0
        return self._rate.above_until_ms(self._bytes_per_second, now_ms) - now_ms

    def bytes_per_second(self, now_ms: int) -> float:
        """As measured, while there is a limit."""
        return self._rate.per_second(now_ms) if self.limited else 0.0
