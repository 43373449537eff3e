"""What `up` does for its page: an act that fails is a reply, and the next one is served."""

from __future__ import annotations

import asyncio
import socket

import pytest

from minikafka.cli.processes.page import PageProcess, page_beside
from minikafka.page.dashboard.acting.supervision import (
    MAX_LINE,
    Greeting,
    SupervisorError,
    line,
    parse_line,
)
from minikafka.testing.inside.cluster import InsideCluster

pytestmark = pytest.mark.mission("GLASS-24")


class FailingBrokers:
    """Broker 1 fails with what it is given, broker 2 does what is asked for."""

    greeting = Greeting(("start",), (1, 2))

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def act(self, verb: str, broker: int) -> None:
        if broker == 1:
            raise self._error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SupervisorError("broker 1 runs"), "broker 1 runs"),
        (FileNotFoundError(2, "No such file", "log"), "[Errno 2] No such file: 'log'"),
        (ExceptionGroup("two", [KeyError("x")]), "two (1 sub-exception)"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_an_act_that_fails_does_not_end_the_link(error: Exception, said: str) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        page = PageProcess("b:1")
        page.serve(*await asyncio.open_connection(sock=ours, limit=MAX_LINE), FailingBrokers(error))
        reader, writer = await asyncio.open_connection(sock=theirs)
        assert "supervised" in parse_line(await reader.readline())
        for broker, reply in ((1, {"id": 1, "error": said}), (2, {"id": 2, "ok": True})):
            writer.write(line({"id": broker, "do": "start", "broker": broker}))
            async with asyncio.timeout(5):
                assert parse_line(await reader.readline()) == reply
        writer.close()
        assert await page.address() is None
        await page.stop()

    asyncio.run(scenario())


@pytest.mark.mission("GLASS-25")
def test_a_process_that_cannot_be_started_is_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(page: PageProcess, fd: int) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(PageProcess, "_spawn", refuse)
    with InsideCluster(1) as cluster, page_beside(cluster, None) as shown:
        assert shown == ""
    assert "the page cannot be started: [Errno 11]" in capsys.readouterr().err


class PausedBrokers:
    """Broker 1 is paused by the first act."""

    greeting = Greeting(("pause",), (1,))

    async def act(self, verb: str, broker: int) -> None:
        self.greeting = Greeting(("pause",), (1,), paused=(broker,))


@pytest.mark.mission("GLASS-129")
def test_the_page_knows_which_brokers_are_paused() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        page = PageProcess("b:1")
        page.serve(*await asyncio.open_connection(sock=ours, limit=MAX_LINE), PausedBrokers())
        reader, writer = await asyncio.open_connection(sock=theirs)
        assert parse_line(await reader.readline())["paused"] == []
        writer.write(line({"id": 1, "do": "pause", "broker": 1}))
        async with asyncio.timeout(5):
            assert parse_line(await reader.readline())["paused"] == [1]
            assert parse_line(await reader.readline()) == {"id": 1, "ok": True}
        writer.close()
        assert await page.address() is None
        await page.stop()

    asyncio.run(scenario())
