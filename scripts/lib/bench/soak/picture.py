"""The picture and the CSV files of a soak."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from scripts.lib.bench.soak.processes import Sample
from scripts.lib.bench.soak.waits import SHARES, Waits, percentile
from scripts.lib.screenshots import fewer_colours

DRAWN: Final = ("acks=1", "acks=all", "produced to consumed")
SIZE: Final = (10, 11)  # inches
DOTS: Final = 80  # per inch


def write_csv(folder: Path, waits: Waits, samples: Sequence[Sample], intervals: int) -> None:
    with (folder / "waits.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["second", "stream", "count", *(f"{share} ms" for share in SHARES)])
        for number in range(intervals):
            for stream in waits.streams:
                found = waits.of(stream, number)
                shares = [f"{percentile(found, share):.3f}" for share in SHARES.values()]
                rows.writerow([number * waits.interval_s, stream, len(found), *shares])
    with (folder / "processes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["second", *Sample._fields[1:]])
        rows.writerows([f"{s.at - waits.began:.1f}", *s[1:]] for s in samples)


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
    panels[0].set_ylabel("wait (ms)")
    panels[0].legend(fontsize="small", ncol=3)
    for broker in sorted({sample.broker for sample in samples}):
        mine = [sample for sample in samples if sample.broker == broker]
        _draw_broker(panels[1:], broker, mine, waits.began)
    panels[-1].set_xlabel("minutes")
    panels[-1].legend(fontsize="small", ncol=3)
    for panel in panels:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=DOTS)
    pyplot.close(figure)
    path.write_bytes(fewer_colours(path.read_bytes()))


def _draw_broker(panels: Any, broker: int, mine: Sequence[Sample], began: float) -> None:
    minutes = [(sample.at - began) / 60 for sample in mine]
    colour = f"C{broker - 1}"
    panels[0].plot(minutes, [s.rss_mb for s in mine], color=colour, label=f"broker {broker}")
    panels[0].set_ylabel("resident memory (MB)")
    panels[0].set_ylim(bottom=0)
    panels[0].legend(fontsize="small", ncol=3)
    panels[1].plot(minutes[1:], shares_of_cpu(mine), color=colour)
    panels[1].set_ylabel("CPU (% of one processor)")
    panels[1].set_ylim(bottom=0)
    found = [s.descriptors for s in mine]
    panels[2].plot(minutes, found, color=colour, label=f"descriptors, broker {broker}")
    tasks = [s.tasks for s in mine]
    panels[2].plot(minutes, tasks, ":", color=colour, label=f"tasks, broker {broker}")
    panels[2].set_ylabel("open descriptors, tasks")
    panels[2].set_ylim(bottom=0)


def shares_of_cpu(mine: Sequence[Sample]) -> list[float]:
    """Return the CPU of a broker between its samples, in percent of one processor."""
    return [
        100 * (later.cpu_s - earlier.cpu_s) / (later.at - earlier.at)
        for earlier, later in pairwise(mine)
    ]
