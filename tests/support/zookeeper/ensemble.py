"""An ensemble of three real ZooKeeper servers, of which a test kills and restarts single ones."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import MAIN_CLASS, ZookeeperOptions, command_line
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until
from tests.support.zookeeper.process import four_letters

QUORUM_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SERVERS = 3
CONFIG = """\
tickTime=500
initLimit=20
syncLimit=10
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
minSessionTimeout=1000
maxSessionTimeout=120000
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class ZookeeperEnsemble:
    """Servers are numbered from 0. ``connect`` names all of them."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(SERVERS * 3)
        self.ports = ports[:SERVERS]
        self.connect = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self._directory = directory
        self._peers = [
            f"server.{n}=127.0.0.1:{ports[SERVERS + n]}:{ports[2 * SERVERS + n]}\n"
            for n in range(SERVERS)
        ]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *numbers: int) -> None:
        for number in numbers or range(SERVERS):
            data = self._directory / str(number)
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(f"{number}\n")
            text = CONFIG.format(data=data, port=self.ports[number])
            (data / "zoo.cfg").write_text(text + "".join(self._peers))
            command = command_line(ZookeeperOptions(str(data)), os.environ)
            command[command.index(MAIN_CLASS)] = QUORUM_CLASS
            self._processes[number] = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def mode(self, number: int) -> str:
        """Return ``leader`` or ``follower``; empty while the server does not serve."""
        for line in four_letters(self.ports[number], b"srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    def until_serving(self, *numbers: int) -> None:
        for number in numbers or range(SERVERS):
            until(partial(self.mode, number), f"ZooKeeper {number} serves", 60)

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            process = self._processes.pop(number)
            process.kill()
            process.wait(timeout=30)

    def kill_all(self) -> None:
        self.kill(*list(self._processes))


@contextlib.contextmanager
def running_ensemble(directory: Path) -> Iterator[ZookeeperEnsemble]:
    ensemble = ZookeeperEnsemble(directory)
    try:
        ensemble.start()
        ensemble.until_serving()
        yield ensemble
    finally:
        ensemble.kill_all()
