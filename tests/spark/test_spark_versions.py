"""What the data source can do in the installed PySpark: a test for each row of a table.

``scripts/spark-versions`` runs them in other versions and prints the table of
docs/how-to/spark.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kafka_side import committed, numbered, produce
from tests.support.clients.places import Cluster
from tests.support.registry_server import registry_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.mission("SPV-1"),
]

COUNT = 60
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


@dataclass
class Place:
    """A session, brokers, and two topics, of which the first has ``COUNT`` records."""

    spark: Any
    bootstrap: str
    source: str
    target: str
    folder: Path

    @property
    def brokers(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap}

    def read(self, **options: str) -> Any:
        reader = self.spark.read.format("minikafka").options(**self.brokers, **options)
        return reader.option("subscribe", self.source).load()

    def stream(self, **options: str) -> Any:
        reader = self.spark.readStream.format("minikafka").options(**self.brokers, **options)
        return reader.options(subscribe=self.source, startingOffsets="earliest").load()

    def run(self, writer: Any) -> Any:
        located = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = located.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def copy(self) -> Any:
        rows = self.stream().select("key", "value").writeStream.format("minikafka")
        return self.run(rows.options(**self.brokers, topic=self.target))

    def written(self) -> list[int]:
        return committed(self.bootstrap, self.target)


def batch_read(place: Place) -> None:
    rows = place.read(includeHeaders="true", minPartitions="6").collect()
    assert sorted(int(row.key) for row in rows) == list(range(COUNT))


def sql(place: Place) -> None:
    options = f"'kafka.bootstrap.servers' '{place.bootstrap}', subscribe '{place.source}'"
    place.spark.sql(f"CREATE TEMPORARY VIEW versions USING minikafka OPTIONS ({options})")
    try:
        assert place.spark.sql("SELECT count(*) FROM versions").first()[0] == COUNT
    finally:
        place.spark.catalog.dropTempView("versions")


def pushed_filters(place: Place) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    place.spark.conf.set(setting, "true")
    try:
        split = place.read(pushdown="true", maxRecordsPerPartition=str(COUNT // 6))
        frame = split.where("partition = 1")
        assert frame.count() == COUNT / 3
        assert frame.rdd.getNumPartitions() == 2, "Spark does not push filters down"
    finally:
        place.spark.conf.unset(setting)


def batch_write_once(place: Place) -> None:
    for _ in range(2):
        rows = place.read().select("key", "value").write.format("minikafka")
        rows.options(**place.brokers, topic=place.target, **{"sink.id": place.target}).mode(
            "append"
        ).save()
    assert place.written() == list(range(COUNT))


def topic_to_topic_once(place: Place) -> None:
    """A batch that was written but not noted in the checkpoint is repeated, and skipped."""
    place.copy()
    produce(place.bootstrap, place.source, numbered(COUNT, COUNT))
    place.copy()
    folder = place.folder / "checkpoint" / "commits"
    last = max((each for each in folder.iterdir() if each.name.isdecimal()), key=batch_of)
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    produce(place.bootstrap, place.source, numbered(2 * COUNT, COUNT))
    place.copy()
    assert place.written() == list(range(3 * COUNT))


def batch_of(file: Path) -> int:
    return int(file.name)


def limited_batches(place: Place) -> None:
    sizes: list[int] = []
    rows = place.stream(maxOffsetsPerTrigger=str(COUNT // 2)).writeStream
    place.run(rows.foreachBatch(lambda batch, _: sizes.append(batch.count())))
    assert sizes == [COUNT // 2] * 2


def foreach_batch_once(place: Place) -> None:
    from minikafka.spark.foreach_batch import write_once

    options = {**place.brokers, "topic": place.target}

    def twice(batch: Any, batch_id: int) -> None:
        for _ in range(2):
            write_once(batch.select("key", "value"), batch_id, place.target, options)

    place.run(place.stream().writeStream.foreachBatch(twice))
    assert place.written() == list(range(COUNT))


def registry_columns(place: Place) -> None:
    from pyspark.sql import functions as F

    from minikafka.spark.formats import from_registry, to_registry

    with registry_server(place.bootstrap) as registry:
        subject = f"{place.source}-value"
        made = to_registry(F.struct("id"), subject, registry.url, schema=AVRO, register=True)
        encoded = place.spark.range(COUNT).select(made.alias("value"))
        decoded = encoded.select(from_registry("value", subject, registry.url).alias("order"))
        assert decoded.agg(F.sum("order.id")).first()[0] == sum(range(COUNT))


def progress(place: Place) -> None:
    from minikafka.spark.progress import offsets_read

    query = place.copy()
    assert sum(offsets_read(json.loads(query.lastProgress.json)).values()) == COUNT


FEATURES: dict[str, Callable[[Place], None]] = {
    "batch read, headers": batch_read,
    "SQL: `USING minikafka`": sql,
    "`pushdown=true`": pushed_filters,
    "batch write, exactly once by `sink.id`": batch_write_once,
    "stream, exactly once from topic to topic": topic_to_topic_once,
    "`foreachBatch` with `write_once`": foreach_batch_once,
    "`maxOffsetsPerTrigger`": limited_batches,
    "`from_registry`, `to_registry`": registry_columns,
    "offsets in the progress": progress,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_feature(
    streams: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path, feature: str
) -> None:
    source, target = make_topic(3), make_topic(3)
    produce(cluster.bootstrap, source, numbered(0, COUNT))
    FEATURES[feature](Place(streams, cluster.bootstrap, source, target, tmp_path))
