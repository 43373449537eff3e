"""Fetch of cached data, beside a bare server that sends the same bytes of the same file.

Each response has one batch, and no two requests in flight want the same one. Each connection reads
on from where it is, as consumers do. Together they go through more data than the processor's caches
have.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import uvloop

from scripts.lib.bench import file_probe, requests, servers
from scripts.lib.bench.load import drive, drive_in_turn
from scripts.lib.bench.produce import IN_FLIGHT, OVERRIDES, create, offset_of_next, port_of
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

# bytes of a batch, requests a round, least ratio of the rates to the probe's
SIZES = (
    (1 << 10, 20_000, None),
    (16 << 10, 12_000, None),
    (256 << 10, 4_000, 0.7),
    (1 << 20, 1_500, 0.7),
)
CONNECTIONS = 8
ROUNDS = 5
DATA_BYTES = 96 << 20
MOST_BATCHES = 4_000
MOST_HEAD_BYTES = 80  # of a batch with one record
TOPIC = "bench-{}"


@dataclass(frozen=True)
class Measured:
    """One round: its rate, and what the server's process used of a processor for a request."""

    per_second: float
    cpu_us: float


class Reads:
    """A server, and the requests that read a file from it, batch by batch."""

    def __init__(self, port: int, pid: int, frames: Sequence[bytes]) -> None:
        self.frames = frames
        self._port = port
        self._process = psutil.Process(pid)

    def measure(self, count: int, connections: int, in_flight: int) -> Measured:
        async def drive_all() -> None:
            each = count // connections
            starts = (len(self.frames) * number // connections for number in range(connections))
            shares = ([*self.frames[start:], *self.frames[:start]] for start in starts)
            driven = (drive_in_turn(self._port, share, each, in_flight) for share in shares)
            await asyncio.gather(*driven)

        cpu, started = self._cpu(), time.perf_counter()
        uvloop.run(drive_all())
        seconds, cpu = time.perf_counter() - started, self._cpu() - cpu
        return Measured(count / seconds, cpu / count * 1e6)

    def _cpu(self) -> float:
        return float(sum(self._process.cpu_times()[:2]))


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 1, OVERRIDES) as cluster:
        servers.take_memory(Path(home))
        for connections, in_flight in ((1, IN_FLIGHT), (CONNECTIONS, 1)):
            name = f"{connections} connection{'s' if connections > 1 else ''}"
            report.section(f"fetch of cached data, {name}, {in_flight} in flight", probe="bare")
            for size, count, aim in SIZES:
                ours, bare = compare(cluster, Path(home), size, count, connections, in_flight)
                report_size(report, size, ours, bare, aim)


def report_size(
    report: Report,
    size: int,
    ours: Sequence[Measured],
    bare: Sequence[Measured],
    aim: float | None,
) -> None:
    rate, bare_rate = (median(each.per_second for each in found) for found in (ours, bare))
    note = f"{rate * size / 1e6:,.0f} MB/s"
    report.row(f"{size >> 10} KB", "1/s", rate, bare_rate, aim, note=note)
    cpu, bare_cpu = (min(each.cpu_us for each in found) for found in (ours, bare))
    note = f"{cpu * 1e6 / size:,.0f} us a MB"
    report.row(f"{size >> 10} KB, CPU of the server", "us", cpu, bare_cpu, note=note)


def compare(
    cluster: Cluster, home: Path, size: int, count: int, connections: int, in_flight: int
) -> tuple[list[Measured], list[Measured]]:
    """Rounds of ours and of the bare server, taken in turns."""
    ours = fill(cluster, size)
    segment = next(home.glob(f"broker-1/**/{TOPIC.format(size)}-0/*.log"))
    length = segment.stat().st_size // len(ours.frames)
    overhead = response_bytes(cluster, ours.frames[0]) - length
    frames = [
        file_probe.frame(number * length, length, len(ours.frames[0]))
        for number in range(len(ours.frames))
    ]
    taken: tuple[list[Measured], list[Measured]] = ([], [])
    with ExitStack() as stack:
        port, pid = stack.enter_context(servers.file_probe(segment, overhead))
        for _ in range(ROUNDS):
            for server, found in zip((ours, Reads(port, pid, frames)), taken, strict=True):
                server.measure(max(100, count // 10), connections, in_flight)
                found.append(server.measure(count, connections, in_flight))
    return taken


def response_bytes(cluster: Cluster, frame: bytes) -> int:
    result, answer = uvloop.run(drive(port_of(cluster), frame, 1, 1))
    assert requests.fetched(answer)
    return result.answered_bytes + 4


def fill(cluster: Cluster, size: int) -> Reads:
    """Append batches that take ``size`` bytes each, once; return the requests for all of them."""
    topic, port = TOPIC.format(size), port_of(cluster)
    count = min(MOST_BATCHES, DATA_BYTES // size)
    frame = requests.produce_frame(topic, size - MOST_HEAD_BYTES, acks=1)
    if not list(cluster.directory.glob(f"broker-1/**/{topic}-0")):
        create(cluster, topic, 1)
        assert offset_of_next(port, frame) == 0
        uvloop.run(drive(port, frame, count - 1, IN_FLIGHT))
    frames = [requests.fetch_frame(topic, offset, size) for offset in range(count)]
    return Reads(port, cluster.broker_pid(1), frames)
