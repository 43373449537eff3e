"""Produce throughput of a broker in which very many fetches are parked, beside one with none."""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench import requests
from scripts.lib.bench.load import drive
from scripts.lib.bench.produce import offset_of_next
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

FETCHES = 100_000
FETCHES_A_CONNECTION = 500  # queued.max.requests
FEW = 1_000
LONG_MS = 30 * 60_000
IN_FLIGHT = 5
ROUNDS = 7
REQUESTS = 4_000
REQUESTS_PAST_A_CROWD = 10
RECORD_BYTES = 1 << 10
NEVER_BYTES = 32 << 20  # more than a fetch of one partition gets here


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 2) as cluster:
        leaders = create(cluster, "bench")
        create(cluster, "quiet", leaders)
        crowded, empty = (Side(cluster, leaders, partition) for partition in (0, 1))
        report.section("produce acks=all, 1 KB, five in flight (requests/s)", "parked", "none")
        compare(report, "no fetch parked", crowded, empty, REQUESTS)
        before = crowded.memory()
        connections = crowded.park("quiet", FETCHES, min_bytes=1)
        weight = (crowded.memory() - before) / FETCHES
        compare(report, f"{FETCHES:,} on another topic", crowded, empty, REQUESTS, 0.9)
        report.row("memory of a parked fetch", "B", weight)
        connections += crowded.park("bench", FEW, NEVER_BYTES)
        compare(report, f"and {FEW:,} on the same partition", crowded, empty, REQUESTS // 8)
        connections += crowded.park("bench", FETCHES - FEW, NEVER_BYTES)
        name = f"and {FETCHES:,} on the same partition"
        compare(report, name, crowded, empty, REQUESTS_PAST_A_CROWD)
        for connection in connections:
            connection.close()


class Side:
    """One of two brokers, alike but for what is parked."""

    def __init__(
        self, cluster: Cluster, leaders: dict[int, tuple[int, int]], partition: int
    ) -> None:
        broker_id, self.port = leaders[partition]
        self.partition = partition
        self._process = psutil.Process(cluster.broker_pid(broker_id))
        self._frame = requests.produce_frame("bench", RECORD_BYTES, acks=-1, partition=partition)

    def rate(self, count: int) -> float:
        result, answer = uvloop.run(drive(self.port, self._frame, count, IN_FLIGHT))
        requests.check_produced(answer)
        return result.per_second

    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    def park(self, topic: str, count: int, min_bytes: int) -> list[socket.socket]:
        frame = requests.fetch_frame(
            topic, self._next_offset(topic), NEVER_BYTES, LONG_MS, min_bytes, self.partition
        )
        connections = []
        for _ in range(0, count, FETCHES_A_CONNECTION):
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.sendall(frame * min(count, FETCHES_A_CONNECTION))
            connections.append(connection)
        self._until_quiet()
        for connection in connections:
            connection.setblocking(False)
            try:
                answer = connection.recv(1 << 16)
            except BlockingIOError:
                continue
            raise RuntimeError(f"a fetch was answered instead of parked: {answer[:80]!r}")
        return connections

    def _next_offset(self, topic: str) -> int:
        if topic != "bench":
            return 0
        return offset_of_next(self.port, self._frame) + 1

    def _until_quiet(self) -> None:
        """The broker has taken up everything: it uses no time any more."""
        used = -1.0
        while (now := sum(self._process.cpu_times()[:2])) > used + 0.02:
            used = now
            time.sleep(0.5)


def create(
    cluster: Cluster, topic: str, like: dict[int, tuple[int, int]] | None = None
) -> dict[int, tuple[int, int]]:
    """Two partitions, one on each broker; partition -> id and port of its leader."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assignment = [[like[p][0]] for p in (0, 1)] if like else [[1], [2]]
    admin.create_topics([NewTopic(topic, 2, replica_assignment=assignment)])[topic].result(30)
    while True:
        metadata = admin.list_topics(topic, timeout=10)
        partitions = metadata.topics[topic].partitions
        if len(partitions) == 2 and all(p.leader > 0 for p in partitions.values()):
            return {
                number: (p.leader, metadata.brokers[p.leader].port)
                for number, p in partitions.items()
            }
        time.sleep(0.05)


def compare(
    report: Report, name: str, crowded: Side, empty: Side, count: int, aim: float | None = None
) -> None:
    """The median of rounds taken in turns."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for side, out in zip((crowded, empty), rates, strict=True):
            out.append(side.rate(count))
    report.row(name, "1/s", median(rates[0]), median(rates[1]), aim)
