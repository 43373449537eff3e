"""A follower that was stopped catches up, beside a client that throws away what it fetches."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from statistics import median

from scripts.lib.bench.brokers import LARGE, Brokers
from scripts.lib.bench.harness import Figures, cpu_seconds, wait_until
from scripts.lib.bench.load import IN_FLIGHT, Client, rate
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import (
    fetch_frame,
    fetched_bytes,
    metadata,
    produce_frame,
    produced_offset,
)

BEHIND_BYTES = 170 << 20
BATCH_BYTES = 256 << 10
FETCH_BYTES = 1 << 20
ROUNDS = 3
TOPIC = "log"
LEAST = 0.6


def run(report: Report) -> None:
    report.section("a follower that was stopped catches up (MB/s)", "follower", "fetch 1 MB")
    with Brokers(2, {**LARGE, "replica.lag.time.max.ms": 1500}) as cluster:
        leader = cluster.controller  # which is not stopped
        cluster.take_memory().create({TOPIC: [[leader, 3 - leader]]})
        port = cluster.port(leader)
        produce = Client(port, [[produce_frame(TOPIC, BATCH_BYTES, acks=1)]], produced_offset)
        rounds = [catch_up(cluster, leader, 3 - leader, produce) for _ in range(ROUNDS)]
        step = FETCH_BYTES // BATCH_BYTES  # no two in flight want the same
        frames = [fetch_frame(TOPIC, 8 + step * i, FETCH_BYTES) for i in range(64)]
        for in_flight, least in ((IN_FLIGHT, LEAST), (1, None)):
            fetch = Client(port, [frames], fetched_bytes, in_flight=in_flight)
            results = [fetch.drive(300) for _ in range(ROUNDS)]
            volume = fetched_bytes(results[0].answer) / 1e6
            name = f"beside a client with {in_flight} in flight"
            speed = median(each["MB/s"] for each in rounds)
            report.row(name, "MB/s", speed, rate(results) * volume, least)
        for name in ("leader", "follower"):
            report.row(f"CPU of the {name}, a GB", "s", min(each[name] for each in rounds))


def catch_up(cluster: Brokers, leader: int, follower: int, produce: Client) -> Figures:
    """Stop the follower, fill the log, let it go on. Return its MB/s, and the CPU seconds for a GB
    of the leader and of the follower."""
    logs = [cluster.data(broker) / f"{TOPIC}-0" for broker in (leader, follower)]
    processes = [cluster.process(broker) for broker in (leader, follower)]
    cluster.kill(follower, signal.SIGSTOP)
    produce.drive(BEHIND_BYTES // BATCH_BYTES)
    wait_until(lambda: in_sync(produce.port) == 1, "an ISR without the follower")
    full = bytes_of_log(logs[0])
    behind = full - bytes_of_log(logs[1])
    before = [cpu_seconds([process]) for process in processes]
    began = time.monotonic()
    cluster.kill(follower, signal.SIGCONT)
    wait_until(lambda: bytes_of_log(logs[1]) >= full, "the end of the log", every_s=0.002)
    seconds = time.monotonic() - began
    used = [cpu_seconds([p]) - b for p, b in zip(processes, before, strict=True)]
    wait_until(lambda: in_sync(produce.port) == 2, "an ISR with the follower")
    mb = behind / 1e6
    return {"MB/s": mb / seconds, "leader": used[0] / mb * 1000, "follower": used[1] / mb * 1000}


def in_sync(port: int) -> int:
    found = metadata(port, [TOPIC])
    return len(found.topics[0].partitions[0].isr_nodes) if found else 0


def bytes_of_log(directory: Path) -> int:
    """A cheap look: both processors are busy with what is measured."""
    return sum(file.stat().st_size for file in directory.glob("*.log"))
