"""Runs a soak, and prints its figures while it runs and at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import mean
from typing import Final

from scripts.lib.bench.brokers import QUICK, Brokers, spread
from scripts.lib.bench.harness import REPOSITORY, percentile
from scripts.lib.bench.report import Report, figure, insert, marks
from scripts.lib.bench.soak import samples, work
from scripts.lib.bench.soak.ledger import Ledger, Verdict
from scripts.lib.bench.soak.samples import Sample, cpu_percents
from scripts.lib.bench.soak.waits import SHARES, Waits, drift, slope
from scripts.lib.bench.soak.work import CHECKED, CHURNS, CLOCK, KEYED, PLAIN, TRANSACTIONS, Work

DOCUMENT: Final = REPOSITORY / "docs" / "explanation" / "performance.md"
PICTURE: Final = REPOSITORY / "docs" / "pictures" / "performance" / "soak.png"
PICTURE_LINK: Final = "../pictures/performance/soak.png"  # from the document
SHORT: Final = 2.0  # minutes, if none are given
LONG: Final = 15.0  # from so many minutes on the picture and the figures go into the documents
INTERVALS: Final = 60
LEAST_INTERVAL_S: Final = 5.0
BROKERS: Final = 3
PARTITIONS: Final = 3
LIMIT_S: Final = 60
SETTLE_S: Final = 2  # after the groups have their partitions
WARM_UP: Final = 0.25  # of the run: caches fill, segments come to their number
PRINTED: Final = ("acks=1", "acks=all", "produced to consumed")
# Segments are rolled, deleted and compacted all the time, so that an hour looks like a minute.
SETTINGS: Final = {
    **QUICK,
    "auto.create.topics.enable": "false",
    "log.segment.bytes": 4 << 20,
    "log.retention.ms": 60_000,
    "log.retention.check.interval.ms": 5_000,
    "log.segment.delete.delay.ms": 5_000,
    "offsets.topic.num.partitions": 6,
    "offsets.topic.replication.factor": BROKERS,
    "transaction.state.log.num.partitions": 6,
    "transaction.state.log.replication.factor": BROKERS,
    "transaction.state.log.min.isr": 2,
}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "10000",
}
MOST_MB_AN_HOUR: Final = 20
MOST_DRIFT: Final = 1.2


@dataclass
class Soak:
    """Everything that a run has found."""

    waits: Waits
    samples: list[Sample] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    stall_ms: int = 0  # of a broker's event loop
    load: list[float] = field(default_factory=list)  # averages of the machine
    intervals: int = 0

    def of_broker(self, broker: int) -> list[Sample]:
        return [sample for sample in self.samples if sample.broker == broker]

    def mb_an_hour(self, broker: int) -> float:
        """Return the slope of the memory of a broker after the warm-up."""
        mine = self.of_broker(broker)
        late = mine[int(WARM_UP * len(mine)) :]
        return slope([(sample.at / 3600, sample.rss_mb) for sample in late])

    def drift(self, stream: str, share: str) -> float:
        first = int(0.1 * self.intervals)  # without the first connections
        ordered = [self.waits.of(stream, number) for number in range(first, self.intervals)]
        return drift([percentile(each, SHARES[share]) for each in ordered])


def run(report: Report, minutes: float = SHORT) -> None:
    print(f"\nsoak of {minutes:g} minutes: waits (ms) and brokers")
    with Brokers(BROKERS, SETTINGS, debug=True) as cluster:
        soak = soak_cluster(cluster, minutes * 60)
        soak.stall_ms = samples.longest_stall_ms([cluster.log(each) for each in cluster.ids])
    drawn = PICTURE if minutes >= LONG else REPOSITORY / "build" / PICTURE.name
    drawn.parent.mkdir(exist_ok=True)
    samples.draw(drawn, soak.waits, soak.samples, soak.intervals)
    shown = Report()
    show(shown, soak)
    if minutes >= LONG:
        load = f"{min(soak.load):.1f} to {max(soak.load):.1f}, on {os.cpu_count()} processors"
        head = f"`scripts/bench soak {minutes:g}`, load average of the machine {load}."
        picture = f"![Waits, memory, CPU, descriptors and tasks over time]({PICTURE_LINK})"
        measured = "\n\n".join([head, shown.markdown(), picture])
        DOCUMENT.write_text(insert(DOCUMENT.read_text(), measured, marks("soak")))
    print(f"  written: {drawn.relative_to(REPOSITORY)}")


def soak_cluster(cluster: Brokers, seconds: float) -> Soak:
    places = spread(PARTITIONS, BROKERS, BROKERS)
    cluster.create(dict.fromkeys(CHECKED, places))
    cluster.create({KEYED.topic: places}, COMPACTED)
    stop, stop_reading, assigned = threading.Event(), threading.Event(), threading.Semaphore(0)
    waits = Waits(max(LEAST_INTERVAL_S, seconds / INTERVALS))
    shared = Work(cluster, Ledger(work.GROUPS), waits, stop)
    members = [
        partial(work.consume, shared, group, assigned, stop_reading)
        for group in work.GROUPS * work.MEMBERS
    ]
    writers = [
        *(partial(work.produce, shared, each) for each in (*PLAIN, KEYED)),
        partial(work.transact, shared, TRANSACTIONS),
        *(partial(work.churn, shared, each) for each in CHURNS),
    ]
    with workers(members, stop_reading) as check_members:
        for _ in members:
            assigned.acquire(timeout=LIMIT_S)
        waits.began = time.monotonic() + SETTLE_S
        with workers(writers, stop) as check_writers:
            soak = watch(Soak(waits), cluster, seconds, (check_members, check_writers))
        read_rest(shared)
    work.read_compacted(shared, PARTITIONS)
    soak.verdict = shared.ledger.verdict()
    return soak


@contextmanager
def workers(
    jobs: Sequence[Callable[[], None]], stop: threading.Event
) -> Iterator[Callable[[], None]]:
    """Run each job in a thread. The value raises the error of a job that has failed. At the end
    ``stop`` is set, and all jobs are waited for."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job) for job in jobs]

        def check() -> None:
            for each in running:
                if each.done():
                    each.result()

        try:
            yield check
        finally:
            stop.set()
        for each in running:
            each.result(2 * LIMIT_S)


def watch(
    soak: Soak, cluster: Brokers, seconds: float, checks: Sequence[Callable[[], None]]
) -> Soak:
    """Sample and print until the time is over."""
    waits, printed = soak.waits, 0
    while (passed := time.monotonic() - waits.began) < seconds:
        for check in checks:
            check()
        time.sleep(1.0)
        if passed < 0:
            continue
        soak.samples += [samples.sample(cluster, broker) for broker in cluster.ids]
        soak.load.append(os.getloadavg()[0])
        while (printed + 2) * waits.interval_s <= passed:  # one later, for those that are late
            print_interval(soak, printed)
            printed += 1
    soak.intervals = int(seconds / waits.interval_s)
    return soak


def read_rest(shared: Work) -> None:
    """Wait until the groups have seen every acknowledged record, or see no more."""
    before, deadline = -1, time.monotonic() + LIMIT_S
    while (left := shared.ledger.verdict().lost) and time.monotonic() < deadline:
        if left != before:
            before, deadline = left, time.monotonic() + LIMIT_S / 2
        time.sleep(0.5)


# --------------------------------------------------------------------------------------- figures


def print_interval(soak: Soak, number: int) -> None:
    parts = []
    for stream in PRINTED:
        found = soak.waits.of(stream, number)
        shares = "/".join(figure(percentile(found, share)) for share in SHARES.values())
        parts.append(f"{stream} {shares}")
    brokers = []
    for broker in range(1, BROKERS + 1):
        last = soak.of_broker(broker)[-1 - int(soak.waits.interval_s) :]
        cpu = mean(cpu_percents(last)) if len(last) > 1 else 0.0
        now = last[-1]
        brokers.append(f"{now.rss_mb:.1f} MB, {cpu:.0f}%, {now.descriptors} fds, {now.tasks} tasks")
    seconds = number * soak.waits.interval_s
    text = " | ".join([f"  {seconds:6.0f} s  {', '.join(parts)} ms", *brokers])
    print(f"{text} | load {soak.load[-1]:.1f}", flush=True)


def show(report: Report, soak: Soak) -> None:
    report.section("waits from the time at which each was due", probe="clock")
    clock = soak.waits.all_of(CLOCK)
    for stream in soak.waits.streams:
        found = soak.waits.all_of(stream)
        for name, share in SHARES.items():
            probe, note = percentile(clock, share), f"of {len(found):,}"
            report.row(f"{stream}, {name}", "ms", percentile(found, share), probe, note=note)
    report.section("drift: last quarter over first", probe="clock")
    for stream in PRINTED:
        for name in ("p50", "p99"):
            probe = soak.drift(CLOCK, name)  # grows as others load the machine
            report.row(f"{stream}, {name}", "", soak.drift(stream, name), probe, most=MOST_DRIFT)
    report.section("brokers")
    for broker in range(1, BROKERS + 1):
        first, *_, last = soak.of_broker(broker)
        note = f"{first.rss_mb:.1f} → {last.rss_mb:.1f} MB"
        growth = soak.mb_an_hour(broker)
        report.row(f"broker {broker}, growth", "MB/h", growth, most=MOST_MB_AN_HOUR, note=note)
        for name in ("descriptors", "threads", "tasks"):
            note = f"from {getattr(first, name)}"
            report.row(f"broker {broker}, {name} at the end", "", getattr(last, name), note=note)
    report.row("longest stall of an event loop", "ms", soak.stall_ms, note="as brokers log it")
    report.section("records")
    for name, value in vars(soak.verdict).items():
        most = None if name in ("acknowledged", "refused") else 0.0
        report.row(name.replace("_", " "), "", value, most=most)
