"""Commands run as processes, bounded in time and output."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from minikafka.page.dashboard.acting.acts import Command
from minikafka.page.dashboard.acting.running import parsed_output, run_command
from minikafka.world.real.loop import run

pytestmark = pytest.mark.mission("GLASS-21")


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in place of the interpreter that runs its last word as shell code."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nshift $(($# - 1))\nexec sh -c "$1"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


def test_a_verb_runs_and_reads_its_input() -> None:
    asked = Command(("delete-records", "--bootstrap-server", "h", "--offset-json-file",
                     "/dev/stdin"), "no JSON")  # fmt: skip
    found = run(run_command(asked))  # on uvloop, as the page does
    assert (found.status, found.output) == (1, "")
    assert "invalid bootstrap" in found.errors or "not JSON" in found.errors


def test_wrong_usage_is_a_status_and_not_an_exception() -> None:
    found = asyncio.run(run_command(Command(("topics", "nothing"))))
    assert found.status == 2
    assert "usage:" in found.errors


@pytest.mark.usefixtures("interpreter")
def test_input_comes_whole_and_without_input_is_the_end() -> None:
    text = json.dumps(list(range(50_000)))
    found = run(run_command(Command(("cat /dev/stdin",), text)))
    assert (found.status, parsed_output(found.output)) == (0, list(range(50_000)))
    assert run(run_command(Command(("cat",)))).output == ""


@pytest.mark.usefixtures("interpreter")
def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    found = asyncio.run(run_command(Command((f"echo $$ > {pid}; echo 7; exec sleep 600",)), 0.5))
    assert (found.status, found.output) == (None, "7\n")
    assert "stopped after 0.5 s" in found.errors
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("most", "cut"), [(9, True), (10, False)])
def test_output_is_bounded(most: int, cut: bool) -> None:
    found = asyncio.run(run_command(Command(("printf 1234567890",)), most_bytes=most))
    assert (found.cut, found.status) == (cut, None if cut else 0)
    assert found.output == "1234567890"[:most]
    endless = asyncio.run(run_command(Command(("yes",)), most_bytes=most))
    assert endless.cut


@pytest.mark.usefixtures("interpreter")
def test_errors_are_bounded_as_well() -> None:
    found = asyncio.run(run_command(Command(("yes | head -c 300000 >&2; echo end",)), 10))
    assert found.output == "end\n"
    assert len(found.errors) < 100_000


@pytest.mark.usefixtures("interpreter")
def test_a_cancelled_caller_kills_the_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def cancelled() -> None:
        task = asyncio.ensure_future(run_command(Command((f"echo $$ > {pid}; exec sleep 600",))))
        while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 (a file has no event)
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_output_is_parsed_where_it_is_json() -> None:
    assert parsed_output('[{"a": 1}]') == [{"a": 1}]
    assert parsed_output('{"a":1}\n{"a":2}\n', lines=True) == [{"a": 1}, {"a": 2}]
    assert parsed_output('{"a":1}\n', lines=True) == [{"a": 1}]
    assert parsed_output("Topic t\n") == "Topic t\n"
