"""Brokers and a ZooKeeper, each in a network namespace, on two bridges: one for the cluster and one
for clients. The link of a namespace can be taken down."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import (
    ZookeeperOptions,
    claim_directory,
    command_line,
)
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import MINIKAFKA

INSIDE, OUTSIDE = "10.213.7", "10.213.8"  # brokers and ZooKeeper; clients and brokers
CLIENT_HOST, ZOOKEEPER_HOST, FIRST_HOST = 1, 2, 10
PORT_INSIDE, PORT_OUTSIDE = 29092, 9092
ZOOKEEPER = "zookeeper"


def ip(*words: str) -> None:
    """Run ``ip`` with these arguments. Raises CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


def why_not() -> str | None:
    """Return why network namespaces cannot be created here; None if they can."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and the command ip"
    name = f"mk{uuid.uuid4().hex[:6]}"
    try:
        ip("netns", "add", name)
        ip("link", "add", name, "type", "bridge")
        ip("link", "del", name)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return None


class Wires:
    """Namespaces by name, each with a link to one or both bridges. The bridges are in a separate
    namespace, so that the firewall rules of this machine do not apply to them."""

    def __init__(self) -> None:
        self._tag = f"mk{uuid.uuid4().hex[:6]}"
        self._switch = f"{self._tag}-switch"
        self._names: list[str] = []

    def lay(self) -> None:
        ip("netns", "add", self._switch)
        for side in "io":
            ip("-n", self._switch, "link", "add", f"bridge-{side}", "type", "bridge")
            ip("-n", self._switch, "link", "set", f"bridge-{side}", "up")
        self._connect("clients", self._tag, "o")
        ip("addr", "add", f"{OUTSIDE}.{CLIENT_HOST}/24", "dev", self._tag)
        ip("link", "set", self._tag, "up")

    def _connect(self, near: str, far: str, side: str, space: str | None = None) -> None:
        """Create a link: its near end at a bridge, its far end in a namespace or on this
        machine."""
        ends = ["link", "add", far, *(["netns", space] if space else []), "type", "veth"]
        ip(*ends, "peer", "name", near, "netns", self._switch)
        ip("-n", self._switch, "link", "set", near, "master", f"bridge-{side}", "up")

    def join(self, name: str, host: int, sides: str) -> None:
        """Create a namespace with the address ``host`` in the inside (i) and the outside (o)
        network."""
        number = len(self._names)
        self._names.append(name)
        space = self.space(name)
        ip("netns", "add", space)
        ip("-n", space, "link", "set", "lo", "up")
        for side in sides:
            net = INSIDE if side == "i" else OUTSIDE
            self._connect(f"{side}{number}", f"eth{side}", side, space)
            ip("-n", space, "addr", "add", f"{net}.{host}/24", "dev", f"eth{side}")
            ip("-n", space, "link", "set", f"eth{side}", "up")

    def space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def pull(self, name: str) -> None:
        """Take down the link to the cluster's bridge: packets are lost without an error."""
        self._set_near_end(name, "down")

    def plug(self, name: str) -> None:
        self._set_near_end(name, "up")

    def _set_near_end(self, name: str, state: str) -> None:
        ip("-n", self._switch, "link", "set", f"i{self._names.index(name)}", state)

    def remove(self) -> None:
        """Delete the namespaces. The links in a namespace are deleted with it, at both ends."""
        for space in [*map(self.space, self._names), self._switch]:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


class SpacedCluster:
    """A cluster with each process in a namespace. Broker ids are 1, 2, ...; clients reach each
    broker at its outside address."""

    def __init__(self, directory: Path, brokers: int, settings: Sequence[str]) -> None:
        self.wires = Wires()
        self.broker_ids = list(range(1, brokers + 1))
        self.bootstrap = ",".join(
            f"{OUTSIDE}.{FIRST_HOST + b}:{PORT_OUTSIDE}" for b in self.broker_ids
        )
        self._directory = directory
        self._settings = settings
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.wires.lay()
        self.wires.join(ZOOKEEPER, ZOOKEEPER_HOST, "i")
        options = ZookeeperOptions(
            str(self._directory / ZOOKEEPER), host=f"{INSIDE}.{ZOOKEEPER_HOST}"
        )
        os.close(claim_directory(options))
        self._run(ZOOKEEPER, command_line(options, os.environ))
        for broker_id in self.broker_ids:
            name = f"broker-{broker_id}"
            self.wires.join(name, FIRST_HOST + broker_id, "io")
            self._run(name, [*MINIKAFKA, "broker", *self._overrides(broker_id)])

    def _overrides(self, broker_id: int) -> list[str]:
        host = FIRST_HOST + broker_id
        rows = [
            f"broker.id={broker_id}",
            f"listeners=IN://{INSIDE}.{host}:{PORT_INSIDE},OUT://{OUTSIDE}.{host}:{PORT_OUTSIDE}",
            "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
            "inter.broker.listener.name=IN",
            f"zookeeper.connect={INSIDE}.{ZOOKEEPER_HOST}:2181",
            f"log.dirs={self._directory}/broker-{broker_id}/data",
            *self._settings,
        ]
        return [word for row in rows for word in ("--override", row)]

    def _run(self, name: str, command: Sequence[str]) -> None:
        home = self._directory / name
        home.mkdir(parents=True, exist_ok=True)
        with (home / "log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", self.wires.space(name), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _has_started(self, broker_id: int) -> bool:
        return " broker_started " in self.log(broker_id)

    def log(self, broker_id: int) -> str:
        return (self._directory / f"broker-{broker_id}" / "log").read_text()

    def until_started(self) -> None:
        for broker_id in self.broker_ids:
            until(partial(self._has_started, broker_id), f"broker {broker_id} up", 60)

    def stop(self) -> None:
        """Stop the brokers, then ZooKeeper."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.wires.remove()


@contextlib.contextmanager
def spaced_cluster(
    directory: Path, brokers: int, settings: Sequence[str]
) -> Iterator[SpacedCluster]:
    cluster = SpacedCluster(directory, brokers, settings)
    try:
        cluster.start()
        cluster.until_started()
        yield cluster
    finally:
        cluster.stop()
