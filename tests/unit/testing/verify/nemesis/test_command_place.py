"""Faults by shell commands of the user: what is run, for whom, and what its failure is."""

from __future__ import annotations

import pytest

from minikafka.core.client.cluster_view import Node
from minikafka.testing.verify.nemesis.commands import CommandPlace
from minikafka.testing.verify.nemesis.places import run_command
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind, PlannedFault

NODES = {7: Node(7, "one", 9092, None), 8: Node(8, "two", 9093, None)}


class Shell:
    def __init__(self) -> None:
        self.ran: list[str] = []

    async def __call__(self, command: str) -> None:
        self.ran.append(command)
        if command.startswith("false"):
            raise ChildProcessError(command)


async def place_of(
    shell: Shell, begins: dict[FaultKind, str], ends: dict[FaultKind, str]
) -> CommandPlace:
    place = CommandPlace(begins, ends, shell)
    await place.check(NODES)
    return place


def fault(kind: FaultKind, *victims: int, choice: int = 0) -> PlannedFault:
    return PlannedFault(1, kind, victims, 0, 0, choice)


async def test_a_command_runs_for_each_victim() -> None:
    shell = Shell()
    place = await place_of(
        shell,
        {FaultKind.KILL9: "ssh {host} 'kill -9 ${pid[{broker}]}'", FaultKind.CUT: "cut {port}"},
        {FaultKind.KILL9: "start {broker}"},
    )
    assert place.refusal(FaultKind.KILL9) == place.refusal(FaultKind.CUT) == ""
    assert "--nemesis-command" in place.refusal(FaultKind.STOP)
    assert place.victims(FaultKind.CUT) == [7, 8]
    await place.begin(fault(FaultKind.KILL9, 7, 8))
    await place.end(fault(FaultKind.KILL9, 7, 8))
    await place.begin(fault(FaultKind.CUT, 8))
    await place.end(fault(FaultKind.CUT, 8))
    assert shell.ran == [
        "ssh one 'kill -9 ${pid[7]}'",
        "ssh two 'kill -9 ${pid[8]}'",
        "start 7",
        "start 8",
        "cut 9093",
    ]


async def test_a_restart_of_all_is_one_of_the_ends_of_each() -> None:
    shell = Shell()
    begins = {FaultKind.KILL9: "kill {broker}"}
    place = await place_of(shell, begins, {})
    assert "--nemesis-command" in place.refusal(FaultKind.RESTART_ALL)
    place = await place_of(shell, {**begins, FaultKind.TERM: "term {broker}"}, {})
    assert place.refusal(FaultKind.RESTART_ALL) == ""
    await place.begin(fault(FaultKind.RESTART_ALL, 7, 8, choice=4))
    await place.begin(fault(FaultKind.RESTART_ALL, 7, 8, choice=5))
    assert shell.ran == ["kill 7", "kill 8", "term 7", "term 8"]


async def test_zookeeper_is_no_broker() -> None:
    shell = Shell()
    place = await place_of(shell, {FaultKind.ZOOKEEPER: "stop zoo {broker}"}, {})
    assert place.victims(FaultKind.ZOOKEEPER) == (ZOOKEEPER,)
    await place.begin(fault(FaultKind.ZOOKEEPER, ZOOKEEPER))
    await place.end(fault(FaultKind.ZOOKEEPER, ZOOKEEPER))
    assert shell.ran == ["stop zoo {broker}"]


async def test_all_victims_are_met_although_one_command_fails() -> None:
    shell = Shell()
    place = await place_of(shell, {FaultKind.KILL9: "false {broker}"}, {})
    with pytest.raises(ChildProcessError, match="false 7"):
        await place.begin(fault(FaultKind.KILL9, 7, 8))
    assert shell.ran == ["false 7", "false 8"]


async def test_real_commands() -> None:
    assert await run_command("sh", "-c", "echo done") == "done\n"
    with pytest.raises(ChildProcessError, match="what is wrong"):
        await run_command("sh", "-c", "echo what is wrong >&2; exit 3")
    with pytest.raises(ChildProcessError, match="exit status 3"):
        await run_command("sh", "-c", "exit 3")
    with pytest.raises(TimeoutError, match=r"more than 0\.1 s"):
        await run_command("sh", "-c", "sleep 60", limit_s=0.1)
    with pytest.raises(FileNotFoundError):
        await run_command("no-such-command-here")


async def test_what_a_command_leaves_running_is_not_waited_for() -> None:
    pid = int(await run_command("sh", "-c", "sleep 5 & echo $!"))
    await run_command("kill", str(pid))
