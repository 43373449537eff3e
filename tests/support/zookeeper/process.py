"""A real ZooKeeper server for tests, with its port and directory. It can be killed and
restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import (
    ZookeeperOptions,
    claim_directory,
    command_line,
)
from minikafka.cli.processes.zookeeper_security import ServerSecurity
from scripts.lib.cluster import free_ports

START_LIMIT_S = 30.0


def four_letters(port: int, word: bytes) -> str:
    """Return the response of the server to a four-letter word; empty without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
            connection.sendall(word)
            response = b""
            while chunk := connection.recv(4096):
                response += chunk
            return response.decode()
    except OSError:
        return ""


class ZookeeperProcess:
    """A server process, with blocking methods for fixtures. ``connect`` is for
    ``zookeeper.connect``."""

    def __init__(
        self, data_dir: Path, port: int | None = None, security: ServerSecurity | None = None
    ) -> None:
        self.port = free_ports(1)[0] if port is None else port
        self.connect = f"127.0.0.1:{self.port}"
        self._options = ZookeeperOptions(str(data_dir), self.port, security=security)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and return when it serves."""
        os.close(claim_directory(self._options))
        self._process = subprocess.Popen(
            command_line(self._options, os.environ), stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_LIMIT_S
        while "Mode:" not in four_letters(self.port, b"srvr"):
            assert self._process.poll() is None, "ZooKeeper ended at once"
            assert time.monotonic() < deadline, "ZooKeeper does not serve"
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Suspend the server: connections stay open, without responses."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(timeout=30)
            self._process = None


@contextlib.contextmanager
def running_zookeeper(
    port: int | None = None, security: ServerSecurity | None = None
) -> Iterator[ZookeeperProcess]:
    """Run a server in a temporary directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="zookeeper-") as folder:
        server = ZookeeperProcess(Path(folder), port, security)
        try:
            server.start()
            yield server
        finally:
            server.kill()
