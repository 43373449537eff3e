"""The place of a nemesis that is the data directory of `minikafka up`: processes of this machine.

A broker that ends here is started again by `minikafka broker --config`; it is then no child of `up`
any more, which ends it with the others nevertheless.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError, parse_properties
from minikafka.kernel.ports import Clock
from minikafka.testing.broker_folders import PROPERTIES, BrokerFolders
from minikafka.testing.verify.nemesis.places import ENDINGS, BrokerActs, BrokerPlace
from minikafka.testing.verify.nemesis.plan import FaultKind

POLL_MS: Final = 50
END_LIMIT_S: Final = 120  # more than a controlled shutdown takes without a controller
BALLOON: Final = "nemesis-balloon"
PIECE: Final = bytes(1 << 20)

LOOPBACK: Final = "processes of one machine share its loopback network; containers have their own"
MISSING: Final[Mapping[FaultKind, str]] = {
    FaultKind.CUT: LOOPBACK,
    FaultKind.ONEWAY: LOOPBACK,
    FaultKind.SLOW_DISK: "nothing slows the disk of one process down",
    FaultKind.CLOCK: "processes of one machine share its clock",
    FaultKind.FULL_DISK: "no broker has a log directory that is a mount of its own",
    FaultKind.ZOOKEEPER: "the ZooKeeper of this cluster is not in its data directory",
}
SUPERVISED: Final = (
    "this `minikafka up` has its ZooKeeper elsewhere, and ends when all its own brokers have ended"
)


class UpPlace(BrokerPlace):
    """The brokers and the ZooKeeper below a data directory. The signals need the user that started
    them, or root."""

    def __init__(self, clock: Clock, data_dir: Path) -> None:
        super().__init__(MISSING)
        self._clock = clock
        self._folders = BrokerFolders(data_dir.absolute())
        self._ending: set[int] = set()  # have got a signal that ends them
        self._paused_java: list[int] = []

    async def check(self, nodes: Mapping[int, Node]) -> None:
        home = self._folders.home
        found = {
            int(path.parent.name.removeprefix("broker-")): parse_properties(path.read_text())
            for path in home.glob(f"broker-*/{PROPERTIES}")
        }
        if not found:
            raise ConfigError(f"no cluster of minikafka up in {home}")
        for broker, values in sorted(found.items()):
            node = nodes.get(broker)
            if node is None or not listens_at(values, node.port):
                raise ConfigError(f"broker {broker} of {home} is not in the cluster to be verified")
            self._check_process(broker)
        if len(found) != len(nodes):
            raise ConfigError(f"the cluster to be verified has more brokers than {home}")
        self.brokers = sorted(found)
        self._find_acts({broker: log_directories(values) for broker, values in found.items()})

    def _check_process(self, broker: int) -> None:
        if not self._folders.is_alive(broker):
            raise ConfigError(f"broker {broker} of {self._folders.home} does not run")
        try:
            self._folders.send(broker, 0)
        except PermissionError:
            raise ConfigError(f"broker {broker} belongs to another user") from None

    def _find_acts(self, log_dirs: Mapping[int, list[Path]]) -> None:
        zookeeper = self._folders.home / "zookeeper"
        self.acts[FaultKind.STOP] = BrokerActs(self._pause, self._resume)
        if zookeeper.exists():
            self.acts[FaultKind.KILL9] = BrokerActs(self._kill, self._start)
            self.acts[FaultKind.TERM] = BrokerActs(self._terminate, self._start)
            self.acts[FaultKind.ZOOKEEPER] = BrokerActs(self._pause_java, self._resume_java)
        else:
            self.missing |= dict.fromkeys(ENDINGS, SUPERVISED)
        mounts = {broker: own for broker, dirs in log_dirs.items() if (own := own_mounts(dirs))}
        if mounts:
            balloons = Balloons(mounts)
            self.acts[FaultKind.FULL_DISK] = BrokerActs(balloons.fill, balloons.remove)
            self.only[FaultKind.FULL_DISK] = sorted(mounts)

    # -------------------------------------------------------------------------------------- brokers

    async def _pause(self, broker: int) -> None:
        self._folders.pause_broker(broker)

    async def _resume(self, broker: int) -> None:
        self._folders.resume_broker(broker)

    async def _kill(self, broker: int) -> None:
        self._ending.add(broker)
        self._folders.kill_broker(broker)
        await self._until_ended(broker)

    async def _terminate(self, broker: int) -> None:
        self._ending.add(broker)
        self._folders.stop_broker(broker)
        await self._until_ended(broker)

    async def _start(self, broker: int) -> None:
        if broker in self._ending:
            await self._until_ended(broker)
            self._folders.restart_broker(broker)
            self._ending.remove(broker)

    async def _until_ended(self, broker: int) -> None:
        deadline_ms = self._clock.monotonic_ms() + END_LIMIT_S * 1000
        while self._folders.is_alive(broker):
            if self._clock.monotonic_ms() > deadline_ms:
                raise TimeoutError(f"broker {broker} has not ended after {END_LIMIT_S} s")
            await self._clock.sleep(POLL_MS)

    # ------------------------------------------------------------------------------------ ZooKeeper

    async def _pause_java(self, _: int) -> None:
        self._paused_java = children((self._folders.home / "zookeeper" / "pid").read_text())
        self._signal_java(signal.SIGSTOP)

    async def _resume_java(self, _: int) -> None:
        self._signal_java(signal.SIGCONT)
        self._paused_java = []

    def _signal_java(self, number: signal.Signals) -> None:
        for pid in self._paused_java:
            os.kill(pid, number)


def children(parent: str) -> list[int]:
    """Return the child processes of a pid. The process of `minikafka zookeeper` is only the parent
    of its server. Raises OSError."""
    pid = parent.strip()
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listens_at(values: Mapping[str, str], port: int) -> bool:
    """Whether the properties of a broker name a port that clients connect to."""
    keys = ("listeners", "advertised.listeners")
    return any(values.get(key, "").endswith(f":{port}") for key in keys) or any(
        f":{port}," in values.get(key, "") for key in keys
    )


# ------------------------------------------------------------------------------------------- disks


def log_directories(values: Mapping[str, str]) -> list[Path]:
    text = values.get("log.dirs") or values.get("log.dir", "")
    return [Path(part.strip()) for part in text.split(",") if part.strip()]


def own_mounts(directories: Sequence[Path]) -> list[Path]:
    """Return the directories that are disks of their own, which can be filled without harm to
    anybody else."""
    return [directory for directory in directories if directory.is_mount()]


class Balloons:
    """Files that fill the disks of brokers."""

    def __init__(self, mounts: Mapping[int, Sequence[Path]]) -> None:
        self._mounts = mounts

    async def fill(self, broker: int) -> None:
        for mount in self._mounts[broker]:
            await asyncio.to_thread(inflate, mount / BALLOON)

    async def remove(self, broker: int) -> None:
        for mount in self._mounts[broker]:
            (mount / BALLOON).unlink(missing_ok=True)


def inflate(path: Path) -> None:
    """Write a file until its disk is full. Raises OSError for another reason."""
    with path.open("wb", buffering=0) as balloon:
        free = os.statvfs(path)
        blocks = free.f_bfree if os.geteuid() == 0 else free.f_bavail
        try:
            if blocks:
                os.posix_fallocate(balloon.fileno(), 0, blocks * free.f_frsize)
            balloon.seek(0, os.SEEK_END)
            while True:
                balloon.write(PIECE)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
