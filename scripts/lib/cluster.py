"""A whole cluster as a child process, for the demo and the benchmarks."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET

LAST_LINES = 15
READY = re.compile(r"ready bootstrap=(\S+) zookeeper=(\S+)")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, in a row, so that a cluster can number its brokers; nor on
    those of their debug listeners. Below 32768, from where on Linux hands out the near ends of
    connections: one of those may take a port that was free a second ago."""
    dice = random.SystemRandom()
    for _ in range(100):
        first = dice.randrange(10_000, 32_000 - DEBUG_PORT_OFFSET)
        sockets = []
        try:
            for number in range(first, first + count):
                for needed in (number, number + DEBUG_PORT_OFFSET):
                    sockets.append(socket.socket())
                    sockets[-1].bind(("127.0.0.1", needed))
            return list(range(first, first + count))
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


def with_descriptors(command: list[str], limit: int) -> list[str]:
    """Return the command with a limit of open files for it and what it starts; 0 for none."""
    if not limit:
        return command
    return ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command]


class Cluster:
    """`minikafka up` in a directory. ``bootstrap`` and ``seconds_to_ready`` are set by start."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        overrides: tuple[str, ...] = (),
        zookeeper: str = "",
        descriptors: int = 0,
    ) -> None:
        self.directory = directory
        self._brokers = brokers
        self._overrides = overrides
        self._given_zookeeper = zookeeper  # it starts none of its own then
        self._descriptors = descriptors
        self._up: subprocess.Popen[str] | None = None
        self._restarted: list[subprocess.Popen[bytes]] = []
        self.stderr: Path | None = None  # a file for what `up` complains of
        self.bootstrap = ""
        self.zookeeper = ""
        self.seconds_to_ready = 0.0

    def __enter__(self) -> Self:
        ports = free_ports(self._brokers + 1)
        command = [sys.executable, "-m", "minikafka.cli.main", "up", "--no-page"]
        command += ["--brokers", str(self._brokers), "--data-dir", str(self.directory)]
        command += ["--base-port", str(ports[0]), "--zookeeper-port", str(ports[-1])]
        if self._given_zookeeper:
            command += ["--zookeeper", self._given_zookeeper]
        for override in self._overrides:
            command += ["--override", override]
        command = with_descriptors(command, self._descriptors)
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            stderr = stack.enter_context(self.stderr.open("wb")) if self.stderr else None
            self._up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert self._up.stdout is not None
        try:
            line = self._up.stdout.readline()
            match = READY.match(line)
            if not match:
                raise RuntimeError(f"the cluster did not start: {line or 'no output'}")
        except BaseException:  # Ctrl-C, too: nobody else would stop it
            self.stop()
            raise
        self.seconds_to_ready = time.monotonic() - started
        self.bootstrap, self.zookeeper = match.groups()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is not None:
            self._show_last_words()

    def _show_last_words(self) -> None:
        """Something went wrong, and the directory is about to be deleted."""
        for log in sorted(self.directory.glob("*/log")):
            lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            print("\n".join([f"--- {log.parent.name}", *lines]), file=sys.stderr)

    def broker_pid(self, broker_id: int) -> int:
        return int((self.directory / f"broker-{broker_id}" / "pid").read_text())

    def kill_broker(self, broker_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.broker_pid(broker_id), number)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker that died again, on its old data and port."""
        home = self.directory / f"broker-{broker_id}"
        command = [sys.executable, "-m", "minikafka.cli.main", "broker"]
        command += ["--config", str(home / "server.properties")]
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        (home / "pid").write_text(f"{process.pid}\n")
        self._restarted.append(process)

    def stop(self) -> None:
        """Stop everything in order; kill what hangs."""
        processes: list[subprocess.Popen[Any]] = list(self._restarted)
        if self._up:
            processes.append(self._up)
        for process in processes:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
