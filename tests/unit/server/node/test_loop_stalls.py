"""The timer, the metrics and the log event of the stall meter."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.stall_meter import NotedRequest, StallMeterConfig
from minikafka.kernel.events import diverted
from minikafka.kernel.metrics import Metrics
from minikafka.server.node.loop_stalls import LoopStalls
from tests.support.world.manual_clock import ManualClock


@pytest.mark.mission("SAFE-20")
def test_a_stall_is_an_event_and_a_metric() -> None:
    clock, metrics = ManualClock(), Metrics()
    logged: list[tuple[str, str, dict[str, Any]]] = []
    with diverted(lambda *event: logged.append(event)):
        stalls = LoopStalls(clock, StallMeterConfig(100), metrics, 7)
        stalls.start()
        clock.advance(1000)
        assert logged == []
        clock.now_ms += 350
        stalls.meter.note(NotedRequest("Produce", "me", "10.0.0.1", 2700, 310))
        clock.advance(0)
        clock.now_ms += 150
        clock.advance(0)
    bound = {"component": "loop", "broker": 7}
    assert logged == [
        (
            "warning",
            "loop_stalled",
            {
                **bound,
                "stalled_ms": 310,
                "api": "Produce",
                "client": "10.0.0.1",
                "client_id": "me",
                "request_bytes": 2700,
                "ran_ms": 310,
            },
        ),
        ("warning", "loop_stalled", {**bound, "stalled_ms": 100}),
    ]
    assert metrics.snapshot("minikafka.server:") == {
        "minikafka.server:type=EventLoop,name=StallMaxMs": 310,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=100": 2,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=1000": 0,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=10000": 0,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=300": 1,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=3000": 0,
        "minikafka.server:type=EventLoop,name=Stalls,atLeastMs=30000": 0,
        "minikafka.server:type=EventLoop,name=StallsPerSec": 2,
    }


def test_after_close_nothing_is_measured() -> None:
    clock, metrics = ManualClock(), Metrics()
    stalls = LoopStalls(clock, StallMeterConfig(100), metrics, 7)
    stalls.start()
    stalls.close()
    clock.advance(1000)
    assert clock.timers == [] or all(timer.cancelled for timer in clock.timers)
