"""A cluster of real processes: its processes, its state in ZooKeeper, and waits for both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from scripts.lib.cluster import LAST_LINES, Cluster

T = TypeVar("T")

MINIKAFKA = (sys.executable, "-m", "minikafka.cli.main")
POLL_S = 0.05


def until(look: Callable[[], T], what: str, limit_s: float = 30.0) -> T:
    """Return the first true value of ``look``. Fails after ``limit_s`` with its last value."""
    deadline = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what} (last: {found!r})"
        time.sleep(POLL_S)
    return found


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


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


class RealCluster(Cluster):
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

    def home(self, name: str) -> Path:
        return self.directory / name

    def log(self, broker_id: int) -> str:
        return (self.home(f"broker-{broker_id}") / "log").read_text()

    def data(self, broker_id: int) -> Path:
        return self.home(f"broker-{broker_id}") / "data"

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

    @contextlib.contextmanager
    def zk(self) -> Iterator[KazooClient]:
        client = KazooClient(hosts=self.zookeeper)
        client.start(30)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def znode(self, path: str) -> Any:
        """Return the JSON in a znode; None if there is no such znode."""
        with self.zk() as client:
            try:
                return json.loads(client.get(path)[0])
            except NoNodeError:
                return None

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        found = self.znode(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return found or {}

    def until_isr(self, topic: str, partition: int, expected: list[int]) -> None:
        until(
            lambda: sorted(self.state(topic, partition).get("isr", [])) == sorted(expected),
            f"ISR of {topic}-{partition} is {expected}",
        )

    def until_whole(self) -> None:
        """Wait until all brokers are registered, a controller is active, and all replicas are in
        sync."""

        def whole() -> bool:
            with self.zk() as client:
                if sorted(map(int, client.get_children("/brokers/ids"))) != self.broker_ids:
                    return False
                if not client.exists("/controller"):
                    return False
                try:
                    return all(
                        in_sync(client, topic) for topic in client.get_children("/brokers/topics")
                    )
                except NoNodeError:
                    return False  # a topic on its way: created or deleted at this moment

        def in_sync(client: KazooClient, topic: str) -> bool:
            node = json.loads(client.get(f"/brokers/topics/{topic}")[0])
            for partition, replicas in node["partitions"].items():
                path = f"/brokers/topics/{topic}/partitions/{partition}/state"
                if sorted(json.loads(client.get(path)[0])["isr"]) != sorted(replicas):
                    return False
            return True

        try:
            until(whole, "the cluster is whole", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_words()}") from None

    def last_words(self) -> str:
        """Return whether each broker runs, and the end of its log."""
        words = []
        for broker_id in self.broker_ids:
            pid_file = self.home(f"broker-{broker_id}") / "pid"
            pid = int(pid_file.read_text()) if pid_file.exists() else None
            state = "no pid file" if pid is None else "runs" if is_alive(pid) else "ended"
            words.append(f"--- broker {broker_id} (pid {pid}): {state}")
            words += self.log(broker_id).splitlines()[-LAST_LINES:]
        return "\n".join(words)

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
        self.topics(
            "create",
            *("--topic", name, "--partitions", str(partitions)),
            *("--replication-factor", str(replication_factor)),
            *("--config", config),
        )
