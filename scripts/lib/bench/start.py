"""How long a start takes, and what a broker at rest weighs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster, free_ports


def run(report: Report) -> None:
    report.section("start (seconds) and rest (MB resident)")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home)) as cluster:
        report.row("three brokers and ZooKeeper, cold", "s", cluster.seconds_to_ready)
        report.row("one more broker, ZooKeeper up", "s", seconds_to_serve(cluster, Path(home)))
        time.sleep(2)
        sizes = [psutil.Process(cluster.broker_pid(b)).memory_info().rss / 1e6 for b in (1, 2, 3)]
        report.row("broker at rest, the largest of three", "MB", max(sizes))


def seconds_to_serve(cluster: Cluster, home: Path) -> float:
    """From the command to the first answered connection."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "minikafka.cli.main", "broker"]
    values = {
        "broker.id": "9",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": cluster.zookeeper,
        "log.dirs": str(home / "broker-9"),
    }
    for key, value in values.items():
        command += ["--override", f"{key}={value}"]
    started = time.monotonic()
    with (home / "broker-9.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_broker(cluster, 9)
        return time.monotonic() - started
    finally:
        process.terminate()
        process.wait()


def wait_for_broker(cluster: Cluster, broker_id: int) -> None:
    """Until the cluster's metadata names it."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deadline = time.monotonic() + 30
    while broker_id not in admin.list_topics(timeout=10).brokers:
        if time.monotonic() > deadline:
            raise RuntimeError("the broker did not come up")
        time.sleep(0.02)
