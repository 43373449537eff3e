"""Loopback sockets and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from minikafka.network.server import Connection, Server, ServerConfig


class LoopbackListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()


class LoopbackNetwork:
    """The Network port on plain asyncio."""

    async def listen(self, factory: Any, host: str, port: int) -> LoopbackListener:
        loop = asyncio.get_running_loop()
        return LoopbackListener(await loop.create_server(factory, host, port))

    async def connect(self, factory: Any, host: str, port: int) -> Any:
        return await asyncio.get_running_loop().create_connection(factory, host, port)


class ManualTimer:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Stands still until it is advanced."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: list[ManualTimer] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.now_ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    async def sleep(self, delay_ms: int) -> None:
        done = asyncio.get_running_loop().create_future()
        self.call_later(delay_ms, lambda: done.set_result(None))
        await done

    def advance(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while True:
            due = [t for t in self.timers if not t.cancelled and t.due_ms <= end_ms]
            if not due:
                break
            timer = min(due, key=lambda t: t.due_ms)
            self.timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.callback()
        self.now_ms = end_ms


class RecordingLog:
    """An event log that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def _take(self, level: str, event: str, facts: dict[str, Any]) -> None:
        self.events.append((level, event, facts))

    def debug(self, event: str, **facts: Any) -> None:
        self._take("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        self._take("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._take("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._take("error", event, facts)

    def bind(self, **facts: Any) -> RecordingLog:
        return self

    def reasons(self) -> list[str]:
        return [facts["reason"] for _, _, facts in self.events if "reason" in facts]


class Peer:
    """A client that speaks raw frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(b)) + b for b in bodies))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Lab:
    """Servers on loopback, and peers of theirs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = LoopbackNetwork()
        self.log = RecordingLog()
        self.servers: list[Server] = []
        self.peers: list[Peer] = []

    async def serve(
        self,
        on_frame: Callable[[Connection, memoryview], None],
        config: ServerConfig | None = None,
    ) -> Server:
        server = Server(
            self.network, self.clock, config or ServerConfig(), on_frame, "PLAINTEXT", self.log
        )
        await server.start("127.0.0.1", 0)
        self.servers.append(server)
        return server

    async def connect(self, server: Server) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        self.peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop run until something holds."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0)

    async def stop(self) -> None:
        for peer in self.peers:
            peer.close()
        for server in self.servers:
            await server.close()


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    lab = Lab()
    yield lab
    await lab.stop()
