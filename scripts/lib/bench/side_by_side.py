"""minikafka beside official Apache Kafka, in one run: writes docs/explanation/performance.md.

One kind runs at a time, in turns: minikafka, Kafka, minikafka, Kafka. Both kinds get the same
server.properties, the same ZooKeeper server and the same load.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import platform
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.cli.processes.embedded_zookeeper import class_path, find_java, jar_folders
from scripts.lib.bench import apache_kafka, file_probe, requests, servers
from scripts.lib.bench.broker_processes import COMMON, BrokerProcesses, Command, minikafka_command
from scripts.lib.bench.controller import gone
from scripts.lib.bench.kept_report import KeptReport
from scripts.lib.bench.load import Result, drive, drive_in_turn
from scripts.lib.bench.nasty_inputs import receive
from scripts.lib.bench.performance_sheet import (
    KAFKA,
    OURS,
    PROBE,
    Section,
    Sheet,
    insert,
    read_before,
    tables,
)
from scripts.lib.bench.produce import (
    IN_FLIGHT,
    end_to_end,
    fill_and_fetch,
    one_at_a_time,
    round_of,
)
from scripts.lib.bench.replication import Pacer, percentile
from scripts.lib.bench.report import Report

REPOSITORY = Path(__file__).parents[3]
DOCUMENT = REPOSITORY / "docs" / "explanation" / "performance.md"

ROUNDS = 2  # each kind runs so often, in turns
MEASURED = 3  # times in a row, of rates
PATIENCE_S = 60
SESSION_TIMEOUT_MS = 6000

# Large messages, and a session time-out that a test can wait for. The rest is Kafka's default.
SETTINGS = {
    "message.max.bytes": 4 << 20,
    "replica.fetch.max.bytes": 4 << 20,
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
}

WARM_UP = 20_000  # produce requests; a JVM has compiled its hot paths then
# batch bytes, records in a batch, requests
PRODUCED = (
    (1 << 10, 1, 12_000),
    (16 << 10, 1, 5_000),
    (16 << 10, 160, 5_000),
    (256 << 10, 1, 400),
    (256 << 10, 2560, 400),
)
REPLICATED = ((1 << 10, 3_000), (16 << 10, 1_500), (256 << 10, 300))
FETCHED = (1 << 10, 16 << 10, 256 << 10)
FETCHES = 700
FRAME_BYTES = 80  # of a Fetch of one partition, and of a response without records
CONNECTIONS = 8
END_TO_END = 500
# Few enough that a JVM on a small machine keeps up: queues would be measured else.
PACE_S = 0.02
ACCEPT_EVERY_S = 0.005
CALM_S = 0.1  # a record takes less before a broker is killed
CALM_RECORDS = 50
BEFORE = f"for comparison: longest wait of the last {CALM_RECORDS} records before the kill"
BUSY = 1.0  # load average from which on figures are not to be relied on
LED = 30  # partitions that a broker leads when it goes
SHARES = (0.5, 0.99)

START = Section("Start, from the command until all brokers list all; ZooKeeper runs", "s")
STOP = Section("Stop of one broker, from SIGTERM until the process has ended", "s")
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
SHUTDOWN = Section("Controlled shutdown (kill -15) of the leader of 30 partitions", "ms")
FAILOVER = Section("Failover (kill -9) of the leader of 30 partitions, session time-out 6 s", "ms")
FAILED = Section("Records of the producer that failed while a leader went", "records")
SECTIONS = (PRODUCE, FETCH, REPLICATE, LATENCY, START, STOP, MEMORY, SHUTDOWN, FAILOVER, FAILED)


def run(others: Sequence[Callable[[Report], None]]) -> None:
    """Measure both kinds, and then what ``others`` measure of ours alone. The document changes only
    at the end."""
    insert(DOCUMENT.read_text(), "")  # fail now if the marks are missing
    jars = apache_kafka.jars_to_compare(os.environ)
    kinds: dict[str, Command] = {
        OURS: minikafka_command,
        KAFKA: partial(apache_kafka.broker_command, jars),
    }
    about, sheet = conditions(jars), Sheet(SECTIONS)
    for number in range(1, ROUNDS + 1):
        for measure, brokers in ((one_broker, 1), (three_brokers, 3)):
            for kind, command in kinds.items():
                began = time.monotonic()
                with tempfile.TemporaryDirectory() as home:
                    servers.take_memory(Path(home))
                    with BrokerProcesses(command, Path(home), brokers, SETTINGS) as cluster:
                        measure(sheet, kind, cluster)
                took = f"{time.monotonic() - began:.0f} s"
                print(f"round {number}, brokers of {kind}: {brokers}, {took}", flush=True)
            probe_alone(sheet, brokers)
    alone = KeptReport()
    for measure_alone in others:
        measure_alone(alone)
    before = read_before()
    measured = f"{about}\n\n{tables(sheet, before)}\n\n{alone.markdown(before)}"
    DOCUMENT.write_text(insert(DOCUMENT.read_text(), measured))
    print(f"\n{measured}\n\nwritten: {DOCUMENT.relative_to(REPOSITORY)}")


# ----------------------------------------------------------------------------------- one broker


def one_broker(sheet: Sheet, kind: str, cluster: BrokerProcesses) -> None:
    sheet.add(kind, START, "one broker, empty directory", cluster.seconds_to_serve)
    time.sleep(3)
    sheet.add(kind, MEMORY, "at rest, 3 s after the start", resident_mb(cluster, 1))
    names = [f"part-{number}" for number in range(CONNECTIONS)]
    create_topics(cluster, {name: [[1]] for name in names})
    port = cluster.ports[0]
    round_of(port, requests.produce_frame(names[0], 1 << 10, 1), WARM_UP, check=True)
    for name, frame, count in produce_rows(names[0]):
        round_of(port, frame, count // 4, check=True)
        for _ in range(MEASURED):
            result, _ = round_of(port, frame, count, check=True)
            sheet.add(kind, PRODUCE, name, result.per_second)
    frames = [requests.produce_frame(name, 1 << 10, 1) for name in names]
    many = f"1 KB, {CONNECTIONS} connections"
    for _ in range(MEASURED):
        sheet.add(kind, PRODUCE, many, rate_of_many(port, frames, PRODUCED[0][2] // CONNECTIONS))
    for size in FETCHED:
        fetches, volume = fill_and_fetch(port, names[1], size)
        for _ in range(MEASURED):
            result, _ = uvloop.run(drive_in_turn(port, fetches, FETCHES, IN_FLIGHT))
            name = f"batches of {size >> 10} KB"
            sheet.add(kind, FETCH, name, result.per_second * volume / 1e6)
    sheet.add(kind, MEMORY, "after the load of produce and fetch", resident_mb(cluster, 1))
    stop_and_start(sheet, kind, cluster)


def stop_and_start(sheet: Sheet, kind: str, cluster: BrokerProcesses) -> None:
    began = time.monotonic()
    cluster.kill_broker(1, signal.SIGTERM)
    cluster.wait_broker(1)
    stopped = time.monotonic()
    sheet.add(kind, STOP, "one broker, alone, after the load", stopped - began)
    cluster.restart_broker(1)
    cluster.wait_for_all()
    name = "one broker, after a clean stop, with the data of the load"
    sheet.add(kind, START, name, time.monotonic() - stopped)


def produce_rows(topic: str) -> Iterator[tuple[str, bytes, int]]:
    for size, records, count in PRODUCED:
        frame = requests.produce_frame(topic, size // records, 1, records_per_batch=records)
        yield f"{size >> 10} KB, {records:,} record{'s' if records > 1 else ''}", frame, count


def rate_of_many(port: int, frames: Sequence[bytes], count: int) -> float:
    """Requests a second of one connection for each frame, together."""

    async def drive_all() -> list[tuple[Result, bytes]]:
        return await asyncio.gather(*(drive(port, frame, count, IN_FLIGHT) for frame in frames))

    began = time.monotonic()
    driven = uvloop.run(drive_all())
    seconds = time.monotonic() - began
    for _, answer in driven:
        requests.check_produced(answer)
    return len(frames) * count / seconds


def probe_alone(sheet: Sheet, brokers: int) -> None:
    """The figures of the bare probe for what the brokers did: it has no replicas."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        produce_answer = 60  # bytes, about
        if brokers > 1:
            with servers.probe(home, produce_answer) as port:
                frame = requests.produce_frame("part-0", 1 << 10, 1)
                uvloop.run(drive(port, frame, 200, 1))
                result, _ = uvloop.run(drive(port, frame, 2_000, 1))
                for share in SHARES:
                    row = f"produce acks=1, p{share * 100:.0f}"
                    sheet.add(PROBE, LATENCY, row, result.percentile_ms(share))
            return
        servers.take_memory(home)
        for row, frame, count in produce_rows("part-0"):
            with servers.probe(home, produce_answer) as port:
                round_of(port, frame, count // 4, check=False)
                for _ in range(MEASURED):
                    result, _ = round_of(port, frame, count, check=False)
                    sheet.add(PROBE, PRODUCE, row, result.per_second)
        log = home / "log"
        log.write_bytes(os.urandom(IN_FLIGHT << 20))
        frames = [file_probe.frame(at << 20, 1 << 20, FRAME_BYTES) for at in range(IN_FLIGHT)]
        with servers.file_probe(log, FRAME_BYTES) as (port, _):
            for size in FETCHED:
                for _ in range(MEASURED):
                    result, _ = uvloop.run(drive_in_turn(port, frames, FETCHES, IN_FLIGHT))
                    row = f"batches of {size >> 10} KB"
                    sheet.add(PROBE, FETCH, row, result.per_second * (1 << 20) / 1e6)


def resident_mb(cluster: BrokerProcesses, broker_id: int) -> float:
    return float(psutil.Process(cluster.broker_pid(broker_id)).memory_info().rss / 1e6)


# -------------------------------------------------------------------------------- three brokers


def three_brokers(sheet: Sheet, kind: str, cluster: BrokerProcesses) -> None:
    sheet.add(kind, START, "three brokers at once, empty directories", cluster.seconds_to_serve)
    controller = controller_of(cluster)
    first, second = (each for each in cluster.broker_ids if each != controller)
    port = cluster.ports[first - 1]
    create_topics(cluster, {"bench": [[first, second, controller]]})
    round_of(port, requests.produce_frame("bench", 1 << 10, 1), WARM_UP, check=True)
    for size, count in REPLICATED:
        frame = requests.produce_frame("bench", size, -1)
        round_of(port, frame, count // 2, check=True)
        for _ in range(MEASURED):
            result, _ = round_of(port, frame, count, check=True)
            sheet.add(kind, REPLICATE, f"{size >> 10} KB", result.per_second)
    latencies(sheet, kind, cluster, port)
    for victim, other in ((first, second), (second, first)):
        topic = f"left-by-{victim}"
        create_topics(cluster, {topic: [[victim, controller, other]] * LED})
        controlled_shutdown(sheet, kind, cluster, victim, topic)
        cluster.restart_broker(victim)
        cluster.wait_for_all()
        wait_in_sync(cluster, ["bench", topic])
    create_topics(cluster, {"lost": [[first, controller, second]] * LED})
    failover(sheet, kind, cluster, first, "lost")


def latencies(sheet: Sheet, kind: str, cluster: BrokerProcesses, port: int) -> None:
    for name, acks in (("acks=1", 1), ("acks=all", -1)):
        result, _ = one_at_a_time(port, requests.produce_frame("bench", 1 << 10, acks))
        for share in SHARES:
            row = f"produce {name}, p{share * 100:.0f}"
            sheet.add(kind, LATENCY, row, result.percentile_ms(share))
    taken = asyncio.run(end_to_end(cluster.bootstrap, END_TO_END))
    for share in SHARES:
        row = f"producer to consumer (aiokafka, acks=all), p{share * 100:.0f}"
        sheet.add(kind, LATENCY, row, percentile(taken, share))


def controlled_shutdown(
    sheet: Sheet, kind: str, cluster: BrokerProcesses, victim: int, topic: str
) -> None:
    with Acceptance(cluster.ports, topic) as accepted, Pacer(cluster, topic, PACE_S) as pacer:
        before = calm_down(pacer)
        killed = time.monotonic()
        cluster.kill_broker(victim, signal.SIGTERM)
        cluster.wait_broker(victim)
        sheet.add(kind, STOP, "one of three brokers", time.monotonic() - killed)
        wait_until(lambda: accepted.first_after(killed, victim) > 0, "another leader")
        time.sleep(1)
    leaderless = longest_gap(accepted.times(), killed)
    sheet.add(kind, SHUTDOWN, "longest time in which no broker accepts a record", leaderless * 1000)
    add_pauses(sheet, kind, SHUTDOWN, pacer, killed)
    sheet.add(kind, SHUTDOWN, BEFORE, before * 1000)


def failover(sheet: Sheet, kind: str, cluster: BrokerProcesses, victim: int, topic: str) -> None:
    from kazoo.client import KazooClient

    zookeeper: Any = KazooClient(hosts=cluster.zookeeper)
    zookeeper.start(PATIENCE_S)
    with (
        gone(zookeeper, f"/brokers/ids/{victim}") as expiry,
        Acceptance(cluster.ports, topic) as accepted,
        Pacer(cluster, topic, PACE_S) as pacer,
    ):
        before = calm_down(pacer)
        killed = time.monotonic()
        cluster.kill_broker(victim)
        wait_until(lambda: expiry() > 0, "the end of a broker's session")
        wait_until(lambda: accepted.first_after(killed, victim) > 0, "another leader")
        time.sleep(1)
    zookeeper.stop()
    zookeeper.close()
    led = accepted.first_after(killed, victim)
    row = "from the end of the session until another leader accepts a record"
    sheet.add(kind, FAILOVER, row, (led - expiry()) * 1000)
    row = "from the kill until another leader accepts a record"
    sheet.add(kind, FAILOVER, row, (led - killed) * 1000)
    add_pauses(sheet, kind, FAILOVER, pacer, killed)
    sheet.add(kind, FAILOVER, BEFORE, before * 1000)


def calm_down(pacer: Pacer) -> float:
    """Wait until records are quick, at most 10 s; return the longest wait of the last ones.

    New connections and cold code are no part of what is measured.
    """
    deadline = time.monotonic() + 10
    while True:
        last = [took for _, took, _ in pacer.rows[-CALM_RECORDS:]]
        calm = len(last) == CALM_RECORDS and max(last) < CALM_S
        if calm or (last and time.monotonic() > deadline):
            return max(last)
        if time.monotonic() > deadline + PATIENCE_S:
            raise RuntimeError("no record of the producer was accepted")
        time.sleep(0.1)


def add_pauses(sheet: Sheet, kind: str, section: Section, pacer: Pacer, killed: float) -> None:
    """What a producer sees."""
    waits = [took for sent, took, _ in pacer.rows if sent > killed - 0.2]
    sheet.add(kind, section, "longest wait of a record of a producer", max(waits) * 1000)
    sheet.add(kind, section, "99 of 100 records wait less than", percentile(waits, 0.99) * 1000)
    failed = sum(1 for _, _, error in pacer.rows if error is not None)
    sheet.add(kind, FAILED, "kill -15" if section is SHUTDOWN else "kill -9", failed)


# -------------------------------------------------------------------------------------- looking


class Acceptance:
    """A context: sends small records (acks=1) to every broker all the time; knows when each
    broker accepted one."""

    def __init__(self, ports: Sequence[int], topic: str) -> None:
        self._frame = requests.produce_frame(topic, 10, 1)
        self._stop = threading.Event()
        self._accepted: dict[int, list[float]] = {n: [] for n in range(1, len(ports) + 1)}
        self._threads = [
            threading.Thread(target=self._run, args=(broker_id, port))
            for broker_id, port in enumerate(ports, start=1)
        ]

    def __enter__(self) -> Acceptance:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def times(self) -> list[float]:
        """When any broker accepted a record, sorted."""
        return sorted(time for times in self._accepted.values() for time in times)

    def first_after(self, since: float, without: int) -> float:
        """When a broker other than ``without`` first accepted a record; 0 if none did."""
        return min(
            (
                accepted
                for broker_id, times in self._accepted.items()
                for accepted in list(times)
                if broker_id != without and accepted > since
            ),
            default=0.0,
        )

    def _run(self, broker_id: int, port: int) -> None:
        while not self._stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    self._send(connection, self._accepted[broker_id])
            except OSError:  # the broker is gone
                self._stop.wait(0.05)

    def _send(self, connection: socket.socket, accepted: list[float]) -> None:
        while not self._stop.wait(ACCEPT_EVERY_S):
            connection.sendall(self._frame)
            answer = receive(connection)
            if answer is None:
                return
            if requests.produce_error(answer) == 0:
                accepted.append(time.monotonic())


def longest_gap(times: Sequence[float], since: float) -> float:
    """Return the longest time between two neighbours of ``times`` (sorted), from the last one
    before ``since`` on. Raises ValueError if there are none to compare."""
    return max(later - earlier for earlier, later in pairwise(times) if later > since)


def create_topics(cluster: BrokerProcesses, topics: dict[str, list[list[int]]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [
        NewTopic(name, len(replicas), replica_assignment=replicas)
        for name, replicas in topics.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(PATIENCE_S)
    wait_in_sync(cluster, list(topics))


def wait_in_sync(cluster: BrokerProcesses, topics: Sequence[str]) -> None:
    """Wait until every broker knows a leader and a full ISR of all partitions."""

    def settled(port: int) -> bool:
        found = requests.metadata(port, topics)
        return found is not None and all(
            topic.partitions
            and all(
                part.leader_id > 0 and len(part.isr_nodes) == len(part.replica_nodes)
                for part in topic.partitions
            )
            for topic in found.topics
        )

    wait_until(lambda: all(settled(port) for port in cluster.ports), "replicas in sync")


def controller_of(cluster: BrokerProcesses) -> int:
    found = requests.metadata(cluster.ports[0])
    assert found is not None
    return int(found.controller_id)


def wait_until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.05)


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
