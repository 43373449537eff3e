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
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import mean, median, quantiles
from urllib.parse import urljoin

from scripts.lib.bench.brokers import Brokers, spread
from scripts.lib.bench.harness import cpu_at_rest, in_turns
from scripts.lib.bench.neighbours import Neighbours, producing
from scripts.lib.bench.report import Report

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


def run(report: Report) -> None:
    for partitions in SIZES:
        with start_brokers(partitions) as measured, start_brokers(partitions) as neighbours:
            sides = {"page": measured, "neighbours": neighbours, "none": None}
            measures = {kind: partial(costs, measured, brokers) for kind, brokers in sides.items()}
            print_costs(report, partitions, **in_turns(measures, ROUNDS))


def costs(measured: Brokers, looked_at: Brokers | None) -> tuple[float, list[list[float]]]:
    """Return the CPU of a broker in percent, and the latencies of each second in ms."""
    with page(looked_at.bootstrap) if looked_at else contextlib.nullcontext():
        time.sleep(SETTLE_S)
        percent = cpu_at_rest(measured.processes, REST_S) / 10
        return percent, produce(measured.ports[0], PRODUCE_S)


Costs = list[tuple[float, list[list[float]]]]  # of each round


def percentile_of(costs: Costs, hundredths: int) -> float:
    seconds = (waits for _, waits_ms in costs for waits in waits_ms)
    return median(quantiles(waits, n=100)[hundredths - 1] for waits in seconds)


def print_costs(
    report: Report, partitions: int, page: Costs, neighbours: Costs, none: Costs
) -> None:
    report.section(f"{BROKERS} brokers, {partitions:,} partitions", "page", "no page")
    looked, alone = (mean(percent for percent, _ in each) for each in (page, none))
    report.row("CPU", "%", looked, alone, note="of one CPU, each broker at rest")
    report.row("added by the page", "%", max(0.0, looked - alone), most=AIM_PERCENT)
    report.section("  produce of 1 KB", "page", "neighbours'")
    for hundredths in (50, 90, 99):
        waits_ms = [percentile_of(each, hundredths) for each in (page, neighbours, none)]
        note = f"without any page {waits_ms[2]:.2f}"
        report.row(f"p{hundredths}", "ms", waits_ms[0], waits_ms[1], note=note)


@contextlib.contextmanager
def start_brokers(partitions: int) -> Iterator[Brokers]:
    with Brokers(BROKERS, {"auto.create.topics.enable": "false"}, debug=True) as brokers:
        brokers.create({TOPIC: [[1]], "others": spread(partitions - 1, BROKERS, BROKERS)})
        yield brokers


def produce(port: int, seconds: int) -> list[list[float]]:
    """Return how long each produce of one record took, in ms, for each second."""
    every = Neighbours([producing(port, 0, TOPIC, 1000)], PRODUCE_EVERY_S, LIMIT_S)
    with every as produces:
        time.sleep(seconds)
    by_second: dict[int, list[float]] = {}
    for sent, took in produces.taken[0]:
        by_second.setdefault(int(sent), []).append(took * 1000)
    return list(by_second.values())[1:-1]  # without the parts of a second


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
