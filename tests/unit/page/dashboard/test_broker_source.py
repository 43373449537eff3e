"""A debug listener that responds with what the page does not understand ends nothing but itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from minikafka.kernel.cluster import Endpoint
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.broker_source import BrokerSource, SourceLost
from minikafka.page.dashboard.messages import Hello
from minikafka.page.dashboard.stage import Stage
from minikafka.world.real.world import real_world

pytestmark = pytest.mark.mission("GLASS-12")

STATE: dict[str, Any] = {"broker": 1, "last": 1, "reset": True, "changed": [], "removed": []}
EVENTS: dict[str, Any] = {"broker": 1, "last": 1, "missed": 0, "events": []}
ENTITY: dict[str, Any] = {"kind": "broker", "name": "", "facts": {}}


class Listener:
    """A process on the port of a debug listener. ``state`` and ``events`` are its responses."""

    def __init__(self, state: str, events: str) -> None:
        self.responses = {b"/state.json": state, b"/events.json": events}
        world = real_world()
        self.broadcast = Broadcast(world.clock, Stage("boot", Hello(), 0))
        self._world = world

    async def follow(self, seconds: float) -> None:
        """Let the page follow it as broker 1."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint("127.0.0.1", port, "HTTP", "HTTP")
        world = self._world
        source = BrokerSource(world.clock, lambda: world.network, self.broadcast, 1, endpoint)
        try:
            async with asyncio.timeout(seconds):
                await source.follow()
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                body = self.responses[request.split()[1].partition(b"?")[0]].encode()
                await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.mark.parametrize(
    "state",
    [
        {"broker": 1},
        {**STATE, "changed": [1]},
        {**STATE, "changed": [{**ENTITY, "facts": 1}]},
        {**STATE, "reset": False, "removed": [{"kind": "broker"}]},
    ],
)
async def test_a_state_of_another_form_is_a_broker_that_is_lost(state: dict[str, Any]) -> None:
    with pytest.raises(SourceLost, match="is not understood"):
        await Listener(json.dumps(state), json.dumps(EVENTS)).follow(10)


async def test_numbers_and_names_that_json_does_not_have_are_shown_without_them() -> None:
    state = json.dumps({**STATE, "changed": [{**ENTITY, "kind": ["a"], "facts": {"x": 7.5}}]})
    listener = Listener(state.replace("7.5", "1e999"), json.dumps(EVENTS))
    with pytest.raises(TimeoutError):
        await listener.follow(0.5)
    assert listener.broadcast.stage.entities(1)["['a']", ""] == {"x": None}


@pytest.mark.parametrize(
    "events",
    [{"broker": 1}, {**EVENTS, "events": [{"number": 1}]}, {**EVENTS, "missed": None}],
)
async def test_events_of_another_form_are_not_shown(events: dict[str, Any]) -> None:
    listener = Listener(json.dumps({**STATE, "changed": [ENTITY]}), json.dumps(events))
    with pytest.raises(TimeoutError):
        await listener.follow(0.5)
    assert ("broker", "") in listener.broadcast.stage.entities(1)
