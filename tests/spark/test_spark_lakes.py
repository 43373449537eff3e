"""Tables that have each record of a topic once, although the driver was killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.kafka_side import numbered, produce
from tests.support.clients.places import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-jobs")]

JOB = Path(__file__).with_name("lake_job.py")
VARIABLE = "MINIKAFKA_SPARK_LAKE_JARS"
COUNT = 300
TABLES = {
    "parquet": ("", ("orders-parquet", "orders-parquet-sink")),
    "delta": ("delta-spark", ("orders-delta", "orders-delta-sink")),
    "iceberg": ("iceberg-spark", ("orders", "orders_sink")),
}


@pytest.fixture(scope="module")
def tables(
    java_home: Path, inside: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[int]]:
    """What is in the tables after a run that killed itself and one that went to the end.

    Before the second run as many records again are written."""
    from confluent_kafka.admin import AdminClient, NewTopic

    lake, topic = tmp_path_factory.mktemp("lake"), "lake-orders"
    admin = AdminClient({"bootstrap.servers": inside.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 3)], operation_timeout=60)[topic].result(60)
    environ = {**os.environ, "JAVA_HOME": str(java_home)}
    environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    jars = os.environ.get(VARIABLE, "")

    def run(killed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(JOB), inside.bootstrap, topic, str(lake), jars, killed],
            env=environ, capture_output=True, text=True, timeout=400, check=False,
            start_new_session=True,
        )  # fmt: skip

    produce(inside.bootstrap, topic, numbered(0, COUNT))
    first = run("killed")
    assert first.returncode == -signal.SIGKILL, first.stderr[-4000:]
    produce(inside.bootstrap, topic, numbered(COUNT, COUNT))
    second = run("")
    assert second.returncode == 0, second.stderr[-4000:]
    found: dict[str, list[int]] = json.loads(second.stdout)
    return found


@pytest.mark.mission("LAKE-1")
def test_a_plain_append_has_the_repeated_batch_twice(tables: dict[str, list[int]]) -> None:
    """So the driver was killed between the write and the note in the checkpoint."""
    assert tables["appended"] == [3 * COUNT, 2 * COUNT]


@pytest.mark.mission("LAKE-1")
@pytest.mark.parametrize("kind", TABLES)
def test_a_repeated_batch_is_in_a_table_once(kind: str, request: pytest.FixtureRequest) -> None:
    jar, names = TABLES[kind]
    given = os.environ.get(VARIABLE, "")
    if jar and not list(Path(given or os.devnull).glob(f"{jar}*.jar")):
        pytest.skip(f"{VARIABLE} names no folder with {jar}*.jar for this Spark")
    tables: dict[str, list[int]] = request.getfixturevalue("tables")
    for name in names:
        assert tables[name] == [2 * COUNT, 2 * COUNT], name
