"""A limit on the bytes per second of replication, measured over a sliding window (KIP-73).

The configuration of a topic says which of its replicas are throttled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """Kafka's ``replication.quota.window.*``, ``alter.log.dirs.replication.quota.window.*``."""

    window_num: int = 11
    window_size_seconds: int = 1


@dataclass(slots=True)
class _Sample:
    """The bytes recorded in one window, which began at ``start_ms``. The last bytes were recorded
    at ``last_ms``."""

    start_ms: int
    last_ms: int
    size: int = 0


class SlidingRate:
    """Bytes per second over the last ``window_num`` windows.

    Kafka's ``SampledStat`` and ``SimpleRate``. A sample holds the bytes of one window. It counts
    until its last bytes are as old as the whole span of ``window_num`` windows. The rate is the
    bytes of all samples, divided by the time since the oldest sample began, which is taken as one
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
        """Return the time at which to compare the rate with the limit again.

        That is when the rate falls to ``bytes_per_second`` if nothing more is recorded, or when the
        oldest sample stops counting, whichever is earlier. ``now_ms`` if the rate is not above."""
        if self.per_second(now_ms) <= bytes_per_second:
            return now_ms
        oldest = self._samples[0]
        gone_ms = oldest.last_ms + self._span_ms
        if bytes_per_second <= 0:
            return gone_ms
        spread_ms = -(-self._size * 1000 // bytes_per_second)  # rounded up
        return min(gone_ms, oldest.start_ms + int(spread_ms))

    def _counting(self, now_ms: int) -> deque[_Sample]:
        """Drop the samples that no longer count, and return the others; a new one if none is
        left."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._span_ms:
            self._size -= samples.popleft().size
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        return samples


class ReplicationQuota:
    """The byte rate limit of leaders, of followers, or of moves between log directories.

    Kafka's ``ReplicationQuotaManager``, without its list of throttled partitions. ``limited`` is
    False while no limit is set; then the other methods need not be called. The limit holds on
    average: a transfer may exceed it, and the next one waits until the rate has fallen again."""

    __slots__ = ("_bytes_per_second", "_rate", "limited")

    def __init__(self, config: QuotaConfig) -> None:
        self._rate = SlidingRate(config)
        self._bytes_per_second = 0
        self.limited = False

    def limit(self, bytes_per_second: int | None) -> None:
        """Set the limit; None removes it."""
        self.limited = bytes_per_second is not None
        self._bytes_per_second = bytes_per_second or 0

    @property
    def bytes_per_second_limit(self) -> int | None:
        return self._bytes_per_second if self.limited else None

    def record(self, size: int, now_ms: int) -> None:
        if self.limited:
            self._rate.record(size, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.limited and self._rate.per_second(now_ms) > self._bytes_per_second

    def wait_ms(self, now_ms: int) -> int:
        """Return how many ms to transfer nothing before asking again; 0 within the limit."""
        if not self.limited:
            return 0
        return self._rate.above_until_ms(self._bytes_per_second, now_ms) - now_ms

    def bytes_per_second(self, now_ms: int) -> float:
        """Return the measured rate; 0 while no limit is set, since nothing is measured then."""
        return self._rate.per_second(now_ms) if self.limited else 0.0


ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The value of ``leader.replication.throttled.replicas`` or of
    ``follower.replication.throttled.replicas``: (partition, broker id) of each throttled replica,
    or all replicas if ``everywhere``."""

    replicas: frozenset[tuple[int, int]] = frozenset()
    everywhere: bool = False

    @classmethod
    def parse(cls, items: Iterable[str]) -> ThrottledReplicas:
        """Parse the items of the list: ``partition:broker`` or ``*``. The configuration has
        validated them already."""
        listed = tuple(items)
        if ALL in listed:
            return cls(everywhere=True)
        pairs = (item.split(":") for item in listed)
        return cls(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def includes(self, partition: int, broker_id: int) -> bool:
        return self.everywhere or (partition, broker_id) in self.replicas


NO_REPLICAS: Final = ThrottledReplicas()
