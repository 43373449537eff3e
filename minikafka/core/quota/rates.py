"""Rates over a sliding window of samples, and the throttle time that brings a rate to its limit."""

from __future__ import annotations

import math
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass

# The longest throttle time: a response has 31 bits for it.
MAX_THROTTLE_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RateConfig:
    """Kafka's ``quota.window.num`` and ``quota.window.size.seconds``, or those of
    ``controller.quota``."""

    window_num: int = 11
    window_size_seconds: int = 1

    @property
    def window_ms(self) -> int:
        return self.window_size_seconds * 1000

    @property
    def span_ms(self) -> int:
        """The time that all samples together cover."""
        return self.window_num * self.window_ms


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self.count = 0


class SampledRate:
    """Kafka's ``Rate`` over a ``WindowedSum``: a value per second over the last windows.

    A value is added to the current sample. A sample is complete one window after its start; then
    the next place of a ring is used. A sample counts until its last value is as old as the whole
    span; it starts again, empty, when it is looked at then. The elapsed time since the oldest start
    is taken as if at least ``window_num - 1`` windows were complete.

    The sum and the oldest start change only with a value, with a new sample, or when a sample no
    longer counts. They are kept, so that the samples are looked at about once in a window.

    Times must not go back; an earlier time counts as the last one.
    """

    __slots__ = (
        "_current",
        "_full_ms",
        "_kept_until_ms",
        "_least_window_ms",
        "_oldest_ms",
        "_places",
        "_samples",
        "_span_ms",
        "_total",
        "_whole_windows",
        "_window_ms",
    )

    def __init__(self, config: RateConfig) -> None:
        self._window_ms = config.window_ms
        self._span_ms = config.span_ms
        self._whole_windows = config.window_num - 1
        self._least_window_ms = self._whole_windows * config.window_ms
        self._places = config.window_num + 1
        self._samples: list[_Sample] = []
        self._current = 0
        self._full_ms = 0  # the current sample takes values until then
        # Until ``_kept_until_ms`` no sample stops to count, and these two are those of all samples.
        self._kept_until_ms = 0
        self._total = 0.0
        self._oldest_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value. A negative one takes back what was added."""
        if now_ms >= self._full_ms:
            self._begin_sample(now_ms)
        sample = self._samples[self._current]
        sample.value += value
        sample.count += 1
        if now_ms > sample.last_ms:
            sample.last_ms = now_ms
        self._total += value

    def per_second(self, now_ms: int) -> float:
        total, window_ms = self._measure(now_ms)
        return total * 1000 / window_ms

    def throttle_ms(self, limit: float, now_ms: int, more: float = 0) -> int:
        """Return for how long to record nothing until the rate is at the limit; 0 if it is not
        above the limit. With ``more``, it is as if that had been recorded, too.

        Kafka's ``QuotaUtils.throttleTime``: a rate O over W ms comes to the limit T after
        ``(O - T) / T * W`` ms, since then O * W = T * (W + X)."""
        if now_ms >= self._kept_until_ms:
            self._look(now_ms)
        total = self._total + more
        if total * 1000 <= limit * self._least_window_ms:
            return 0  # whatever the time that the samples cover
        window_ms = self._covered_ms(now_ms)
        return throttle_ms(total * 1000 / window_ms, limit, window_ms)

    def average(self, now_ms: int) -> float:
        """Return the average of the values of all samples that count; 0 if there is none."""
        self._measure(now_ms)
        count = sum(sample.count for sample in self._samples)
        return sum(sample.value for sample in self._samples) / count if count else 0.0

    def _begin_sample(self, now_ms: int) -> None:
        samples = self._samples
        if samples:
            self._current = (self._current + 1) % self._places
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        self._full_ms = now_ms + self._window_ms
        self._kept_until_ms = 0

    def _measure(self, now_ms: int) -> tuple[float, int]:
        """Return the sum of all samples that count, and the time that they cover."""
        if now_ms >= self._kept_until_ms:
            self._look(now_ms)
        return self._total, self._covered_ms(now_ms)

    def _look(self, now_ms: int) -> None:
        """Look at every sample, and empty those that no longer count."""
        if not self._samples:
            self._begin_sample(now_ms)
        total, oldest_ms, last_ms = 0.0, now_ms, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._span_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
            last_ms = min(last_ms, sample.last_ms)
        self._full_ms = self._samples[self._current].start_ms + self._window_ms
        self._total, self._oldest_ms = total, oldest_ms
        self._kept_until_ms = last_ms + self._span_ms

    def _covered_ms(self, now_ms: int) -> int:
        elapsed_ms = max(0, now_ms - self._oldest_ms)
        missing = self._whole_windows - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(elapsed_ms, 1)


def throttle_ms(rate: float, limit: float, window_ms: int) -> int:
    """Return for how long to stop so that ``rate``, over ``window_ms``, comes to ``limit``.

    A limit of 0 stops for ``MAX_THROTTLE_MS``; a negative one, or one that is not a number, never
    stops. (In Kafka a limit of 0 stops nothing either, since the result overflows.)"""
    if not rate > limit >= 0:
        return 0
    if limit == 0:
        return MAX_THROTTLE_MS
    return math.floor(min((rate - limit) / limit * window_ms, MAX_THROTTLE_MS) + 0.5)


class TokenBucket:
    """Kafka's ``TokenBucket``: ``limit`` tokens a second flow into a bucket that holds those of the
    whole span. It starts full, and tokens may be taken until it is below zero."""

    __slots__ = ("_span_seconds", "_tokens", "_updated_ms")

    def __init__(self, config: RateConfig) -> None:
        self._span_seconds = config.span_ms / 1000
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the tokens in the bucket, which flow in at ``limit`` a second."""
        flowed = limit * max(0, now_ms - self._updated_ms) / 1000
        self._tokens = min(self._span_seconds * limit, self._tokens + flowed)
        self._updated_ms = max(now_ms, self._updated_ms)
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return after how many ms the bucket is no longer below zero."""
        tokens = self.tokens(limit, now_ms)
        if not tokens < 0 <= limit:
            return 0
        if limit == 0:
            return MAX_THROTTLE_MS
        return math.floor(min(-tokens / limit * 1000, MAX_THROTTLE_MS) + 0.5)
