"""A broker with few descriptors: it refuses connections, and keeps what its logs need."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.cluster.cluster_state import until
from tests.support.cluster.lone_broker import LoneBroker
from tests.support.cluster.real_cluster import run_verb
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

DESCRIPTORS = 200
# The hard limit, too: a broker raises the soft one.
PROGRAM = f"""
import resource, sys
from minikafka.cli.main import main
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
sys.exit(main(["broker", *sys.argv[1:]]))
"""


def open_ones(connections: Sequence[socket.socket]) -> list[socket.socket]:
    """Those that the broker has not closed; it sends nothing before it closes one."""
    waiting = select.poll()
    for connection in connections:
        waiting.register(connection, select.POLLIN)
    closed = {descriptor for descriptor, _ in waiting.poll(0)}
    return [c for c in connections if c.fileno() not in closed]


@pytest.mark.mission("SAFE-27", "SAFE-28")
def test_more_connections_than_descriptors(
    shared_zookeeper: ZookeeperProcess, tmp_path: Path
) -> None:
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    broker = LoneBroker(tmp_path, connect, PROGRAM)
    try:
        broker.until_logged("started")
        found = re.search(r"ports=\[(\d+)\]", broker.log.read_text())
        assert found is not None
        address = ("127.0.0.1", int(found[1]))
        server = ("--bootstrap-server", f"127.0.0.1:{address[1]}")
        with contextlib.ExitStack() as flood:
            crowd = [
                flood.enter_context(socket.create_connection(address))
                for _ in range(2 * DESCRIPTORS)
            ]
            until(lambda: len(open_ones(crowd)) <= DESCRIPTORS // 2, "the others are refused")
            broker.until_logged("reason=descriptors")
            for connection in open_ones(crowd)[:10]:
                connection.close()
            created = run_verb("topics", "create", "--topic", "many", "--partitions", "20", *server)
            assert created.returncode == 0, created.stderr
            assert broker.process.poll() is None
        listed = until(
            lambda: run_verb("topics", "list", *server).stdout, "there is room for clients again"
        )
        assert "many" in listed
        assert "log_directory_failed" not in broker.log.read_text()
    finally:
        broker.process.terminate()
        assert broker.process.wait(60) == 0


@pytest.mark.mission("SAFE-26")
def test_a_broker_that_can_accept_nothing_says_so_and_goes_on(
    shared_zookeeper: ZookeeperProcess, tmp_path: Path
) -> None:
    """The limit falls below what is open, so that not even a reserved descriptor can be used."""
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    broker = LoneBroker(tmp_path, connect, PROGRAM)
    try:
        broker.until_logged("broker_started")
        found = re.search(r"ports=\[(\d+)\]", broker.log.read_text())
        assert found is not None
        address = ("127.0.0.1", int(found[1]))
        started_s = time.monotonic()
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (20, DESCRIPTORS))
        with contextlib.ExitStack() as flood:
            for _ in range(30):
                flood.enter_context(socket.create_connection(address))
            broker.until_logged("accept_failed")
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        listed = run_verb("topics", "list", "--bootstrap-server", f"127.0.0.1:{address[1]}")
        assert listed.returncode == 0, listed.stderr
        events = broker.log.read_text().count("accept_failed")
        assert 1 <= events <= 2 + time.monotonic() - started_s, "one a second"
        assert "log_directory_failed" not in broker.log.read_text()
    finally:
        broker.process.terminate()
        assert broker.process.wait(60) == 0


def open_log_files(pid: int) -> int:
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed at this moment
            found += ".log" in os.readlink(link)
    return found


@pytest.mark.mission("SAFE-29")
def test_more_segments_than_descriptors(shared_zookeeper: ZookeeperProcess, tmp_path: Path) -> None:
    connect = f"{shared_zookeeper.connect}/tests/{uuid.uuid4().hex}"
    broker = LoneBroker(tmp_path, connect, PROGRAM)
    lines = [f"{number:0900}" for number in range(2 * DESCRIPTORS)]
    try:
        broker.until_logged("broker_started")
        found = re.search(r"ports=\[(\d+)\]", broker.log.read_text())
        assert found is not None
        server = ("--bootstrap-server", f"127.0.0.1:{found[1]}")
        topic = ("--topic", "long")
        shape = ("--partitions", "1", "--config", "segment.bytes=1000")  # a record each
        created = run_verb("topics", "create", *topic, *shape, *server)
        assert created.returncode == 0, created.stderr
        sent = run_verb("produce", *topic, "--sync", *server, stdin="\n".join(lines) + "\n")
        assert sent.returncode == 0, sent.stderr
        segments = len(list(tmp_path.glob("data/long-0/*.log")))
        assert segments > DESCRIPTORS
        count = ("--max-messages", str(len(lines)), "--timeout-ms", "30000")
        read = run_verb("consume", *topic, "--from-beginning", *count, *server)
        assert read.stdout.split() == lines
        assert 0 < open_log_files(broker.process.pid) <= DESCRIPTORS // 8 + 1
        assert "too many" not in broker.log.read_text().lower()
    finally:
        broker.process.terminate()
        assert broker.process.wait(60) == 0


LISTENER = """
import asyncio, os, resource, socket, sys
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.loop import run

class Echo(asyncio.BufferedProtocol):
    def __init__(self):
        self.buffer = bytearray(100)
    def connection_made(self, transport):
        self.transport = transport
    def get_buffer(self, sizehint):
        return self.buffer
    def buffer_updated(self, nbytes):
        self.transport.write(bytes(self.buffer[:nbytes]))

async def main():
    failures = []
    listener = await RealNetwork().listen(Echo, "127.0.0.1", 0, failures.append)
    used = max(map(int, os.listdir("/proc/self/fd"))) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, used + 10))
    print(listener.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(len(failures), flush=True)
run(main())
"""


def echoes(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"a")
        return connection.recv(1) == b"a"
    except ConnectionError:
        return False


@pytest.mark.mission("SAFE-26")
def test_an_accept_without_a_descriptor_closes_that_connection_only() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        with contextlib.ExitStack() as flood:
            crowd = [
                flood.enter_context(socket.create_connection(address, timeout=30))
                for _ in range(40)
            ]
            served = [connection for connection in crowd if echoes(connection)]
            assert 0 < len(served) < 40
            assert all(map(echoes, served))  # again
            served.pop().close()
            until(
                lambda: echoes(flood.enter_context(socket.create_connection(address, 30))), "room"
            )
            refused = len(crowd) - len(served) - 1
        process.stdin.close()
        assert int(process.stdout.readline()) >= refused, "each is reported"
        assert process.wait(30) == 0
