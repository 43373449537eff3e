"""Samples of the brokers' processes during a soak, and their picture."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.harness import percentile
from scripts.lib.bench.soak.waits import SHARES, Waits
from scripts.lib.screenshots import fewer_colours

STALLED: Final = re.compile(r"loop_stalled .*stalled_ms=(\d+)")
LIMIT_S: Final = 10
DRAWN: Final = ("acks=1", "acks=all", "produced to consumed")
PANELS: Final = (
    "wait (ms)", "resident memory (MB)", "CPU (% of one processor)", "open descriptors, tasks"
)  # fmt: skip
SIZE: Final = (10, 11)  # inches
DOTS: Final = 80  # per inch


class Sample(NamedTuple):
    """One broker at one time. ``cpu_s`` is all CPU time since the process began."""

    at: float
    broker: int
    rss_mb: float
    cpu_s: float
    descriptors: int
    threads: int
    tasks: int


def sample(cluster: Brokers, broker: int) -> Sample:
    url = f"http://127.0.0.1:{cluster.debug_port(broker)}/tasks.json"
    with urllib.request.urlopen(url, timeout=LIMIT_S) as body:
        tasks = json.load(body)["num_tasks"]
    process = cluster.process(broker)
    with process.oneshot():
        times = process.cpu_times()
        return Sample(
            time.monotonic(),
            broker,
            process.memory_info().rss / 1e6,
            times.user + times.system,
            process.num_fds(),
            process.num_threads(),
            tasks,
        )


def cpu_percents(mine: Sequence[Sample]) -> list[float]:
    """Return the CPU of a broker between its samples, in percent of one processor."""
    return [
        100 * (later.cpu_s - earlier.cpu_s) / (later.at - earlier.at)
        for earlier, later in pairwise(mine)
    ]


def longest_stall_ms(logs: Sequence[Path]) -> int:
    """Return how long an event loop stood still at most, as the brokers themselves logged it."""
    found = (STALLED.findall(log.read_text(errors="replace")) for log in logs)
    return max((int(ms) for each in found for ms in each), default=0)


def draw(path: Path, waits: Waits, samples: Sequence[Sample], intervals: int) -> None:
    """Draw waits over time, and memory, CPU, descriptors and tasks of each broker."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(4, 1, figsize=SIZE, sharex=True, layout="constrained")
    minutes = [(number + 0.5) * waits.interval_s / 60 for number in range(intervals)]
    for number, stream in enumerate(DRAWN):
        ordered = [waits.of(stream, each) for each in range(intervals)]
        for name, style in (("p50", "-"), ("p99", "--"), ("max", ":")):
            shares = [percentile(each, SHARES[name]) for each in ordered]
            panels[0].plot(minutes, shares, style, color=f"C{number}", label=f"{stream}, {name}")
    panels[0].set_yscale("log")
    for broker in sorted({each.broker for each in samples}):
        mine = [each for each in samples if each.broker == broker]
        lines: list[tuple[int, str, str, Sequence[float]]] = [
            (1, "-", "", [each.rss_mb for each in mine]),
            (2, "-", "", cpu_percents(mine)),
            (3, "-", "descriptors, ", [each.descriptors for each in mine]),
            (3, ":", "tasks, ", [each.tasks for each in mine]),
        ]
        for panel, style, what, values in lines:
            at = [(each.at - waits.began) / 60 for each in mine[-len(values) :]]
            label = f"{what}broker {broker}"
            panels[panel].plot(at, values, style, color=f"C{broker - 1}", label=label)
    for panel, name in zip(panels, PANELS, strict=True):
        panel.set_ylabel(name)
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small", ncol=3)
        if panel is not panels[0]:
            panel.set_ylim(bottom=0)
    panels[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=DOTS)
    pyplot.close(figure)
    path.write_bytes(fewer_colours(path.read_bytes()))
