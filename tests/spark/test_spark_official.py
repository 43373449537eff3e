"""Spark's own Kafka connector against our brokers, where its jars are: the same as ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.kafka_side import committed, numbered, produce
from tests.support.clients.places import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-jobs")]

JOB = Path(__file__).with_name("official_job.py")
VARIABLE = "MINIKAFKA_SPARK_KAFKA_JARS"


@pytest.fixture
def jars() -> str:
    """Comma separated, as Spark takes them: of the files that the variable names, or of those in
    the folder that it names."""
    given = os.environ.get(VARIABLE)
    if not given:
        pytest.skip(f"{VARIABLE} names no jars (spark-sql-kafka-0-10 and what it needs)")
    folder = Path(given)
    return ",".join(map(str, sorted(folder.glob("*.jar")))) if folder.is_dir() else given


@pytest.mark.mission("SPK-7")
def test_the_official_connector_reads_and_writes_and_takes_over_a_checkpoint(
    jars: str,
    java_home: Path,
    cluster: Cluster,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Batch with headers; a stream that ours began and it goes on with, from the same checkpoint;
    and back."""
    source, target = make_topic(3), make_topic(3)
    environ = {**os.environ, "JAVA_HOME": str(java_home), "PYTHONPATH": os.getcwd()}

    def run(kind: str, first: int) -> None:
        rows = [{**each, "headers": [("n", each["key"])]} for each in numbered(first, 300)]
        produce(cluster.bootstrap, source, rows, compression_type="lz4")
        arguments = [kind, jars, cluster.bootstrap, source, target, str(tmp_path / "checkpoint")]
        done = subprocess.run(
            [sys.executable, str(JOB), *arguments],
            env=environ, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.endswith("done\n")
        assert committed(cluster.bootstrap, target) == list(range(first + 300))

    for first, kind in ((0, "minikafka"), (300, "kafka"), (600, "minikafka")):
        run(kind, first)
