"""A continuous run whose start fails stops the queries that it has started."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from minikafka.spark.pipeline import continuous
from minikafka.spark.pipeline.engine import parse_engine
from minikafka.spark.pipeline.failures import PipelineError

pytestmark = pytest.mark.mission("SPK-5")


def test_flows_that_were_started_are_stopped_when_a_later_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []

    class Run:
        """A run whose start fails at its second query."""

        @classmethod
        def load(cls, *_: Any) -> Run:
            return cls()

        def start(self) -> None:
            calls.append("start")
            raise PipelineError("flow b failed: KafkaError: gone")

        def stop(self) -> None:
            calls.append("stop")

    session = SimpleNamespace(stop=lambda: calls.append("stop session"))
    monkeypatch.setattr(continuous, "ContinuousRun", Run)
    monkeypatch.setattr(continuous, "local_session", lambda *_: session)
    monkeypatch.setattr(continuous, "static_settings", lambda *_: {})
    spec: Any = SimpleNamespace(name="shop", configuration={})
    engine: Any = SimpleNamespace(
        metastore_dir=tmp_path / "metastore",
        state_dir=tmp_path,
        master="local",
        metrics_listener="",
    )
    with pytest.raises(PipelineError, match="flow b failed: KafkaError: gone"):
        continuous.run_continuously(spec, engine, print)
    assert calls == ["start", "stop", "stop session"]


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
