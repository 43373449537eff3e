"""Many partitions on three brokers: time to create and elect, memory, CPU at rest, metadata.

``scale`` takes 20,000 partitions, ``scale:100000`` as many as it says. A topic has ten partitions,
each with two replicas, so that a dead broker's leaders move. Beside each operation stands for how
long the slowest small request of a neighbour waited meanwhile, at any broker that lived.
"""

from __future__ import annotations

import math
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

import psutil

from minikafka.cli.connect import run_client
from minikafka.client import Admin, ClientConfig
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from scripts.lib.bench.controller import BROKERS, PATIENCE_S, Lab, gone, until
from scripts.lib.bench.nasty_inputs import receive
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

PARTITIONS = 20_000
TOPIC_PARTITIONS = 10
REPLICAS = 2
TOPICS_AT_ONCE = 500
REST_S = 10.0
SETTLE_S = 5.0
PING_EVERY_S = 0.02
METADATA_REQUESTS = 5
METADATA_VERSION = 12
LIMIT_S = 120
EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS


def run(report: Report, partitions: int = PARTITIONS) -> None:
    heading = f"{partitions:,} partitions, RF {REPLICAS}, {TOPIC_PARTITIONS} a topic, 3 brokers"
    report.section(heading, probe="")
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(Path(home) / "cluster")
        cluster.stderr = Path(home) / "complaints"  # of the broker that is killed
        with cluster, Lab(cluster) as lab:
            Scale(report, lab, cluster).measure(partitions)


class Scale:
    """The measurements on one cluster, in order."""

    def __init__(self, report: Report, lab: Lab, cluster: Cluster) -> None:
        self._report, self._lab, self._cluster = report, lab, cluster
        host_and_ports = [address.rsplit(":", 1) for address in cluster.bootstrap.split(",")]
        self._ports = {b: int(port) for b, (_, port) in zip(BROKERS, host_and_ports, strict=True)}

    def measure(self, partitions: int) -> None:
        self._memory("before")
        self._timed("create", lambda: self._create(partitions))
        time.sleep(SETTLE_S)
        self._memory("with all partitions")
        self._at_rest()
        self._metadata()
        first, second = self._lab.followers()
        others = self._lab.others(first)
        self._timed("stop a broker, until all are led", lambda: self._stop(first), others)
        self._timed("start it, until all replicas are in sync", lambda: self._start(first), others)
        self._timed("lead again", self._lab.elect_preferred)
        others = self._lab.others(second)
        self._timed("kill -9, expiry until all are led", lambda: self._lab.kill(second), others)
        self._timed("start it, until all replicas are in sync", lambda: self._start(second), others)
        self._timed("lead again", self._lab.elect_preferred)
        dead = self._lab.controller()
        others = self._lab.others(dead)
        self._timed("kill -9 the controller, until all are led", self._kill_controller, others)
        self._memory("at the end", others)

    def _timed(
        self, name: str, operation: Callable[[], float | None], live: Iterable[int] = BROKERS
    ) -> None:
        """``operation`` returns its seconds, if they are not from its begin to its end."""
        with Pings([self._ports[broker] for broker in live]) as pings:
            started = time.monotonic()
            seconds = operation()
            if seconds is None:
                seconds = time.monotonic() - started
        self._report.row(name, "s", seconds, note=f"a neighbour waited {pings.longest_s:.2f} s")

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

    def _stop(self, broker: int) -> float:
        return self._lab.controlled_shutdown(broker)

    def _start(self, broker: int) -> None:
        self._cluster.restart_broker(broker)
        self._lab.until_whole()

    def _kill_controller(self) -> float:
        dead = self._lab.controller()
        with gone(self._lab.zk, "/controller") as when:
            self._cluster.kill_broker(dead)
            expired = until(when, "the session expired")
        return self._lab.until_led(self._lab.others(dead)) - expired

    def _memory(self, when: str, live: Sequence[int] = BROKERS) -> None:
        used = [self._process(broker).memory_info().rss / 1e6 for broker in live]
        each = ", ".join(f"{mb:.0f}" for mb in used)
        self._report.row(f"memory {when}, largest", "MB", max(used), note=f"each: {each}")

    def _at_rest(self) -> None:
        processes = [self._process(broker) for broker in BROKERS]
        before = [cpu_seconds(process) for process in processes]
        started = time.monotonic()
        time.sleep(REST_S)
        lasted = time.monotonic() - started
        used = [(cpu_seconds(p) - b) / lasted for p, b in zip(processes, before, strict=True)]
        each = ", ".join(f"{share:.3f}" for share in used)
        self._report.row("CPU at rest, largest", "s/s", max(used), note=f"each: {each}")

    def _metadata(self) -> None:
        """Of all topics, from a broker that is not the controller."""
        broker = self._lab.followers()[0]
        process = self._process(broker)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        frame = encode_request(RequestHeader(3, METADATA_VERSION, 1, "bench"), request)
        waits_ms, cpu_ms, size = [], [], 0
        with (
            Pings([self._ports[broker]]) as pings,
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
        self._report.row("metadata of all topics, first", "ms", waits_ms[0], note=note)
        cpu = statistics.median(cpu_ms[1:])
        note = f"{cpu:.0f} ms of CPU; a neighbour waited {pings.longest_s * 1000:.0f} ms"
        self._report.row("and again", "ms", statistics.median(waits_ms[1:]), note=note)

    def _process(self, broker: int) -> psutil.Process:
        return psutil.Process(self._cluster.broker_pid(broker))


class Pings:
    """A context: sends a small request to each port all the time, and knows the longest wait."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(port,)) for port in ports]
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, port: int) -> None:
        frame = encode_request(RequestHeader(18, 0, 1, "bench"), ApiVersionsRequest())
        try:
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
                while not self._stop.wait(PING_EVERY_S):
                    started = time.perf_counter()
                    connection.sendall(frame)
                    if receive(connection) is None:
                        raise ConnectionError
                    self.longest_s = max(self.longest_s, time.perf_counter() - started)
        except OSError:  # time-outs too
            self.longest_s = math.inf


def cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)
