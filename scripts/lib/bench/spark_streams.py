"""Streams, small batches and cold starts of the Spark data source beside Spark's Kafka connector.

The connector's jars are those of MINIKAFKA_SPARK_KAFKA_JARS, as for its test; without them the
column is empty. The floor is a data source in Python whose batches are ready-made. All three take
turns in one session; what is cold has a session of its own each time. CPU time is that of all
processes, brokers included: unlike rates it says the same on a busy machine.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench.report import Report, figure
from scripts.lib.bench.spark import PARTITIONS, fill
from scripts.lib.cluster import Cluster

ROUNDS = 4
COLD_ROUNDS = 3
SIZES = {100: 1_000_000, 1000: 200_000}  # bytes of a value: records
BATCHES = 5
FEW = 40
FEW_BATCHES = 12
SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2"}  # fmt: skip


class Run(NamedTuple):
    """Records a second of the batches after the first, the CPU time of a record in all batches, and
    the milliseconds of the median batch."""

    rate: float
    cpu_us: float
    median_ms: float


class Cold(NamedTuple):
    """Seconds of the session, the first batch query in it, and the first batch of a stream."""

    session: float
    batch: float
    stream: float

    @property
    def session_and_batch(self) -> float:
        return self.session + self.batch


def jars() -> str:
    """Return the official connector's jars, separated by commas; empty if there are none."""
    given = os.environ.get("MINIKAFKA_SPARK_KAFKA_JARS", "")
    folder = Path(given)
    return ",".join(map(str, sorted(folder.glob("*.jar")))) if given and folder.is_dir() else given


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home) / "cluster", 1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics(
            [NewTopic(f"in-{size}", PARTITIONS, 1) for size in SIZES]
        ).values():
            future.result(60)
        for size, count in SIZES.items():
            fill(cluster.bootstrap, f"in-{size}", size, count)
        kinds = ["minikafka", "kafka", "ready"] if jars() else ["minikafka", "ready"]
        warm(report, Sources(cluster.bootstrap, Path(home)), kinds)
        cold(report, cluster.bootstrap, kinds[:-1])


def session(name: str) -> Any:
    from minikafka.spark.session import local_session

    given = {"spark.jars": jars()} if jars() else {}
    return local_session(name, "local[2]", {**SETTINGS, **given})


class Sources:
    """The three sources, with the same options as far as they have them."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        from scripts.lib.bench.spark_floor import register_floor

        self.bootstrap = bootstrap
        self._checkpoints = (home / f"checkpoint-{n}" for n in itertools.count())
        self.spark = session("streams")
        register_floor(self.spark)

    def batch(self, kind: str, size: int) -> float:
        """Return the records a second of a batch query."""
        began = time.monotonic()
        frame = self._of(self.spark.read, kind, size, SIZES[size], 0).load()
        frame.write.format("noop").mode("overwrite").save()
        return SIZES[size] / (time.monotonic() - began)

    def stream(self, kind: str, size: int, count: int, limit: int) -> Run:
        """Run a stream over the last ``count`` records, in batches of ``limit``."""
        before = cpu_seconds()
        query = self._start(kind, size, count, limit)
        query.awaitTermination()
        cpu = cpu_seconds() - before
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        rows = sum(each["numInputRows"] for each in progress)
        assert rows == count, (kind, rows)
        times = [each["durationMs"]["triggerExecution"] for each in progress[1:]]
        rate = (count - limit) / sum(times) * 1000
        return Run(rate, cpu / rows * 1e6, statistics.median(times))

    def start_s(self, kind: str) -> float:
        """Return the seconds from the start of a stream to the end of its only batch."""
        began = time.monotonic()
        self._start(kind, 100, FEW, FEW).awaitTermination()
        return time.monotonic() - began

    def _start(self, kind: str, size: int, count: int, limit: int) -> Any:
        frame = self._of(self.spark.readStream, kind, size, count, limit).load()
        writer = frame.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(next(self._checkpoints)))
        return writer.trigger(availableNow=True).start()

    def _of(self, reader: Any, kind: str, size: int, count: int, limit: int) -> Any:
        if kind == "ready":
            return reader.format(kind).options(size=size, count=count, limit=limit)
        topic, each = f"in-{size}", (SIZES[size] - count) // PARTITIONS
        begin = ", ".join(f'"{number}": {each}' for number in range(PARTITIONS))
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic,
                   "startingOffsets": f'{{"{topic}": {{{begin}}}}}'}  # fmt: skip
        return reader.format(kind).options(
            **options, **({"maxOffsetsPerTrigger": limit} if limit else {})
        )


def warm(report: Report, sources: Sources, kinds: list[str]) -> None:
    try:
        report.section("Spark, warm, local[2]", "minikafka", "official")
        for size, count in SIZES.items():
            batches = in_turns(kinds, partial(sources.batch, size=size))
            rates = {kind: statistics.median(each) / 1e3 for kind, each in batches.items()}
            row(report, f"batch to noop, {size} B", "krec/s", rates)
            limit = count // BATCHES
            runs = in_turns(kinds, partial(sources.stream, size=size, count=count, limit=limit))
            rates = {kind: rate / 1e3 for kind, rate in medians(runs, "rate").items()}
            row(report, f"stream to noop, {size} B", "krec/s", rates, 1.5)
            row(report, f"CPU of it, {size} B", "µs/record", medians(runs, "cpu_us"), smaller=True)
        runs = in_turns(
            kinds, partial(sources.stream, size=100, count=FEW_BATCHES * FEW, limit=FEW)
        )
        row(report, f"micro-batch of {FEW}", "ms", medians(runs, "median_ms"), 100, True)
        cpu_ms = {kind: each * FEW / 1e3 for kind, each in medians(runs, "cpu_us").items()}
        row(report, f"CPU of it, {FEW}", "ms", cpu_ms, smaller=True)
        begun = in_turns(kinds, sources.start_s)
        seconds = {kind: statistics.median(each) for kind, each in begun.items()}
        row(report, "start of a stream, to its first batch", "s", seconds, 2, True)
    finally:
        sources.spark.stop()


def medians(runs: dict[str, list[Any]], field: str) -> dict[str, float]:
    return {kind: statistics.median(getattr(each, field) for each in of_kind)
            for kind, of_kind in runs.items()}  # fmt: skip


def in_turns(kinds: list[str], measure: Callable[[str], Any]) -> dict[str, list[Any]]:
    """Measure each kind in each round, and forget the first round."""
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind in kinds:
            found[kind].append(measure(kind))
    return {kind: each[1:] for kind, each in found.items()}


def row(
    report: Report,
    name: str,
    unit: str,
    values: dict[str, float],
    aim: float | None = None,
    smaller: bool = False,
) -> None:
    floor = values.get("ready")
    note = "" if floor is None else f"floor {figure(floor)}"
    report.row(name, unit, values["minikafka"], values.get("kafka"), aim, smaller, note)


def cold(report: Report, bootstrap: str, kinds: list[str]) -> None:
    report.section("Spark, a session each time, local[2]", "minikafka", "official")
    found: dict[str, list[Cold]] = {kind: [] for kind in kinds}
    for _ in range(COLD_ROUNDS):
        for kind in kinds:
            command = [sys.executable, "-m", "scripts.lib.bench.spark_streams", kind, bootstrap]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[kind].append(Cold(*map(float, done.stdout.split()[-3:])))
    for name, field in (
        ("session", "session"),
        ("then a batch of 1,000,000 of 100 B", "batch"),
        ("then a stream, to its first batch", "stream"),
        ("session and batch", "session_and_batch"),
    ):
        row(report, name, "s", medians(found, field), smaller=True)


def cold_run(kind: str, bootstrap: str) -> Cold:
    with tempfile.TemporaryDirectory() as home:
        times = [time.monotonic()]
        sources = Sources(bootstrap, Path(home))
        times.append(time.monotonic())
        sources.batch(kind, 100)
        times.append(time.monotonic())
        sources.start_s(kind)
        times.append(time.monotonic())
        sources.spark.stop()
        return Cold(*(after - before for before, after in itertools.pairwise(times)))


def cpu_seconds() -> float:
    """Return the CPU time so far of this process's descendants that are alive."""
    total = 0.0
    for each in psutil.Process().children(recursive=True):
        try:
            used = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system
    return total


if __name__ == "__main__":
    print(*cold_run(*sys.argv[1:]))
