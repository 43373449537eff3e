"""What becomes of the output of a verb: the replies of tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from minikafka.page.dashboard.acting.acts import ACTS
from minikafka.page.dashboard.acting.running import Finished
from minikafka.page.dashboard.tooling.tool_calls import (
    AT_ONCE,
    ToolCalls,
    parsed,
    reply,
    with_json_lines,
)
from minikafka.page.dashboard.tooling.tools import offered_tools

SHOWN = "minikafka topics list --bootstrap-server h:1 --json"
LINES = '{"offset":0}\n{"offset":1}\n'


@pytest.mark.mission("GLASS-61")
def test_a_document_and_lines_are_json() -> None:
    assert parsed('[\n {"topic": "t"}\n]\n', lines=False) == [{"topic": "t"}]
    assert parsed(LINES, lines=True) == [{"offset": 0}, {"offset": 1}]
    assert parsed('{"offset":0}\n', lines=True) == [{"offset": 0}]
    assert parsed("", lines=True) == parsed("", lines=False) == []
    assert parsed("Created topic t.\n", lines=False) == "Created topic t.\n"


@pytest.mark.mission("GLASS-62")
def test_json_among_lines_of_text_can_be_cut() -> None:
    dirs = {"brokers": [{"broker": number} for number in range(1000)]}
    output = f"Querying brokers\n\n{json.dumps(dirs)}\n"
    facts = json.loads(reply(ACTS["log-dirs"], SHOWN, Finished(0, output, ""), 2000).text)
    text, found = facts["output"]
    assert text == "Querying brokers"
    assert found["brokers"] == dirs["brokers"][: len(found["brokers"])]
    assert len(found["brokers"]) > 50
    assert with_json_lines("{no JSON\nb\n") == "{no JSON\nb\n"


@pytest.mark.mission("GLASS-61")
def test_an_act_without_output_has_an_empty_text() -> None:
    facts = json.loads(reply(ACTS["produce"], SHOWN, Finished(0, "", ""), 1000).text)
    assert facts["output"] == ""
    facts = json.loads(reply(ACTS["consume"], SHOWN, Finished(0, "", ""), 1000).text)
    assert facts["output"] == []


@pytest.mark.mission("GLASS-62")
def test_a_line_that_was_cut_off_is_left_out() -> None:
    assert parsed(LINES + '{"off', lines=True) == [{"offset": 0}, {"offset": 1}]
    assert parsed('{"off', lines=True) == []
    finished = Finished(
        None, LINES + '{"off', "minikafka: the output was cut after 9 bytes\n", True
    )
    found = reply(ACTS["consume"], SHOWN, finished, 1000)
    assert not found.failed
    facts = json.loads(found.text)
    assert facts["output"] == [{"offset": 0}, {"offset": 1}]
    assert "ended after" in facts["cut"]
    assert "messages" not in facts


@pytest.mark.mission("GLASS-61")
def test_messages_of_a_verb_are_kept() -> None:
    errors = "minikafka: h:1: Connection refused; trying on\nGroup g has no active members.\n"
    found = reply(ACTS["log-dirs"], SHOWN, Finished(0, "GROUP TOPIC\n", errors), 1000)
    assert json.loads(found.text) == {
        "command": SHOWN,
        "messages": "Group g has no active members.",
        "output": "GROUP TOPIC\n",
    }


@pytest.mark.mission("GLASS-61")
def test_a_failed_verb_gives_its_reason() -> None:
    errors = "usage: minikafka topics\nminikafka topics: error: argument --x: invalid\n"
    found = reply(ACTS["topics-list"], SHOWN, Finished(2, "", errors), 1000)
    assert found.failed
    assert found.text.startswith("minikafka topics: error: argument --x: invalid (command: ")
    partly = reply(ACTS["topics-list"], SHOWN, Finished(1, "[]\n", "minikafka: t: gone\n"), 1000)
    assert partly.failed
    assert json.loads(partly.text)["messages"] == "minikafka: t: gone"
    silent = reply(ACTS["topics-list"], SHOWN, Finished(-9, "", ""), 1000)
    assert silent.text.startswith("no reason was given (command: ")


@pytest.mark.mission("GLASS-62")
@pytest.mark.parametrize("most", [1000, 5000])
@pytest.mark.parametrize(
    "output",
    [json.dumps(["é😀" * 9] * 5000), "line\n" * 90_000, '"' * 9999],
    ids=["list", "lines", "quotes"],
)
def test_command_messages_and_output_share_the_room(output: str, most: int) -> None:
    finished = Finished(0, output, "warning " * 9000)
    found = reply(ACTS["topics-list"], SHOWN + " --topic t" * 5000, finished, most)
    assert len(found.text) <= most
    facts = json.loads(found.text)
    assert facts["output"]
    assert facts["cut"].startswith("cut to fit: ")


class EndlessVerbs:
    """A program in place of the interpreter that never ends, and the pids of its processes."""

    def __init__(self, folder: Path) -> None:
        self.pids = folder / "pids"
        self.pids.mkdir()
        self.program = folder / "program"
        self.program.write_text(f"#!/bin/sh\ntouch {self.pids}/$$\nexec sleep 6000\n")
        self.program.chmod(0o755)

    def alive(self) -> int:
        return sum(Path(f"/proc/{pid.name}/exe").exists() for pid in self.pids.iterdir())

    async def until(self, alive: int) -> None:
        while self.alive() != alive:  # noqa: ASYNC110 (processes have no event)
            await asyncio.sleep(0.02)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EndlessVerbs:
    verbs = EndlessVerbs(tmp_path)
    monkeypatch.setattr(sys, "executable", str(verbs.program))
    return verbs


def calls(reach: Callable[[], Awaitable[object]]) -> ToolCalls:
    tools = offered_tools({"topics-create"}, "h:1")
    return ToolCalls(tools, "h:1", None, reach, 1000, patience_s=0.01)


async def refused() -> None:
    raise ConnectionRefusedError("no broker listens there")


async def reached() -> None:
    pass


@pytest.mark.mission("GLASS-63")
async def test_a_cancelled_call_ends_its_endless_verb(endless: EndlessVerbs) -> None:
    running = [asyncio.create_task(calls(reached).call("topics_list", {})) for _ in range(AT_ONCE)]
    await endless.until(AT_ONCE)
    for task in running:
        task.cancel()
    await endless.until(0)
    assert all(isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(
        *running, return_exceptions=True
    ))  # fmt: skip


@pytest.mark.mission("GLASS-63")
async def test_only_some_verbs_run_at_once(endless: EndlessVerbs) -> None:
    shared = calls(reached)
    running = [asyncio.create_task(shared.call("topics_list", {})) for _ in range(AT_ONCE + 3)]
    await endless.until(AT_ONCE)
    assert len(list(endless.pids.iterdir())) == AT_ONCE
    running[0].cancel()
    while len(list(endless.pids.iterdir())) == AT_ONCE:  # noqa: ASYNC110 (the next one comes)
        await asyncio.sleep(0.02)
    for task in running:
        task.cancel()
    await endless.until(0)


@pytest.mark.mission("GLASS-64")
async def test_a_verb_without_a_cluster_is_ended(endless: EndlessVerbs) -> None:
    found = await calls(refused).call("topics_list", {})
    reason = "the cluster at h:1 does not respond: no broker listens there"
    assert (found.failed, found.text) == (True, reason)
    await endless.until(0)
    found = await calls(refused).call("topics_create", {"topic": "t"})
    assert found.text == f"{reason}; it is not known whether the change was made"
    await endless.until(0)
