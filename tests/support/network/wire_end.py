"""A BufferedProtocol that records its callbacks, for tests of networks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class WireEnd(asyncio.BufferedProtocol):
    """A protocol that records its callbacks. ``half_open`` keeps the connection after the end of
    file."""

    transport: asyncio.Transport

    def __init__(self, buffer_bytes: int = 65536, half_open: bool = False) -> None:
        self._buffer = bytearray(buffer_bytes)
        self._half_open = half_open
        self._changed = asyncio.Event()
        self._loss: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._seen = bytearray()
        self.reads: list[int] = []
        self.paused = False
        self.resumed = asyncio.Event()
        self.eof = asyncio.Event()

    @property
    def seen(self) -> bytes:
        return bytes(self._seen)

    @property
    def at_eof(self) -> bool:
        return self.eof.is_set()

    async def received(self, count: int) -> bytes:
        """Return all bytes received so far, as soon as there are ``count``."""
        await self._until(lambda: len(self._seen) >= count)
        return self.seen

    async def lost(self) -> Exception | None:
        """Return the argument of ``connection_lost``, when it has been called."""
        return await asyncio.shield(self._loss)

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    # ------------------------------------------------------------------------------ the protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._seen += memoryview(self._buffer)[:nbytes]
        self.reads.append(nbytes)
        self._changed.set()

    def eof_received(self) -> bool:
        self.eof.set()
        return self._half_open

    def pause_writing(self) -> None:
        assert not self.paused
        self.paused = True
        self.resumed.clear()

    def resume_writing(self) -> None:
        assert self.paused
        self.paused = False
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._loss.set_result(exc)
