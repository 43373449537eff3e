"""What a Kafka in a test costs: imports, the start of clusters, one test, memory, the command line.

Each figure is the median of fresh interpreters. Beside are librdkafka's mock cluster and, where its
jars are, official Apache Kafka, measured in the same run; and figures that others have published.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from scripts.lib.apache_kafka import NoApacheKafka
from scripts.lib.bench import apache_kafka
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.report import Report

INTERPRETERS = 7
CHILD = Path(__file__).with_name("inside_child.py")
LIMIT_S = 60
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
MODULES = {"minikafka": None, "minikafka.testing": None, "minikafka.testing.inside.cluster": 350}
PUBLISHED = (
    "published by others, not measured here:",
    "  apache/kafka-native (GraalVM): ready in 110-140 ms, 230-540 MB; the same on a JVM:",
    "  1,150-1,200 ms, 1 GB (KIP-974). kfake (Go, in the process): no figures are published.",
)


def run(report: Report) -> None:
    compare_imports(report)
    compare_starts(report)
    one_test(report)
    command_line(report)
    apache_kafka_alone(report)
    print("\n" + "\n".join(PUBLISHED), flush=True)


def compare_imports(report: Report) -> None:
    report.section("import (ms)", "CPU", "wall")
    for module, aim in MODULES.items():
        measured = medians("import", module)
        report.row(module, "ms", measured["cpu"], measured["wall"], most=aim)


def compare_starts(report: Report) -> None:
    report.section("clusters inside, since the start of the interpreter", probe="mock")
    for brokers, first, further in ((1, 600, 100), (3, None, None)):
        ours = medians("inside", str(brokers))
        theirs = medians("mock", str(brokers))
        rows: tuple[tuple[str, str, str, int | None], ...] = (
            ("ready since start", "ms", "first", first),
            ("each further", "ms", "further", further),
            ("stop", "ms", "stop", None),
            ("memory added", "MB", "memory", 60 if brokers == 1 else None),
        )
        for title, unit, key, aim in rows:
            name = f"{brokers} broker{'s' if brokers > 1 else ''}: {title}"
            report.row(name, unit, ours[key], theirs.get(key), most=aim)


def one_test(report: Report) -> None:
    """Topic, record, confluent-kafka's producer and consumer, and deleting all that was made."""
    report.section("one test with the fixture minikafka", probe="")
    for brokers in (1, 3):
        measured = medians("cycle", str(brokers))
        name = f"{brokers} broker{'s' if brokers > 1 else ''}"
        report.row(f"{name}: the first of a cluster", "ms", measured["first"])
        report.row(f"{name}: each further", "ms", measured["further"])
        for title, key in (("of these, its end", "end"), ("InsideCluster.reset", "reset")):
            row = f"{name}: {title}"
            report.row(row, "ms", measured[key], most=10)


def command_line(report: Report) -> None:
    report.section("command line", probe="python")
    nothing = [sys.executable, "-c", ""]
    verb = [sys.executable, "-m", "minikafka"]
    bare = median_of(partial(seconds_to_end, nothing)) * 1000
    helped = median_of(partial(seconds_to_end, [*verb, "--help"])) * 1000
    report.row("--help", "ms", helped, bare, most=100)
    listed = median_of(partial(seconds_to_request, [*verb, "topics", "list"])) * 1000
    report.row("topics list, first request", "ms", listed, bare, most=300)


def apache_kafka_alone(report: Report) -> None:
    """One JVM broker, from its command until it lists itself. ZooKeeper runs already."""
    report.section("Apache Kafka, one broker, with ZooKeeper running", "Kafka", "")
    try:
        command = partial(apache_kafka.broker_command, apache_kafka.jars_to_compare(os.environ))
        with Brokers(command=command) as cluster:
            report.row("ready since its command", "ms", cluster.seconds_to_serve * 1000)
    except NoApacheKafka as error:
        print(f"  left out: {error}", flush=True)


def medians(what: str, argument: str = "") -> Mapping[str, float]:
    """Measure in fresh interpreters (see ``inside_child``), and return the median of each value."""
    found = [measure(what, argument) for _ in range(INTERPRETERS)]
    return {key: median(each[key] for each in found) for key in found[0]}


def measure(what: str, argument: str) -> dict[str, float]:
    command = [sys.executable, str(CHILD), what, repr(time.monotonic()), argument]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, timeout=LIMIT_S, env=environment()
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def environment() -> dict[str, str]:
    """Return the environment of fresh interpreters: they keep bytecode, as installed packages do.
    The first of them may have to compile it, which is why the median is taken."""
    return {name: value for name, value in os.environ.items() if name != NO_BYTECODE}


def median_of(seconds: Callable[[], float]) -> float:
    return median(seconds() for _ in range(INTERPRETERS))


def seconds_to_end(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(
        command, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S, env=environment()
    )
    return time.monotonic() - started


def seconds_to_request(command: list[str]) -> float:
    """Return the time from the command until its first bytes are at the broker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        started = time.monotonic()
        process = subprocess.Popen(
            [*command, "--bootstrap-server", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(LIMIT_S)
                if not connection.recv(1):
                    raise RuntimeError(f"{' '.join(command)} sent nothing")
            return time.monotonic() - started
        finally:
            process.kill()
            process.wait()
