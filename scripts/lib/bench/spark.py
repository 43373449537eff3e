"""The Spark data source beside confluent-kafka into Arrow, and beside batches that are ready-made.

All on one machine, brokers included. The ready-made batches are the ceiling: what Spark's border to
Python lets through when nothing has to be fetched or decoded.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.spark.cluster import Cluster as SparkCluster
from minikafka.spark.options import batch_options
from minikafka.spark.read.fetching import RangeReader
from minikafka.spark.read.resolving import batch_ranges
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = 4
ROUNDS = 3
SIZES = {100: 1_000_000, 1000: 200_000}  # bytes of a value: records
STREAM_BATCHES = 5
EMPTY_BATCHES = 12


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home) / "cluster", 1) as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = {size: f"in-{size}" for size in SIZES}
        made = [NewTopic(name, PARTITIONS, 1) for name in (*topics.values(), "out")]
        for future in admin.create_topics(made).values():
            future.result(60)
        report.section("Spark: into Arrow, no JVM, one process", "minikafka", "confluent")
        for size, topic in topics.items():
            fill(bootstrap, topic, size, SIZES[size])
            ours, theirs = best(
                SIZES[size],
                partial(read_raw, bootstrap, topic),
                partial(read_confluent, bootstrap, topic, SIZES[size]),
            )
            report.row(f"read, {size} B", "krec/s", ours, theirs, 1.7)
            report.row(f"read, {size} B", "MB/s", ours * size / 1000)
        run_spark(report, bootstrap, topics, Path(home))


def fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 500_000,
         "queue.buffering.max.messages": 200_000}
    )  # fmt: skip
    value = os.urandom(size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, b"%08d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def best(expected: int, *reads: Callable[[], int]) -> list[float]:
    """Thousands a second, of the fastest round of each; they take turns."""
    rates: list[list[float]] = [[] for _ in reads]
    for _ in range(ROUNDS):
        for read, found in zip(reads, rates, strict=True):
            began = time.monotonic()
            count = read()
            found.append(count / (time.monotonic() - began) / 1000)
            assert count == expected, (count, expected)
    return [max(found) for found in rates]


def read_raw(bootstrap: str, topic: str) -> int:
    options = batch_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
    schema = arrow_schema()
    with SparkCluster(options.client) as cluster:
        return sum(
            batch.num_rows
            for wanted in batch_ranges(cluster, options)
            for batch in RangeReader(cluster, wanted).read(schema)
        )


def arrow_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()),
         ("partition", pa.int32()), ("offset", pa.int64()),
         ("timestamp", pa.timestamp("us", tz="UTC")), ("timestampType", pa.int32())]
    )  # fmt: skip


def read_confluent(bootstrap: str, topic: str, expected: int) -> int:
    """The same columns by way of librdkafka; its own settings for throughput."""
    import pyarrow as pa

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
         "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    schema, count = arrow_schema(), 0
    while count < expected:
        messages = consumer.consume(min(10_000, expected - count), 30)
        kinds = [message.timestamp() for message in messages]
        pa.record_batch(
            [
                pa.array([m.key() for m in messages], pa.binary()),
                pa.array([m.value() for m in messages], pa.binary()),
                pa.array([m.topic() for m in messages], pa.string()),
                pa.array([m.partition() for m in messages], pa.int32()),
                pa.array([m.offset() for m in messages], pa.int64()),
                pa.array([when * 1000 for _, when in kinds], pa.timestamp("us", tz="UTC")),
                pa.array([kind - 1 for kind, _ in kinds], pa.int32()),
            ],
            schema=schema,
        )
        count += len(messages)
    consumer.close()
    return count


def run_spark(report: Report, bootstrap: str, topics: dict[int, str], home: Path) -> None:
    from minikafka.spark.session import local_session
    from scripts.lib.bench.spark_floor import register_floor

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(home / "warehouse")}  # fmt: skip
    spark = local_session("bench", "local[2]", settings)
    try:
        register_floor(spark)
        report.section("Spark: batch to noop, local[2]", "minikafka", "ready-made")
        for size, topic in topics.items():
            count = SIZES[size]
            frame = spark.read.format("minikafka").options(
                **{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
            )
            ready = spark.read.format("ready").option("size", size).option("count", count)
            ours, ceiling = best(
                count, partial(to_noop, frame, count), partial(to_noop, ready, count)
            )
            report.row(f"batch, {size} B", "krec/s", ours, ceiling, 0.4)
            report.row(f"batch, {size} B", "MB/s", ours * size / 1000)
        report.section("Spark: micro-batches, local[2]", "minikafka")
        for size, topic in topics.items():
            limit = SIZES[size] // STREAM_BATCHES
            rate, _ = stream(spark, bootstrap, topic, home / f"noop-{size}", limit, None)
            report.row(f"stream to noop, {size} B", "krec/s", rate)
        limit = SIZES[100] // STREAM_BATCHES
        rate, _ = stream(spark, bootstrap, topics[100], home / "copy", limit, "out")
        report.row("topic to topic exactly once, 100 B", "krec/s", rate, aim=250)
        few = EMPTY_BATCHES * PARTITIONS * 10
        end = {str(number): SIZES[100] // PARTITIONS - few // PARTITIONS for number in range(4)}
        start = f'{{"{topics[100]}":{end}}}'.replace("'", '"')
        _, fixed = stream(spark, bootstrap, topics[100], home / "few", PARTITIONS * 10, None, start)
        report.row("micro-batch of 40 records", "ms", fixed, aim=250, smaller_is_better=True)
    finally:
        spark.stop()


def to_noop(reader: Any, count: int) -> int:
    """Reads and throws away. What Spark counts is not asked for: it would cost as well."""
    reader.load().write.format("noop").mode("overwrite").save()
    return count


def stream(
    spark: Any,
    bootstrap: str,
    topic: str,
    checkpoint: Path,
    limit: int,
    target: str | None,
    start: str = "earliest",
) -> tuple[float, float]:
    """(thousands a second after the first batch with data, milliseconds of the median batch)."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": start,
               "maxOffsetsPerTrigger": str(limit)}  # fmt: skip
    frame = spark.readStream.format("minikafka").options(**options).load()
    writer = frame.select("key", "value").writeStream.option("checkpointLocation", str(checkpoint))
    if target is None:
        writer = writer.format("noop")
    else:
        writer = writer.format("minikafka").option("kafka.bootstrap.servers", bootstrap)
        writer = writer.option("topic", target)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"]][1:]
    times = sorted(p["durationMs"]["triggerExecution"] for p in progress)
    rows = sum(p["numInputRows"] for p in progress)
    return rows / sum(times), times[len(times) // 2]
