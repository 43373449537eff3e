"""The rate of replication: measured by Kafka's samples, and limited on average."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.replication.quota import (
    QuotaConfig,
    ReplicationQuota,
    SlidingRate,
    ThrottledReplicas,
)

SPAN_MS = 11_000
KB = 1024


class KafkaSamples:
    """The twin: Kafka's ring of samples, scanned at every call."""

    def __init__(self, config: QuotaConfig) -> None:
        self.window_ms = config.window_size_seconds * 1000
        self.span_ms = config.window_num * self.window_ms
        self.events: list[tuple[int, int]] = []  # when, and how much
        self.starts: list[int] = []  # of samples

    def forget(self, now_ms: int) -> None:
        """Samples whose last event is outside the span, with all their events."""
        while self.starts:
            end = self.starts[1] if len(self.starts) > 1 else now_ms + 1
            mine = [when for when, _ in self.events if when < end]
            if now_ms - max([self.starts[0], *mine]) < self.span_ms:
                return
            self.events = [event for event in self.events if event[0] >= end]
            self.starts.pop(0)

    def look(self, now_ms: int) -> None:
        self.forget(now_ms)
        if not self.starts:
            self.starts.append(now_ms)

    def record(self, size: int, now_ms: int) -> None:
        self.look(now_ms)
        if now_ms - self.starts[-1] >= self.window_ms:
            self.starts.append(now_ms)
        self.events.append((now_ms, size))

    def per_second(self, now_ms: int) -> float:
        self.look(now_ms)
        elapsed_ms = max(now_ms - self.starts[0], self.window_ms)
        return sum(size for _, size in self.events) * 1000 / elapsed_ms


steps = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 5_000)), max_size=60)


@given(steps, st.integers(1, 12), st.integers(1, 3))
def test_the_rate_is_that_of_the_samples(
    moved: list[tuple[int, int]], windows: int, seconds: int
) -> None:
    config = QuotaConfig(windows, seconds)
    rate, twin = SlidingRate(config), KafkaSamples(config)
    now_ms = 5
    for pause_ms, size in moved:
        now_ms += pause_ms
        assert rate.per_second(now_ms) == twin.per_second(now_ms)
        rate.record(size, now_ms)
        twin.record(size, now_ms)
    assert rate.per_second(now_ms + 700) == twin.per_second(now_ms + 700)
    assert rate.per_second(now_ms + 12 * SPAN_MS) == 0


@given(
    st.integers(1, 2_000_000),
    st.lists(st.tuples(st.integers(1, 1_000_000), st.integers(0, 900)), min_size=1, max_size=120),
)
def test_waiting_before_each_transfer_keeps_the_rate_within_the_quota(
    limit: int, moves: list[tuple[int, int]]
) -> None:
    """Over any time span, apart from one transfer in excess and one sample window."""
    quota = ReplicationQuota(QuotaConfig())
    quota.limit(limit)
    began_ms = now_ms = 1_000
    moved = largest = 0
    for size, pause_ms in moves:
        now_ms += pause_ms
        while wait_ms := quota.wait_ms(now_ms):
            assert quota.is_exceeded(now_ms)
            now_ms += wait_ms
        assert not quota.is_exceeded(now_ms)
        quota.record(size, now_ms)
        moved += size
        largest = max(largest, size)
        # A sample that is forgotten takes its time with it: a burst is counted for 11 s only.
        seconds = (now_ms - began_ms) / 1000
        forgotten = (seconds / 11) * largest
        assert moved <= limit * (seconds + 1) + forgotten + largest


@given(st.integers(1, 100_000_000), st.integers(0, 10_000_000))
def test_waiting_ends_as_soon_as_it_may(size: int, limit: int) -> None:
    quota, looker = ReplicationQuota(QuotaConfig()), ReplicationQuota(QuotaConfig())
    for each in (quota, looker):
        each.limit(limit)
        each.record(size, 7)
    now_ms = 7
    while wait_ms := quota.wait_ms(now_ms):
        now_ms += wait_ms
    assert now_ms <= 7 + SPAN_MS
    assert now_ms == 7 or looker.is_exceeded(now_ms - 1)


def test_an_even_stream_is_measured_as_it_is() -> None:
    rate = SlidingRate(QuotaConfig())
    for now_ms in range(0, 30_000, 100):
        rate.record(100, now_ms)
    assert rate.per_second(30_000) == pytest.approx(1_000, rel=0.02)


def test_a_new_sample_begins_when_a_window_is_over() -> None:
    rate = SlidingRate(QuotaConfig())
    rate.record(100, 0)
    rate.record(100, 1_000)
    assert rate.per_second(10_999) == 200 * 1000 / 10_999
    assert rate.per_second(11_000) == 100 * 1000 / 10_000


def test_replication_without_a_quota_is_neither_throttled_nor_measured() -> None:
    quota = ReplicationQuota(QuotaConfig())
    quota.record(1 << 40, 0)
    assert not quota.limited
    assert not quota.is_exceeded(0)
    assert quota.wait_ms(0) == 0
    quota.limit(1 * KB)
    assert quota.limited
    assert not quota.is_exceeded(0)
    quota.record(2 * KB, 0)
    assert quota.is_exceeded(0)
    assert quota.bytes_per_second(0) == 2 * KB
    assert quota.wait_ms(0) == 2_000
    quota.limit(None)
    assert not quota.is_exceeded(0)
    assert quota.wait_ms(0) == 0
    assert quota.bytes_per_second(0) == 0


def test_a_limit_of_nothing_lets_one_move_through() -> None:
    quota = ReplicationQuota(QuotaConfig())
    quota.limit(0)
    assert not quota.is_exceeded(0)
    quota.record(1, 0)
    assert quota.wait_ms(0) == SPAN_MS
    quota.limit(1)
    quota.record(4, 0)
    assert quota.wait_ms(0) == 5_000


def test_listed_replicas() -> None:
    listed = ThrottledReplicas.parse(["0:1", "2:1", "0:3"])
    assert [p for p in range(4) if listed.includes(p, 1)] == [0, 2]
    assert listed.includes(0, 3)
    assert not listed.includes(3, 0)
    assert ThrottledReplicas.parse(["*"]).includes(7, 9)
    assert not ThrottledReplicas.parse([]).includes(0, 0)
