"""How long a neighbour's small produce waits while another client sends something nasty."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from scripts.lib.bench import nasty_inputs, neighbours
from scripts.lib.bench.brokers import KAFKA, OURS, Brokers, Command, kinds
from scripts.lib.bench.harness import resident_mb
from scripts.lib.bench.nasty_inputs import NastyInput, Target
from scripts.lib.bench.neighbours import Neighbours, producing
from scripts.lib.bench.report import Report

LIMIT_S = 60.0  # what takes longer is "never"
SETTLE_S = 1.0
SPOILT_MS = 10_000  # a broker that stood still for longer may have lost its session
AIM = 1.5
PRODUCE_EVERY_S = 0.001
WARM_UP = 50


@dataclass(frozen=True)
class Stall:
    """What one input did to one cluster. ``wait_ms`` is inf for never."""

    wait_ms: float
    outcome: str
    before_mb: float
    after_mb: float
    alive: bool

    def __str__(self) -> str:
        lives = "" if self.alive else ", DEAD"
        return f"{self.outcome}, {self.before_mb:.0f} → {self.after_mb:.0f} MB{lives}"


class Lab:
    """One cluster at a time, used for row after row until one has spoilt it."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._stack = contextlib.ExitStack()
        self._kind = (0, False, 0)  # of the cluster: brokers, many partitions, descriptors
        self._cluster: Brokers | None = None

    def close(self) -> None:
        self._stack.close()
        self._cluster = None

    def measure(self, row: NastyInput) -> Stall:
        attack = row.make()
        cluster = self._ready((row.replicas, row.many, row.descriptors))
        broker = cluster.process(1)
        before = resident_mb(broker)
        with Neighbours(
            [producing(cluster.ports[0])], PRODUCE_EVERY_S, LIMIT_S, WARM_UP
        ) as neighbour:
            outcome = attack(Target(cluster.ports[0], LIMIT_S))
            time.sleep(SETTLE_S)
        alive = broker.is_running() and broker.status() != psutil.STATUS_ZOMBIE
        after = resident_mb(broker) if alive else 0.0
        wait_ms = neighbour.longest_s * 1000
        if row.destructive or not alive or wait_ms > SPOILT_MS:
            self.close()
        return Stall(wait_ms, outcome, before, after, alive)

    def _ready(self, kind: tuple[int, bool, int]) -> Brokers:
        """Return a cluster of a kind; broker 1 leads all partitions."""
        if self._cluster is None or kind != self._kind:
            self.close()
            self._kind = count, many, descriptors = kind
            cluster = Brokers(count, command=self._command, descriptors=descriptors)
            self._cluster = self._stack.enter_context(cluster)
            topics = {
                nasty_inputs.TOPIC: [list(cluster.ids)] * nasty_inputs.PARTITIONS,
                neighbours.TOPIC: [[1]],
            }
            if many:
                partitions = [[1]] * nasty_inputs.MANY_PARTITIONS
                topics.update(dict.fromkeys(nasty_inputs.MANY_TOPICS, partitions))
            cluster.create(topics)
        return self._cluster


@contextlib.contextmanager
def labs() -> Iterator[dict[str, Lab]]:
    """Labs of minikafka, and of Kafka if the environment names its jars."""
    found = {kind: Lab(command) for kind, command in kinds().items()}
    try:
        yield found
    finally:
        for lab in found.values():
            lab.close()


def run(report: Report, text: str = "") -> None:
    """Take the rows whose names contain a text, in any case."""
    with labs() as found:
        report.section("longest wait of a neighbour's produce, acks=1 (ms)", probe=KAFKA)
        for row in nasty_inputs.rows():
            if text.lower() not in row.name.lower():
                continue
            stalls = {kind: lab.measure(row) for kind, lab in found.items()}
            theirs = stalls[KAFKA].wait_ms if KAFKA in stalls else None
            note = " | ".join(map(str, stalls.values()))
            aim = None if theirs is None else AIM
            report.row(row.name, "ms", stalls[OURS].wait_ms, theirs, most=aim, note=note)
