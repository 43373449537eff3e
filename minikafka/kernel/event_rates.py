"""How often a client may cause an event of one kind to be logged: a token bucket for each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass

BURST = 100  # events of one client and cause that are logged without a pause
PERIOD_MS = 1000  # then one in so long
MAX_BUCKETS = 4096

_Key: TypeAlias = tuple[str, Hashable]


@dataclass(slots=True)
class _Bucket:
    """``tokens`` at ``at_ms``; ``suppressed`` counts the events since the last logged one."""

    tokens: float
    at_ms: int
    suppressed: int = 0


class EventRates:
    """The token buckets of all clients and causes. A bucket holds ``burst`` tokens and gets one
    every ``period_ms``; an event that finds none is suppressed.

    At ``max_buckets`` the full ones are dropped, since a new bucket would be as full. While none
    is full, new clients share one bucket for each cause; ``cause`` must therefore be the broker's
    own words, of which there are few.
    """

    def __init__(
        self, burst: int = BURST, period_ms: int = PERIOD_MS, max_buckets: int = MAX_BUCKETS
    ) -> None:
        self._burst = burst
        self._period_ms = period_ms
        self._max_buckets = max_buckets
        self._buckets: dict[_Key, _Bucket] = {}
        self._sweep_at_ms = 0  # no bucket can be dropped earlier

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, client: str, cause: Hashable, now_ms: int) -> int | None:
        """Take a token. Return the number of events of this client and cause that were suppressed
        since the last one that was logged, or None if this one is suppressed, too."""
        bucket = self._bucket((client, cause), now_ms)
        self._fill(bucket, now_ms)
        if bucket.tokens < 1:
            bucket.suppressed += 1
            return None
        bucket.tokens -= 1
        suppressed, bucket.suppressed = bucket.suppressed, 0
        return suppressed

    def _bucket(self, key: _Key, now_ms: int) -> _Bucket:
        found = self._buckets.get(key)
        if found is not None:
            return found
        if len(self._buckets) >= self._max_buckets and not self._sweep(now_ms):
            key = ("", key[1])
        return self._buckets.setdefault(key, _Bucket(self._burst, now_ms))

    def _sweep(self, now_ms: int) -> bool:
        """Drop the full buckets; return whether there is room. The buckets are looked at once a
        period: no attacker with many addresses makes each event cost a sweep."""
        if now_ms < self._sweep_at_ms:
            return False
        self._sweep_at_ms = now_ms + self._period_ms
        for bucket in self._buckets.values():
            self._fill(bucket, now_ms)
        kept = {k: b for k, b in self._buckets.items() if b.tokens < self._burst}
        self._buckets = kept
        return len(kept) < self._max_buckets

    def _fill(self, bucket: _Bucket, now_ms: int) -> None:
        gained = max(0, now_ms - bucket.at_ms) / self._period_ms
        bucket.tokens = min(self._burst, bucket.tokens + gained)
        bucket.at_ms = now_ms
