"""The sampled rate and the token bucket measure as Kafka's do; the throttle time is as Kafka's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client_quota import (
    MAX_THROTTLE_MS,
    RateConfig,
    SampledRate,
    TokenBucket,
    throttle_ms,
)


@dataclass
class Window:
    start: int
    last: int
    values: list[int]


class PlainRate:
    """The model: every value of every place of Kafka's ring, as its documentation tells it."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self.windows, self.window_ms = windows, window_ms
        self.ring: list[Window] = []
        self.current = 0

    def record(self, value: int, now: int) -> None:
        if not self.ring:
            self.ring.append(Window(now, now, []))
        if now - self.ring[self.current].start >= self.window_ms:
            self.current = (self.current + 1) % (self.windows + 1)
            if self.current == len(self.ring):
                self.ring.append(Window(now, now, []))
            else:
                self.ring[self.current] = Window(now, now, [])
        self.ring[self.current].values.append(value)
        self.ring[self.current].last = now

    def look(self, now: int) -> tuple[int, int]:
        """The sum of what counts, and the milliseconds that it is divided by."""
        if not self.ring:
            self.ring.append(Window(now, now, []))
        for place, window in enumerate(self.ring):
            if now - window.last >= self.windows * self.window_ms:
                self.ring[place] = Window(now, now, [])
        elapsed = now - min(window.start for window in self.ring)
        while elapsed // self.window_ms < self.windows - 1:
            elapsed += self.window_ms
        return sum(sum(window.values) for window in self.ring), max(elapsed, 1)


steps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 30_000)),
        st.one_of(st.none(), st.integers(-100, 5_000)),  # record this
        st.booleans(),  # and look
        st.one_of(st.just(0), st.integers(0, 5_000)),  # as if this had been recorded, too
    ),
    max_size=80,
)


@given(steps, st.integers(1, 12), st.integers(1, 3), st.integers(1, 10_000))
@pytest.mark.mission("SEC-144")
def test_the_rate_and_the_throttle_time_are_those_of_the_model(
    moved: list[tuple[int, int | None, bool, int]], windows: int, seconds: int, limit: int
) -> None:
    rate, model = SampledRate(RateConfig(windows, seconds)), PlainRate(windows, seconds * 1000)
    now = 7
    for passed, value, looks, more in moved:
        now += passed
        if value is not None:
            rate.record(value, now)
            model.record(value, now)
        if not looks:
            continue
        total, window_ms = model.look(now)
        observed = (total + more) * 1000 / window_ms
        expected = max(0, math.floor((observed - limit) / limit * window_ms + 0.5))
        assert abs(rate.throttle_ms(limit, now, more) - expected) <= 1
        assert rate.per_second(now) == total * 1000 / window_ms


@pytest.mark.mission("SEC-144")
def test_the_example_of_kafka() -> None:
    """Seen on Kafka 3.9.1: 3106 bytes at 100 bytes a second throttle for 21.06 s."""
    rate = SampledRate(RateConfig())
    rate.record(3106, 1_000)
    assert rate.throttle_ms(100, 1_000) == 21_060


@given(
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 100)), min_size=1, max_size=200),
    st.integers(50, 500),
)
@pytest.mark.mission("SEC-144", "SEC-145")
def test_a_client_that_waits_stays_at_its_limit_on_average(
    requests: list[tuple[int, int]], limit: int
) -> None:
    """A client that waits for each throttle time, and whose requests are small, sends what the
    limit allows, and once the bytes of the span that are free at the start."""
    rate = SampledRate(RateConfig())
    now = sent = 0
    for pause, size in requests:
        now += pause
        rate.record(size, now)
        sent += size
        assert sent <= limit * (now + 11_000) / 1000 + 100
        now += rate.throttle_ms(limit, now)


def test_a_negative_value_takes_bytes_back() -> None:
    rate = SampledRate(RateConfig())
    rate.record(500, 0)
    rate.record(5_000, 100)
    rate.record(-5_000, 100)
    assert rate.per_second(100) == pytest.approx(500 * 1000 / 10_100)


def test_the_average_is_that_of_the_values() -> None:
    rate = SampledRate(RateConfig(2, 30))
    assert rate.average(0) == 0
    rate.record(100, 0)
    rate.record(300, 40_000)
    assert rate.average(40_000) == 200
    assert rate.average(70_000) == 300
    assert rate.average(200_000) == 0


@pytest.mark.parametrize(
    ("rate", "limit", "expected"),
    [
        (10, 10, 0),
        (10, 0, MAX_THROTTLE_MS),
        (0, 0, 0),
        (10, -1, 0),
        (10, math.nan, 0),
        (10, math.inf, 0),
        (1e300, 1e-300, MAX_THROTTLE_MS),
        (15, 10, 5_000),
    ],
)
def test_odd_limits(rate: float, limit: float, expected: int) -> None:
    assert throttle_ms(rate, limit, 10_000) == expected


class PlainBucket:
    """The model: a bucket that is filled every millisecond."""

    def __init__(self, limit: int, span_seconds: int) -> None:
        self.limit, self.burst = limit, limit * span_seconds
        self.thousandths = self.burst * 1000
        self.now = 0

    def at(self, now: int) -> int:
        while self.now < now:
            self.now += 1
            self.thousandths = min(self.burst * 1000, self.thousandths + self.limit)
        return self.thousandths


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 40)), max_size=30),
    st.integers(1, 20),
    st.integers(1, 4),
)
@pytest.mark.mission("SEC-147")
def test_the_bucket_is_that_of_the_model(
    taken: list[tuple[int, int]], limit: int, windows: int
) -> None:
    bucket, model = TokenBucket(RateConfig(windows, 1)), PlainBucket(limit, windows)
    now = 0
    for passed, count in taken:
        now += passed
        assert bucket.tokens(limit, now) * 1000 == pytest.approx(model.at(now), abs=1e-3)
        bucket.take(count, limit, now)
        model.thousandths -= count * 1000
        throttle = bucket.throttle_ms(limit, now)
        assert throttle == pytest.approx(max(0, -model.thousandths / limit), abs=0.51)


def test_a_bucket_without_flow_stays_below_zero() -> None:
    bucket = TokenBucket(RateConfig())
    assert bucket.throttle_ms(0, 5) == 0
    bucket.take(1, 0, 5)
    assert bucket.throttle_ms(0, 1_000_000) == MAX_THROTTLE_MS
    assert bucket.throttle_ms(-1, 1_000_000) == 0
