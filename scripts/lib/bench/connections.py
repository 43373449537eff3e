"""Many connections with one request in flight each, beside one connection with five.

Every client produces 1 KB with acks=1 and sends its next request when it has the response. The
bare probe serves the same clients. Fairness is the largest share of one connection over the least.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast

import psutil
import uvloop

from scripts.lib.bench import requests, servers
from scripts.lib.bench.load import drive
from scripts.lib.bench.produce import create, leader_port
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

COUNTS = (8, 64, 512)
IN_FLIGHT = 5  # of the one connection
RECORD_BYTES = 1 << 10
ROUNDS = 5
WARM_S = 0.3
MEASURED_S = 1.0
LIMIT_S = 60
# The probe pays for each request of a connection of its own, too: one read and one write of the
# socket, where five requests in flight share both.
RATIO_AIM = 1.0
FAIRNESS_AIM = 1.2
SIZE = struct.Struct(">i")
TOPIC = "bench"


@dataclass(frozen=True)
class Measured:
    """``shares`` has the requests of each connection, ``latencies_ms`` is sorted."""

    per_second: float
    cpu_us: float  # of the server, each request
    latencies_ms: Sequence[float]
    shares: Sequence[int]

    def percentile_ms(self, share: float) -> float:
        last = len(self.latencies_ms) - 1
        return self.latencies_ms[min(last, int(share * (last + 1)))]

    @property
    def unfairness(self) -> float:
        return max(self.shares) / max(1, min(self.shares))


class Crowd:
    """Connections that send the same frame, each again and again. It counts between ``begin`` and
    ``end``."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.buffer = bytearray(1 << 16)
        self.clients: list[Client] = []
        self.is_counting = self.is_over = False
        self.latencies_ms: list[float] = []

    def join(self) -> Client:
        self.clients.append(Client(self))
        return self.clients[-1]

    def close(self) -> None:
        self.is_over = True
        for client in self.clients:
            client.transport.close()


class Client(asyncio.BufferedProtocol):
    """One connection with ``in_flight`` requests at a time."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._sent_at: list[float] = []
        self._rest = b""  # of a response
        self.count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        self._sent_at.append(time.perf_counter())
        self.transport.write(self._crowd.frame)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._crowd.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._rest + self._crowd.buffer[:nbytes]
        start = 0
        while len(data) - start >= 4 and len(data) - start >= 4 + SIZE.unpack_from(data, start)[0]:
            start += 4 + SIZE.unpack_from(data, start)[0]
            self._responded()
        self._rest = bytes(data[start:])

    def _responded(self) -> None:
        crowd, sent_at = self._crowd, self._sent_at.pop(0)
        if crowd.is_counting:
            self.count += 1
            crowd.latencies_ms.append((time.perf_counter() - sent_at) * 1000)
        if not crowd.is_over:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._crowd.is_over:
            raise RuntimeError(f"closed by the server: {error}")


def run(report: Report) -> None:
    frame = requests.produce_frame(TOPIC, RECORD_BYTES, acks=1)
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home) / "cluster", 1) as cluster:
        create(cluster, TOPIC, 1)
        ours = Server(leader_port(cluster, TOPIC), cluster.broker_pid(1))
        _, response = uvloop.run(drive(ours.port, frame, 1, 1))
        requests.check_produced(response)
        with servers.probe(Path(home), len(response) - 4) as port:
            bare = Server(port, listening_pid(port))
            kinds = [(1, IN_FLIGHT), *((count, 1) for count in COUNTS)]
            taken: dict[tuple[int, int], tuple[list[Measured], list[Measured]]] = {
                kind: ([], []) for kind in kinds
            }
            for _ in range(ROUNDS):
                servers.take_memory(Path(home))
                for kind in kinds:
                    for server, found in zip((ours, bare), taken[kind], strict=True):
                        found.append(server.measure(frame, *kind))
    print_all(report, taken)


def listening_pid(port: int) -> int:
    """Return the process that listens on a port, of those that this one has started."""
    for found in psutil.Process().children(recursive=True):
        if any(c.laddr.port == port for c in found.net_connections() if c.status == "LISTEN"):
            return int(found.pid)
    raise RuntimeError(f"no process listens on {port}")


class Server:
    """A broker or the probe: its port and its process."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self._process = psutil.Process(pid)

    def measure(self, frame: bytes, connections: int, in_flight: int) -> Measured:
        return uvloop.run(self._measure(frame, connections, in_flight))

    async def _measure(self, frame: bytes, connections: int, in_flight: int) -> Measured:
        crowd, loop = Crowd(frame), asyncio.get_running_loop()
        async with asyncio.timeout(LIMIT_S):
            for _ in range(connections):
                await loop.create_connection(crowd.join, "127.0.0.1", self.port)
            for client in crowd.clients:
                for _ in range(in_flight):
                    client.send()
            await asyncio.sleep(WARM_S)
            cpu, started = self._cpu(), time.perf_counter()
            crowd.is_counting = True
            await asyncio.sleep(MEASURED_S)
            seconds, cpu = time.perf_counter() - started, self._cpu() - cpu
            crowd.close()
        shares = [client.count for client in crowd.clients]
        count = sum(shares)
        crowd.latencies_ms.sort()
        return Measured(count / seconds, cpu / count * 1e6, crowd.latencies_ms, shares)

    def _cpu(self) -> float:
        return float(sum(self._process.cpu_times()[:2]))


def print_all(
    report: Report, taken: dict[tuple[int, int], tuple[list[Measured], list[Measured]]]
) -> None:
    one, bare_one = (middle(found) for found in taken.pop((1, IN_FLIGHT)))
    report.section("produce acks=1, 1 KB: CPU of the server (us a request)")
    report.row(f"one connection, {IN_FLIGHT} in flight", "us", one.cpu_us, bare_one.cpu_us)
    measured = {count: (middle(mine), middle(bare)) for (count, _), (mine, bare) in taken.items()}
    for count, (mine, bare) in measured.items():
        report.row(f"{count} connections", "us", mine.cpu_us, bare.cpu_us)
    title = f"CPU of a request: one connection with {IN_FLIGHT} in flight over many with one"
    report.section(title)
    for count, (mine, bare) in measured.items():
        ratios = one.cpu_us / mine.cpu_us, bare_one.cpu_us / bare.cpu_us
        report.row(f"{count} connections", "x", *ratios, aim=RATIO_AIM)
    title = "total rate (requests/s) of connections with one request in flight"
    report.section(title, "all", f"one with {IN_FLIGHT}")
    for count, (mine, bare) in measured.items():
        note = f"bare probe: {bare.per_second / bare_one.per_second:.2f}"
        rates = mine.per_second, one.per_second
        report.row(f"{count} connections", "1/s", *rates, note=note)
    report.section("latency (ms)")
    for count, (mine, bare) in measured.items():
        for share in (0.5, 0.99):
            name = f"{count} connections, p{100 * share:.0f}"
            report.row(name, "ms", mine.percentile_ms(share), bare.percentile_ms(share))
    report.section("fairness: the largest share of a connection over the least")
    for count, (mine, bare) in measured.items():
        note = f"aim ≤ {FAIRNESS_AIM}"
        report.row(f"{count} connections", "x", mine.unfairness, bare.unfairness, note=note)


def middle(found: Sequence[Measured]) -> Measured:
    """Return the round whose rate is the median."""
    rate = median(each.per_second for each in found)
    return next(each for each in found if each.per_second == rate)
