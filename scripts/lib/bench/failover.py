"""The leader of 30 partitions with three replicas goes, by kill -15 and by kill -9."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any, Self

from confluent_kafka import Producer

from scripts.lib.bench.brokers import KAFKA, LARGE, OURS, QUICK, Brokers, kinds
from scripts.lib.bench.harness import PATIENCE_S, percentile, wait_until
from scripts.lib.bench.neighbours import Neighbours
from scripts.lib.bench.report import Report, Section, Sheet

LED = 30  # partitions that a broker leads when it goes
# Few enough that a JVM on a small machine keeps up: queues would be measured else.
PACE_S = 0.02
ACCEPT_EVERY_S = 0.005
CALM_S = 0.1  # a record takes less before a broker is killed
CALM_RECORDS = 50
BEFORE = f"for comparison: longest wait of the last {CALM_RECORDS} records before the kill"

STOP = Section("Stop of one broker, from SIGTERM until the process has ended", "s")
SHUTDOWN = Section("Controlled shutdown (kill -15) of the leader of 30 partitions", "ms")
FAILOVER = Section("Failover (kill -9) of the leader of 30 partitions, session time-out 6 s", "ms")
FAILED = Section("Records of the producer that failed while a leader went", "records")

Add = Callable[[Section, str, float], None]  # of one kind


def run(report: Report) -> None:
    """Measure minikafka, and Kafka if the environment names its jars."""
    sheet = Sheet((STOP, SHUTDOWN, FAILOVER, FAILED))
    for kind, command in kinds().items():
        with Brokers(3, {**LARGE, **QUICK}, command) as cluster:
            leaders_go(partial(sheet.add, kind), cluster)
    for section in sheet.sections:
        report.section(section.title, probe=KAFKA)
        for name, sides in sheet.rows(section):
            theirs = median(sides[KAFKA]) if KAFKA in sides else None
            report.row(name, section.unit, median(sides[OURS]), theirs)


def leaders_go(add: Add, cluster: Brokers) -> None:
    """Shut down each broker that is not the controller, and kill one of them at last."""
    controller = cluster.controller
    first, second = (each for each in cluster.ids if each != controller)
    for victim, other in ((first, second), (second, first)):
        topic = f"left-by-{victim}"
        cluster.create({topic: [[victim, controller, other]] * LED})
        controlled_shutdown(add, cluster, victim, topic)
        cluster.restart(victim)
        cluster.wait_for_all()
        cluster.wait_in_sync([topic])
    cluster.create({"lost": [[first, controller, second]] * LED})
    failover(add, cluster, first, "lost")


def controlled_shutdown(add: Add, cluster: Brokers, victim: int, topic: str) -> None:
    with accepting(cluster, topic) as brokers, Pacer(cluster, topic) as pacer:
        before = calm_down(pacer)
        killed = time.monotonic()
        cluster.kill(victim, signal.SIGTERM)
        cluster.wait(victim)
        add(STOP, "one of three brokers", time.monotonic() - killed)
        wait_until(lambda: first_after(brokers, killed, victim), "another leader")
        time.sleep(1)
    leaderless = longest_gap(sorted(itertools.chain(*accepted_at(brokers))), killed)
    add(SHUTDOWN, "longest time in which no broker accepts a record", leaderless * 1000)
    add_pauses(add, SHUTDOWN, pacer, killed)
    add(SHUTDOWN, BEFORE, before * 1000)


def failover(add: Add, cluster: Brokers, victim: int, topic: str) -> None:
    with (
        zookeeper_client(cluster) as zookeeper,
        accepting(cluster, topic) as brokers,
        Pacer(cluster, topic) as pacer,
    ):
        expiry = gone(zookeeper, f"/brokers/ids/{victim}")
        before = calm_down(pacer)
        killed = time.monotonic()
        cluster.kill(victim)
        expired = wait_until(expiry, "the end of a broker's session")
        led = wait_until(lambda: first_after(brokers, killed, victim), "another leader")
        time.sleep(1)
    name = "until another leader accepts a record"
    add(FAILOVER, f"from the end of the session {name}", (led - expired) * 1000)
    add(FAILOVER, f"from the kill {name}", (led - killed) * 1000)
    add_pauses(add, FAILOVER, pacer, killed)
    add(FAILOVER, BEFORE, before * 1000)


def accepting(cluster: Brokers, topic: str) -> Neighbours:
    """Small records (acks=1) for partition 0, to every broker all the time."""
    ports = [(port, 0) for port in cluster.ports]
    return Neighbours(ports, ACCEPT_EVERY_S, 5, topic=topic, record_bytes=10, patient=True)


def accepted_at(brokers: Neighbours) -> list[list[float]]:
    """Return when each broker accepted a record."""
    return [[sent + took for sent, took in list(taken)] for taken in brokers.taken]


def first_after(brokers: Neighbours, since: float, without: int) -> float:
    """Return when a broker other than ``without`` first accepted a record; 0 if none did."""
    others = (times for each, times in enumerate(accepted_at(brokers), 1) if each != without)
    return min((at for times in others for at in times if at > since), default=0.0)


def calm_down(pacer: Pacer) -> float:
    """Wait until records are quick, at most 10 s; return the longest wait of the last ones.

    New connections and cold code are no part of what is measured.
    """
    deadline = time.monotonic() + 10

    def last_waits() -> list[float]:
        last = [took for _, took, _ in pacer.rows[-CALM_RECORDS:]]
        calm = len(last) == CALM_RECORDS and max(last) < CALM_S
        return last if calm or time.monotonic() > deadline else []

    return max(wait_until(last_waits, "the producer's records are accepted"))


def add_pauses(add: Add, section: Section, pacer: Pacer, killed: float) -> None:
    """What a producer sees."""
    waits = sorted(took for sent, took, _ in pacer.rows if sent > killed - 0.2)
    add(section, "longest wait of a record of a producer", waits[-1] * 1000)
    add(section, "99 of 100 records wait less than", percentile(waits, 0.99) * 1000)
    failed = sum(1 for _, _, error in pacer.rows if error is not None)
    add(FAILED, "kill -15" if section is SHUTDOWN else "kill -9", failed)


class Pacer:
    """A context: a producer with its defaults, one record of 1 KB every few milliseconds, and what
    became of each: (when it was sent, how long it took, its error)."""

    def __init__(self, cluster: Brokers, topic: str) -> None:
        self.rows: list[tuple[float, float, object]] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._send(time.monotonic())
            self._producer.poll(PACE_S)

    def _send(self, sent: float) -> None:
        def settled(error: object, message: object) -> None:
            self.rows.append((sent, time.monotonic() - sent, error))

        self._producer.produce(self._topic, b"x" * 1024, on_delivery=settled)


def longest_gap(times: Sequence[float], since: float) -> float:
    """Return the longest time between two neighbours of ``times`` (sorted), from the last one
    before ``since`` on. Raises ValueError if there are none to compare."""
    return max(later - earlier for earlier, later in itertools.pairwise(times) if later > since)


@contextmanager
def zookeeper_client(cluster: Brokers) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client: Any = KazooClient(hosts=cluster.zookeeper)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def gone(zookeeper: Any, path: str) -> Callable[[], float]:
    """Return a function that says when the znode was deleted, by a watch; 0 before."""
    seen: list[float] = []
    zookeeper.exists(path, watch=lambda _: seen.append(time.monotonic()))
    return lambda: seen[0] if seen else 0.0
