"""What a byte costs on its way: each copy and each checksum alone, in CPU time.

All of it runs in one thread, so that nothing waits for anything. Batches have 256 KB. From these
figures follows how fast acks=all can be at most where leader, followers and client share the same
processors.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import crc32c

from scripts.lib.bench import servers
from scripts.lib.bench.report import Report

BATCH_BYTES = 256 << 10
FILE_BYTES = 128 << 20
ROUNDS = 9
SOCKET_BYTES = 4 << 20
PROCESSORS = 2
FOLLOWERS = 2


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        servers.take_memory(Path(home))
        costs = {**of_sockets(), **of_memory(), **of_files(Path(home) / "log")}
    report.section("a copy or a checksum of one MB (us of CPU)", "us", "")
    for name, cost in costs.items():
        report.row(name, "us", cost)
    print_bound(report, costs)


def print_bound(report: Report, costs: dict[str, float]) -> None:
    """acks=1 is bounded by the leader, whose processor is busy while the client has the other one.
    With acks=all all processes share the processors."""
    send, receive = costs["send"], costs["receive"]
    store = receive + costs["CRC-32C"] + costs["write to a file that grows"]
    read = costs["read from the page cache"]
    leader = store + read + FOLLOWERS * send
    everybody = send + leader + FOLLOWERS * store
    report.section("copies and checksums of one MB alone (us of CPU)", "acks=all", "acks=1")
    report.row("client", "us", send, send)
    report.row("leader", "us", leader, store)
    report.row(f"{FOLLOWERS} followers", "us", FOLLOWERS * store)
    report.row("together", "us", everybody, send + store)
    one, every = 1 / max(send, store), PROCESSORS / everybody
    report.row(f"MB/s at most, {PROCESSORS} processors", "1", every * 1e6, one * 1e6)


def best(step: Callable[[int], object], count: int, prepare: Callable[[], object]) -> float:
    """The least CPU time of several rounds, in us a MB."""
    least = float("inf")
    for _ in range(ROUNDS):
        prepare()
        began = time.thread_time_ns()
        for number in range(count):
            step(number)
        least = min(least, (time.thread_time_ns() - began) / 1000 / (count * BATCH_BYTES) * 1e6)
    return least


def of_sockets() -> dict[str, float]:
    """Each send and its receive in turns: the data of one send wait in the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = socket.create_connection(listening.getsockname())
        receiver, _ = listening.accept()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    data, memory = os.urandom(BATCH_BYTES), memoryview(bytearray(BATCH_BYTES))
    spent = {"send": [0] * ROUNDS, "receive": [0] * ROUNDS}
    count = 400
    for number in range(ROUNDS):
        for _ in range(count):
            began = time.thread_time_ns()
            sender.sendall(data)
            between = time.thread_time_ns()
            missing = BATCH_BYTES
            while missing:
                missing -= receiver.recv_into(memory, missing)
            spent["send"][number] += between - began
            spent["receive"][number] += time.thread_time_ns() - between
    sender.close()
    receiver.close()
    size = count * BATCH_BYTES / 1e6
    return {name: min(rounds) / 1000 / size for name, rounds in spent.items()}


def of_memory() -> dict[str, float]:
    data = memoryview(bytearray(os.urandom(8 * BATCH_BYTES)))
    batches = [data[at : at + BATCH_BYTES] for at in range(0, len(data), BATCH_BYTES)]
    return {
        "CRC-32C": best(lambda n: crc32c.crc32c(batches[n % 8]), 800, lambda: None),
    }


def of_files(path: Path) -> dict[str, float]:
    data, memory = os.urandom(BATCH_BYTES), bytearray(BATCH_BYTES)
    count = FILE_BYTES // BATCH_BYTES
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        grows = best(
            lambda n: os.pwrite(fd, data, n * BATCH_BYTES), count, lambda: os.ftruncate(fd, 0)
        )
        used = best(lambda n: os.preadv(fd, [memory], n * BATCH_BYTES), count, lambda: None)
    finally:
        os.close(fd)
    return {
        "write to a file that grows": grows,
        "read from the page cache": used,
    }
