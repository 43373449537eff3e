"""What a page that looks at brokers costs them: CPU at rest, and the latency of produces.

The page is that of ``minikafka ui``, in a separate process, read as a browser reads it. Three kinds
of rounds take turns: no page, a page that looks at these brokers, and a page that looks at
neighbours: brokers like these on the same machine. A neighbour's page takes processors from these
brokers as their own does, but has no request for them, so the difference between the two is what
the brokers themselves do for a page.

A percentile is the median of those of each second, in which the page looks at the brokers at least
once: what else disturbs the machine for a second does not count.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urljoin

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench.broker_processes import BrokerProcesses, minikafka_command
from scripts.lib.bench.nasty_inputs import receive
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import produce_frame
from scripts.lib.cluster import free_ports

BROKERS = 3
SIZES = (50, 1_000)  # partitions with a replica on every broker
ROUNDS = 3
REST_S = 6.0
PRODUCE_S = 10
PRODUCE_EVERY_S = 0.002
SETTLE_S = 5.0
LIMIT_S = 30
AIM_PERCENT = 1.0
# A process for itself: a thread would hold up the one that measures latencies.
READER = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as stream:
    while stream.read1(1 << 20):
        pass
"""
TOPIC = "measured"
RECORD_BYTES = 1000


@dataclass
class Costs:
    """Of the rounds with the page, or of those without: CPU of a broker in percent, and latencies
    of produces in ms, for each second."""

    percents: list[float] = field(default_factory=list)
    waits_ms: list[list[float]] = field(default_factory=list)

    @property
    def percent(self) -> float:
        return sum(self.percents) / len(self.percents)

    def percentile(self, hundredths: int) -> float:
        return median(quantiles(waits, n=100)[hundredths - 1] for waits in self.waits_ms)


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as home:
        for partitions in SIZES:
            measure(report, Path(home) / str(partitions), partitions)


def measure(report: Report, directory: Path, partitions: int) -> None:
    with contextlib.ExitStack() as running:
        measured, neighbours = (
            running.enter_context(start_brokers(directory / name, partitions))
            for name in ("measured", "neighbours")
        )
        time.sleep(SETTLE_S)
        looked_at = {"page": measured, "neighbours": neighbours, "none": None}
        costs = {kind: Costs() for kind in looked_at}
        for _ in range(ROUNDS):
            for kind, brokers in looked_at.items():
                with page(brokers.bootstrap) if brokers else contextlib.nullcontext():
                    time.sleep(SETTLE_S)
                    costs[kind].percents.append(cpu_percent(measured))
                    costs[kind].waits_ms += produce(measured.ports, PRODUCE_S)
    print_costs(report, partitions, **costs)


def print_costs(
    report: Report, partitions: int, page: Costs, neighbours: Costs, none: Costs
) -> None:
    report.section(f"{BROKERS} brokers, {partitions:,} partitions", "page", "no page")
    note = "of one CPU, each broker at rest"
    report.row("CPU", "%", page.percent, none.percent, note=note)
    added = max(0.0, page.percent - none.percent)
    report.row("added by the page", "%", added, aim=AIM_PERCENT, smaller_is_better=True)
    report.section("  produce of 1 KB", "page", "neighbours'")
    for hundredths in (50, 90, 99):
        waits_ms = [each.percentile(hundredths) for each in (page, neighbours, none)]
        note = f"without any page {waits_ms[2]:.2f}"
        report.row(f"p{hundredths}", "ms", waits_ms[0], waits_ms[1], note=note)


class Brokers(BrokerProcesses):
    """Brokers with debug listeners on these ports."""

    def __init__(
        self, directory: Path, debug_ports: Sequence[int], settings: Mapping[str, object]
    ) -> None:
        super().__init__(minikafka_command, directory, len(debug_ports), settings)
        self._debug_ports = debug_ports

    def _start_broker(self, broker_id: int) -> None:
        port = self._debug_ports[broker_id - 1]
        self._settings["debug.listener"] = f"HTTP://127.0.0.1:{port}"
        super()._start_broker(broker_id)


@contextlib.contextmanager
def start_brokers(directory: Path, partitions: int) -> Iterator[Brokers]:
    settings = {"auto.create.topics.enable": "false"}
    with Brokers(directory, free_ports(BROKERS), settings) as brokers:
        create_topics(brokers.bootstrap, partitions)
        yield brokers


def create_topics(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(TOPIC, 1, 1), NewTopic("others", partitions - 1, BROKERS)]
    for created in admin.create_topics(topics, operation_timeout=LIMIT_S).values():
        created.result(LIMIT_S)


def cpu_percent(brokers: Brokers) -> float:
    """Return the CPU time of the brokers at rest, as a share of one CPU for each of them."""
    processes = [psutil.Process(brokers.broker_pid(each)) for each in brokers.broker_ids]

    def seconds() -> float:
        times = [process.cpu_times() for process in processes]
        return float(sum(each.user + each.system for each in times))

    before, started = seconds(), time.perf_counter()
    time.sleep(REST_S)
    return 100 * (seconds() - before) / (time.perf_counter() - started) / len(processes)


def produce(ports: Sequence[int], seconds: int) -> list[list[float]]:
    """Return how long each produce of one record took, in ms, for each second."""
    frame = produce_frame(TOPIC, RECORD_BYTES, 1)
    waits_ms: list[list[float]] = []
    with socket.create_connection(("127.0.0.1", leader_port(ports)), LIMIT_S) as connection:
        begin = time.perf_counter()
        for number in range(seconds):
            waits_ms.append([])
            while (started := time.perf_counter()) < begin + number + 1:
                connection.sendall(frame)
                receive(connection)
                waits_ms[-1].append((time.perf_counter() - started) * 1000)
                time.sleep(PRODUCE_EVERY_S)
    return waits_ms


def leader_port(ports: Sequence[int]) -> int:
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, LIMIT_S)
    leader = metadata.topics[TOPIC].partitions[0].leader
    return int(metadata.brokers[leader].port)


@contextlib.contextmanager
def page(bootstrap: str) -> Iterator[None]:
    """Open the page of ``minikafka ui``: read its stream as a browser does."""
    command = [sys.executable, "-m", "minikafka.cli.main", "ui", "--read-only", "--port", "0"]
    command += ["--bootstrap-server", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip().removeprefix("page=")
            if not address:
                raise RuntimeError("the page did not start")
            reader = [sys.executable, "-c", READER, urljoin(address, "/api/stream")]
            with subprocess.Popen(reader):
                yield
                serving.terminate()  # which ends the stream, and so its reader
                serving.wait(LIMIT_S)
        finally:
            serving.kill()
