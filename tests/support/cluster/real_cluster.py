"""A cluster of real processes: its processes, its state in ZooKeeper, and waits for both."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from minikafka.aio import Admin
from scripts.lib.cluster import Cluster
from tests.support.cluster.cluster_state import ClusterState, is_alive, until

MINIKAFKA = (sys.executable, "-m", "minikafka.cli.main")


def run_verb(*words: str, stdin: str | None = None, limit_s: float = 60) -> Any:
    """Run a verb and return its ``CompletedProcess``, with text output."""
    # An unbuffered stdout loses what a write to a pipe leaves over when a signal interrupts it.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [*MINIKAFKA, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=limit_s,
        env=buffered,
    )


class RealCluster(Cluster, ClusterState):
    """``minikafka up``, with signals, log files and znodes for tests. Broker ids are 1, 2, ..."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        overrides: tuple[str, ...] = (),
        zookeeper: str = "",
    ) -> None:
        super().__init__(directory, brokers, overrides, zookeeper)
        self.seen: list[int] = []
        self.stderr = directory.with_name(directory.name + ".stderr")

    @property
    def up(self) -> subprocess.Popen[str]:
        assert self._up is not None
        return self._up

    @property
    def broker_ids(self) -> list[int]:
        return list(range(1, self._brokers + 1))

    @property
    def any_broker(self) -> str:
        return self.bootstrap.split(",")[0]

    def remember_processes(self) -> None:
        """Add the supervisor's child processes and their children (Java) to ``seen``."""
        self.seen = [child.pid for child in psutil.Process(self.up.pid).children(recursive=True)]

    def complaints(self) -> str:
        """Return the supervisor's standard error."""
        assert self.stderr is not None
        return self.stderr.read_text()

    def end_broker(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to a broker and wait until the process has ended."""
        pid = self.broker_pid(broker_id)
        os.kill(pid, number)
        self.reap(broker_id, pid)

    def reap(self, broker_id: int, pid: int) -> None:
        """Wait until a signalled broker has ended."""
        pid_file = self.home(f"broker-{broker_id}") / "pid"
        own = [process for process in self._restarted if process.pid == pid]
        if own:
            own[0].wait(timeout=60)
            pid_file.unlink()
        else:
            until(lambda: not pid_file.exists(), f"broker {broker_id} ended", 60)

    def kill_zookeeper(self) -> None:
        pid_file = self.home("zookeeper") / "pid"
        pid = int(pid_file.read_text())
        java = psutil.Process(pid).children()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not any(is_alive(child.pid) for child in java), "Java ended")
        pid_file.unlink(missing_ok=True)

    def restart_zookeeper(self) -> None:
        home = self.home("zookeeper")
        port = self.zookeeper.rpartition(":")[2]
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(
                [*MINIKAFKA, "zookeeper", "--data-dir", str(home / "data"), "--port", port],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (home / "pid").write_text(f"{process.pid}\n")
        self._restarted.append(process)

    def topics(self, action: str, *options: str) -> Any:
        done = run_verb("topics", action, "--bootstrap-server", self.bootstrap, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 3,
        config: str = "min.insync.replicas=1",
    ) -> None:
        """Create a topic. Not by the verb: a process for it takes a second."""
        settings = dict([config.split("=", 1)])

        async def create() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.create_topic(name, partitions, replication_factor, settings)

        asyncio.run(create())
