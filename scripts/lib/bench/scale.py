"""Many partitions on three brokers: time to create and elect, memory, CPU at rest, metadata.

``scale`` takes 20,000 partitions, ``scale:100000`` as many as it says, on the cluster that had
10,000 before; the figures with those stand beside. A topic has ten partitions, each with two
replicas, so that a dead broker's leaders move. Beside each operation stand the longest wait of a
neighbour that produces a record at a time to each broker that lives, and the memory afterwards.
"""

from __future__ import annotations

import signal
import socket
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from minikafka.cli.connect import run_client
from minikafka.client import Admin, ClientConfig
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench import neighbours
from scripts.lib.bench.brokers import QUICK, Brokers
from scripts.lib.bench.failover import changed, zookeeper_client
from scripts.lib.bench.harness import cpu_seconds, resident_mb, wait_until
from scripts.lib.bench.neighbours import Neighbours, producing
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import frame, receive

PARTITIONS = 20_000
FEWER = 10_000
TOPIC_PARTITIONS = 10
REPLICAS = 2
TOPICS_AT_ONCE = 500
ELECTED_AT_ONCE = 1_000
REST_S = 10.0
SETTLE_S = 5.0
PRODUCE_EVERY_S = 0.02
METADATA_REQUESTS = 5
METADATA_VERSION = 12
LIMIT_S = 120
PATIENCE_S = 900
LEADERS = "kafka.server:type=ReplicaManager,name=LeaderCount"
LATE = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"
# The controller would elect preferred leaders by itself, sooner or later.
SETTINGS = {**QUICK, "auto.leader.rebalance.enable": "false"}


def run(report: Report, partitions: int = PARTITIONS) -> None:
    heading = f"{partitions:,} partitions, RF {REPLICAS}, {TOPIC_PARTITIONS} a topic, 3 brokers"
    report.section(heading, probe=f"with {FEWER:,}")
    with Brokers(3, SETTINGS, debug=True) as cluster:
        scale = Scale(report, cluster)
        cluster.create({neighbours.TOPIC: [[broker] for broker in cluster.ids]})
        for count in sorted({min(FEWER, partitions), partitions}):
            scale.measure(count)


class Scale:
    """The measurements on one cluster, in order, with one number of partitions after the other."""

    def __init__(self, report: Report, cluster: Brokers) -> None:
        self._report, self._cluster = report, cluster
        self._topics: dict[str, None] = {}
        self._before: dict[str, float] = {}  # each row's figure with fewer partitions

    def measure(self, partitions: int) -> None:
        """Return with all brokers running."""
        cluster = self._cluster
        self._timed("create", lambda: self._create(partitions))
        time.sleep(SETTLE_S)
        self._at_rest()
        first, second = (broker for broker in cluster.ids if broker != cluster.controller)
        self._metadata(first)
        self._timed("kill -15 until all led", lambda: self._shut_down(first), first)
        self._timed("start until all in sync", lambda: self._start(first), first)
        self._timed("elect all in one request", lambda: self._elect([None]))
        path = f"/brokers/ids/{second}"
        self._timed("kill -9, expiry until all led", lambda: self._kill(second, path), second)
        self._timed("start again until all in sync", lambda: self._start(second), second)
        self._timed(f"elect, {ELECTED_AT_ONCE:,} a request", self._elect_in_slices)
        dead = cluster.controller
        self._timed("failover until all led", lambda: self._kill(dead, "/controller"), dead)
        self._timed("start the controller's broker", lambda: self._start(dead), dead)
        self._timed("elect all once more", lambda: self._elect([None]))

    def _row(self, name: str, unit: str, figure: float, note: str) -> None:
        earlier, self._before[name] = self._before.get(name), figure
        self._report.row(f"{name}, {self._partitions:,}", unit, figure, earlier, note=note)

    def _timed(
        self, name: str, operation: Callable[[], float | None], away: int | None = None
    ) -> None:
        """``operation`` returns its seconds, if they are not from its begin to its end. Broker
        ``away`` is dead for a part of it."""
        alive = [broker for broker in self._cluster.ids if broker != away]
        with self._neighbours(alive) as waiting:
            started = time.monotonic()
            seconds = operation()
            if seconds is None:
                seconds = time.monotonic() - started
        note = f"a neighbour waited {waiting.longest_s:.2f} s; MB: {self._memory()}"
        self._row(name, "s", seconds, note)

    def _neighbours(self, brokers: Sequence[int]) -> Neighbours:
        asks = [producing(self._cluster.port(each), each - 1) for each in brokers]
        return Neighbours(asks, PRODUCE_EVERY_S, LIMIT_S)

    # ------------------------------------------------------------------------------- operations

    def _create(self, partitions: int) -> None:
        names = [f"scale-{n:05d}" for n in range(partitions // TOPIC_PARTITIONS)]

        async def work(admin: Admin) -> None:
            for start in range(0, len(names), TOPICS_AT_ONCE):
                some = names[start : start + TOPICS_AT_ONCE]
                topics = [NewTopic(name, TOPIC_PARTITIONS, REPLICAS) for name in some]
                for outcome in (await admin.create_topics(topics)).values():
                    # A request that was late is sent again, and finds the topics.
                    exists = ErrorCode.TOPIC_ALREADY_EXISTS
                    if isinstance(outcome, KafkaError) and outcome.code is not exists:
                        raise outcome

        self._administer(work)
        self._topics.update(dict.fromkeys(names))
        self._until_led(self._cluster.ids)

    def _shut_down(self, broker: int) -> float:
        """Return the seconds from SIGTERM until all that it led is led elsewhere."""
        started = time.monotonic()
        self._cluster.kill(broker, signal.SIGTERM)
        seconds = self._until_led(self._others(broker)) - started
        self._cluster.wait(broker)
        return seconds

    def _kill(self, broker: int, path: str) -> float:
        """Return the seconds from the end of a znode of its session until all is led elsewhere."""
        with zookeeper_client(self._cluster) as zookeeper:
            deleted = changed(zookeeper, path)
            self._cluster.kill(broker)
            expired = wait_until(deleted, "the session expired", PATIENCE_S)
        return self._until_led(self._others(broker)) - expired

    def _start(self, broker: int) -> None:
        self._cluster.restart(broker)
        self._until_led(self._cluster.ids)
        late = [partial(self._cluster.metric, each, LATE) for each in self._cluster.ids]
        wait_until(lambda: {each() for each in late} == {0}, "replicas in sync", PATIENCE_S)

    def _elect_in_slices(self) -> None:
        partitions = [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in range(TOPIC_PARTITIONS)
        ]
        starts = range(0, len(partitions), ELECTED_AT_ONCE)
        self._elect([partitions[start : start + ELECTED_AT_ONCE] for start in starts])

    def _elect(self, requests: Sequence[Sequence[TopicPartition] | None]) -> None:
        """Return when the controller's broker shows all preferred leaders in its metadata."""

        async def work(admin: Admin) -> None:
            for named in requests:
                outcomes = await admin.elect_leaders(
                    ElectionType.PREFERRED, named, timeout_ms=PATIENCE_S * 1000
                )
                for error in outcomes.values():
                    if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                        raise error

        self._administer(work)

    def _administer(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        patience = PATIENCE_S * 1000
        config = ClientConfig(
            self._cluster.bootstrap, default_api_timeout_ms=patience, request_timeout_ms=patience
        )

        async def connected(world: World) -> None:
            async with Admin(world, config) as admin:
                await work(admin)

        run_client(connected)

    # ---------------------------------------------------------------------------------- looking

    @property
    def _partitions(self) -> int:
        return len(self._topics) * TOPIC_PARTITIONS

    def _others(self, broker: int) -> list[int]:
        return [each for each in self._cluster.ids if each != broker]

    def _until_led(self, brokers: Sequence[int]) -> float:
        """Return when these brokers lead all partitions, and each that of its neighbour."""
        wanted = self._partitions + len(brokers)
        wait_until(
            lambda: sum(self._cluster.metric(broker, LEADERS) for broker in brokers) == wanted,
            f"{wanted} partitions led by {brokers}",
            PATIENCE_S,
        )
        return time.monotonic()

    def _memory(self) -> str:
        """Return the MB of each process that runs."""
        alive = [broker for broker in self._cluster.ids if self._cluster.is_alive(broker)]
        used = [f"{each} {resident_mb(self._cluster.process(each)):.0f}" for each in alive]
        of_zookeeper = sum(map(resident_mb, self._cluster.zookeeper_processes))
        return ", ".join([*used, f"ZooKeeper {of_zookeeper:.0f}"])

    def _at_rest(self) -> None:
        processes = self._cluster.processes
        before, started = [cpu_seconds([each]) for each in processes], time.monotonic()
        time.sleep(REST_S)
        lasted = time.monotonic() - started
        used = [(cpu_seconds([p]) - b) / lasted for p, b in zip(processes, before, strict=True)]
        each = ", ".join(f"{share:.3f}" for share in used)
        self._row("CPU at rest, largest", "s/s", max(used), f"each: {each}")

    def _metadata(self, broker: int) -> None:
        """Of all topics, from a broker that is not the controller."""
        process = self._cluster.process(broker)
        port = self._cluster.port(broker)
        request = frame(
            ApiKey.METADATA, METADATA_VERSION, topics=None, allow_auto_topic_creation=False
        )
        waits_ms, cpu_ms, size = [], [], 0
        with (
            self._neighbours([broker]) as waiting,
            socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection,
        ):
            for _ in range(1 + METADATA_REQUESTS):
                used, started = cpu_seconds([process]), time.monotonic()
                connection.sendall(request)
                size = len(receive(connection) or b"")
                waits_ms.append((time.monotonic() - started) * 1000)
                time.sleep(0.1)
                cpu_ms.append((cpu_seconds([process]) - used) * 1000)
        note = f"{size / 1e6:.1f} MB, {cpu_ms[0]:.0f} ms of CPU"
        self._row("metadata of all topics, first", "ms", waits_ms[0], note)
        cpu = statistics.median(cpu_ms[1:])
        note = f"{cpu:.0f} ms of CPU; a neighbour waited {waiting.longest_s * 1000:.0f} ms"
        self._row("and again", "ms", statistics.median(waits_ms[1:]), note)
