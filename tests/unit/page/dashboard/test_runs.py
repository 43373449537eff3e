"""Acts go on in the page's process, whatever becomes of the browser that began them."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.page.dashboard.acting import running
from minikafka.page.dashboard.acting.runs import MOST_RUNNING, MOST_RUNS, ActRun, ActRuns
from minikafka.page.dashboard.context import HttpError
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.world import RealClock
from tests.support.page_server import HOST, PageServer, page_server

pytestmark = pytest.mark.mission("GLASS-156")


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with InsideCluster(1) as cluster, page_server(cluster.client()[1]) as served:
        yield served


def read(page: PageServer, path: str) -> Any:
    reply = page.get(path, X_Minikafka_Token=page.token)
    assert reply.status == 200, reply.json
    return reply.json


def until(page: PageServer, path: str, is_so: Callable[[Any], bool]) -> Any:
    for _ in range(300):
        if is_so(found := read(page, path)):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_an_act_is_found_again_after_its_browser_has_gone(
    page: PageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo last"
    monkeypatch.setattr(running, "own_command", lambda *words: ["sh", "-c", script])
    browser = http.client.HTTPConnection(HOST, page.port)
    body = json.dumps({"arguments": {"topic": "orders"}})
    headers = {"Content-Type": "application/json", "X-Minikafka-Token": page.token}
    browser.request("POST", "/api/do/topics-create", body, headers)
    (run,) = until(page, "/api/runs", lambda runs: len(runs) == 1)
    browser.close()
    path = f"/api/runs/{run['id']}"
    found = until(page, path, lambda run: run["output"] == "first\n")
    assert (found["ended_ms"], found["status"], found["title"]) == (None, None, "Create a topic")
    assert found["command"].startswith("minikafka topics create --bootstrap-server ")
    gate.touch()
    found = until(page, path, lambda run: run["ended_ms"] is not None)
    assert (found["output"], found["status"]) == ("first\nlast\n", 0)
    assert page.get("/api/runs").json == []  # without the token
    assert page.get(path).status == 404
    assert page.get("/api/runs/99", X_Minikafka_Token=page.token).status == 404


def test_a_page_that_stops_ends_its_acts() -> None:
    async def scenario() -> None:
        tasks: list[asyncio.Task[None]] = []
        runs = ActRuns(RealClock(), lambda work: tasks.append(asyncio.ensure_future(work)))

        async def endless(run: ActRun) -> dict[str, Any]:
            run.command = "minikafka"
            await asyncio.Event().wait()
            return {}

        kept = asyncio.ensure_future(runs.keep("a", "A", False, endless))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # both have begun
        tasks[0].cancel()
        with pytest.raises(HttpError, match="stopped"):
            await kept
        assert runs.newest()[0].ended_ms is not None

    asyncio.run(scenario())


def test_runs_are_bounded_and_their_errors_are_the_callers() -> None:
    async def scenario() -> None:
        tasks: set[asyncio.Task[None]] = set()
        runs = ActRuns(RealClock(), lambda work: tasks.add(asyncio.ensure_future(work)))

        async def quick(run: ActRun) -> dict[str, Any]:
            run.command = "minikafka"
            return {"status": 0}

        async def broken(run: ActRun) -> dict[str, Any]:
            run.command = "minikafka"
            raise OSError("no process")

        for _ in range(2 * MOST_RUNS):
            assert await runs.keep("a", "A", False, quick) == {"status": 0}
        assert len(runs.newest()) == MOST_RUNS
        with pytest.raises(OSError, match="no process"):
            await runs.keep("a", "A", False, broken)
        assert runs.newest()[0].facts()["errors"] == "no process"

        gate = asyncio.Event()

        async def slow(run: ActRun) -> dict[str, Any]:
            run.command = "minikafka"
            await gate.wait()
            return {"status": 0}

        waiting = [
            asyncio.ensure_future(runs.keep("a", "A", False, slow)) for _ in range(MOST_RUNNING)
        ]
        await asyncio.sleep(0)
        with pytest.raises(HttpError, match="acts are running"):
            await runs.keep("a", "A", False, quick)
        gate.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())
