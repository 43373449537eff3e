"""The link between the page and the supervisor of the brokers, both ends over a socket pair."""

from __future__ import annotations

import asyncio
import socket

import pytest

from minikafka.page.dashboard.acting.supervision import (
    Greeting,
    SupervisorError,
    SupervisorLink,
    greeting_line,
    line,
    parse_line,
    supervised_acts,
)

pytestmark = pytest.mark.mission("GLASS-24")
GREETING = Greeting(("stop", "kill"), (1, 2), {"kill": "kill -9 $(cat broker-{broker}/pid)"})


class Ends:
    """A link, and the socket of its supervisor. ``greetings`` are those that the page got."""

    def __init__(self) -> None:
        self.greetings: list[Greeting] = []
        self.lost = asyncio.Event()
        self.greeted = asyncio.Event()
        self.link = SupervisorLink("http://page/", self._greet, self.lost.set)

    def _greet(self, greeting: Greeting) -> None:
        self.greetings.append(greeting)
        self.greeted.set()

    async def connect(self) -> None:
        ours, theirs = socket.socketpair()
        self.reader, self.writer = await asyncio.open_connection(sock=ours)
        await self.link.connect(theirs.detach())
        assert parse_line(await self.reader.readline()) == {"page": "http://page/"}


def test_requests_have_their_own_replies_in_any_order() -> None:
    async def scenario() -> None:
        ends = Ends()
        await ends.connect()
        ends.writer.write(greeting_line(GREETING))
        await ends.greeted.wait()
        assert ends.greetings == [GREETING] == [ends.link.greeting]
        acts = [asyncio.ensure_future(ends.link.act("kill", broker)) for broker in (1, 2)]
        asked = [parse_line(await ends.reader.readline()) for _ in acts]
        assert [(row["do"], row["broker"]) for row in asked] == [("kill", 1), ("kill", 2)]
        reply = line({"id": asked[1]["id"], "ok": True})
        ends.writer.write(line({"id": 99, "ok": True}) + reply[:5])
        await asyncio.sleep(0)
        ends.writer.write(reply[5:])
        await acts[1]
        assert not acts[0].done()
        ends.writer.write(line({"id": asked[0]["id"], "error": "broker 1 does not run"}))
        with pytest.raises(SupervisorError, match="broker 1 does not run"):
            await acts[0]
        ends.writer.close()
        await ends.lost.wait()

    asyncio.run(scenario())


def test_a_lost_link_fails_its_requests() -> None:
    async def scenario() -> None:
        ends = Ends()
        await ends.connect()
        ends.writer.write(greeting_line(GREETING))
        act = asyncio.ensure_future(ends.link.act("kill", 1))
        await ends.reader.readline()
        ends.writer.close()
        with pytest.raises(SupervisorError, match="has gone"):
            await act
        await ends.lost.wait()
        assert ends.link.greeting == Greeting()
        with pytest.raises(SupervisorError, match="has gone"):
            await ends.link.act("kill", 1)

    asyncio.run(scenario())


def test_the_page_offers_the_acts_of_its_supervisor() -> None:
    rows = {row["name"]: row for row in supervised_acts(GREETING)}
    assert list(rows) == ["broker-stop", "broker-kill"]
    assert rows["broker-kill"]["fields"][0]["choices"] == ["1", "2"]
    assert GREETING.command("kill", 2) == "kill -9 $(cat broker-2/pid)"
    assert GREETING.command("stop", 2) == ""
    assert list(supervised_acts(Greeting())) == []
