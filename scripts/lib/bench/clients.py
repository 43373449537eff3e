"""Our client beside others, on one broker in one run: records a second, sent and read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

OTHERS = ("confluent-kafka", "aiokafka", "kafka-python")
AIMS = {"confluent-kafka": 0.3, "aiokafka": 1.0, "kafka-python": 1.0}
RECORDS = {100: 60_000, 1000: 30_000}
ROUNDS = 2  # the better one counts: others work on this machine, too


def run(report: Report) -> None:
    overrides = ("offsets.topic.replication.factor=1", "group.initial.rebalance.delay.ms=0")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home) / "c", 1, overrides) as cluster:
        for size, count in RECORDS.items():
            _compare(report, cluster, size, count)


def _compare(report: Report, cluster: Cluster, size: int, count: int) -> None:
    """Every client writes to a topic of its own; all read the one that we wrote."""
    for what in ("send", "read"):
        found: dict[str, list[dict[str, float]]] = {}
        for number in range(ROUNDS):
            for name in ("minikafka", *OTHERS):
                topic = f"{name}-{size}-{number}" if what == "send" else f"minikafka-{size}-0"
                found.setdefault(name, []).append(
                    _measure(name, what, cluster.bootstrap, topic, count, size)
                )
        ours = max(each["rate"] for each in found["minikafka"])
        our_cpu = min(each["cpu"] for each in found["minikafka"])
        for name in OTHERS:
            theirs = max(each["rate"] for each in found[name])
            their_cpu = min(each["cpu"] for each in found[name])
            verb = "sent" if what == "send" else "read"
            report.section(f"client: records of {size} B {verb}", probe=name[:11])
            report.row("records a second", "1/s", ours, theirs, AIMS[name])
            report.row("CPU of the client for a record", "µs", our_cpu, their_cpu)


def _measure(
    name: str, what: str, bootstrap: str, topic: str, count: int, size: int
) -> dict[str, float]:
    """In a process of its own."""
    command = [sys.executable, "-m", "scripts.lib.bench.client_work", name, what, bootstrap, topic]
    done = subprocess.run(
        [*command, str(count), str(size)], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"{name} could not {what}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
