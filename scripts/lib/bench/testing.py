"""What a Kafka in a test costs: imports, the start of clusters, one test, memory, the command line.

Each figure is the median of fresh interpreters. Beside is librdkafka's mock cluster, in the same
run.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from scripts.lib.bench.harness import Figures, byte_code, figures_of, medians
from scripts.lib.bench.report import Report

INTERPRETERS = 7
CHILD = Path(__file__).with_name("inside_child.py")
LIMIT_S = 60
MODULES = {"minikafka": None, "minikafka.testing": None, "minikafka.testing.inside.cluster": 350}
STARTS = (
    ("ready since start", "ms", "first", 600),
    ("each further", "ms", "further", 100),
    ("stop", "ms", "stop", None),
    ("memory added", "MB", "memory", 60),
)
TEST = (
    ("the first of a cluster", "first", None),
    ("each further", "further", None),
    ("of these, its end", "end", 10),
    ("InsideCluster.reset", "reset", 10),
)


def run(report: Report) -> None:
    with byte_code():
        inside_the_process(report)
        command_line(report)


def inside_the_process(report: Report) -> None:
    report.section("import (ms)", "CPU", "wall")
    for module, aim in MODULES.items():
        measured = fresh("import", module)
        report.row(module, "ms", measured["cpu"], measured["wall"], most=aim)
    report.section("clusters inside, since the start of the interpreter", probe="mock")
    for brokers in (1, 3):
        ours, theirs = fresh("inside", brokers), fresh("mock", brokers)
        for title, unit, key, most in STARTS:
            name = f"brokers: {brokers}, {title}"
            aim = most if brokers == 1 else None
            report.row(name, unit, ours[key], theirs.get(key), most=aim)
    report.section("one test with the fixture minikafka", probe="")
    for brokers in (1, 3):
        measured = fresh("cycle", brokers)
        for title, key, most in TEST:
            report.row(f"brokers: {brokers}, {title}", "ms", measured[key], most=most)


def command_line(report: Report) -> None:
    report.section("command line", probe="python")
    verb = [sys.executable, "-m", "minikafka"]
    bare = median_ms(partial(seconds_to_end, [sys.executable, "-c", ""]))
    helped = median_ms(partial(seconds_to_end, [*verb, "--help"]))
    report.row("--help", "ms", helped, bare, most=100)
    listed = median_ms(partial(seconds_to_request, [*verb, "topics", "list"]))
    report.row("topics list, first request", "ms", listed, bare, most=300)


def fresh(what: str, argument: object) -> Figures:
    """Measure in fresh interpreters, of which the first may compile. See ``inside_child``."""
    return medians(
        [
            figures_of(sys.executable, CHILD, what, time.monotonic(), argument)
            for _ in range(INTERPRETERS)
        ]
    )


def median_ms(seconds: Callable[[], float]) -> float:
    return median(seconds() for _ in range(INTERPRETERS)) * 1000


def seconds_to_end(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
    return time.monotonic() - started


def seconds_to_request(command: list[str]) -> float:
    """Return the time from the command until its first bytes are at the broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        command = [*command, "--bootstrap-server", f"127.0.0.1:{listener.getsockname()[1]}"]
        output, started = subprocess.DEVNULL, time.monotonic()
        with subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(LIMIT_S)
                    if not connection.recv(1):
                        raise RuntimeError(f"{' '.join(command)} sent nothing")
                return time.monotonic() - started
            finally:
                process.kill()
