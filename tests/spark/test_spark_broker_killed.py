"""A broker is killed while a task writes, and another while one reads. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.cluster import Cluster
from tests.spark.kafka_side import consume

pa = pytest.importorskip("pyarrow")

from minikafka.client.columnar import partitioning  # noqa: E402
from minikafka.spark.cluster import Cluster as SparkCluster  # noqa: E402
from minikafka.spark.options import batch_options  # noqa: E402
from minikafka.spark.read.fetching import RangeReader  # noqa: E402
from minikafka.spark.read.planning import batch_ranges  # noqa: E402
from minikafka.spark.write.exactly_once import Task, commit_batch, write_task  # noqa: E402
from minikafka.spark.write.write_options import write_options  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-jobs")]

ROWS, PART = 60_000, 5_000
SCHEMA = pa.schema([("value", pa.binary())])


def state_of(admin: Any, topic: str) -> Any:
    """The broker of partition 0, and the smallest ISR."""
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return partitions[0].leader, min(len(each.isrs) for each in partitions.values())


@pytest.mark.mission("SPK-4")
def test_nothing_is_lost_or_doubled_when_leaders_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "CHUNK_ROWS", PART)  # requests are under way when it dies
    with Cluster(tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = "t"
        admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(60)
        dead: list[int] = []

        def kill() -> None:
            dead.append(state_of(admin, topic)[0])
            cluster.kill_broker(dead[-1])

        def parts() -> Iterator[Any]:
            for first in range(0, ROWS, PART):
                if first == ROWS // 2:
                    kill()
                rows = [b"%d" % number for number in range(first, first + PART)]
                yield pa.record_batch({"key": pa.array(rows), "value": pa.array(rows)})

        given = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "topic": topic,
            "kafka.batch.size": "16384",
        }
        columns = {"key": "binary", "value": "binary"}
        options = write_options(given, columns, streaming=True)
        commit_batch([write_task(parts(), options, Task("q", 0, 0))], options)
        cluster.restart_broker(dead[0])
        while state_of(admin, topic)[1] < 3:
            threading.Event().wait(0.1)

        reading = batch_options(
            {
                "kafka.bootstrap.servers": cluster.bootstrap,
                "subscribe": topic,
                "kafka.isolation.level": "read_committed",
                "kafka.max.partition.fetch.bytes": "20000",
            }
        )
        found: list[int] = []
        with SparkCluster(reading.client) as view:
            for wanted in batch_ranges(view, reading):
                for batch in RangeReader(view, wanted).read(SCHEMA):
                    found += map(int, batch.column(0).to_pylist())
                    if len(dead) == 1 and len(found) > 1000:
                        kill()
        assert sorted(found) == list(range(ROWS))
        assert len(consume(cluster.bootstrap, topic, 3, "read_committed")) == ROWS
