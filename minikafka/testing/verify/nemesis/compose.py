"""The place of a nemesis that is a project of docker-compose, by its signals and networks."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.nemesis.places import Act, BrokerActs, BrokerPlace
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind

PROJECT: Final = "com.docker.compose.project"
SERVICE: Final = "com.docker.compose.service"
# The variables by which images know the id of their broker.
ID_VARIABLES: Final = (
    "KAFKA_BROKER_ID",
    "KAFKA_NODE_ID",
    "KAFKA_CFG_BROKER_ID",
    "KAFKA_CFG_NODE_ID",
)
MISSING: Final[Mapping[FaultKind, str]] = {
    FaultKind.SLOW_DISK: "the engine slows no disk down",
    FaultKind.FULL_DISK: "the volumes of containers share the disk of their engine",
    FaultKind.CLOCK: "containers share the clock of their engine",
    FaultKind.ZOOKEEPER: "no service of the project has zookeeper in its name",
    FaultKind.ONEWAY: (
        "it needs root, the commands nsenter and tc, and the engine on this machine"
    ),
}

QDISC: Final = ("tc", "qdisc")
LOSS: Final = ("root", "blackhole")  # in every Linux, unlike netem

# Runs a command, and returns its standard output; raises OSError.
Execute: TypeAlias = Callable[..., Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the project. ``networks`` are the options that connect it to each network
    again, by its name: its aliases there, and its address if that was chosen."""

    name: str
    service: str
    environment: Mapping[str, str]
    networks: Mapping[str, Sequence[str]]
    addresses: Collection[str]

    def may_be(self, broker: int) -> bool:
        for variable in ID_VARIABLES:
            if variable in self.environment:
                return self.environment[variable] == str(broker)
        numbers = re.findall(r"\d+$", self.service)
        return bool(numbers) and int(numbers[0]) == broker


class ComposePlace(BrokerPlace):
    """The containers of a project. ``execute`` runs the command ``docker``, and for ONEWAY also
    ``nsenter``; ``is_privileged`` says whether that is possible."""

    def __init__(self, project: str, execute: Execute, is_privileged: bool) -> None:
        super().__init__(MISSING)
        self._project = project
        self._execute = execute
        self._is_privileged = is_privileged
        self._containers: dict[int, Container] = {}  # by broker, and ZOOKEEPER
        self._ending: set[int] = set()
        self._cut: dict[int, list[str]] = {}  # the networks that a broker was taken from
        self._mute: dict[int, list[str]] = {}  # the interfaces that send nothing

    async def check(self, nodes: Mapping[int, Node]) -> None:
        """Raises OSError if the engine does not respond."""
        found = await self._find_containers()
        if not found:
            raise ConfigError(f"the project {self._project} of docker-compose has no container")
        zookeepers = [each for each in found if "zookeeper" in each.service.lower()]
        for broker in nodes:
            candidates = [each for each in found if each.may_be(broker) and each not in zookeepers]
            if len(candidates) != 1:
                names = ", ".join(each.name for each in candidates) or "none"
                raise ConfigError(
                    f"which container of {self._project} is broker {broker}? ({names}: its service "
                    f"must end with the id, or the variable {ID_VARIABLES[0]} must have it)"
                )
            self._containers[broker] = candidates[0]
        self.brokers = sorted(nodes)
        self._find_acts(zookeepers)
        if self._is_privileged and await self._can_mute():
            self.acts[FaultKind.ONEWAY] = BrokerActs(self._mute_broker, self._unmute)

    def _find_acts(self, zookeepers: Sequence[Container]) -> None:
        pausing = BrokerActs(self._docker("pause"), self._unpause)
        self.acts[FaultKind.STOP] = pausing
        self.acts[FaultKind.KILL9] = BrokerActs(self._ending_by("KILL"), self._start)
        self.acts[FaultKind.TERM] = BrokerActs(self._ending_by("TERM"), self._start)
        self.acts[FaultKind.CUT] = BrokerActs(self._disconnect, self._connect)
        if zookeepers:
            self._containers[ZOOKEEPER] = zookeepers[0]
            self.acts[FaultKind.ZOOKEEPER] = pausing

    async def _find_containers(self) -> list[Container]:
        ids = await self._execute(
            "docker", "ps", "-q", "--filter", f"label={PROJECT}={self._project}"
        )
        if not ids.split():
            return []
        return [
            container(row)
            for row in json.loads(await self._execute("docker", "inspect", *ids.split()))
        ]

    # -------------------------------------------------------------------------------------- signals

    def _docker(self, *words: str) -> Act:
        async def act(victim: int) -> None:
            await self._execute("docker", *words, self._containers[victim].name)

        return act

    async def _unpause(self, victim: int) -> None:
        """The engine refuses to unpause a container that is not paused."""
        if await self._state(victim, "Paused") == "true":
            await self._docker("unpause")(victim)

    def _ending_by(self, signal: str) -> Act:
        async def act(broker: int) -> None:
            self._ending.add(broker)
            await self._docker("kill", "-s", signal)(broker)
            await self._docker("wait")(broker)

        return act

    async def _start(self, broker: int) -> None:
        if broker in self._ending:
            await self._docker("wait")(broker)
            await self._docker("start")(broker)
            self._ending.remove(broker)

    async def _state(self, victim: int, key: str) -> str:
        name = self._containers[victim].name
        return (
            await self._execute("docker", "inspect", "-f", f"{{{{.State.{key}}}}}", name)
        ).strip()

    # ------------------------------------------------------------------------------------- networks

    async def _disconnect(self, broker: int) -> None:
        away = self._cut.setdefault(broker, [])
        one = self._containers[broker]
        for network in one.networks:
            away.append(network)
            await self._execute("docker", "network", "disconnect", network, one.name)

    async def _connect(self, broker: int) -> None:
        one = self._containers[broker]
        for network in self._cut.pop(broker, []):
            options = one.networks[network]
            await self._execute("docker", "network", "connect", *options, network, one.name)

    async def _can_mute(self) -> bool:
        """Whether the network of a broker can be entered, and is that of its container: the engine
        may be on another machine."""
        broker = self.brokers[0]
        try:
            await self._in_network_of(broker, "tc", "qdisc", "show")
            found = json.loads(await self._in_network_of(broker, "ip", "-j", "addr"))
        except OSError:
            return False
        addresses = {each["local"] for row in found for each in row["addr_info"]}
        return not addresses.isdisjoint(self._containers[broker].addresses)

    async def _mute_broker(self, broker: int) -> None:
        """Lose all packets that a broker sends to other containers and hosts."""
        mute = self._mute.setdefault(broker, [])
        rows = json.loads(await self._in_network_of(broker, "ip", "-j", "link", "show", "up"))
        for interface in (row["ifname"] for row in rows if "LOOPBACK" not in row["flags"]):
            await self._in_network_of(broker, *QDISC, "replace", "dev", interface, *LOSS)
            mute.append(interface)

    async def _unmute(self, broker: int) -> None:
        for interface in self._mute.pop(broker, []):
            await self._in_network_of(broker, *QDISC, "del", "dev", interface, "root")

    async def _in_network_of(self, broker: int, *words: str) -> str:
        pid = await self._state(broker, "Pid")
        return await self._execute("nsenter", "-t", pid, "-n", *words)


def container(row: Mapping[str, Any]) -> Container:
    """Parse what `docker inspect` tells of one container."""
    given = [text.partition("=") for text in row["Config"]["Env"] or ()]
    networks = row["NetworkSettings"]["Networks"]
    return Container(
        row["Name"].removeprefix("/"),
        row["Config"]["Labels"].get(SERVICE, ""),
        {name: value for name, _, value in given},
        {name: tuple(connect_options(facts)) for name, facts in networks.items()},
        [facts["IPAddress"] for facts in networks.values() if facts["IPAddress"]],
    )


def connect_options(facts: Mapping[str, Any]) -> Iterator[str]:
    for alias in facts["Aliases"] or ():
        yield from ("--alias", alias)
    address = (facts.get("IPAMConfig") or {}).get("IPv4Address")
    if address:
        yield from ("--ip", address)


def is_privileged() -> bool:
    """Whether this process may enter the networks of containers."""
    return os.geteuid() == 0 and all(map(shutil.which, ("nsenter", "tc", "ip")))
