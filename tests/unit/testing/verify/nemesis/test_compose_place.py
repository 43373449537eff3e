"""Faults of containers: which commands the engine gets, and that it gets their opposites."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.core.client.cluster_view import Node
from minikafka.kernel.config import ConfigError
from minikafka.testing.verify.nemesis.compose import ComposePlace, container
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind, PlannedFault

pytestmark = pytest.mark.mission("JUDGE-85")

NODES = {number: Node(number, "localhost", 9091 + number, None) for number in (1, 2)}


def inspected(service: str, *environment: str) -> dict[str, Any]:
    return {
        "Name": f"/p-{service}-1",
        "Config": {
            "Env": list(environment),
            "Labels": {"com.docker.compose.service": service},
        },
        "NetworkSettings": {
            "Networks": {"net": {"Aliases": [service, "alias"], "IPAddress": "10.0.0.7"}}
        },
    }


class Engine:
    """Records commands that change something."""

    def __init__(self, *rows: Mapping[str, Any]) -> None:
        self.rows = rows
        self.ran: list[str] = []
        self.paused = "true"
        self.lacks = ""
        self.address = "10.0.0.7"

    async def __call__(self, *words: str) -> str:
        text = " ".join(words)
        if self.lacks and self.lacks in text:
            raise ChildProcessError(text)
        match words:
            case "docker", "ps", *_:
                return "\n".join(str(number) for number, _ in enumerate(self.rows))
            case "docker", "inspect", "-f", template, _:
                return "77\n" if "Pid" in template else f"{self.paused}\n"
            case "docker", "inspect", *_:
                return json.dumps(self.rows)
            case "nsenter", *_, "ip", "-j", "link", "show", "up":
                rows = [("lo", ["LOOPBACK", "UP"]), ("eth0", ["UP"])]
                return json.dumps([{"ifname": name, "flags": flags} for name, flags in rows])
            case "nsenter", *_, "ip", "-j", "addr":
                return json.dumps([{"addr_info": [{"local": self.address}]}])
            case "nsenter", *_, "show":
                return ""
        self.ran.append(text)
        return ""


ROWS = (
    inspected("broker-1"),
    inspected("second", "PATH=/bin", "KAFKA_BROKER_ID=2"),
    inspected("zookeeper-1"),
)


async def place_of(engine: Engine, privileged: bool = False) -> ComposePlace:
    place = ComposePlace("p", engine, privileged)
    await place.check(NODES)
    return place


@pytest.mark.parametrize(
    ("kind", "begin", "end"),
    [
        (FaultKind.STOP, ["docker pause p-second-1"], ["docker unpause p-second-1"]),
        (
            FaultKind.KILL9,
            ["docker kill -s KILL p-second-1", "docker wait p-second-1"],
            ["docker wait p-second-1", "docker start p-second-1"],
        ),
        (
            FaultKind.TERM,
            ["docker kill -s TERM p-second-1", "docker wait p-second-1"],
            ["docker wait p-second-1", "docker start p-second-1"],
        ),
        (
            FaultKind.CUT,
            ["docker network disconnect net p-second-1"],
            ["docker network connect --alias second --alias alias net p-second-1"],
        ),
        (
            FaultKind.ONEWAY,
            ["nsenter -t 77 -n tc qdisc replace dev eth0 root blackhole"],
            ["nsenter -t 77 -n tc qdisc del dev eth0 root"],
        ),
    ],
)
async def test_faults_of_a_broker(kind: FaultKind, begin: list[str], end: list[str]) -> None:
    engine = Engine(*ROWS)
    place = await place_of(engine, privileged=True)
    assert place.refusal(kind) == ""
    assert place.victims(kind) == [1, 2]
    fault = PlannedFault(1, kind, (2,), 0, 0, 0)
    await place.begin(fault)
    assert engine.ran == begin
    await place.end(fault)
    assert engine.ran == begin + end


async def test_the_end_of_what_has_not_begun_changes_nothing() -> None:
    engine = Engine(*ROWS)
    engine.paused = "false"
    place = await place_of(engine)
    for kind in (FaultKind.STOP, FaultKind.KILL9, FaultKind.CUT):
        await place.end(PlannedFault(1, kind, (1,), 0, 0, 0))
    assert engine.ran == []


async def test_zookeeper_pauses() -> None:
    engine = Engine(*ROWS)
    place = await place_of(engine)
    fault = PlannedFault(1, FaultKind.ZOOKEEPER, (ZOOKEEPER,), 0, 0, 0)
    await place.begin(fault)
    await place.end(fault)
    assert engine.ran == ["docker pause p-zookeeper-1-1", "docker unpause p-zookeeper-1-1"]
    place = await place_of(Engine(*ROWS[:2]))
    assert "zookeeper" in place.refusal(FaultKind.ZOOKEEPER)


async def test_what_containers_cannot_do() -> None:
    place = await place_of(Engine(*ROWS))
    for kind in (FaultKind.CLOCK, FaultKind.SLOW_DISK, FaultKind.FULL_DISK, FaultKind.ONEWAY):
        assert place.refusal(kind)
    engine = Engine(*ROWS)
    engine.lacks = "qdisc"
    assert "nsenter" in (await place_of(engine, privileged=True)).refusal(FaultKind.ONEWAY)
    engine.lacks, engine.address = "", "10.9.9.9"  # of a process here with the same number
    assert "nsenter" in (await place_of(engine, privileged=True)).refusal(FaultKind.ONEWAY)


async def test_another_project_or_a_broker_without_a_container() -> None:
    with pytest.raises(ConfigError, match="has no container"):
        await place_of(Engine())
    with pytest.raises(ConfigError, match=r"is broker 2\? \(none: "):
        await place_of(Engine(ROWS[0]))
    with pytest.raises(ConfigError, match=r"is broker 1\? \(p-broker-1-1, p-other-1-1: "):
        await place_of(Engine(*ROWS, inspected("other-1")))


def test_a_container_without_variables_and_aliases() -> None:
    row = inspected("kafka12")
    row["Config"]["Env"] = None
    row["NetworkSettings"]["Networks"]["net"]["Aliases"] = None
    found = container(row)
    assert found.may_be(12)
    assert not found.may_be(2)
    assert found.networks == {"net": ()}
    row["NetworkSettings"]["Networks"]["net"]["IPAMConfig"] = {"IPv4Address": "10.0.0.9"}
    assert container(row).networks == {"net": ("--ip", "10.0.0.9")}
