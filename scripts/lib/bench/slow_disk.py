"""Neighbours of a slow disk: clients of one log directory while the device of another is slow.

A broker has two log directories, one of them on a ``SlowDevice``. Writers exceed the slow one, and
in one case it stands still for 10 s; readers fetch from it what is not in the page cache.
Neighbours produce to the other directory, fetch from it what is in the page cache, and send
heartbeats of a group.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.brokers import KAFKA, LARGE, OURS, QUICK, Brokers, Command, kinds
from scripts.lib.bench.failover import zookeeper_client
from scripts.lib.bench.groups import Member, until_coordinated
from scripts.lib.bench.harness import percentile
from scripts.lib.bench.neighbours import Ask, Neighbours, producing
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import (
    Connection,
    check_of,
    exchange,
    fetch_frame,
    fetched_bytes,
    frame,
)
from scripts.lib.bench.slow_device import SlowDevice

TOPICS = ("one", "other")  # brokers put the second one into the emptier directory
BATCH_BYTES = 256 << 10
FETCH_BYTES = 16 << 10
COLD_BYTES = 1 << 20
COLD_OFFSETS = range(0, 1_200, COLD_BYTES // BATCH_BYTES)  # earlier cases have written more
CACHED_BATCHES = 200
EVERY_S = 0.002
BEFORE_S, STILL_S, AFTER_S = 5.0, 10.0, 10.0
SETTINGS = {
    **LARGE,
    **QUICK,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
SHARES = {"p50": 0.5, "p99": 0.99, "p100": 1.0}


@dataclass(frozen=True)
class Case:
    """How many connections write large batches to the slow directory, whether its device stands
    still for ``STILL_S`` meanwhile, and how many connections read what is only on its disk."""

    name: str
    writers: int = 0
    stands_still: bool = False
    readers: int = 0


CASES = (
    Case("nothing is written"),
    Case("1 writer, 10 MB/s", 1),
    Case("8 writers, 10 MB/s", 8),
    Case("1 writer, the device stands still", 1, stands_still=True),
    Case("1 reader, 10 MB/s", readers=1),
)


class Side:
    """A context: a broker of one kind, and its slow device."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._stack = ExitStack()

    def __enter__(self) -> Side:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._device = stack.enter_context(SlowDevice(home))
            fast, slow = home / "fast", self._device.path / "logs"
            settings = {**SETTINGS, "log.dirs": f"{fast},{slow}"}
            self.cluster = stack.enter_context(Brokers(1, settings, self._command))
            self._prepare(fast, slow)
            stack.callback(self._device.drain)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _prepare(self, fast: Path, slow: Path) -> None:
        for topic in TOPICS:
            self.cluster.create({topic: [[1]]})
        (port,) = self.cluster.ports
        near, far = (topic_in(directory, TOPICS) for directory in (fast, slow))
        request = producing(port, 0, near, 1_000)
        for _ in range(CACHED_BATCHES):
            request[2](exchange(port, request[1][0]) or b"")
        uvloop.run(until_coordinated(port))
        self._produce = request
        self._fetch = (port, [fetch_frame(near, 0, FETCH_BYTES)], fetched_bytes)
        self._write = producing(port, 0, far, BATCH_BYTES)
        self._read: Ask = (
            port,
            [fetch_frame(far, n, COLD_BYTES) for n in COLD_OFFSETS],
            fetched_bytes,
        )

    def play(self, case: Case) -> Mapping[str, list[float]]:
        """Return how long the neighbours' requests took, in ms and sorted, by what they ask. The
        last one is inf if a request failed."""
        since = self._registered()
        asks: dict[str, Ask] = {
            "produce": self._produce,
            "fetch": self._fetch,
            "heartbeat": uvloop.run(heartbeat(self.cluster.ports[0], case.name)),
        }
        neighbours = Neighbours([*asks.values()], EVERY_S)
        writers = Neighbours([self._write] * case.writers, 0.0)
        readers = Neighbours([self._read] * case.readers, 0.0)
        self._device.forget()
        with neighbours, writers, readers:
            time.sleep(BEFORE_S)
            if case.stands_still:
                with self._device.standing_still():
                    time.sleep(STILL_S)
            time.sleep(AFTER_S)
        self._device.drain()
        written = sum(map(len, writers.taken)) * BATCH_BYTES / 1e6
        read = sum(map(len, readers.taken)) * COLD_BYTES / 1e6
        same = "lost" if self._registered() != since else "kept"
        print(f"    {written:,.0f} MB written, {read:,.0f} MB read, ZooKeeper session {same}")
        never = [math.inf] if math.isinf(neighbours.longest_s) else []
        waits = [on_schedule(taken, EVERY_S) + never for taken in neighbours.taken]
        return dict(zip(asks, waits, strict=True))

    def _registered(self) -> int:
        """Return the zxid of the broker's registration: another one after an expired session."""
        with zookeeper_client(self.cluster) as zookeeper:
            found = zookeeper.exists("/brokers/ids/1")
            return 0 if found is None else int(found.czxid)


def run(report: Report) -> None:
    """Measure minikafka, and Kafka if the environment names its jars. The kinds take turns."""
    with ExitStack() as stack:
        sides = {kind: stack.enter_context(Side(command)) for kind, command in kinds().items()}
        for case in CASES:
            report.section(f"beside a slow log directory: {case.name} (ms)", probe=KAFKA)
            found = {kind: side.play(case) for kind, side in sides.items()}
            for what, waits in found[OURS].items():
                theirs = found.get(KAFKA, {}).get(what)
                for name, share in SHARES.items():
                    kafkas = None if theirs is None else percentile(theirs, share)
                    report.row(f"{what}, {name}", "", percentile(waits, share), kafkas)


def on_schedule(taken: Sequence[tuple[float, float]], every_s: float) -> list[float]:
    """Return latencies in ms, sorted, as of clients that send one request every ``every_s``.

    ``taken`` is of one client, which waits for a response before the next request. Those that it
    could not send meanwhile would have waited for the rest of that time."""
    waits = []
    for _, took in taken:
        while took > 0:
            waits.append(took * 1000)
            took -= every_s
    return sorted(waits)


async def heartbeat(port: int, group_id: str) -> Ask:
    """Return a heartbeat of a new group's only member."""
    member = Member(group_id, await Connection.open(port))
    await member.join()
    member.connection.close()
    request = frame(ApiKey.HEARTBEAT, **member.place, generation_id=member.generation)
    return port, [request], check_of(ApiKey.HEARTBEAT)


def topic_in(directory: Path, topics: Sequence[str]) -> str:
    """Return the one of the topics whose partition 0 has its log in ``directory``."""
    (found,) = (topic for topic in topics if (directory / f"{topic}-0").exists())
    return found
