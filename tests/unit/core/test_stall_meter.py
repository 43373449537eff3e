"""The stall meter: late ticks, noted requests, the longest stall of the last minute."""

from __future__ import annotations

import pytest

from minikafka.core.stall_meter import (
    SLOT_MS,
    WINDOW_MS,
    NotedRequest,
    Stall,
    StallMeter,
    StallMeterConfig,
)

CONFIG = StallMeterConfig(threshold_ms=100)  # a tick every 50 ms


def request(ran_ms: int, api: str = "Produce") -> NotedRequest:
    return NotedRequest(api, "client", "10.0.0.1", 2700, ran_ms)


def test_ticks_in_time_show_no_stall() -> None:
    meter = StallMeter(CONFIG, 0)
    assert [meter.tick(now_ms) for now_ms in range(50, 1000, 50)] == [None] * 19
    assert (meter.longest_ms(1000), meter.stalls) == (0, 0)


@pytest.mark.mission("SAFE-20")
def test_a_late_tick_is_a_stall() -> None:
    meter = StallMeter(CONFIG, 0)
    assert meter.tick(149) is None  # 99 ms late
    assert meter.tick(149 + 50 + 100) == Stall(100, None)
    assert (meter.longest_ms(299), meter.stalls) == (100, 1)
    assert meter.tick(299 + 50) is None


@pytest.mark.mission("SAFE-20")
def test_a_stall_names_the_request_that_ran_longest() -> None:
    meter = StallMeter(CONFIG, 0)
    meter.note(request(200, "Fetch"))
    meter.note(request(300))
    meter.note(request(250, "Metadata"))
    assert meter.tick(800) == Stall(750, request(300))
    meter.note(request(120))  # and the tick is less late than that
    assert meter.tick(800 + 50 + 80) == Stall(120, request(120))
    assert meter.tick(930 + 50 + 500) == Stall(500, None)


def test_the_histogram_counts_stalls_so_long_or_longer() -> None:
    meter = StallMeter(CONFIG, 0)
    now_ms = 0
    for stalled_ms in (50, 100, 299, 300, 40_000):
        now_ms += 50 + stalled_ms
        meter.tick(now_ms)
    assert meter.at_least == {100: 4, 300: 2, 1_000: 1, 3_000: 1, 10_000: 1, 30_000: 1}


def test_the_longest_stall_is_forgotten_after_the_window() -> None:
    meter = StallMeter(CONFIG, 0)
    meter.tick(50 + 700)
    at_ms = 750
    meter.tick(at_ms + SLOT_MS)
    meter.tick(at_ms + SLOT_MS + 50 + 200)
    assert meter.longest_ms(at_ms + WINDOW_MS) == SLOT_MS - 50
    assert meter.longest_ms(at_ms + WINDOW_MS + SLOT_MS) == SLOT_MS - 50
    assert meter.longest_ms(at_ms + WINDOW_MS + 2 * SLOT_MS) == 0
