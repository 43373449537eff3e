"""A continuous run whose start fails stops the queries that it has started."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError

from minikafka.spark.pipeline import continuous
from minikafka.spark.pipeline.engine import parse_engine
from minikafka.spark.pipeline.failures import PipelineError

pytestmark = pytest.mark.mission("SPK-5")


class FailingRun:
    """A run whose start fails at its second query. ``signals`` arrive before."""

    def __init__(self, error: Exception, signals: int = 0) -> None:
        self._error = error
        self._signals = signals
        self.calls: list[str] = []

    def load(self, *_: Any) -> FailingRun:
        return self

    def start(self, _: Any) -> None:
        self.calls.append("start")
        for _ in range(self._signals):
            signal.raise_signal(signal.SIGTERM)
        raise self._error

    def stop(self) -> None:
        self.calls.append("stop")

    def session(self, made: Any) -> Any:
        return made

    def run(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        session = SimpleNamespace(stop=lambda: self.calls.append("stop session"))
        monkeypatch.setattr(continuous, "ContinuousRun", self)
        monkeypatch.setattr(continuous, "local_session", lambda *_: self.session(session))
        monkeypatch.setattr(continuous, "static_settings", lambda *_: {})
        spec: Any = SimpleNamespace(name="shop", configuration={})
        engine: Any = SimpleNamespace(
            metastore_dir=folder / "metastore",
            state_dir=folder,
            master="local",
            metrics_listener="",
        )
        continuous.run_continuously(spec, engine, print)


def test_flows_that_were_started_are_stopped_when_a_later_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = FailingRun(PipelineError("flow b failed: KafkaError: gone"))
    with pytest.raises(PipelineError, match="flow b failed: KafkaError: gone"):
        run.run(monkeypatch, tmp_path)
    assert run.calls == ["start", "stop", "stop session"]


@pytest.mark.parametrize(
    "error", [Py4JError("gone"), PySparkRuntimeError("gone"), ConnectionRefusedError(), OSError()]
)
def test_a_signal_that_ended_the_jvm_too_stops_a_run_without_an_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A signal to the process group, as a terminal or a supervisor sends it, while flows start."""
    run = FailingRun(error, signals=1)
    if type(error) is OSError:  # nothing of the JVM's
        with pytest.raises(OSError):
            run.run(monkeypatch, tmp_path)
    else:
        run.run(monkeypatch, tmp_path)
    assert run.calls == ["start", "stop", "stop session"]
    with pytest.raises(type(error)):
        FailingRun(error).run(monkeypatch, tmp_path)


def interrupted_as_by_spark(made: Any) -> Any:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as SparkContext does
    signal.raise_signal(signal.SIGINT)
    return made


def ended_with_the_jvm(_: Any) -> Any:
    signal.raise_signal(signal.SIGTERM)
    raise PySparkRuntimeError("JAVA_GATEWAY_EXITED")


def terminated(made: Any) -> Any:
    signal.raise_signal(signal.SIGTERM)
    return made


@pytest.mark.parametrize(
    ("session", "calls"),
    [(terminated, ["stop session"]), (ended_with_the_jvm, []), (interrupted_as_by_spark, [])],
)
def test_a_signal_while_spark_starts_ends_the_run_without_an_error(
    session: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = FailingRun(PipelineError("the run was started"))
    monkeypatch.setattr(run, "session", session)
    previous = signal.getsignal(signal.SIGINT)
    run.run(monkeypatch, tmp_path)
    assert run.calls == calls
    assert signal.getsignal(signal.SIGINT) is previous


@pytest.mark.mission("SPO-3")
def test_a_taken_metrics_port_is_one_line_before_spark_starts(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        listener = f"127.0.0.1:{holder.getsockname()[1]}"
        spec: Any = SimpleNamespace(name="shop", configuration={}, folder=tmp_path)
        engine = parse_engine(tmp_path, {"metrics.listener": listener})
        wanted = f"metrics.listener {listener}: Address already in use; port 0 lets the system"
        with pytest.raises(PipelineError, match=wanted):
            continuous.run_continuously(spec, engine, print)
