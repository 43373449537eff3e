"""How long the controller takes at 1,000 and at 10,000 partitions, on a real ZooKeeper."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil

from minikafka.cli.connect import run_client
from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from minikafka.client import Admin, ClientConfig
from minikafka.kernel.cluster import ElectionType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

T = TypeVar("T")

TOPIC_PARTITIONS = 1000
STEPS = (1000, 10_000)
BROKERS = (1, 2, 3)
AIM_S = 3.0  # of each, at 10,000
POLL_S = 0.05
PATIENCE_S = 900


def run(report: Report) -> None:
    report.section("controller, 3 brokers, RF 3 (seconds)", probe="at 1,000")
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(Path(home) / "cluster")
        cluster.stderr = Path(home) / "complaints"  # of brokers that die
        with cluster, Lab(cluster) as lab:
            measured: dict[str, float] = {}
            for partitions in STEPS:
                measure(report, lab, partitions, measured)


def measure(report: Report, lab: Lab, partitions: int, before: dict[str, float]) -> None:
    """All operations with so many partitions in the cluster; the growth of each beside it."""

    def row(name: str, seconds: float) -> None:
        label, smaller = f"{name}, {partitions:,}", before.get(name)
        before[name] = seconds
        report.row(label, "s", seconds, smaller, AIM_S if smaller else None, True)

    row("create a topic of 1,000 partitions", lab.grow_to(partitions))
    first, second = lab.followers()
    row("controlled shutdown", lab.controlled_shutdown(first))
    lab.bring_back(first)
    row("kill -9, from expiry until all led", lab.kill(second))
    lab.bring_back(second)
    answers, led = lab.kill_controller()
    row("controller killed, until one answers", answers)
    row("controller killed, until all led", led)
    lab.bring_back(lab.dead)


class Lab:
    """A cluster, its topics, and what its brokers and ZooKeeper say of them."""

    def __init__(self, cluster: Cluster) -> None:
        from kazoo.client import KazooClient

        self.cluster = cluster
        self.sizes: dict[str, int] = {}  # partitions of each topic
        self.pinned = 0  # partitions of each broker that no other one has
        self.dead = 0
        host, port = cluster.bootstrap.split(",")[0].rsplit(":", 1)
        self._address = host, int(port)
        self.zk: Any = KazooClient(hosts=cluster.zookeeper)

    def __enter__(self) -> Lab:
        self.zk.start(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.zk.stop()
        self.zk.close()

    @property
    def partitions(self) -> int:
        return sum(self.sizes.values())

    # ------------------------------------------------------------------------------- operations

    def grow_to(self, partitions: int) -> float:
        """The longest that one topic took, from the request until every partition is led."""
        longest = 0.0
        while self.partitions < partitions:
            started = time.monotonic()
            self.create(f"wide{len(self.sizes)}", TOPIC_PARTITIONS)
            self.until_led(BROKERS)
            longest = max(longest, time.monotonic() - started)
        self.until_whole()
        return longest

    def controlled_shutdown(self, broker_id: int) -> float:
        """From SIGTERM until all that it led is led elsewhere."""
        started = time.monotonic()
        self.cluster.kill_broker(broker_id, signal.SIGTERM)
        seconds = self.until_led(self.others(broker_id)) - started
        until(lambda: not self.alive(broker_id), "the broker ended")
        self.dead = broker_id
        return seconds

    def kill(self, broker_id: int) -> float:
        """From the expiry of its session until all that it led is led elsewhere."""
        with gone(self.zk, f"/brokers/ids/{broker_id}") as when:
            self.cluster.kill_broker(broker_id)
            expired = until(when, "the session expired")
        self.dead = broker_id
        return self.until_led(self.others(broker_id)) - expired

    def kill_controller(self) -> tuple[float, float]:
        """From the expiry of its session until the new one has made a topic, and until all that
        the old one led is led elsewhere."""
        self.dead = self.controller()
        with gone(self.zk, "/controller") as when:
            self.cluster.kill_broker(self.dead)
            expired = until(when, "the session expired")
        self.create(f"probe{len(self.sizes)}", 1, replicas=2)
        answered = time.monotonic()
        return answered - expired, self.until_led(self.others(self.dead)) - expired

    def bring_back(self, broker_id: int) -> None:
        """Start it again, and spread the leaders as before."""
        self.cluster.restart_broker(broker_id)
        self.until_whole()
        self.elect_preferred()

    def create(self, name: str, partitions: int, replicas: int = 3) -> None:
        """Asks again until a controller is there to do it."""

        async def work(world: World) -> None:
            config = ClientConfig(
                self.cluster.bootstrap,
                default_api_timeout_ms=PATIENCE_S * 1000,
                retry_backoff_max_ms=100,  # the controller is measured, not how long we wait
            )
            async with Admin(world, config) as admin:
                try:
                    await admin.create_topic(name, partitions, replicas)
                except KafkaError as error:
                    # Made by a first try whose answer a dying controller kept.
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise

        run_client(work)
        self.sizes[name] = partitions

    def elect_preferred(self) -> None:
        """Return when all replicas are in sync again: a follower that finds its new leader late
        is out of sync, and nothing leads what only a dead broker had."""

        async def work(world: World) -> None:
            config = ClientConfig(self.cluster.bootstrap, request_timeout_ms=PATIENCE_S * 1000)
            async with Admin(world, config) as admin:
                await admin.elect_leaders(ElectionType.PREFERRED, timeout_ms=PATIENCE_S * 1000)

        run_client(work)
        self.until_whole()

    # ---------------------------------------------------------------------------------- looking

    def followers(self) -> tuple[int, int]:
        """The two that are not the controller."""
        first, second = self.others(self.controller())
        return first, second

    def others(self, broker_id: int) -> tuple[int, ...]:
        return tuple(broker for broker in BROKERS if broker != broker_id)

    def controller(self) -> int:
        found = until(lambda: self.zk.exists("/controller") and self.zk.get("/controller"), "it")
        return int(json.loads(found[0])["brokerid"])

    def alive(self, broker_id: int) -> bool:
        """Its supervisor takes the pid file away when it has ended."""
        try:
            process = psutil.Process(self.cluster.broker_pid(broker_id))
            return bool(process.status() != psutil.STATUS_ZOMBIE)
        except (FileNotFoundError, psutil.NoSuchProcess):
            return False

    def metric(self, broker_id: int, name: str) -> float:
        """-1 while the broker does not tell."""
        host, port = self._address
        number = port + broker_id - 1 + DEBUG_PORT_OFFSET
        try:
            url = f"http://{host}:{number}/metrics.json?prefix={name}"
            with urllib.request.urlopen(url, timeout=30) as told:
                found = json.loads(told.read())
        except (OSError, ValueError):
            return -1
        value: float = found["metrics"].get(name, -1)
        return value

    def until_led(self, brokers: tuple[int, ...]) -> float:
        """When these brokers lead all partitions there are."""
        name = "kafka.server:type=ReplicaManager,name=LeaderCount"
        wanted = self.partitions + self.pinned * len(brokers)

        def led() -> bool:
            return sum(self.metric(b, name) for b in brokers) == wanted

        until(led, f"{wanted} partitions led by {brokers}")
        return time.monotonic()

    def until_whole(self) -> None:
        """All replicas in sync."""
        name = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"
        self.until_led(BROKERS)
        until(lambda: [self.metric(b, name) for b in BROKERS] == [0, 0, 0], "replicas in sync")


@contextmanager
def gone(zk: Any, path: str) -> Iterator[Callable[[], float]]:
    """Tell when the znode has gone, by a watch; 0 before."""
    seen: list[float] = []
    zk.exists(path, watch=lambda _: seen.append(time.monotonic()))
    yield lambda: seen[0] if seen else 0.0


def until(look: Callable[[], T], what: str) -> T:
    """Look rarely at what takes long: brokers count 100,000 partitions for each look."""
    started = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - started
        if waited > PATIENCE_S:
            raise RuntimeError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(max(POLL_S, waited / 50))
    return found


if __name__ == "__main__":
    run(Report())
    sys.exit(0)
