"""The Spark data source: into Arrow beside confluent-kafka, topic to topic, and beside the official
Kafka connector.

The connector's jars are those of MINIKAFKA_SPARK_KAFKA_JARS, as for its test; without them the
column is empty. The floor is a data source in Python whose batches are ready-made: what Spark's
border to Python lets through when nothing has to be fetched or decoded. All take turns in one
session; a cold start has a session for itself each time. CPU time is that of all processes, brokers
included: unlike rates it says the same on a busy machine.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.spark.cluster import Cluster as SparkCluster
from minikafka.spark.options import batch_options
from minikafka.spark.read.fetching import RangeReader
from minikafka.spark.read.planning import batch_ranges
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.harness import Figures, cpu_seconds, figures_of, in_turns, medians
from scripts.lib.bench.report import Report, figure

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
PARTITIONS = 4
ROUNDS = 4  # the first of which is forgotten
COLD_ROUNDS = 3
SIZES = {100: 1_000_000, 1000: 200_000}  # bytes of a value: records
BATCHES = 5
FEW = 40
FEW_BATCHES = 12
OUT = "out"
OURS, OFFICIAL, FLOOR = "minikafka", "kafka", "ready"
SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2"}  # fmt: skip


@contextmanager
def filled_topics() -> Iterator[Brokers]:
    """A broker with a topic of records of each size."""
    with Brokers() as cluster:
        topics = (*(f"in-{size}" for size in SIZES), OUT)
        cluster.create({topic: [[1]] * PARTITIONS for topic in topics})
        for size, count in SIZES.items():
            fill(cluster.bootstrap, f"in-{size}", size, count)
        yield cluster


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


def warm_rounds(kinds: Sequence[str], measure: Callable[[str], T]) -> dict[str, list[T]]:
    """Measure each kind in turns, and forget the first round."""
    found = in_turns({kind: partial(measure, kind) for kind in kinds}, ROUNDS)
    return {kind: each[1:] for kind, each in found.items()}


# ---------------------------------------------------------------------- into Arrow, topic to topic


def run(report: Report) -> None:
    with filled_topics() as cluster:
        report.section("Spark: into Arrow, no JVM, one process", OURS, "confluent")
        for size, count in SIZES.items():

            def arrow_rate(kind: str) -> float:
                read = read_raw if kind == OURS else read_confluent
                return krecords_a_second(count, lambda: read(cluster.bootstrap, size))  # noqa: B023

            found = warm_rounds([OURS, "confluent"], arrow_rate)
            rates = {kind: max(each) for kind, each in found.items()}
            report.row(f"read, {size} B", "krec/s", rates[OURS], rates["confluent"], 1.7)
            report.row(f"read, {size} B", "MB/s", rates[OURS] * size / 1000)
        with session(cluster.bootstrap) as sources:
            report.section("Spark: micro-batches, local[2]", OURS)
            figures = sources.stream(OURS, 100, SIZES[100], SIZES[100] // BATCHES, OUT)
            rate = figures["krec/s"]
            report.row("topic to topic exactly once, 100 B", "krec/s", rate, least=250)


def krecords_a_second(count: int, read: Callable[[], int]) -> float:
    began = time.monotonic()
    found = read()
    assert found == count, (found, count)
    return count / (time.monotonic() - began) / 1000


def arrow_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()),
         ("partition", pa.int32()), ("offset", pa.int64()),
         ("timestamp", pa.timestamp("us", tz="UTC")), ("timestampType", pa.int32())]
    )  # fmt: skip


def read_raw(bootstrap: str, size: int) -> int:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": f"in-{size}"}
    options = batch_options(given)
    schema = arrow_schema()
    with SparkCluster(options.client) as cluster:
        return sum(
            batch.num_rows
            for wanted in batch_ranges(cluster, options)
            for batch in RangeReader(cluster, wanted).read(schema)
        )


def read_confluent(bootstrap: str, size: int) -> int:
    """The same columns by way of librdkafka; its own settings for throughput."""
    import pyarrow as pa

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
         "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10}
    )  # fmt: skip
    consumer.assign([TopicPartition(f"in-{size}", number, 0) for number in range(PARTITIONS)])
    schema, count = arrow_schema(), 0
    while count < SIZES[size]:
        messages = consumer.consume(min(10_000, SIZES[size] - count), 30)
        kinds = [message.timestamp() for message in messages]
        columns: list[list[Any]] = [
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.topic() for message in messages],
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [when * 1000 for _, when in kinds],
            [kind - 1 for kind, _ in kinds],
        ]
        arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
        pa.record_batch(arrays, schema=schema)
        count += len(messages)
    consumer.close()
    return count


# ----------------------------------------------------------------------------- queries and streams


class Sources:
    """The three sources in one session, with the same options as far as they have them."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        from minikafka.spark.session import local_session
        from scripts.lib.bench.spark_floor import register_floor

        self.bootstrap = bootstrap
        self._checkpoints = (home / f"checkpoint-{n}" for n in itertools.count())
        given = {"spark.jars": jars()} if jars() else {}
        warehouse = {"spark.sql.warehouse.dir": str(home / "warehouse")}
        self.spark = local_session("bench", "local[2]", {**SETTINGS, **warehouse, **given})
        register_floor(self.spark)

    def batch(self, kind: str, size: int) -> Figures:
        """Run a batch query."""
        began = time.monotonic()
        frame = self._of(self.spark.read, kind, size, SIZES[size], 0).load()
        frame.write.format("noop").mode("overwrite").save()
        return {"krec/s": SIZES[size] / (time.monotonic() - began) / 1000}

    def stream(self, kind: str, size: int, count: int, limit: int, target: str = "") -> Figures:
        """Run a stream over the last ``count`` records, in batches of ``limit``. Its rate is that
        of the batches after the first; ``us`` is the CPU time of a record in all batches."""
        before = cpu_of_all()
        query = self._start(kind, size, count, limit, target)
        query.awaitTermination()
        cpu = cpu_of_all() - before
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        rows = sum(each["numInputRows"] for each in progress)
        assert rows == count, (kind, rows)
        times = [each["durationMs"]["triggerExecution"] for each in progress[1:]]
        rate = (count - limit) / sum(times)
        of_batch = {"ms": median(times), "cpu ms": cpu / rows * limit * 1e3}
        return {"krec/s": rate, "us": cpu / rows * 1e6, **of_batch}

    def start(self, kind: str) -> Figures:
        """Run a stream from its start to the end of its only batch."""
        began = time.monotonic()
        self._start(kind, 100, FEW, FEW).awaitTermination()
        return {"s": time.monotonic() - began}

    def _start(self, kind: str, size: int, count: int, limit: int, target: str = "") -> Any:
        frame = self._of(self.spark.readStream, kind, size, count, limit).load()
        writer = frame.writeStream.format("noop")
        if target:
            brokers = {"kafka.bootstrap.servers": self.bootstrap}
            writer = frame.select("key", "value").writeStream.format(OURS)
            writer = writer.options(**brokers, topic=target)
        writer = writer.option("checkpointLocation", str(next(self._checkpoints)))
        return writer.trigger(availableNow=True).start()

    def _of(self, reader: Any, kind: str, size: int, count: int, limit: int) -> Any:
        if kind == FLOOR:
            return reader.format(kind).options(size=size, count=count, limit=limit)
        topic, each = f"in-{size}", (SIZES[size] - count) // PARTITIONS
        begin = ", ".join(f'"{number}": {each}' for number in range(PARTITIONS))
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic,
                   "startingOffsets": f'{{"{topic}": {{{begin}}}}}'}  # fmt: skip
        return reader.format(kind).options(
            **options, **({"maxOffsetsPerTrigger": limit} if limit else {})
        )


@contextmanager
def session(bootstrap: str) -> Iterator[Sources]:
    with tempfile.TemporaryDirectory() as home:
        sources = Sources(bootstrap, Path(home))
        try:
            yield sources
        finally:
            sources.spark.stop()


def jars() -> str:
    """Return the official connector's jars, separated by commas; empty if there are none."""
    given = os.environ.get("MINIKAFKA_SPARK_KAFKA_JARS", "")
    folder = Path(given)
    return ",".join(map(str, sorted(folder.glob("*.jar")))) if given and folder.is_dir() else given


def cpu_of_all() -> float:
    """Return the CPU time so far of this process's descendants that are alive."""
    return cpu_seconds(psutil.Process().children(recursive=True))


def run_streams(report: Report) -> None:
    kinds = [OURS, OFFICIAL, FLOOR] if jars() else [OURS, FLOOR]
    with filled_topics() as cluster:
        with session(cluster.bootstrap) as sources:
            warm(report, sources, kinds)
        cold(report, cluster.bootstrap, kinds[:-1])


def warm(report: Report, sources: Sources, kinds: list[str]) -> None:
    report.section("Spark, warm, local[2]", OURS, "official")

    def show(measure: Callable[[str], Figures], *rows: tuple[str, str, str, Aim]) -> None:
        found = {kind: medians(each) for kind, each in warm_rounds(kinds, measure).items()}
        for name, unit, key, aim in rows:
            row(report, name, unit, {kind: each[key] for kind, each in found.items()}, **aim)

    for size, count in SIZES.items():
        query = partial(sources.batch, size=size)
        show(query, (f"batch to noop, {size} B", "krec/s", "krec/s", {}))
        show(
            partial(sources.stream, size=size, count=count, limit=count // BATCHES),
            (f"stream to noop, {size} B", "krec/s", "krec/s", {"least": 1.5}),
            (f"CPU of it, {size} B", "µs/record", "us", {}),
        )
    show(
        partial(sources.stream, size=100, count=FEW_BATCHES * FEW, limit=FEW),
        (f"micro-batch of {FEW}", "ms", "ms", {"most": 100}),
        (f"CPU of it, {FEW}", "ms", "cpu ms", {}),
    )
    show(sources.start, ("start of a stream, to its first batch", "s", "s", {"most": 2}))


Aim = dict[str, float]


def row(report: Report, name: str, unit: str, values: dict[str, float], **aim: float) -> None:
    note = f"floor {figure(values[FLOOR])}" if FLOOR in values else ""
    report.row(name, unit, values[OURS], values.get(OFFICIAL), note=note, **aim)


# ------------------------------------------------------------------------------------ cold starts


def cold(report: Report, bootstrap: str, kinds: list[str]) -> None:
    report.section("Spark, a session each time, local[2]", OURS, "official")
    command = (sys.executable, "-m", "scripts.lib.bench.spark")
    measures = {kind: partial(figures_of, *command, kind, bootstrap) for kind in kinds}
    found = {kind: medians(each) for kind, each in in_turns(measures, COLD_ROUNDS).items()}
    for name in found[OURS]:
        row(report, name, "s", {kind: each[name] for kind, each in found.items()})


def cold_run(kind: str, bootstrap: str) -> Figures:
    began = time.monotonic()
    with session(bootstrap) as sources:
        opened = time.monotonic()
        sources.batch(kind, 100)
        queried = time.monotonic()
        return {
            "session": opened - began,
            "then a batch of records of 100 B": queried - opened,
            "then a stream, to its first batch": sources.start(kind)["s"],
            "session and batch": queried - began,
        }


if __name__ == "__main__":
    print(json.dumps(cold_run(*sys.argv[1:])))
