"""The same broker under other interpreters: CPU of a small produce, of a start, and memory.

Each Python from 3.11 on that is in PATH gets an environment under build/interpreters.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import psutil
import uvloop

from scripts.lib.bench.broker_processes import BrokerProcesses
from scripts.lib.bench.load import drive
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import produce_frame
from scripts.lib.bench.side_by_side import create_topics
from scripts.lib.bench.start import byte_code

REPOSITORY: Final = Path(__file__).parents[3]
ENVIRONMENTS: Final = REPOSITORY / "build" / "interpreters"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
REQUESTS: Final = 10_000
ROUNDS: Final = 3
IN_FLIGHT: Final = 5


def run(report: Report) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {own: sys.executable}
    for version in VERSIONS:
        if version != own and (python := environment(version)) is not None:
            found[version] = python
    report.section("a broker under other interpreters", probe=own)
    with byte_code():
        probe = measure(found.pop(own))
        for name, figures in {own: probe, **{v: measure(p) for v, p in found.items()}}.items():
            for (row, unit), value in figures.items():
                report.row(f"Python {name}, {row}", unit, value, probe[row, unit])


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


def measure(python: str) -> dict[tuple[str, str], float]:
    def command(properties: Path) -> list[str]:
        return [python, "-m", "minikafka.cli.main", "broker", "--config", str(properties)]

    os.environ["PYTHONPATH"] = str(REPOSITORY)
    with tempfile.TemporaryDirectory() as home:
        with BrokerProcesses(command, Path(home) / "warm", 1):
            pass  # writes the byte code of what others have written
        with BrokerProcesses(command, Path(home) / "cold", 1) as cluster:
            broker = psutil.Process(cluster.broker_pid(1))
            start_s = cpu_of(broker)
            time.sleep(2)
            rest_mb = broker.memory_info().rss / 1e6
            create_topics(cluster, {"bench": [[1]]})
            frame = produce_frame("bench", 1 << 10, 1)
            taken = []
            for _ in range(1 + ROUNDS):
                before = cpu_of(broker)
                uvloop.run(drive(cluster.ports[0], frame, REQUESTS, IN_FLIGHT))
                taken.append((cpu_of(broker) - before) / REQUESTS * 1e6)
    return {
        ("produce of 1 KB", "CPU µs"): median(taken[1:]),
        ("start", "CPU s"): start_s,
        ("at rest", "MB"): rest_mb,
    }


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
