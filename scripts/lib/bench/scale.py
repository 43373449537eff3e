"""Many partitions on three brokers: time to create and elect, memory, CPU at rest, metadata.

``scale`` takes 20,000 partitions, ``scale:100000`` as many as it says, on the cluster that had
10,000 before; the figures with those stand beside. A topic has ten partitions, each with two
replicas, so that a dead broker's leaders move. Beside each operation stand the longest wait of a
neighbour that produces a record at a time to each broker that lives, and the memory afterwards.
"""

from __future__ import annotations

import contextlib
import math
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import psutil

from minikafka.cli.connect import run_client
from minikafka.client import Admin, ClientConfig
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.metadata import MetadataRequest
from scripts.lib.bench.controller import BROKERS, PATIENCE_S, Lab, gone, until
from scripts.lib.bench.nasty_inputs import receive
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import check_produced, produce_frame
from scripts.lib.cluster import Cluster

PARTITIONS = 20_000
FEWER = 10_000
TOPIC_PARTITIONS = 10
REPLICAS = 2
TOPICS_AT_ONCE = 500
ELECTED_AT_ONCE = 1_000
REST_S = 10.0
SETTLE_S = 5.0
PRODUCE_EVERY_S = 0.02
NEIGHBOUR = "neighbour"
METADATA_REQUESTS = 5
METADATA_VERSION = 12
LIMIT_S = 120
EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS
# The controller would elect preferred leaders by itself, sooner or later.
BALANCED_BY_HAND = "auto.leader.rebalance.enable=false"


def run(report: Report, partitions: int = PARTITIONS) -> None:
    heading = f"{partitions:,} partitions, RF {REPLICAS}, {TOPIC_PARTITIONS} a topic, 3 brokers"
    report.section(heading, probe=f"with {FEWER:,}")
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(Path(home) / "cluster", overrides=(BALANCED_BY_HAND,))
        cluster.stderr = Path(home) / "complaints"  # of the brokers that are killed
        with cluster, Lab(cluster) as lab:
            scale = Scale(report, lab, cluster)
            for count in sorted({min(FEWER, partitions), partitions}):
                scale.measure(count)


class Scale:
    """The measurements on one cluster, in order, with one number of partitions after the other."""

    def __init__(self, report: Report, lab: Lab, cluster: Cluster) -> None:
        self._report, self._lab, self._cluster = report, lab, cluster
        host_and_ports = [address.rsplit(":", 1) for address in cluster.bootstrap.split(",")]
        self._ports = {b: int(port) for b, (_, port) in zip(BROKERS, host_and_ports, strict=True)}
        self._before: dict[str, float] = {}  # each row's figure with fewer partitions

    def measure(self, partitions: int) -> None:
        """Return with all brokers running."""
        lab = self._lab
        if not lab.pinned:
            self._create_neighbours()
        self._timed("create", lambda: self._create(partitions))
        time.sleep(SETTLE_S)
        self._at_rest()
        self._metadata()
        first, second = lab.followers()
        self._timed("kill -15 until all led", lambda: lab.controlled_shutdown(first), first)
        self._timed("start until all in sync", lambda: self._start(first), first)
        self._timed("elect all in one request", self._elect_at_once)
        self._timed("kill -9, expiry until all led", lambda: lab.kill(second), second)
        self._timed("start again until all in sync", lambda: self._start(second), second)
        self._timed(f"elect, {ELECTED_AT_ONCE:,} a request", self._elect_in_slices)
        dead = lab.controller()
        self._timed("failover until all led", self._kill_controller, dead)
        self._timed("start the controller's broker", lambda: self._start(dead), dead)
        self._timed("elect all once more", self._elect_at_once)

    def _row(self, name: str, unit: str, figure: float, note: str) -> None:
        earlier, self._before[name] = self._before.get(name), figure
        self._report.row(f"{name}, {self._lab.partitions:,}", unit, figure, earlier, note=note)

    def _timed(
        self, name: str, operation: Callable[[], float | None], away: int | None = None
    ) -> None:
        """``operation`` returns its seconds, if they are not from its begin to its end. Broker
        ``away`` is dead for a part of it."""
        ports = [port for broker, port in self._ports.items() if broker != away]
        with Neighbours(ports, [b - 1 for b in BROKERS if b != away]) as neighbours:
            started = time.monotonic()
            seconds = operation()
            if seconds is None:
                seconds = time.monotonic() - started
        note = f"a neighbour waited {neighbours.longest_s:.2f} s; {self._memory_note()}"
        self._row(name, "s", seconds, note)

    def _create_neighbours(self) -> None:
        """Create a topic with one partition at each broker, that has no other replica."""

        async def work(world: World) -> None:
            async with Admin(world, ClientConfig(self._cluster.bootstrap)) as admin:
                places = {number: [broker] for number, broker in enumerate(BROKERS)}
                await admin.create_topics([NewTopic(NEIGHBOUR, assignments=places)])

        run_client(work)
        self._lab.pinned = 1
        self._lab.until_led(BROKERS)

    def _create(self, partitions: int) -> None:
        lab = self._lab
        names = [f"scale-{n:05d}" for n in range(partitions // TOPIC_PARTITIONS)]

        async def work(world: World) -> None:
            timeout_ms = PATIENCE_S * 1000
            config = ClientConfig(self._cluster.bootstrap, default_api_timeout_ms=timeout_ms)
            async with Admin(world, config) as admin:
                for start in range(0, len(names), TOPICS_AT_ONCE):
                    some = names[start : start + TOPICS_AT_ONCE]
                    topics = [NewTopic(name, TOPIC_PARTITIONS, REPLICAS) for name in some]
                    for outcome in (await admin.create_topics(topics)).values():
                        # A request that was late is sent again, and finds the topics.
                        if isinstance(outcome, KafkaError) and outcome.code is not EXISTS:
                            raise outcome

        run_client(work)
        lab.sizes.update(dict.fromkeys(names, TOPIC_PARTITIONS))
        lab.until_led(BROKERS)

    def _start(self, broker: int) -> None:
        self._cluster.restart_broker(broker)
        self._lab.until_whole()

    def _kill_controller(self) -> float:
        dead = self._lab.controller()
        with gone(self._lab.zk, "/controller") as when:
            self._cluster.kill_broker(dead)
            expired = until(when, "the session expired")
        return self._lab.until_led(self._lab.others(dead)) - expired

    def _elect_at_once(self) -> None:
        self._elect([None])

    def _elect_in_slices(self) -> None:
        partitions = [
            TopicPartition(topic, number)
            for topic, size in self._lab.sizes.items()
            for number in range(size)
        ]
        starts = range(0, len(partitions), ELECTED_AT_ONCE)
        self._elect([partitions[start : start + ELECTED_AT_ONCE] for start in starts])

    def _elect(self, requests: Sequence[Sequence[TopicPartition] | None]) -> None:
        """Return when the controller's broker shows all preferred leaders in its metadata."""

        async def work(world: World) -> None:
            patience_ms = PATIENCE_S * 1000
            config = ClientConfig(self._cluster.bootstrap, request_timeout_ms=patience_ms)
            async with Admin(world, config) as admin:
                for named in requests:
                    outcomes = await admin.elect_leaders(
                        ElectionType.PREFERRED, named, timeout_ms=patience_ms
                    )
                    for error in outcomes.values():
                        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                            raise error

        run_client(work)

    def _memory(self) -> dict[str, float]:
        """Return the MB of each process that runs."""
        used = {}
        for broker in BROKERS:
            if self._lab.alive(broker):
                used[str(broker)] = self._process(broker).memory_info().rss / 1e6
        with contextlib.suppress(FileNotFoundError):
            home = self._cluster.directory / "zookeeper"
            parent = psutil.Process(int((home / "pid").read_text()))
            family = [parent, *parent.children(recursive=True)]
            used["ZooKeeper"] = sum(each.memory_info().rss for each in family) / 1e6
        return used

    def _memory_note(self) -> str:
        return "MB: " + ", ".join(f"{name} {mb:.0f}" for name, mb in self._memory().items())

    def _at_rest(self) -> None:
        processes = [self._process(broker) for broker in BROKERS]
        before = [cpu_seconds(process) for process in processes]
        started = time.monotonic()
        time.sleep(REST_S)
        lasted = time.monotonic() - started
        used = [(cpu_seconds(p) - b) / lasted for p, b in zip(processes, before, strict=True)]
        each = ", ".join(f"{share:.3f}" for share in used)
        self._row("CPU at rest, largest", "s/s", max(used), f"each: {each}")

    def _metadata(self) -> None:
        """Of all topics, from a broker that is not the controller."""
        broker = self._lab.followers()[0]
        process = self._process(broker)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        frame = encode_request(RequestHeader(3, METADATA_VERSION, 1, "bench"), request)
        waits_ms, cpu_ms, size = [], [], 0
        with (
            Neighbours([self._ports[broker]], [broker - 1]) as neighbours,
            socket.create_connection(("127.0.0.1", self._ports[broker]), LIMIT_S) as connection,
        ):
            for _ in range(1 + METADATA_REQUESTS):
                used, started = cpu_seconds(process), time.monotonic()
                connection.sendall(frame)
                size = len(receive(connection) or b"")
                waits_ms.append((time.monotonic() - started) * 1000)
                time.sleep(0.1)
                cpu_ms.append((cpu_seconds(process) - used) * 1000)
        note = f"{size / 1e6:.1f} MB, {cpu_ms[0]:.0f} ms of CPU"
        self._row("metadata of all topics, first", "ms", waits_ms[0], note)
        cpu = statistics.median(cpu_ms[1:])
        note = f"{cpu:.0f} ms of CPU; a neighbour waited {neighbours.longest_s * 1000:.0f} ms"
        self._row("and again", "ms", statistics.median(waits_ms[1:]), note)

    def _process(self, broker: int) -> psutil.Process:
        return psutil.Process(self._cluster.broker_pid(broker))


class Neighbours:
    """A context: produces to each broker all the time, a record at a time, and knows the longest
    wait. ``ports`` and ``partitions`` name a broker and its partition each."""

    def __init__(self, ports: Sequence[int], partitions: Sequence[int]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=each)
            for each in zip(ports, partitions, strict=True)
        ]
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, port: int, partition: int) -> None:
        frame = produce_frame(NEIGHBOUR, 100, acks=1, partition=partition)
        try:
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
                while not self._stop.wait(PRODUCE_EVERY_S):
                    started = time.perf_counter()
                    connection.sendall(frame)
                    answer = receive(connection)
                    if answer is None:
                        raise ConnectionError
                    self.longest_s = max(self.longest_s, time.perf_counter() - started)
                    check_produced(answer)
        except (OSError, RuntimeError):  # time-outs too, and refused records
            self.longest_s = math.inf


def cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)
