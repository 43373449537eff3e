"""A broker as a process: how long a start takes, what it weighs at rest, under other interpreters,
and where it spends its time.

A checkout whose environment forbids Python to write byte code would compile 480 files at each
start, so byte code is written first.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil

from scripts.lib.bench.brokers import Brokers, minikafka_command
from scripts.lib.bench.harness import (
    REPOSITORY,
    Figures,
    byte_code,
    cpu_seconds,
    medians,
    resident_mb,
)
from scripts.lib.bench.load import Client
from scripts.lib.bench.loads import produced
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

ROUNDS = 3
REST_S = 2
UP_AIM_S, CPU_AIM_S, REST_AIM_MB = 2.5, 0.6, 45
# What no broker on this loop can be without.
BARE = "import asyncio, ssl, uvloop, crc32c; input()"

ENVIRONMENTS = REPOSITORY / "build" / "interpreters"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
REQUESTS = 10_000
RECORD_BYTES = 1 << 10

PICTURE = REPOSITORY / "docs" / "pictures" / "performance" / "produce-after.svg"
SAMPLED_S = 10
SAMPLES_A_SECOND = 400
COMMAND = re.compile(r"[^<>]*py-spy record [^<]*")  # the title that py-spy writes


# ------------------------------------------------------------------------------------------ start


def start(report: Report) -> None:
    report.section("start and rest", probe="bare python")
    with byte_code():
        ups = [seconds_of_up() for _ in range(ROUNDS)]
        report.row("three brokers and ZooKeeper, cold", "s", median(ups), most=UP_AIM_S)
        starts = medians([one_start() for _ in range(ROUNDS)])
        report.row("one broker, ZooKeeper up", "s", starts["s"])
        with bare_python() as bare, Brokers(3) as cluster:
            report.row("its process", "CPU s", starts["cpu"], cpu_seconds([bare]), most=CPU_AIM_S)
            time.sleep(REST_S)
            largest = max(map(resident_mb, cluster.processes))
            name = "broker at rest, the largest of three"
            report.row(name, "MB", largest, resident_mb(bare), most=REST_AIM_MB)


def seconds_of_up() -> float:
    """``minikafka up``, until it says that it is ready."""
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home)) as cluster:
        return cluster.seconds_to_ready


def one_start() -> Figures:
    with Brokers() as cluster:
        return {"s": cluster.seconds_to_serve, "cpu": cpu_seconds(cluster.processes)}


@contextlib.contextmanager
def bare_python() -> Iterator[psutil.Process]:
    """Run the interpreter with what every broker needs of others."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BARE], stdin=pipe, text=True) as process:
        time.sleep(1)
        yield psutil.Process(process.pid)
        process.communicate("\n")


# ----------------------------------------------------------------------------------- interpreters


def interpreters(report: Report) -> None:
    """CPU of a small produce and of a start, and memory, under each Python from 3.11 on in PATH,
    which gets an environment under build/interpreters."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {own: sys.executable}
    for version in VERSIONS:
        if version != own and (python := environment(version)) is not None:
            found[version] = python
    report.section("a broker under other interpreters", probe=own)
    with byte_code():
        measured = {name: under(python) for name, python in found.items()}
    for name, figures in measured.items():
        for (row, unit), value in figures.items():
            report.row(f"Python {name}, {row}", unit, value, measured[own][row, unit])


def environment(version: str) -> str | None:
    """Return an interpreter that has what the broker needs; None if there is no such Python."""
    python = ENVIRONMENTS / version / "bin" / "python"
    base = shutil.which(f"python{version}")
    if base is None:
        return None
    if not python.exists():
        made = subprocess.run([base, "-m", "venv", str(python.parents[1])], capture_output=True)
        if made.returncode:
            return None  # a name in PATH without the interpreter behind it
        install = [str(python), "-m", "pip", "install", "--quiet", str(REPOSITORY)]
        subprocess.run(install, check=True)  # for what it depends on: the code is that of here
    return str(python)


def under(python: str) -> dict[tuple[str, str], float]:
    def command(properties: Path) -> list[str]:
        return [python, *minikafka_command(properties)[1:]]

    os.environ.setdefault("PYTHONPATH", str(REPOSITORY))
    with Brokers(command=command):
        pass  # writes the byte code of dependencies
    with Brokers(command=command) as cluster:
        start_s = cpu_seconds(cluster.processes)
        time.sleep(REST_S)
        rest_mb = resident_mb(cluster.process(1))
        client = produced(RECORD_BYTES)(cluster)
        taken = [client.drive(REQUESTS).cpu_us for _ in range(1 + ROUNDS)]
    return {
        ("produce of 1 KB", "CPU µs"): median(taken[1:]),
        ("start", "CPU s"): start_s,
        ("at rest", "MB"): rest_mb,
    }


# ------------------------------------------------------------------------------------------ flames


def flames(report: Report) -> None:
    """Draw a flame graph of a broker that accepts small produces, into docs/pictures/performance.

    py-spy samples the process from outside: pip install py-spy. One connection keeps the broker
    busy all the time, so that widths are shares of CPU time."""
    report.section("flame graph of a broker, produces of 1 KB")
    with Brokers() as cluster:
        client = produced(RECORD_BYTES)(cluster)
        client.drive(REQUESTS)
        sample(cluster, client)
    title = f"A broker that accepts produces of {RECORD_BYTES >> 10} KB, {PICTURE.stem}"
    PICTURE.write_text(COMMAND.sub(title, PICTURE.read_text()))
    report.row(f"docs/pictures/performance/{PICTURE.name}", "kB", PICTURE.stat().st_size / 1000)


def sample(cluster: Brokers, client: Client) -> None:
    """Record the stacks of broker 1 while the client sends."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if spy is None:
        raise RuntimeError("py-spy is not installed: pip install py-spy")
    PICTURE.parent.mkdir(exist_ok=True)
    command = [spy, "record", "--pid", str(cluster.process(1).pid), "--format", "flamegraph"]
    command += ["--duration", str(SAMPLED_S), "--rate", str(SAMPLES_A_SECOND)]
    command += ["--nonblocking", "--output", str(PICTURE)]
    output = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=output, stderr=output) as sampling:
        while sampling.poll() is None:
            client.drive(REQUESTS)
    if sampling.returncode:
        raise subprocess.CalledProcessError(sampling.returncode, command)
