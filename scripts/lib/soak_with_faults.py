"""Workloads of `minikafka verify` with a nemesis, for minikafka and official Kafka in turns.

Both kinds of brokers get equal settings, and their faults by the same shell commands.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from minikafka.testing.verify.nemesis.plan import FaultKind
from minikafka.testing.verify.run import WORKLOADS
from scripts.lib.bench import apache_kafka
from scripts.lib.bench.brokers import OURS, QUICK, Brokers, Command, kinds
from scripts.lib.bench.harness import REPOSITORY
from scripts.lib.bench.report import insert, line

DOCUMENT: Final = REPOSITORY / "docs" / "explanation" / "reliability.md"
BUILD: Final = REPOSITORY / "build"
MARKS: Final = (
    "<!-- measured: scripts/soak-with-faults writes all lines up to the end mark -->",
    "<!-- end of measured -->",
)
LONG_MINUTES: Final = 10
MIXED: Final = "mixed"
ONLY_OURS: Final = ("share-groups",)  # Kafka has them from 4.0 on, which knows no ZooKeeper
MIXTURE: Final = [name for name in WORKLOADS if name not in ONLY_OURS]  # the same at both sides
BROKERS: Final = 3
DISK: Final = "600m"
LIMIT_S: Final = 600  # for what comes before and after the load
SETTINGS: Final = {
    **QUICK,
    "offsets.topic.num.partitions": 6,
    "offsets.topic.replication.factor": BROKERS,
    "transaction.state.log.num.partitions": 6,
    "transaction.state.log.replication.factor": BROKERS,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
    "replica.lag.time.max.ms": 5_000,
    "log.segment.bytes": 16 << 20,
}
# Requests, and all brokers together.
ALWAYS: Final = (FaultKind.REASSIGN, FaultKind.ELECT, FaultKind.RESTART_ALL)


@dataclass(frozen=True)
class FaultyRun:
    """The verdict of one workload on one kind of brokers."""

    brokers: str
    workload: str
    verdict: Mapping[str, Any]

    @property
    def operations(self) -> int:
        """What each workload counts first."""
        return sum(next(iter(each["counts"].values())) for each in self._workloads)

    @property
    def found(self) -> dict[str, int]:
        """The number of findings by their kinds."""
        total: dict[str, int] = {}
        for each in self._workloads:
            for kind, count in each["found"].items():
                total[kind] = total.get(kind, 0) + count
        return total

    @property
    def faults(self) -> list[Mapping[str, Any]]:
        return list(self.verdict["nemesis"]["faults"])

    @property
    def complaint(self) -> str:
        return str(self.verdict["nemesis"]["complaint"])

    @property
    def _workloads(self) -> list[Mapping[str, Any]]:
        return list(self.verdict["workloads"].values())


class FaultyBrokers(Brokers):
    """Brokers that shell commands can end and start: ``home`` has the pid of each, and a script
    that starts it. Each has its data in a folder below ``disks``, if that is given."""

    def __init__(self, command: Command, home: Path, disks: Path | None) -> None:
        super().__init__(BROKERS, SETTINGS, command)
        self._home, self._disks, self._start = home, disks, command

    def data(self, broker_id: int) -> Path:
        if self._disks is None:
            return super().data(broker_id)
        return self._disks / str(broker_id)

    def write_scripts(self) -> None:
        for broker_id in self.ids:
            words = self._start(self.directory / f"broker-{broker_id}.properties")
            log, pid = self.log(broker_id), self.pid_file(broker_id)
            pid.write_text(f"{self.process(broker_id).pid}\n")
            (self._home / f"start-{broker_id}").write_text(
                f"{shlex.join(words)} </dev/null >>{log} 2>&1 &\necho $! >{pid}\n"
            )
        java = self.zookeeper_processes[-1].pid
        (self._home / "zookeeper").write_text(f"{java}\n")

    def pid_file(self, broker_id: int) -> Path:
        return self._home / f"pid-{broker_id}"

    def end_restarted(self) -> None:
        """End the brokers that scripts have started; the others are ended with the cluster."""
        for broker_id in self.ids:
            pid = int(self.pid_file(broker_id).read_text())
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def small_disks(home: Path) -> Iterator[Path | None]:
    """Mount a disk for each broker, which can be full without harm to others; None if it cannot be
    mounted."""
    mounted: list[Path] = []
    try:
        for broker_id in range(1, BROKERS + 1):
            where = home / "disks" / str(broker_id)
            where.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "minikafka-soak", str(where)]
            if os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0:
                mounted.append(where)
        yield home / "disks" if len(mounted) == BROKERS else None
    finally:
        for where in mounted:
            subprocess.run(["umount", "-l", str(where)], check=True)


def commands(home: Path, disks: Path | None) -> dict[FaultKind, tuple[str, str]]:
    """Return how each fault begins and ends: commands of `verify`, which replaces ``{broker}``."""
    pid = f"$(cat {home}/pid-{{broker}})"
    running = f"grep -q . /proc/{pid}/cmdline 2>/dev/null"
    ended = f"while {running}; do sleep 0.1; done"
    start = f"sh {home}/start-{{broker}}"
    java = f"$(cat {home}/zookeeper)"
    found = {
        FaultKind.KILL9: (f"kill -9 {pid}; {ended}", start),
        FaultKind.TERM: (f"kill {pid}; {ended}", start),
        FaultKind.STOP: (f"kill -STOP {pid}", f"kill -CONT {pid}"),
        FaultKind.ZOOKEEPER: (f"kill -STOP {java}", f"kill -CONT {java}"),
    }
    if disks is not None:
        balloon = f"{disks}/{{broker}}/nemesis-balloon"
        found[FaultKind.FULL_DISK] = (
            f"cat /dev/zero >{balloon} 2>/dev/null || true",
            # Kafka ends when its only disk is full.
            f"rm -f {balloon}; sleep 1; {running} || {start}",
        )
    return found


def nemesis_words(home: Path, disks: Path | None, seed: int) -> list[str]:
    """Return the options of `verify` that cause all faults that are possible."""
    possible = commands(home, disks)
    chosen = ",".join(kind.value for kind in (*possible, *ALWAYS))
    words = ["--nemesis", chosen, "--nemesis-seed", str(seed)]
    for kind, (begin, end) in possible.items():
        words += ["--nemesis-command", f"{kind.value}={begin}"]
        words += ["--nemesis-end-command", f"{kind.value}={end}"]
    return words


def play(brokers: str, workload: str, seconds: float, seed: int, records_per_s: int) -> FaultyRun:
    """Start brokers of a kind, verify them with a workload while they are broken, and stop them."""
    home = BUILD / "soak-with-faults" / f"{brokers}-{workload}".lower()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    names = MIXTURE if workload == MIXED else [workload]
    words = [sys.executable, "-m", "minikafka.cli.main", "verify", "--json", "--progress-s", "60"]
    words += ["--duration-s", str(seconds), "--records-per-s", str(records_per_s)]
    words += [word for name in names for word in ("--workload", name)]
    with small_disks(home) as disks, FaultyBrokers(kinds()[brokers], home, disks) as cluster:
        cluster.write_scripts()
        words += ["--bootstrap-server", cluster.bootstrap, *nemesis_words(home, disks, seed)]
        try:
            limit_s = 2 * seconds + LIMIT_S
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=limit_s)
        finally:
            cluster.end_restarted()
    if not done.stdout:
        raise RuntimeError(f"{workload} on {brokers}: verify has no verdict")
    (home / "verdict.json").write_text(done.stdout)
    return FaultyRun(brokers, workload, json.loads(done.stdout))


# --------------------------------------------------------------------------------------- figures


def in_words(run: FaultyRun) -> str:
    """Return what a run has found; "none" if nothing."""
    parts = [f"{count:,} {kind}" for kind, count in run.found.items()]
    return "; ".join([*parts, *filter(None, [run.complaint])]) or "none"


def tables(runs: Sequence[FaultyRun]) -> str:
    """Return a table of the workloads, and one of the recoveries, as Markdown."""
    sides = list(dict.fromkeys(run.brokers for run in runs))
    columns = [
        f"{side}, {what}" for side in sides for what in ("operations", "faults", "anomalies")
    ]
    lines = [line(["workload", *columns]), line(["---"] + ["--:"] * len(columns))]
    for workload in dict.fromkeys(run.workload for run in runs):
        cells = [workload]
        for side in sides:
            mine = [run for run in runs if (run.brokers, run.workload) == (side, workload)]
            for run in mine:
                cells += [f"{run.operations:,}", f"{len(run.faults)}", in_words(run)]
            cells += ["", "", ""] * (not mine)
        lines.append(line(cells))
    figures = ("faults", "p50 (s)", "worst (s)")
    columns = [f"{side}, {what}" for side in sides for what in figures]
    lines += ["", line(["fault", *columns]), line(["---"] + ["--:"] * len(columns))]
    for kind in FaultKind:
        times = [recoveries_s(runs, side, kind) for side in sides]
        if any(times):
            cells = [kind.value]
            for each in times:
                cells.append(f"{len(each)}")
                cells += [f"{median(each):.1f}", f"{max(each):.1f}"] if each else ["", ""]
            lines.append(line(cells))
    return "\n".join(lines)


def recoveries_s(runs: Sequence[FaultyRun], brokers: str, kind: FaultKind) -> list[float]:
    """Return the times from the end of each fault until the cluster was whole."""
    return [
        (fault["whole_ms"] - fault["ended_ms"]) / 1000
        for run in runs
        if run.brokers == brokers
        for fault in run.faults
        if fault["kind"] == kind.value and fault["whole_ms"] >= 0
    ]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak-with-faults")
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS, MIXED])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records-per-s", type=int, default=200)
    args = parser.parse_args(words)
    runs = []
    for workload in args.workload or [*WORKLOADS, MIXED]:
        sides = [each for each in kinds() if each == OURS or workload not in ONLY_OURS]
        for brokers in sides:
            print(f"{workload} on {brokers}, seed {args.seed}", flush=True)
            run = play(brokers, workload, args.minutes * 60, args.seed, args.records_per_s)
            print(f"  {run.operations:,} operations, {len(run.faults)} faults: {in_words(run)}")
            runs.append(run)
    jars = apache_kafka.jars(os.environ)
    beside = "" if jars is None else f", Kafka {apache_kafka.version_in(jars)}"
    head = (
        f"`scripts/soak-with-faults {args.minutes:g}`: {args.minutes:g} minutes each, seed "
        f"{args.seed}, {args.records_per_s} records a second, on {os.cpu_count()} processors"
        f"{beside}."
    )
    measured = f"{head}\n\n{tables(runs)}"
    if args.minutes >= LONG_MINUTES:
        DOCUMENT.write_text(insert(DOCUMENT.read_text(), measured, MARKS))
    else:
        (BUILD / DOCUMENT.name).write_text(f"{measured}\n")
    print(f"\n{measured}")
    return 1 if any(run.found or run.complaint for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
