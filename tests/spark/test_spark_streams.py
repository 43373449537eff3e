"""Streaming queries of a real Spark: topic to topic, stopped, started again, failed, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from scripts.lib.cluster import Cluster
from tests.spark.kafka_side import consume, produce

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def copy_query(
    spark: Any, cluster: Cluster, source: str, target: str, checkpoint: Path, **options: str
) -> Any:
    """Start what copies keys and values of a topic to another; all that is there now."""
    frame = (
        spark.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", source)
        .options(**options)
        .load()
    )
    return (
        frame.select("key", "value")
        .writeStream.format("minikafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"key": b"%d" % n, "value": b"v%d" % n, "partition": n % 3}
        for n in range(first, first + count)
    ]


def committed(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(row[3]) for row in consume(cluster.bootstrap, topic, 3, "read_committed"))


@pytest.mark.mission("SPK-2", "SPK-3")
def test_a_restart_goes_on_exactly(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    from minikafka.spark.progress import ProgressListener

    source, target = make_topic(3), make_topic(3)
    lines: list[str] = []
    listener = ProgressListener(cluster.bootstrap, lines.append)
    streams.streams.addListener(listener)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    produce(cluster.bootstrap, source, numbered(0, 100))
    query = copy_query(streams, cluster, source, target, tmp_path, **options)
    query.awaitTermination()
    batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(batches) == 100
    assert max(batches) <= 42
    produce(cluster.bootstrap, source, numbered(100, 50))
    query = copy_query(streams, cluster, source, target, tmp_path, **options)
    query.awaitTermination()
    assert committed(cluster, target) == list(range(150))
    # The offsets in the checkpoint are those of the official connector.
    last = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[2]) == {source: {"0": 50, "1": 50, "2": 50}}
    # The listener, which Spark calls a little later, has told all of it, and a group knows it.
    while sum(line.endswith(" ended") for line in lines) < 2:
        threading.Event().wait(0.05)
    streams.streams.removeListener(listener)
    assert sum(int(line.split("rows=")[1].split()[0]) for line in lines if " rows=" in line) == 150
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"spark-{query.id}"})
    known = consumer.committed([TopicPartition(source, number) for number in range(3)], 60)
    consumer.close()
    assert [each.offset for each in known] == [50, 50, 50]


@pytest.mark.mission("SPK-2")
def test_latest_stays_where_it_was_when_the_first_batch_fails(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(3), f"{make_topic(3)}-late"
    produce(cluster.bootstrap, source, numbered(0, 10))
    query = copy_query(streams, cluster, source, target, tmp_path)
    query.awaitTermination()  # nothing but the pin
    produce(cluster.bootstrap, source, numbered(10, 5))
    query = copy_query(streams, cluster, source, target, tmp_path)
    with pytest.raises(Exception, match=f"topic {target}: does not exist"):
        query.awaitTermination()
    produce(cluster.bootstrap, source, numbered(15, 5))
    make_topic(3, name=target)
    query = copy_query(streams, cluster, source, target, tmp_path)
    query.awaitTermination()
    assert committed(cluster, target) == list(range(10, 20))


@pytest.mark.mission("SPK-4")
def test_a_driver_killed_at_random_points_loses_and_doubles_nothing(
    java_home: Path, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """SIGKILL of the driver and all that belongs to it, at a batch that the log of the query
    names, so that transactions are open; then it runs to its end."""
    source, target = make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, 6000))
    command = [sys.executable, str(Path(__file__).with_name("copy_job.py")), cluster.bootstrap]
    command += [source, target, str(tmp_path / "checkpoint")]
    environ = {**os.environ, "JAVA_HOME": str(java_home), "PYTHONPATH": os.getcwd()}
    with (tmp_path / "log").open("wb") as log:
        for kill_at in (b"offsets/1", b"offsets/3", None):
            job = subprocess.Popen(
                [*command, kill_at.decode() if kill_at else ""],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
            assert job.stdout is not None
            lines = [line.strip() for line in job.stdout]
            job.wait(300)
            if kill_at is None:
                assert lines[-1:] == [b"done"], (tmp_path / "log").read_text()[-3000:]
                assert job.returncode == 0
            else:
                assert job.returncode == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    assert committed(cluster, target) == list(range(6000))
