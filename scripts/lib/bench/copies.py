"""What a byte costs on its way: each copy and each checksum alone, in CPU time.

All of it runs in one thread, so that nothing waits for anything. Batches have 256 KB. From these
figures follows how fast acks=all can be at most where leader, followers and client share the same
processors.
"""

from __future__ import annotations

import gc
import os
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import crc32c

from scripts.lib.bench.harness import take_memory
from scripts.lib.bench.report import Report

BATCH_BYTES = 256 << 10
BATCHES = 400
ROUNDS = 9
SOCKET_BYTES = 4 << 20
PROCESSORS = 2
FOLLOWERS = 2


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        take_memory(Path(home))
        costs = {**of_sockets(), **of_memory_and_files(Path(home) / "log")}
    report.section("a copy or a checksum of one MB (us of CPU)", "us", "")
    for name, cost in costs.items():
        report.row(name, "us", cost)
    print_bound(report, costs)


def print_bound(report: Report, costs: Mapping[str, float]) -> None:
    """acks=1 is bounded by the leader, whose processor is busy while the client has the other one.
    With acks=all all processes share the processors."""
    send, receive = costs["send"], costs["receive"]
    store = receive + costs["CRC-32C"] + costs["write to a file that grows"]
    leader = store + costs["read from the page cache"] + FOLLOWERS * send
    everybody = send + leader + FOLLOWERS * store
    report.section("copies and checksums of one MB alone (us of CPU)", "acks=all", "acks=1")
    report.row("client", "us", send, send)
    report.row("leader", "us", leader, store)
    report.row(f"{FOLLOWERS} followers", "us", FOLLOWERS * store)
    report.row("together", "us", everybody, send + store)
    one, every = 1 / max(send, store), PROCESSORS / everybody
    report.row(f"MB/s at most, {PROCESSORS} processors", "1", every * 1e6, one * 1e6)


def least(
    *steps: Callable[[int], object], prepare: Callable[[], object] = gc.collect
) -> list[float]:
    """Return the least CPU time of each step in several rounds, in us a MB. The steps take turns
    for each batch."""
    spent = [[0] * ROUNDS for _ in steps]
    for number in range(ROUNDS):
        prepare()
        for batch in range(BATCHES):
            for step, of_step in zip(steps, spent, strict=True):
                began = time.thread_time_ns()
                step(batch)
                of_step[number] += time.thread_time_ns() - began
    return [min(of_step) / 1000 / (BATCHES * BATCH_BYTES / 1e6) for of_step in spent]


def of_sockets() -> dict[str, float]:
    """Each send and its receive in turns: the data of one send wait in the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = socket.create_connection(listening.getsockname())
        receiver, _ = listening.accept()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    data, memory = os.urandom(BATCH_BYTES), memoryview(bytearray(BATCH_BYTES))

    def receive(_: int) -> None:
        missing = BATCH_BYTES
        while missing:
            missing -= receiver.recv_into(memory, missing)

    with sender, receiver:
        send_us, receive_us = least(lambda _: sender.sendall(data), receive)
    return {"send": send_us, "receive": receive_us}


def of_memory_and_files(path: Path) -> dict[str, float]:
    data, memory = memoryview(os.urandom(8 * BATCH_BYTES)), bytearray(BATCH_BYTES)
    batches = [data[at : at + BATCH_BYTES] for at in range(0, len(data), BATCH_BYTES)]
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        (checksum,) = least(lambda n: crc32c.crc32c(batches[n % 8]))
        (grows,) = least(
            lambda n: os.pwrite(fd, batches[0], n * BATCH_BYTES),
            prepare=lambda: os.ftruncate(fd, 0),
        )
        (used,) = least(lambda n: os.preadv(fd, [memory], n * BATCH_BYTES))
    finally:
        os.close(fd)
    return {
        "CRC-32C": checksum,
        "write to a file that grows": grows,
        "read from the page cache": used,
    }
