"""A ZooKeeper and brokers of one kind as child processes, for benches that compare two kinds.

Brokers of both kinds get the same server.properties.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from scripts.lib.bench.requests import live_brokers
from scripts.lib.cluster import free_ports

START_LIMIT_S = 120
STOP_LIMIT_S = 60
LOOK_EVERY_S = 0.01
LAST_LINES = 15

# The same on both sides. All other keys keep their defaults.
COMMON = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "zookeeper.connection.timeout.ms": 60_000,
}

Command = Callable[[Path], list[str]]  # of one broker, from its server.properties


def minikafka_command(properties: Path) -> list[str]:
    return [sys.executable, "-m", "minikafka.cli.main", "broker", "--config", str(properties)]


class BrokerProcesses:
    """A context: brokers 1, 2, ... and their ZooKeeper, in a directory.

    ``seconds_to_serve`` is the time from the commands of all brokers, with ZooKeeper running,
    until each of them lists all of them. Every broker has the listener PLAINTEXT and those in
    ``listeners``.
    """

    def __init__(
        self,
        command: Command,
        directory: Path,
        brokers: int,
        settings: Mapping[str, object] | None = None,
        listeners: Sequence[str] = (),
    ) -> None:
        self._command, self._directory = command, directory
        self._settings = {**COMMON, **(settings or {})}
        self._listeners = ("PLAINTEXT", *listeners)
        self._zookeeper_port, *ports = free_ports(1 + brokers * len(self._listeners))
        self._all_ports = [ports[first::brokers] for first in range(brokers)]  # by broker
        self.ports = ports[:brokers]
        self._zookeeper: subprocess.Popen[Any] | None = None
        self._brokers: dict[int, subprocess.Popen[Any]] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.zookeeper = f"127.0.0.1:{self._zookeeper_port}"
        self.seconds_to_serve = 0.0

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._start_zookeeper()
            started = time.perf_counter()
            for broker_id in self.broker_ids:
                self._start_broker(broker_id)
            self.wait_for_all()
            self.seconds_to_serve = time.perf_counter() - started
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def broker_ids(self) -> range:
        return range(1, len(self.ports) + 1)

    def broker_pid(self, broker_id: int) -> int:
        return self._brokers[broker_id].pid

    def port(self, broker_id: int, listener: str) -> int:
        return self._all_ports[broker_id - 1][self._listeners.index(listener)]

    def kill_broker(self, broker_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        self._brokers[broker_id].send_signal(number)

    def wait_broker(self, broker_id: int) -> None:
        """Wait until a broker that was killed has ended."""
        self._brokers[broker_id].wait(STOP_LIMIT_S)

    def restart_broker(self, broker_id: int) -> None:
        """Wait for the end of a broker that was killed, and start it again on its data and port."""
        self.wait_broker(broker_id)
        self._start_broker(broker_id)

    def wait_for_all(self) -> None:
        """Wait until every broker lists all brokers. Raises RuntimeError if one ends or is late."""
        deadline = time.monotonic() + START_LIMIT_S
        waiting = set(self.broker_ids)
        while waiting:
            for broker_id in sorted(waiting):
                if live_brokers(self.ports[broker_id - 1]) == set(self.broker_ids):
                    waiting.remove(broker_id)
                elif self._brokers[broker_id].poll() is not None:
                    raise RuntimeError(self._failure(broker_id, "ended at its start"))
                elif time.monotonic() > deadline:
                    what = f"does not list all brokers after {START_LIMIT_S} s"
                    raise RuntimeError(self._failure(broker_id, what))
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        for process in self._brokers.values():
            process.kill()
            process.wait()
        if self._zookeeper is not None:
            self._zookeeper.terminate()
            self._zookeeper.wait()

    def _start_zookeeper(self) -> None:
        """Return when ZooKeeper serves. It runs where the bench was started: modules are there."""
        command = [sys.executable, "-m", "minikafka.cli.main", "zookeeper"]
        command += ["--data-dir", str(self._directory / "zookeeper")]
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
            "log.dirs": self._directory / f"data-{broker_id}",
            **self._settings,
        }
        properties = self._directory / f"broker-{broker_id}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        with self._log(broker_id).open("ab") as log:
            self._brokers[broker_id] = subprocess.Popen(
                self._command(properties), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _log(self, broker_id: int) -> Path:
        return self._directory / f"broker-{broker_id}.log"

    def _failure(self, broker_id: int, what: str) -> str:
        """The directory may be deleted before anybody can read the log in it."""
        lines = self._log(broker_id).read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"broker {broker_id} {what}; the last lines of its log:", *lines])
