"""An HTTP server on a simulated host, and peers on the same host that speak raw bytes to it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.kernel.ports import World
from minikafka.server.listeners.http_server import HttpConfig, HttpServer, Route
from minikafka.world.sim.links import LinkProfile
from minikafka.world.sim.world import SimWorld
from tests.support.network.wire_end import WireEnd

PORT = 9192
PATIENCE_S = 200


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


def responses(data: bytes, without_body: bool = False) -> list[Response]:
    """Split the bytes that a peer has read into responses, by Content-Length. An unfinished one
    fails the test."""
    found = []
    while data:
        head, separator, data = data.partition(b"\r\n\r\n")
        assert separator, head
        status, *lines = head.decode("ascii").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", status)
        assert match, status
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = 0 if without_body else int(headers["content-length"])
        assert len(data) >= length
        found.append(Response(int(match[1]), headers, data[:length]))
        data = data[length:]
    return found


class HttpLab:
    """An HTTP server in a simulated world; ``run`` starts it and runs a coroutine."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        config: HttpConfig | None = None,
        seed: int = 1,
        profile: LinkProfile | None = None,
    ) -> None:
        self.simulation = SimWorld(seed, profile)
        self.world: World
        self.server: HttpServer
        self._routes = routes
        self._config = config

    def run(self, play: Callable[[HttpLab], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            self.world = world = self.simulation.host("broker").world
            self.server = HttpServer(world.network, world.clock, self._routes, self._config)
            await self.server.start("127.0.0.1", PORT)
            result = await play(self)
            self.server.close()
            return result

        return self.simulation.run(main())

    def seconds(self) -> float:
        return self.simulation.loop.seconds()

    async def connect(self, buffer_bytes: int = 65536) -> WireEnd:
        _, end = await self.world.network.connect(
            lambda: WireEnd(buffer_bytes, half_open=True), "localhost", PORT
        )
        assert isinstance(end, WireEnd)
        return end

    async def until_end(self, end: WireEnd) -> bytes:
        """Return all bytes until the server's end of file, then close the connection."""
        async with asyncio.timeout(PATIENCE_S):
            eof = asyncio.ensure_future(end.eof.wait())
            lost = asyncio.ensure_future(end.lost())
            await asyncio.wait([eof, lost], return_when=asyncio.FIRST_COMPLETED)
            eof.cancel()
            end.transport.close()
            await lost
        return end.seen

    async def ask(self, data: bytes) -> bytes:
        """Send ``data`` and an end of file on a new connection, and read to the end."""
        end = await self.connect()
        end.transport.write(data)
        end.transport.write_eof()
        return await self.until_end(end)
