"""How long a neighbour's small produce waits while another client sends something nasty."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench import apache_kafka, nasty_inputs
from scripts.lib.bench.broker_processes import BrokerProcesses
from scripts.lib.bench.nasty_inputs import NastyInput, Target, receive
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import produce_frame
from scripts.lib.bench.servers import Servers
from scripts.lib.cluster import Cluster, with_descriptors

LIMIT_S = 60.0  # what takes longer is "never"
SETTLE_S = 1.0
SPOILT_MS = 10_000  # a broker that stood still for longer may have lost its session
AIM = 1.5
NEIGHBOUR = "neighbour"


@dataclass(frozen=True)
class Stall:
    """What one input did to one cluster. ``wait_ms`` is inf for never."""

    wait_ms: float
    outcome: str
    before_mb: float
    after_mb: float
    alive: bool

    def __str__(self) -> str:
        lives = "" if self.alive else ", DEAD"
        return f"{self.outcome}, {self.before_mb:.0f} → {self.after_mb:.0f} MB{lives}"


class Neighbour:
    """A context: produces a record at a time, and knows the longest wait so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._frame = produce_frame(NEIGHBOUR, 100, 1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.longest_s = 0.0
        self.produced = 0

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + LIMIT_S
        while self.produced < 50 and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.longest_s = 0.0  # without the warming up
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S + 10)

    def _run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port), LIMIT_S) as connection:
                while not self._stop.wait(0.001):
                    started = time.perf_counter()
                    connection.sendall(self._frame)
                    if receive(connection) is None:
                        raise ConnectionError
                    self.longest_s = max(self.longest_s, time.perf_counter() - started)
                    self.produced += 1
        except OSError:  # time-outs too
            self.longest_s = math.inf


class Lab:
    """One cluster at a time, used for row after row until one has spoilt it."""

    def __init__(self, start: Callable[[Path, int, int], Servers], home: Path) -> None:
        """``start`` gets a directory, the number of brokers, and their limit of open files."""
        self._start, self._home = start, home
        self._stack = contextlib.ExitStack()
        self._kind = (0, False, 0)  # of the cluster: brokers, many partitions, descriptors
        self._count = 0
        self._servers: Servers | None = None

    def close(self) -> None:
        self._stack.close()
        self._servers = None

    def measure(self, row: NastyInput) -> Stall:
        attack = row.make()
        servers = self._ready(row.replicas, row.many, row.descriptors)
        pid = servers.broker_pid(1)
        port = int(servers.bootstrap.split(",")[0].rpartition(":")[2])
        broker = psutil.Process(pid)
        before = broker.memory_info().rss / 1e6
        with Neighbour(port) as neighbour:
            outcome = attack(Target(port, pid, LIMIT_S))
            time.sleep(SETTLE_S)
        alive = broker.is_running() and broker.status() != psutil.STATUS_ZOMBIE
        after = broker.memory_info().rss / 1e6 if alive else 0.0
        wait_ms = neighbour.longest_s * 1000
        if row.destructive or not alive or wait_ms > SPOILT_MS:
            self.close()
        return Stall(wait_ms, outcome, before, after, alive)

    def _ready(self, brokers: int, many: bool, descriptors: int) -> Servers:
        if self._servers is None or (brokers, many, descriptors) != self._kind:
            self.close()
            self._count += 1
            self._kind = (brokers, many, descriptors)
            started = self._start(self._home / str(self._count), brokers, descriptors)
            self._servers = self._stack.enter_context(started)
            create_topics(started.bootstrap, brokers, many)
        return self._servers


def create_topics(bootstrap: str, brokers: int, many: bool = False) -> None:
    """The topic under attack and the neighbour's, and the topics of ``many`` partitions: broker 1
    leads all partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas = list(range(1, brokers + 1))
    count = nasty_inputs.PARTITIONS
    wanted = [
        NewTopic(nasty_inputs.TOPIC, count, replica_assignment=[replicas] * count),
        NewTopic(NEIGHBOUR, 1, replica_assignment=[[1]]),
    ]
    for future in admin.create_topics(wanted).values():
        future.result(60)
    if many:
        count += len(nasty_inputs.MANY_TOPICS) * nasty_inputs.MANY_PARTITIONS
        for name in nasty_inputs.MANY_TOPICS:
            topic = NewTopic(name, nasty_inputs.MANY_PARTITIONS, 1)
            for future in admin.create_topics([topic], operation_timeout=60).values():
                future.result(90)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        topics = admin.list_topics(timeout=10).topics
        leaders = [p.leader for t in topics.values() for p in t.partitions.values()]
        if len(leaders) == count + 1 and set(leaders) == {1}:
            return
        time.sleep(0.1)
    raise RuntimeError("broker 1 does not lead all partitions")


def chosen(names: Sequence[str]) -> list[NastyInput]:
    """The rows whose names contain one of ``names``, in any case; all where none is given."""
    lower = [name.lower() for name in names]
    return [
        row
        for row in nasty_inputs.rows()
        if not lower or any(name in row.name.lower() for name in lower)
    ]


def _kafkas(jars: Path, directory: Path, brokers: int, descriptors: int) -> BrokerProcesses:
    def command(properties: Path) -> list[str]:
        return with_descriptors(apache_kafka.broker_command(jars, properties), descriptors)

    return BrokerProcesses(command, directory, brokers)


def run(report: Report, names: Sequence[str] = ()) -> None:
    jars = apache_kafka.jars(os.environ)
    report.section("longest wait of a neighbour's produce, acks=1 (ms)", probe="Kafka")
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        ours = Lab(
            lambda directory, brokers, files: Cluster(directory, brokers, descriptors=files),
            Path(home) / "ours",
        )
        stack.callback(ours.close)
        kafkas = None
        if jars is not None:
            kafkas = Lab(partial(_kafkas, jars), Path(home) / "kafka")
            stack.callback(kafkas.close)
        for row in chosen(names):
            mine = ours.measure(row)
            theirs = kafkas.measure(row) if kafkas else None
            report.row(
                row.name,
                "ms",
                mine.wait_ms,
                theirs.wait_ms if theirs else None,
                AIM if theirs else None,
                smaller_is_better=True,
                note=f"{mine}" + (f" | {theirs}" if theirs else ""),
            )
