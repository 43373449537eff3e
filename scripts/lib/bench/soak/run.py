"""Runs a soak, and prints its figures while it runs and at the end."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from scripts.lib.bench.performance_sheet import insert, marks
from scripts.lib.bench.report import Report, figure
from scripts.lib.bench.soak import churn, consumers, picture, producers
from scripts.lib.bench.soak.ledger import Ledger, Verdict
from scripts.lib.bench.soak.processes import Processes, Sample, longest_stall_ms
from scripts.lib.bench.soak.producers import CHECKED, COMPACTED, KEYED, PLAIN, TRANSACTIONS, Work
from scripts.lib.bench.soak.waits import SHARES, Waits, drift, percentile, slope
from scripts.lib.cluster import Cluster

REPOSITORY: Final = Path(__file__).parents[4]
DOCUMENT: Final = REPOSITORY / "docs" / "explanation" / "performance.md"
PICTURE: Final = REPOSITORY / "docs" / "pictures" / "performance" / "soak.png"
FILES: Final = REPOSITORY / "build" / "soak"
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
SETTINGS: Final = (
    "auto.create.topics.enable=false",
    "log.segment.bytes=4194304",
    "log.retention.ms=60000",
    "log.retention.check.interval.ms=5000",
    "log.segment.delete.delay.ms=5000",
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
)
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
    report.section(f"soak of {minutes:g} minutes: waits (ms) and brokers")
    FILES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name), BROKERS, SETTINGS) as cluster:
        soak = soak_cluster(cluster, minutes * 60)
        logs = [Path(name) / f"broker-{broker}" / "log" for broker in range(1, BROKERS + 1)]
        soak.stall_ms = longest_stall_ms(logs)
    picture.write_csv(FILES, soak.waits, soak.samples, soak.intervals)
    drawn = PICTURE if minutes >= LONG else FILES / PICTURE.name
    drawn.parent.mkdir(exist_ok=True)
    picture.draw(drawn, soak.waits, soak.samples, soak.intervals)
    show(report, soak)
    if minutes >= LONG:
        text = insert(DOCUMENT.read_text(), markdown(soak, minutes), marks("soak"))
        DOCUMENT.write_text(text)
    print(f"  written: {drawn.relative_to(REPOSITORY)}, {FILES.relative_to(REPOSITORY)}/*.csv")


def soak_cluster(cluster: Cluster, seconds: float) -> Soak:
    create_topics(cluster.bootstrap)
    ports = [int(each.rpartition(":")[2]) for each in cluster.bootstrap.split(",")]
    debug_ports = [port + DEBUG_PORT_OFFSET for port in ports]
    pids = [cluster.broker_pid(broker) for broker in range(1, BROKERS + 1)]
    processes = Processes(pids, debug_ports)
    interval_s = max(LEAST_INTERVAL_S, seconds / INTERVALS)
    stop, stop_reading = threading.Event(), threading.Event()
    waits = Waits(interval_s)
    work = Work(cluster.bootstrap, Ledger(consumers.GROUPS), waits, stop)
    assigned = threading.Semaphore(0)
    with workers(readers(work, assigned, stop_reading)) as check_readers:
        for _ in range(len(consumers.GROUPS) * consumers.MEMBERS):
            assigned.acquire(timeout=LIMIT_S)
        waits.began = time.monotonic() + SETTLE_S
        with workers(writers(work, ports, debug_ports)) as check_writers:
            soak = watch(Soak(waits), processes, seconds, (check_readers, check_writers))
            stop.set()
        read_rest(work)
        stop_reading.set()
    consumers.read_compacted(work, PARTITIONS)
    soak.verdict = work.ledger.verdict()
    return soak


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.ms": "10000",
    }
    topics = [NewTopic(name, PARTITIONS, BROKERS) for name in CHECKED]
    topics.append(NewTopic(COMPACTED, PARTITIONS, BROKERS, config=compacted))
    for future in admin.create_topics(topics).values():
        future.result(LIMIT_S)


# -------------------------------------------------------------------------------------- workers

Job = tuple[str, Callable[[], None]]


def readers(work: Work, assigned: threading.Semaphore, stop: threading.Event) -> list[Job]:
    return [
        (f"{group}-{member}", partial(consumers.consume, work, group, assigned, stop))
        for group in consumers.GROUPS
        for member in range(consumers.MEMBERS)
    ]


def writers(work: Work, ports: Sequence[int], debug_ports: Sequence[int]) -> list[Job]:
    jobs: list[Job] = [(stream.name, partial(producers.produce, work, stream)) for stream in PLAIN]
    return [
        *jobs,
        (KEYED.name, partial(producers.produce_compacted, work, KEYED)),
        (TRANSACTIONS.name, partial(producers.produce_transactions, work, TRANSACTIONS)),
        ("connections", partial(churn.connect, work, ports)),
        ("scrapes", partial(churn.scrape, work, debug_ports)),
        ("topics", partial(churn.create_and_delete, work)),
        ("guests", partial(churn.receive_guests, work)),
        ("clock", partial(churn.watch_clock, work)),
    ]


@contextmanager
def workers(jobs: Sequence[Job]) -> Iterator[Callable[[], None]]:
    """Run each job in a thread; the value raises the first error of one. Waits for all at the
    end."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)
            raise

    def check() -> None:
        if errors:
            raise RuntimeError("a worker of the soak has failed") from errors[0]

    threads = [
        threading.Thread(target=guarded, args=(job,), name=name, daemon=True) for name, job in jobs
    ]
    for thread in threads:
        thread.start()
    yield check
    for thread in threads:
        thread.join(2 * LIMIT_S)
        if thread.is_alive():
            raise RuntimeError(f"{thread.name} does not end")
    check()


def watch(
    soak: Soak, processes: Processes, seconds: float, checks: Sequence[Callable[[], None]]
) -> Soak:
    """Sample and print until the time is over."""
    waits, printed = soak.waits, 0
    while (passed := time.monotonic() - waits.began) < seconds:
        for check in checks:
            check()
        time.sleep(1.0)
        if passed < 0:
            continue
        soak.samples += processes.look()
        soak.load.append(os.getloadavg()[0])
        while (printed + 2) * waits.interval_s <= passed:  # one later, for those that are late
            print_interval(soak, printed)
            printed += 1
    soak.intervals = int(seconds / waits.interval_s)
    return soak


def read_rest(work: Work) -> None:
    """Wait until the groups have seen every acknowledged record, or see no more."""
    before, deadline = -1, time.monotonic() + LIMIT_S
    while (left := work.ledger.verdict().lost) and time.monotonic() < deadline:
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
    now = soak.samples[-BROKERS:]
    before = soak.samples[: -int(soak.waits.interval_s) * BROKERS][-BROKERS:] or now
    cpu = [
        100 * (a.cpu_s - b.cpu_s) / (a.at - b.at) if a.at > b.at else 0.0
        for a, b in zip(now, before, strict=True)
    ]
    text = (
        f"  {number * soak.waits.interval_s:6.0f} s  {', '.join(parts)} ms"
        f" | MB {' '.join(f'{s.rss_mb:.1f}' for s in now)}"
        f" | CPU % {' '.join(f'{share:.0f}' for share in cpu)}"
        f" | fds {' '.join(str(s.descriptors) for s in now)}"
        f" | tasks {' '.join(str(s.tasks) for s in now)} | load {soak.load[-1]:.1f}"
    )
    print(text, flush=True)


def show(report: Report, soak: Soak) -> None:
    report.section("the whole soak, from the time at which each was due", probe="clock")
    clock = soak.waits.all_of(churn.CLOCK)
    for stream in soak.waits.streams:
        found = soak.waits.all_of(stream)
        for name, share in SHARES.items():
            probe = percentile(clock, share)
            report.row(f"{stream}, {name}", "ms", percentile(found, share), probe)
    report.section("drift: last quarter over first", probe="clock")
    for stream in PRINTED:
        for name in ("p50", "p99"):
            probe = soak.drift(churn.CLOCK, name)  # grows as others load the machine
            report.row(f"{stream}, {name}", "", soak.drift(stream, name), probe, MOST_DRIFT, True)
    report.section("brokers")
    for broker in range(1, BROKERS + 1):
        mine = soak.of_broker(broker)
        leak = soak.mb_an_hour(broker)
        note = f"{mine[0].rss_mb:.1f} → {mine[-1].rss_mb:.1f} MB"
        report.row(f"broker {broker}, growth", "MB/h", leak, None, MOST_MB_AN_HOUR, True, note)
        for name in ("descriptors", "threads", "tasks"):
            first, last = getattr(mine[0], name), getattr(mine[-1], name)
            report.row(f"broker {broker}, {name} at the end", "count", last, note=f"from {first}")
    report.row("longest stall of an event loop", "ms", soak.stall_ms, note="as brokers log it")
    report.section("records")
    for name, value in vars(soak.verdict).items():
        aim = None if name in ("acknowledged", "refused") else 0.0
        report.row(name.replace("_", " "), "count", value, None, aim, True)


def markdown(soak: Soak, minutes: float) -> str:
    """Return the section of the document."""
    clock = soak.waits.all_of(churn.CLOCK)
    load = f"{min(soak.load):.1f} to {max(soak.load):.1f}, on {os.cpu_count()} processors"
    lines = [
        f"`scripts/bench soak {minutes:g}`, load average of the machine {load}.",
        "",
        "| from the time at which each was due (ms) | count | p50 | p99 | p99.9 | max |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for stream in soak.waits.streams:
        found = clock if stream == churn.CLOCK else soak.waits.all_of(stream)
        shares = " | ".join(figure(percentile(found, share)) for share in SHARES.values())
        lines.append(f"| {stream} | {len(found):,} | {shares} |")
    lines += ["", "| broker | MB at the start | MB at the end | MB/h | descriptors | tasks |"]
    lines.append("| --- | --: | --: | --: | --: | --: |")
    for broker in range(1, BROKERS + 1):
        mine = soak.of_broker(broker)
        first, last = mine[0], mine[-1]
        lines.append(
            f"| {broker} | {first.rss_mb:.1f} | {last.rss_mb:.1f} | {soak.mb_an_hour(broker):.1f} "
            f"| {first.descriptors} to {last.descriptors} | {first.tasks} to {last.tasks} |"
        )
    drifts = ", ".join(
        f"{stream} {soak.drift(stream, 'p50'):.2f} (p50) and {soak.drift(stream, 'p99'):.2f} (p99)"
        for stream in (*PRINTED, churn.CLOCK)
    )
    verdict = ", ".join(f"{n.replace('_', ' ')} {v:,}" for n, v in vars(soak.verdict).items())
    lines += [
        "",
        f"- **Drift**, the last quarter over the first: {drifts}.",
        f"- **Longest stall** of an event loop, as the brokers log it: {soak.stall_ms} ms.",
        f"- **Records**: {verdict}.",
        "",
        "![Waits, memory, CPU, descriptors and tasks over time](../pictures/performance/soak.png)",
    ]
    return "\n".join(lines)
