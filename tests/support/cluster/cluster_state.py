"""The state of a cluster of real processes: in ZooKeeper, in its directory, and waits for it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from scripts.lib.cluster import LAST_LINES

T = TypeVar("T")

POLL_S = 0.05


def until(look: Callable[[], T | None], what: str, limit_s: float = 30.0) -> T:
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


@contextlib.contextmanager
def connected(zookeeper: str) -> Iterator[KazooClient]:
    """Yield a client of the servers in ``zookeeper``, which may end with a chroot."""
    client = KazooClient(hosts=zookeeper)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class ClusterState:
    """What ZooKeeper and the directory of a cluster tell. Each broker has a folder
    ``broker-<id>`` with its files ``log`` and ``pid``, and ``data``."""

    directory: Path
    zookeeper: str

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers, running or not."""
        raise NotImplementedError

    def home(self, name: str) -> Path:
        return self.directory / name

    def log(self, broker_id: int) -> str:
        return (self.home(f"broker-{broker_id}") / "log").read_text()

    def data(self, broker_id: int) -> Path:
        return self.home(f"broker-{broker_id}") / "data"

    def zk(self) -> AbstractContextManager[KazooClient]:
        return connected(self.zookeeper)

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

    def until_whole(self, limit_s: float = 60.0) -> None:
        """Wait until all brokers are registered, a controller is active, and all replicas are in
        sync."""

        def whole(client: KazooClient) -> bool:
            try:
                registered = sorted(map(int, client.get_children("/brokers/ids")))
                return (
                    registered == self.broker_ids
                    and client.exists("/controller") is not None
                    and all(in_sync(client, t) for t in client.get_children("/brokers/topics"))
                )
            except NoNodeError:
                return False  # on its way: the first broker starts, a topic is created

        def in_sync(client: KazooClient, topic: str) -> bool:
            node = json.loads(client.get(f"/brokers/topics/{topic}")[0])
            for partition, replicas in node["partitions"].items():
                path = f"/brokers/topics/{topic}/partitions/{partition}/state"
                if sorted(json.loads(client.get(path)[0])["isr"]) != sorted(replicas):
                    return False
            return True

        try:
            with self.zk() as client:
                until(lambda: whole(client), "the cluster is whole", limit_s)
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
