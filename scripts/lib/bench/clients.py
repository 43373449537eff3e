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
# Records handed over many at once: more of them, since a call of theirs has thousands.
MANY = ("minikafka many", "minikafka arrow")
MANY_RECORDS = {100: 500_000, 1000: 100_000}
ARROW_AIM = 1_000_000  # records of 100 B in a second of a core
ROUNDS = 2  # the better one counts: others work on this machine, too


def run(report: Report) -> None:
    overrides = ("offsets.topic.replication.factor=1", "group.initial.rebalance.delay.ms=0")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home) / "c", 1, overrides) as cluster:
        for size, count in RECORDS.items():
            _compare(report, cluster, size, count)
        for size, count in MANY_RECORDS.items():
            _compare_many(report, cluster, size, count)


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


def _compare_many(report: Report, cluster: Cluster, size: int, count: int) -> None:
    """``send_many``, ``poll_many`` and Arrow tables beside confluent-kafka's records."""
    for what, verb in (("send", "sent"), ("read", "read")):
        found: dict[str, list[dict[str, float]]] = {}
        for number in range(ROUNDS):
            for name in (*MANY, "confluent-kafka"):
                topic = f"{name[-5:]}-{size}-{number}" if what == "send" else f"-many-{size}-0"
                topic = topic.replace(" ", "-")
                found.setdefault(name, []).append(
                    _measure(name, what, cluster.bootstrap, topic, count, size)
                )
        rate = {name: max(each["rate"] for each in rounds) for name, rounds in found.items()}
        cpu = {name: min(each["cpu"] for each in rounds) for name, rounds in found.items()}
        for name in MANY:
            title = f"client: {name.split()[-1]} records of {size} B {verb} at once"
            report.section(title, probe="confluent")
            aim = 1.0 if name == MANY[0] else None
            report.row("records a second", "1/s", rate[name], rate["confluent-kafka"], aim)
            report.row("CPU of the client for a record", "µs", cpu[name], cpu["confluent-kafka"])
        if size == 100:
            report.section(f"client: Arrow tables {verb}, by one core", probe="the aim")
            report.row("records a CPU second", "1/s", 1e6 / cpu[MANY[1]], ARROW_AIM, 1.0)


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
