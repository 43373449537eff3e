"""The data source over Spark Connect: found by the server, for clients without a JVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka_side import committed, numbered, produce
from tests.support.clients.places import Cluster

pytest.importorskip("grpc")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).with_name("connect_job.py")


@pytest.mark.mission("SPK-1", "SPK-2", "SPK-4")
def test_sql_and_a_stream_of_a_remote_client(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, 300))
    url = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    done = subprocess.run(
        [sys.executable, str(JOB), url, cluster.bootstrap, source, target, str(tmp_path / "c")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "counted 300\n"
    assert committed(cluster.bootstrap, target) == list(range(300))
