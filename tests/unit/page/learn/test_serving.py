"""The server of learn mode: its sessions are few, apart from each other, and end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from minikafka.kernel.own_command import own_command
from minikafka.page.dashboard.context import HttpError
from minikafka.page.learn.recipe import Recipe, RecipeReport, TimedAction, read_report
from minikafka.page.learn.serving import players as module
from minikafka.page.learn.serving.players import Players
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from tests.support.page_server import PageServer

RECIPE = Recipe(
    "found",
    seed=5,
    actions=[
        TimedAction(0, "create_topic", {"replicas": 3}),
        TimedAction(9, "kill", {"broker": 1}),
    ],
)
TIMEOUT_S = 60


@contextmanager
def learn_verb(*words: str) -> Iterator[tuple[PageServer, subprocess.Popen[str]]]:
    """Run the verb, and stop it as a user does."""
    process = subprocess.Popen(
        own_command("learn", "--port", "0", *words), stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().strip().removeprefix("page="))
            assert address.port is not None
            yield PageServer(address.port, address.query.removeprefix("token=")), process
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0


def request(page: PageServer, session: str, **body: object) -> Any:
    reply = page.post(f"/api/learn?session={session}", body, X_Minikafka_Token=page.token)
    assert reply.status == 200, reply.body
    return reply.json


@pytest.mark.mission("LEARN-26")
def test_the_verb_serves_sessions_and_ends_all_processes(tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    file.write_text(RecipeReport(RECIPE, 7_000_000).to_json())
    with learn_verb("--recipe", str(file), "--language", "zh") as (page, process):
        mode = page.get("/api/mode").json
        assert mode == {
            "mode": "learn",
            "language": "zh",
            "fragment": RECIPE.to_fragment(),
            "t_us": 7_000_000,
        }
        assert page.get("/").status == 200
        assert page.get("/static/app.js").status == 200
        assert page.get("/api/snapshot").status == 404
        (hello, *_, playback) = request(page, "a", do="open", fragment=mode["fragment"])
        assert hello["learn"]
        assert playback["chapter"] == "found"
        assert request(page, "a", do="advance", to_us=1_000)[-1]["now_us"] == 1_000
        (problem, _) = request(page, "b", do="advance", to_us=1_000)
        assert problem["text"] == "open a chapter or a recipe first"
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 4  # two sessions and what is ready for the next one
    _, alive = psutil.wait_procs(below, TIMEOUT_S)
    assert not alive


@pytest.mark.mission("LEARN-26")
def test_no_process_outlives_a_server_that_is_killed() -> None:
    process = subprocess.Popen(
        own_command("learn", "--port", "0"), stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip().removeprefix("page="))
        assert address.port is not None
        page = PageServer(address.port, address.query.removeprefix("token="))
        request(page, "a", do="open", chapter="playground")
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    _, alive = psutil.wait_procs(below, TIMEOUT_S)
    assert not alive


@pytest.mark.mission("LEARN-26")
def test_only_the_page_may_send_requests() -> None:
    body = {"do": "catalogue"}
    with learn_verb() as (page, _):
        assert page.get("/api/mode").json == {"mode": "learn"}
        assert page.post("/api/learn?session=a", body).status == 403
        other = {"Origin": "http://elsewhere", "X_Minikafka_Token": page.token}
        assert page.post("/api/learn?session=a", body, **other).status == 403
        assert page.get("/api/mode", Host="elsewhere").status == 403
        mine = {"X_Minikafka_Token": page.token}
        assert page.post("/api/learn", body, **mine).status == 400
        assert page.post("/api/learn?session=%20", body, **mine).status == 400
        assert page.send("POST", "/api/learn?session=a", b"{", mine).status == 400
        assert page.send("POST", "/api/learn?session=a", bytes(600_000), mine).status == 413
        many_lines = json.dumps(body, indent=1).encode()
        reply = page.send("POST", "/api/learn?session=a", many_lines, mine)
        assert reply.json[0]["type"] == "catalogue"


def line(do: str, **more: object) -> bytes:
    return json.dumps({"do": do, **more}).encode()


OPEN = line("open", recipe=json.loads(RECIPE.to_json()))


@pytest.mark.mission("LEARN-26")
def test_sessions_are_bounded_and_the_oldest_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            clock = real_world().clock
            players = Players(clock, tasks)
            for name in ("a", "b", "a", "c"):
                assert b"hello" in await players.request(name, OPEN)
            assert len(players) == 2
            assert b"now_us" in await players.request("a", line("advance", to_us=5))
            first, _ = await asyncio.gather(
                players.request("a", line("advance", to_us=6)),
                players.request("a", line("advance", to_us=7)),
            )
            assert b'"now_us":6' in first  # one after the other
            assert b"open a chapter" in await players.request("b", line("advance", to_us=5))
            players.end_older_than(clock.monotonic_ms() + 1)
            assert len(players) == 0
            await players.close()

    run(scenario())


@pytest.mark.mission("LEARN-26")
def test_a_session_whose_process_is_lost_is_an_error_and_begins_again() -> None:
    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            players = Players(real_world().clock, tasks)
            await players.request("a", OPEN)
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # it ended with its parent
                    process.kill()
            outcomes: list[object] = []
            for _ in range(3):  # the spare one was killed, too
                try:
                    outcomes.append(await players.request("a", OPEN))
                except HttpError as error:
                    outcomes.append(error)
            assert isinstance(outcomes[0], HttpError)
            assert outcomes[0].sentence.startswith("The simulation was lost")
            assert isinstance(outcomes[-1], bytes)
            assert b"hello" in outcomes[-1]
            await players.close()

    run(scenario())


@pytest.mark.mission("LEARN-26")
@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("--chapter", "no"), 2, "--chapter: one of "),
        (("--recipe", "/does/not/exist"), 1, "No such file"),
        (("--recipe", __file__), 1, "the recipe is not JSON"),
        (("--chapter", "playground", "--recipe", "x"), 2, "--chapter: not with --recipe"),
    ],
)
def test_wrong_options_are_one_sentence(words: tuple[str, ...], status: int, reason: str) -> None:
    found = subprocess.run(own_command("learn", *words), capture_output=True, text=True)
    assert found.returncode == status
    assert reason in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.mission("LEARN-27")
def test_a_report_is_a_recipe_with_a_time() -> None:
    assert read_report(RecipeReport(RECIPE, 5).to_json()) == RecipeReport(RECIPE, 5)
    assert read_report(RECIPE.to_json()) == RecipeReport(RECIPE)
    for wrong in ("", "[]", '{"seed": 1, "t_us": -1}', '{"seed": 1, "t_us": true}', "[" * 9_999):
        with pytest.raises(ValueError, match=r"recipe|t_us"):
            read_report(wrong)
