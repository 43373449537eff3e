"""Streaming queries of a real Spark: topic to topic, stopped, started again, failed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.spark.kafka_side import (
    committed,
    consume,
    consume_by_kafka_python,
    create_again,
    numbered,
    produce,
)
from tests.support.clients.places import Cluster

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


@pytest.mark.mission("SPK-2")
def test_a_stream_that_starts_adds_nothing_to_the_environment_that_all_streams_share(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Spark does not guard that map: two streams that add to it at once break all later tasks."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    environment = manager.lookupDataSource("minikafka").dataSourceCls().envVars()
    before = set(environment.keySet())
    query = copy_query(spark, cluster, make_topic(), make_topic(), tmp_path)
    query.awaitTermination()
    assert set(environment.keySet()) == before
    assert environment["SPARK_BUFFER_SIZE"], "no stream puts its variables into this map any more"


@pytest.mark.mission("SPK-2")
@pytest.mark.parametrize("trigger", [{"processingTime": "1 second"}, {"availableNow": True}])
def test_a_wrong_option_is_the_last_error_that_the_user_reads(
    streams: Any, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    from pyspark.errors import StreamingQueryException

    from minikafka.spark.starting import start_query

    frame = (
        streams.readStream.format("minikafka")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("subscribe", "t")
        .option("startingOffset", "earliest")
        .load()
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException) as failure:
        start_query(writer.trigger(**trigger).start, print, "wrong")
    traceback = str(failure.value).partition("=== Streaming Query ===")[0]
    last = [line for line in traceback.splitlines() if line and not line[0].isspace()][-1]
    assert last == (
        "minikafka.spark.option_parsing.OptionError: unknown option 'startingoffset' "
        "(Spark passes names of options in lower case): did you mean 'startingOffsets'?"
    )


@pytest.mark.mission("SPK-2", "SPK-3", "IN-97")
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
    assert committed(cluster.bootstrap, target) == list(range(150))
    rows = consume(cluster.bootstrap, target, 3, "read_committed")
    assert rows == consume_by_kafka_python(cluster.bootstrap, target, 3, "read_committed")
    # The offsets in the checkpoint are those of the official connector.
    last = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    stored = json.loads(last.read_text().splitlines()[2])
    assert stored.pop(source) == {"0": 50, "1": 50, "2": 50}
    assert not any(stored.values())  # entries without partitions, which it ignores
    # The listener, which Spark calls a little later, has told all of it, and a group knows it.
    while sum(line.endswith(" ended") for line in lines) < 2:
        threading.Event().wait(0.05)
    streams.streams.removeListener(listener)
    assert sum(int(line.split("rows=")[1].split()[0]) for line in lines if " rows=" in line) == 150
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"spark-{query.id}"})
    known = consumer.committed([TopicPartition(source, number) for number in range(3)], 60)
    consumer.close()
    assert [each.offset for each in known] == [50, 50, 50]


TRIGGERS: dict[str, dict[str, Any]] = {
    "availableNow": {"availableNow": True},
    "processingTime": {"processingTime": "100 milliseconds"},
    "once": {"once": True},
}


COMBINATIONS = [(trigger, start) for start in ("latest", "earliest") for trigger in TRIGGERS]
COMBINATIONS += [("availableNow", "offsets"), ("availableNow", "timestamp")]


class Queries:
    """Queries that note the numbers of each batch in ``read``, by name. One that is in ``failing``
    fails once instead."""

    def __init__(self, spark: Any, bootstrap: str, topic: str, folder: Path) -> None:
        self.read: dict[str, dict[int, list[int]]] = {}
        self.failing: set[str] = set()
        self._spark = spark
        self._folder = folder
        self._common = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        self._starts = {
            "latest": {"startingOffsets": "latest"},
            "earliest": {"startingOffsets": "earliest"},
            "offsets": {"startingOffsets": json.dumps({topic: {"0": 2, "1": -2, "2": 2}})},
            "timestamp": {"startingTimestamp": "4000"},
        }

    def start(self, trigger: str, starting: str) -> Any:
        name = f"{trigger}-{starting}"

        def write(frame: Any, batch_id: int) -> None:
            numbers = sorted(int(row.key) for row in frame.select("key").collect())
            if name in self.failing:
                self.failing.remove(name)
                raise RuntimeError(f"{name} fails")
            self.read.setdefault(name, {})[batch_id] = numbers

        return (
            self._spark.readStream.format("minikafka")
            .options(**self._common, **self._starts[starting])
            .load()
            .writeStream.foreachBatch(write)
            .queryName(name)
            .option("checkpointLocation", str(self._folder / name))
            .trigger(**TRIGGERS[trigger])
            .start()
        )

    def run(self, trigger: str, starting: str) -> None:
        query = self.start(trigger, starting)
        if trigger == "processingTime":
            query.processAllAvailable()
            query.stop()
        query.awaitTermination()


@pytest.mark.mission("SPK-2")
def test_a_topic_created_again_between_two_runs_is_not_read_from_the_old_offset(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The new one has more records, so that its offsets alone show nothing."""
    from pyspark.errors import StreamingQueryException

    source, target = make_topic(), make_topic()
    options = {"startingOffsets": "earliest"}

    def run(**more: str) -> None:
        query = copy_query(streams, cluster, source, target, tmp_path, **options, **more)
        query.awaitTermination()

    produce(cluster.bootstrap, source, numbered(0, 10))
    run()
    create_again(cluster.bootstrap, source)
    produce(cluster.bootstrap, source, numbered(100, 15))
    with pytest.raises(StreamingQueryException, match=f"topic {source} was deleted and created"):
        run()
    assert committed(cluster.bootstrap, target) == list(range(10))
    run(failOnDataLoss="false")
    assert committed(cluster.bootstrap, target) == [*range(10), *range(100, 115)]
    produce(cluster.bootstrap, source, numbered(115, 3))
    run()
    assert committed(cluster.bootstrap, target) == [*range(10), *range(100, 118)]


@pytest.mark.mission("SPK-2")
def test_a_first_batch_that_failed_starts_where_it_started(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """All triggers and starting options; every step is in unit/spark/test_spark_first_batches."""
    from minikafka.spark.progress import ProgressListener

    topic = make_topic(3, retention_ms="-1")  # the records are of 1970
    queries = Queries(streams, cluster.bootstrap, topic, tmp_path)
    rows = [{**row, "timestamp": 1000 * (int(row["key"]) + 1)} for row in numbered(0, 30)]
    produce(cluster.bootstrap, topic, rows[:10])
    for trigger, starting in COMBINATIONS:
        queries.failing.add(f"{trigger}-{starting}")
        with pytest.raises(Exception, match=f"{trigger}-{starting} fails"):
            queries.start(trigger, starting).awaitTermination()
    produce(cluster.bootstrap, topic, rows[10:])
    lines: list[str] = []
    listener = ProgressListener(cluster.bootstrap, lines.append)
    streams.streams.addListener(listener)
    for trigger, starting in COMBINATIONS:
        queries.run(trigger, starting)
        if trigger == "once":  # the first one repeats the batch that had failed
            queries.run(trigger, starting)
    first = {"latest": 10, "earliest": 0, "timestamp": 3}
    for trigger, starting in COMBINATIONS:
        found = sorted(n for batch in queries.read[f"{trigger}-{starting}"].values() for n in batch)
        wanted = [n for n in range(30) if n >= first.get(starting, 6 if n % 3 != 1 else 0)]
        assert found == wanted, (trigger, starting)
    # The repeated batch has read 10 of 30. Spark calls the listener a little later.
    told = "query=availableNow-earliest batch=0 rows=10 "
    for _ in range(1200):
        if any(each.startswith(told) for each in lines):
            break
        threading.Event().wait(0.05)
    streams.streams.removeListener(listener)
    (line,) = [each for each in lines if each.startswith(told)]
    assert " lag=20 avgOffsetsBehindLatest=6.67 maxOffsetsBehindLatest=7 " in line


@pytest.mark.mission("SPK-4")
def test_two_topics_are_written_once_from_within_a_batch(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The driver fails after it has written a batch to one of two topics, and then after both."""
    from minikafka.spark.foreach_batch import write_once

    source, small, large = make_topic(3), make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, 120))
    failures = ["after one", "after two"]

    def write(frame: Any, batch_id: int) -> None:
        number = frame.key.cast("string").cast("int")
        for step, (topic, chosen) in enumerate([(small, number < 60), (large, number >= 60)], 1):
            rows = frame.where(chosen).select("key", "value")
            to = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
            write_once(rows, batch_id, f"split-{topic}", to)
            if batch_id == 2 and len(failures) == 3 - step:
                raise RuntimeError(failures.pop(0))

    def query() -> Any:
        return (
            streams.readStream.format("minikafka")
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "40")
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )

    for failure in list(failures):
        with pytest.raises(Exception, match=failure):
            query().awaitTermination()
    query().awaitTermination()
    assert committed(cluster.bootstrap, small) == list(range(60))
    assert committed(cluster.bootstrap, large) == list(range(60, 120))
