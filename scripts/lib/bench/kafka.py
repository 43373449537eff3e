"""minikafka beside official Apache Kafka, in one run: writes the figures of the performance page.

One kind runs at a time, in turns: minikafka, Kafka, minikafka, Kafka. Both kinds get the same
server.properties, the same ZooKeeper server and the same load.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

from minikafka.cli.processes.embedded_zookeeper import class_path, find_java, jar_folders
from scripts.lib.bench import apache_kafka, failover, probe
from scripts.lib.bench.brokers import (
    COMMON,
    KAFKA,
    LARGE,
    OURS,
    QUICK,
    Brokers,
    Command,
    minikafka_command,
)
from scripts.lib.bench.failover import STOP, Add
from scripts.lib.bench.harness import REPOSITORY, child, percentile, resident_mb
from scripts.lib.bench.load import IN_FLIGHT, NO_CHECK, Client, drive_in_turns
from scripts.lib.bench.loads import KB, MB, TABLES, bare, end_to_end, produced, reads
from scripts.lib.bench.report import PROBE, Report, Section, Sheet, insert, tables
from scripts.lib.bench.requests import fetched_bytes

DOCUMENT = REPOSITORY / "docs" / "explanation" / "performance.md"

ROUNDS = 2  # each kind runs so often, in turns
MEASURED = 3  # times in a row, of rates
SETTINGS = {**LARGE, **QUICK}  # the rest is Kafka's default

WARM_UP = 20_000  # produce requests; a JVM has compiled its hot paths then
# From the table of loads, in shorter rounds.
(PRODUCED,) = TABLES["produce"]
(REPLICATED,) = TABLES["replication"]
(ONE_AT_A_TIME,) = TABLES["latency"]
SHORTER = 2
FETCHED = (KB, 16 * KB, 256 * KB)
FETCHES = 700
FRAME_BYTES = 80  # of a Fetch of one partition, and of a response without records
CONNECTIONS = 8
END_TO_END = 500
BUSY = 1.0  # load average from which on figures are not to be relied on
SHARES = (0.5, 0.99)

START = Section("Start, from the command until all brokers list all; ZooKeeper runs", "s")
MEMORY = Section("Memory of one broker, resident", "MB")
PRODUCE = Section("Produce, acks=1, one broker, five requests in flight", "requests/s", True)
FETCH = Section("Fetch in reads of 1 MB, one broker, five requests in flight", "MB/s", True)
REPLICATE = Section(
    "Produce, acks=all, three brokers, replication factor 3, five requests in flight",
    "requests/s",
    True,
)
LATENCY = Section(
    "Latency, three brokers, replication factor 3, one record of 1 KB at a time", "ms"
)
SECTIONS = (PRODUCE, FETCH, REPLICATE, LATENCY, START, MEMORY, *failover.SECTIONS)


def run(others: Sequence[Callable[[Report], None]]) -> None:
    """Measure both kinds, and then what ``others`` measure of ours alone. The document changes only
    at the end."""
    insert(DOCUMENT.read_text(), "")  # fail now if the marks are missing
    jars = apache_kafka.jars_to_compare(os.environ)
    about, sheet, alone = conditions(jars), compare(jars), Report()
    for measure_alone in others:
        measure_alone(alone)
    measured = f"{about}\n\n{tables(sheet)}\n\n{alone.markdown()}"
    DOCUMENT.write_text(insert(DOCUMENT.read_text(), measured))
    print(f"\n{measured}\n\nwritten: {DOCUMENT.relative_to(REPOSITORY)}")


def compare(jars: Path) -> Sheet:
    sheet = Sheet(SECTIONS)
    commands: dict[str, Command] = {OURS: minikafka_command}
    commands[KAFKA] = partial(apache_kafka.broker_command, jars)

    def measure(
        of: Callable[[Add, Add, Brokers], None], brokers: int, kind: str, command: Command
    ) -> None:
        began = time.monotonic()
        with Brokers(brokers, SETTINGS, command) as cluster:
            of(partial(sheet.add, kind), partial(sheet.add, PROBE), cluster.take_memory())
        took = f"{time.monotonic() - began:.0f} s"
        print(f"brokers of {kind}: {brokers}, {took}", flush=True)

    for _ in range(ROUNDS):
        for of, brokers in ((one_broker, 1), (three_brokers, 3)):
            for kind, command in commands.items():
                measure(of, brokers, kind, command)
    return sheet


# ----------------------------------------------------------------------------------- one broker


def rates(add: Add, section: Section, name: str, client: Client, count: int, scale: float) -> None:
    """Add ``scale`` times the requests a second of some rounds, after a warm-up."""
    for result in drive_in_turns({name: client}, count, MEASURED)[name]:
        add(section, name, result.per_second * scale)


def one_broker(add: Add, add_probe: Add, cluster: Brokers) -> None:
    add(START, "one broker, empty directory", cluster.seconds_to_serve)
    time.sleep(3)
    add(MEMORY, "at rest, 3 s after the start", resident_mb(cluster.process(1)))
    produced(KB)(cluster).drive(WARM_UP)
    for load in PRODUCED.loads:
        client, count = load.ours(cluster), load.count // SHORTER
        rates(add, PRODUCE, load.name, client, count, 1)
        rates(add_probe, PRODUCE, load.name, bare(cluster, client), count, 1)
    many = produced(KB, connections=CONNECTIONS)(cluster)
    rates(add, PRODUCE, f"1 KB, {CONNECTIONS} connections", many, WARM_UP, 1)
    for size in FETCHED:
        client = reads(cluster, size)
        volume = fetched_bytes(client.drive(1).answer) / 1e6
        rates(add, FETCH, f"batches of {size // KB} KB", client, FETCHES, volume)
    add(MEMORY, "after the load of produce and fetch", resident_mb(cluster.process(1)))
    client = bare_reads(cluster)
    for size in FETCHED:
        rates(add_probe, FETCH, f"batches of {size // KB} KB", client, FETCHES, MB / 1e6)
    stop_and_start(add, cluster)


def bare_reads(cluster: Brokers) -> Client:
    log = cluster.directory / "log"
    log.write_bytes(os.urandom(IN_FLIGHT * MB))
    port, _ = cluster.enter(child("probe", "file", log, FRAME_BYTES))
    frames = [probe.read_frame(number * MB, MB, FRAME_BYTES) for number in range(IN_FLIGHT)]
    return Client(int(port), [frames], NO_CHECK)


def stop_and_start(add: Add, cluster: Brokers) -> None:
    began = time.monotonic()
    cluster.kill(1, signal.SIGTERM)
    cluster.wait(1)
    stopped = time.monotonic()
    add(STOP, "one broker, alone, after the load", stopped - began)
    cluster.restart(1)
    cluster.wait_for_all()
    name = "one broker, after a clean stop, with the data of the load"
    add(START, name, time.monotonic() - stopped)


# -------------------------------------------------------------------------------- three brokers


def three_brokers(add: Add, add_probe: Add, cluster: Brokers) -> None:
    add(START, "three brokers at once, empty directories", cluster.seconds_to_serve)
    produced(KB, acks=1, replicas=3)(cluster).drive(WARM_UP)
    for load in REPLICATED.loads:
        if load.shows == ("rate",):
            rates(add, REPLICATE, load.name, load.ours(cluster), load.count // SHORTER, 1)
    for load in ONE_AT_A_TIME.loads:
        client = load.ours(cluster)
        latencies(add, load.name, client, load.count)
        latencies(add_probe, load.name, bare(cluster, client), load.count)
    cluster.create({"end-to-end": [[1, 2, 3]]})
    taken = asyncio.run(end_to_end(cluster.bootstrap, "end-to-end", END_TO_END))
    for share in SHARES:
        row = f"producer to consumer (aiokafka, acks=all), p{share * 100:.0f}"
        add(LATENCY, row, percentile(taken, share))
    failover.leaders_go(add, cluster)


def latencies(add: Add, name: str, client: Client, count: int) -> None:
    client.drive(count // 10)
    result = client.drive(count)
    for share in SHARES:
        add(LATENCY, f"{name}, p{share * 100:.0f}", result.percentile_ms(share))


# ----------------------------------------------------------------------------------- conditions


def conditions(jars: Path) -> str:
    """Return the machine, the versions, the date and the commands as Markdown."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    zookeeper = next(
        jar.stem
        for jar in class_path(jar_folders(os.environ))
        if jar.name.startswith("zookeeper-3")
    )
    options = " ".join(apache_kafka.JVM_OPTIONS)
    settings = ", ".join(f"{key}={value}" for key, value in {**COMMON, **SETTINGS}.items())
    rows = {
        "Date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Command": "`scripts/bench kafka`",
        "Machine": f"{processor()}, {os.cpu_count()} processors, {memory:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}, load average before the run {load:.1f}",
        "minikafka": f"{version('minikafka')} at {commit()}, Python {platform.python_version()}, "
        f"uvloop {version('uvloop')}; `minikafka broker --config server.properties`",
        "Kafka": f"{apache_kafka.version_in(jars)} in ZooKeeper mode, {java_version()}; "
        f"`java {options} kafka.Kafka server.properties`",
        "Both": f"{zookeeper.replace('-', ' ')}; {settings}; all else is the default",
        "Clients": f"a raw load generator on uvloop; confluent-kafka {confluent_kafka.__version__} "
        f"(the waits of records when a leader goes), aiokafka {version('aiokafka')} "
        "(producer to consumer)",
        "Taken": f"{ROUNDS} runs of each kind in turns, rates {MEASURED} times in each; "
        "median (smallest to largest)",
    }
    if load >= BUSY:
        rows["Warning"] = "other work ran on the machine; the figures are not to be relied on"
    return "\n".join(f"- **{name}**: {value}" for name, value in rows.items())


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "an unknown commit"


def java_version() -> str:
    command = [find_java(os.environ), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return said.splitlines()[0].replace('"', "")
