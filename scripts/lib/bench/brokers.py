"""A ZooKeeper and brokers of either kind as child processes: minikafka's or Apache Kafka's.

Brokers of both kinds get the same server.properties.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from scripts.lib.bench import apache_kafka
from scripts.lib.bench.harness import PATIENCE_S, take_memory, wait_until
from scripts.lib.bench.requests import metadata
from scripts.lib.cluster import free_ports, with_descriptors

T = TypeVar("T")
START_LIMIT_S = 120
STOP_LIMIT_S = 60
LOOK_EVERY_S = 0.01
LAST_LINES = 15
OURS, KAFKA = "minikafka", "Kafka"

# The same on both sides. All other keys keep their defaults.
COMMON = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "zookeeper.connection.timeout.ms": 60_000,
}
LARGE = {"message.max.bytes": 4 << 20, "replica.fetch.max.bytes": 4 << 20}
# A session time-out that a benchmark can wait for.
QUICK = {"zookeeper.session.timeout.ms": 6000}

Command = Callable[[Path], list[str]]  # of one broker, from its server.properties


def minikafka_command(properties: Path) -> list[str]:
    return [sys.executable, "-m", "minikafka.cli.main", "broker", "--config", str(properties)]


def kinds() -> dict[str, Command]:
    """Return the commands of minikafka, and of Kafka if the environment names its jars."""
    jars = apache_kafka.jars(os.environ)
    theirs = {KAFKA: partial(apache_kafka.broker_command, jars)} if jars else {}
    return {OURS: minikafka_command, **theirs}


def spread(partitions: int, replicas: int, brokers: int) -> list[list[int]]:
    """Return the replicas of each partition, so that leaders take turns."""
    return [[1 + (n + i) % brokers for i in range(replicas)] for n in range(partitions)]


class Brokers:
    """A context: brokers 1, 2, ... and their ZooKeeper, in a directory that is deleted at the end.

    ``seconds_to_serve`` is the time from the commands of all brokers, with ZooKeeper running,
    until each of them lists all of them. Every broker has the listener PLAINTEXT and those in
    ``listeners``; with ``debug`` also minikafka's debug listener. ``descriptors`` limits the open
    files of a broker.
    """

    def __init__(
        self,
        count: int = 1,
        settings: Mapping[str, object] | None = None,
        command: Command = minikafka_command,
        listeners: Sequence[str] = (),
        debug: bool = False,
        descriptors: int = 0,
    ) -> None:
        self._command, self._debug, self._descriptors = command, debug, descriptors
        self._settings = {**COMMON, **(settings or {})}
        self._listeners = ("PLAINTEXT", *listeners)
        self._zookeeper_port, *ports = free_ports(1 + count * len(self._listeners))
        self._all_ports = [ports[first::count] for first in range(count)]  # by broker
        self.ports = ports[:count]
        self._zookeeper: subprocess.Popen[Any] | None = None
        self._brokers: dict[int, subprocess.Popen[Any]] = {}
        self._stack = contextlib.ExitStack()
        self._topics: set[str] = set()
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.zookeeper = f"127.0.0.1:{self._zookeeper_port}"
        self.seconds_to_serve = 0.0

    def __enter__(self) -> Self:
        try:
            self.directory = Path(self.enter(tempfile.TemporaryDirectory()))
            self._stack.callback(self._stop)
            self._start_zookeeper()
            started = time.perf_counter()
            for broker_id in self.ids:
                self._start_broker(broker_id)
            self.wait_for_all()
            self.seconds_to_serve = time.perf_counter() - started
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            words = (self._failure(each, "was started") for each in self.ids)
            print("\n".join(words), file=sys.stderr)
        self._stack.close()

    def enter(self, context: contextlib.AbstractContextManager[T]) -> T:
        """Enter a context until the brokers stop."""
        return self._stack.enter_context(context)

    def take_memory(self) -> Self:
        take_memory(self.directory)
        return self

    # -------------------------------------------------------------------------------- processes

    @property
    def ids(self) -> range:
        return range(1, len(self.ports) + 1)

    def process(self, broker_id: int) -> psutil.Process:
        return psutil.Process(self._brokers[broker_id].pid)

    @property
    def processes(self) -> list[psutil.Process]:
        return [self.process(broker_id) for broker_id in self.ids]

    @property
    def zookeeper_processes(self) -> list[psutil.Process]:
        assert self._zookeeper is not None
        parent = psutil.Process(self._zookeeper.pid)
        return [parent, *parent.children(recursive=True)]

    def is_alive(self, broker_id: int) -> bool:
        return self._brokers[broker_id].poll() is None

    def port(self, broker_id: int, listener: str = "PLAINTEXT") -> int:
        return self._all_ports[broker_id - 1][self._listeners.index(listener)]

    def kill(self, broker_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        self._brokers[broker_id].send_signal(number)

    def wait(self, broker_id: int) -> None:
        """Wait until a broker that was killed has ended."""
        self._brokers[broker_id].wait(STOP_LIMIT_S)

    def restart(self, broker_id: int) -> None:
        """Wait for the end of a broker that was killed, and start it again on its data and port."""
        self.wait(broker_id)
        self._start_broker(broker_id)

    def wait_for_all(self) -> None:
        """Wait until every broker lists all brokers. Raises RuntimeError if one ends or is late."""
        deadline = time.monotonic() + START_LIMIT_S
        waiting = set(self.ids)
        while waiting:
            for broker_id in sorted(waiting):
                found = metadata(self.ports[broker_id - 1])
                if found and {each.node_id for each in found.brokers} == set(self.ids):
                    waiting.remove(broker_id)
                elif not self.is_alive(broker_id):
                    raise RuntimeError(self._failure(broker_id, "ended at its start"))
                elif time.monotonic() > deadline:
                    what = f"does not list all brokers after {START_LIMIT_S} s"
                    raise RuntimeError(self._failure(broker_id, what))
            time.sleep(LOOK_EVERY_S)

    def log(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}.log"

    def data(self, broker_id: int) -> Path:
        return self.directory / f"data-{broker_id}"

    def _stop(self) -> None:
        for process in self._brokers.values():
            process.kill()
            process.wait()
        if self._zookeeper is not None:
            self._zookeeper.terminate()
            self._zookeeper.wait()

    def _start_zookeeper(self) -> None:
        """Return when ZooKeeper serves. It runs where the bench was started: modules are there."""
        command = [sys.executable, "-m", "minikafka.cli.main", "zookeeper"]
        command += ["--data-dir", str(self.directory / "zookeeper")]
        command += ["--port", str(self._zookeeper_port)]
        self._zookeeper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._zookeeper.stdout is not None
        line = self._zookeeper.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"ZooKeeper did not start: {line or 'no output'}")

    def _start_broker(self, broker_id: int) -> None:
        values = {
            "broker.id": broker_id,
            "listeners": ",".join(
                f"{name}://127.0.0.1:{self.port(broker_id, name)}" for name in self._listeners
            ),
            "zookeeper.connect": self.zookeeper,
            "log.dirs": self.data(broker_id),
            **self._settings,
        }
        if self._debug:
            values["debug.listener"] = f"HTTP://127.0.0.1:{self.debug_port(broker_id)}"
        properties = self.directory / f"broker-{broker_id}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        command = with_descriptors(self._command(properties), self._descriptors)
        with self.log(broker_id).open("ab") as log:
            self._brokers[broker_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _failure(self, broker_id: int, what: str) -> str:
        """The directory is deleted before anybody can read the log in it."""
        log = self.log(broker_id)
        lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:] if log.exists() else []
        return "\n".join([f"broker {broker_id} {what}; the last lines of its log:", *lines])

    # ------------------------------------------------------------------------ what brokers know

    def create(
        self, topics: Mapping[str, list[list[int]]], config: Mapping[str, str] | None = None
    ) -> bool:
        """Create the topics that are not there yet, with the replicas of each partition, and wait
        until all are in sync. Return whether there were any to create."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        missing = {name: each for name, each in topics.items() if name not in self._topics}
        for name, replicas in missing.items():
            new = NewTopic(
                name, len(replicas), replica_assignment=replicas, config=dict(config or {})
            )
            for future in admin.create_topics([new], operation_timeout=PATIENCE_S).values():
                future.result(1.5 * PATIENCE_S)
        self._topics.update(missing)
        self.wait_in_sync(list(missing))
        return bool(missing)

    def wait_in_sync(
        self,
        topics: Sequence[str] | None,
        ports: Sequence[int] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Wait until every broker, or those at ``ports``, know a leader and a full ISR of all
        partitions of ``topics``; of all topics if None."""

        def is_known(port: int) -> bool:
            found = metadata(port, topics)
            return found is not None and all(
                topic.partitions
                and all(
                    part.leader_id > 0 and len(part.isr_nodes) == len(part.replica_nodes)
                    for part in topic.partitions
                )
                for topic in found.topics
            )

        looked_at = self.ports if ports is None else ports
        wait_until(lambda: all(map(is_known, looked_at)), "replicas in sync", patience_s)

    @property
    def controller(self) -> int:
        found = wait_until(lambda: metadata(self.ports[0]), "metadata")
        return int(found.controller_id)

    def debug_port(self, broker_id: int) -> int:
        return self.ports[broker_id - 1] + DEBUG_PORT_OFFSET

    def metric(self, broker_id: int, name: str) -> float:
        """Return a metric of a broker's debug listener; -1 while the broker does not respond."""
        url = f"http://127.0.0.1:{self.debug_port(broker_id)}/metrics.json?prefix={name}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                value: float = json.loads(response.read())["metrics"].get(name, -1)
        except (OSError, ValueError):
            return -1
        return value
