"""What a broker costs at rest: CPU by its idle partitions, CPU and memory by its idle connections.

The probe of a connection is a bare ``BufferedProtocol`` on uvloop without a buffer. Clients are
another process. The CPU of a broker with no partition is beside that of one with many.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from scripts.lib.bench.broker_processes import BrokerProcesses, minikafka_command
from scripts.lib.bench.report import Report

BROKERS = 3
SIZES = (1_000, 10_000)  # partitions with a replica on every broker
PARTITIONS_A_TOPIC = 1_000
SETTLE_S = 10.0
REST_S = 20.0
LIMIT_S = 120
CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 200
CONNECTS_AT_ONCE = 100
CPU_AIM = 10  # ms a second
CONNECTION_AIM = 20.0  # KB
API_VERSIONS = 18
SIZE = struct.Struct(">i")
FIXED_RESPONSE = SIZE.pack(400) + bytes(400)  # about as long as a broker's


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        run_partitions(report, Path(home))
        run_connections(report, Path(home))


# -- partitions


def run_partitions(report: Report, home: Path) -> None:
    report.section(f"{BROKERS} brokers at rest (CPU ms a second, each)", "with", "with none")
    settings = {"auto.create.topics.enable": "false"}
    with BrokerProcesses(minikafka_command, home / "partitions", BROKERS, settings) as brokers:
        processes = [psutil.Process(brokers.broker_pid(each)) for each in brokers.broker_ids]
        time.sleep(SETTLE_S)
        empty = cpu_at_rest(processes)
        report.row("no partitions", "ms/s", empty)
        there = 0
        for partitions in SIZES:
            create_topics(brokers.bootstrap, there, partitions)
            there = partitions
            time.sleep(SETTLE_S)
            used = cpu_at_rest(processes)
            note = f"aim ≤ {CPU_AIM} ms/s" if partitions == max(SIZES) else ""
            report.row(f"{partitions:,} partitions", "ms/s", used, empty, note=note)


def create_topics(bootstrap: str, first: int, last: int) -> None:
    """Create topics so that there are ``last`` partitions, where there were ``first``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for start in range(first, last, PARTITIONS_A_TOPIC):
        count = min(PARTITIONS_A_TOPIC, last - start)
        topic = NewTopic(f"idle-{start}", count, BROKERS)
        for created in admin.create_topics([topic], operation_timeout=LIMIT_S).values():
            created.result(LIMIT_S)


def cpu_at_rest(processes: list[psutil.Process]) -> float:
    """Return the CPU ms that each of the processes takes in a second, on average."""

    def seconds() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before, started = seconds(), time.perf_counter()
    time.sleep(REST_S)
    return 1000 * (seconds() - before) / (time.perf_counter() - started) / len(processes)


# -- connections


def run_connections(report: Report, home: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(CONNECTIONS, soft // 2 - SPARE_DESCRIPTORS)  # half of them are for clients
    report.section(f"{count:,} idle connections, after one ApiVersions each")
    with bare_server() as (pid, port):
        bare = Weight(psutil.Process(pid), port, count)
    with BrokerProcesses(minikafka_command, home / "connections", 1) as brokers:
        broker = Weight(psutil.Process(brokers.broker_pid(1)), brokers.ports[0], count)
    note = f"aim ≤ {CONNECTION_AIM} KB"
    report.row("memory of a connection", "KB", broker.kilobytes, bare.kilobytes, note=note)
    note = f"{broker.cpu_before:.2f} without them"
    report.row("CPU with them", "ms/s", broker.cpu, note=note)
    report.row("kept after they have gone", "KB", broker.kept, bare.kept, note="of a connection")


class Weight:
    """What ``count`` idle connections cost a process: KB each, and CPU ms a second."""

    def __init__(self, process: psutil.Process, port: int, count: int) -> None:
        with clients(port, 1):
            pass
        time.sleep(SETTLE_S)
        self.cpu_before = cpu_at_rest([process])
        before = process.memory_info().rss
        with clients(port, count):
            time.sleep(SETTLE_S)
            self.kilobytes = (process.memory_info().rss - before) / count / 1000
            self.cpu = cpu_at_rest([process])
        time.sleep(SETTLE_S)
        self.kept = (process.memory_info().rss - before) / count / 1000


@contextlib.contextmanager
def clients(port: int, count: int) -> Iterator[None]:
    """Open so many connections from another process. Each has sent one request and has its
    response."""
    command = [sys.executable, "-m", "scripts.lib.bench.idle", "clients", str(port), str(count)]
    with child(command):
        yield


@contextlib.contextmanager
def bare_server() -> Iterator[tuple[int, int]]:
    """A process that serves the same connections with nothing of ours: its pid and port."""
    with child([sys.executable, "-m", "scripts.lib.bench.idle", "serve"]) as (process, line):
        yield process.pid, int(line)


@contextlib.contextmanager
def child(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that prints one line when it is ready, and ends with its input."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command[3:]} has ended before it was ready")
        yield process, line  # leaving the context closes its input and waits for it


def connect_all(port: int, count: int) -> list[socket.socket]:
    frame = encode_request(RequestHeader(API_VERSIONS, 0, 1, "bench"), ApiVersionsRequest())
    connections: list[socket.socket] = []
    for start in range(0, count, CONNECTS_AT_ONCE):
        new = [
            socket.create_connection(("127.0.0.1", port), LIMIT_S)
            for _ in range(min(CONNECTS_AT_ONCE, count - start))
        ]
        for each in new:
            each.sendall(frame)
        for each in new:
            receive(each)
        connections += new
    return connections


def receive(connection: socket.socket) -> None:
    """Wait for one whole response."""
    received = b""
    while len(received) < 4 or len(received) < 4 + SIZE.unpack_from(received)[0]:
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("closed by the server")
        received += more


class BareConnection(asyncio.BufferedProtocol):
    """Responds to each read by as many bytes as ApiVersions takes. All share one buffer."""

    __slots__ = ("_buffer", "_transport")

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(FIXED_RESPONSE)


async def serve() -> None:
    buffer = bytearray(1 << 16)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BareConnection(buffer), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main(kind: str, *numbers: str) -> None:
    if kind == "serve":
        uvloop.run(serve())
        return
    connections = connect_all(*map(int, numbers))
    print("ready", flush=True)
    sys.stdin.read()
    for each in connections:
        each.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
