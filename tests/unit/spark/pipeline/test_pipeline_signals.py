"""SIGTERM and SIGINT during a run."""

from __future__ import annotations

import signal

from minikafka.spark.pipeline.signals import stop_on_signals


def test_signals_are_counted_and_interrupt_nothing() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    called: list[int] = []
    with stop_on_signals(lambda: called.append(1)) as stop:
        assert not stop.wait(0)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop.wait(0)
        assert (stop.count, called) == (2, [1, 1])
    assert signal.getsignal(signal.SIGTERM) is previous
