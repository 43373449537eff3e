"""How long a start takes, and what a broker at rest weighs.

An installed package has byte code: pip compiles it. A checkout whose environment forbids Python to
write byte code compiles 480 files at each start, so the children of this bench may write it, and
the bench writes all of it first.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import minikafka
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster, free_ports

FORBIDS = "PYTHONDONTWRITEBYTECODE"
ROUNDS = 3
REST_S = 2
UP_AIM_S, BROKER_AIM_CPU_S, REST_AIM_MB = 2.5, 0.6, 45
# What no broker on this loop can be without.
BARE = "import asyncio, ssl, uvloop, crc32c; input()"


class Start(NamedTuple):
    """Of one broker. ``cpu_s`` is that of its process until it is listed in Metadata."""

    seconds: float
    cpu_s: float


def run(report: Report) -> None:
    report.section("start and rest", probe="bare python")
    with byte_code(), tempfile.TemporaryDirectory() as home:
        ups = []
        for number in range(ROUNDS):
            with Cluster(Path(home) / f"up-{number}") as cluster:
                ups.append(cluster.seconds_to_ready)
        name = "three brokers and ZooKeeper, cold"
        report.row(name, "s", statistics.median(ups), None, UP_AIM_S, True)
        with Cluster(Path(home) / "rest") as cluster:
            show_broker(report, cluster, Path(home))


def show_broker(report: Report, cluster: Cluster, home: Path) -> None:
    starts = [start_broker(cluster, home / f"more-{number}") for number in range(ROUNDS)]
    seconds = statistics.median(start.seconds for start in starts)
    report.row("one more broker, ZooKeeper up", "s", seconds)
    with bare_python() as bare:
        times = bare.cpu_times()
        probe_s, probe_mb = times.user + times.system, bare.memory_info().rss / 1e6
    cpu_s = statistics.median(start.cpu_s for start in starts)
    report.row("its process", "CPU s", cpu_s, probe_s, BROKER_AIM_CPU_S, True)
    time.sleep(REST_S)
    sizes = [psutil.Process(cluster.broker_pid(b)).memory_info().rss / 1e6 for b in (1, 2, 3)]
    name = "broker at rest, the largest of three"
    report.row(name, "MB", max(sizes), probe_mb, REST_AIM_MB, True)


@contextlib.contextmanager
def byte_code() -> Iterator[None]:
    """Write all byte code of the package, and let children write theirs."""
    before = os.environ.pop(FORBIDS, None)
    try:
        compileall.compile_dir(str(Path(minikafka.__file__).parent), quiet=1)
        yield
    finally:
        if before is not None:
            os.environ[FORBIDS] = before


@contextlib.contextmanager
def bare_python() -> Iterator[psutil.Process]:
    """Run the interpreter with what every broker needs of others."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BARE], stdin=pipe, text=True) as process:
        time.sleep(1)
        yield psutil.Process(process.pid)
        process.communicate("\n")


def start_broker(cluster: Cluster, home: Path) -> Start:
    """Start one more broker, and stop it when it is listed."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "minikafka.cli.main", "broker"]
    values = {
        "broker.id": "9",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": cluster.zookeeper,
        "log.dirs": str(home),
    }
    for key, value in values.items():
        command += ["--override", f"{key}={value}"]
    started = time.monotonic()
    with home.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for_brokers(cluster, {1, 2, 3, 9})
        seconds = time.monotonic() - started
        times: Any = psutil.Process(process.pid).cpu_times()
        return Start(seconds, times.user + times.system)
    finally:
        process.terminate()
        process.wait()
        wait_for_brokers(cluster, {1, 2, 3})


def wait_for_brokers(cluster: Cluster, wanted: set[int]) -> None:
    """Wait until the cluster's metadata names these brokers."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deadline = time.monotonic() + 30
    while set(admin.list_topics(timeout=10).brokers) != wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the brokers are not {wanted}")
        time.sleep(0.02)
