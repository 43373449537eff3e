"""One connection as a stream of frames, which is read and written by coroutines.

What has arrived and was not read is bounded: then the connection is not read further, so that TCP
slows the peer down. A writer that awaits ``drain`` after each frame is bounded, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import cast

from minikafka.protocol.buffer import Buffer
from minikafka.protocol.frames import FrameError, FrameReader

READ_AHEAD_BYTES = 1024 * 1024  # and one frame
FRAME_OVERHEAD_BYTES = 100  # of a small frame that waits
WRITE_HIGH_BYTES = 1024 * 1024

_pack_size = Struct(">i").pack


class FrameStream(asyncio.BufferedProtocol):
    """The frames of one connection, each in separate memory. ``opened`` is called when it is
    connected. Only one coroutine may read at a time, and one may drain."""

    def __init__(
        self, max_frame_bytes: int, opened: Callable[[FrameStream], None] = lambda stream: None
    ) -> None:
        self._reader = FrameReader(max_frame_bytes, reuse=False)
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._frames: deque[memoryview] = deque()  # bound: READ_AHEAD_BYTES and a frame
        self.waiting_bytes = 0  # of frames that have arrived and were not read
        self._is_paused = False
        self._ended = False  # no more frames arrive
        self._changed = asyncio.Event()  # for the reader
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()
        self.local_host = ""
        self.peer_host = ""
        self.broken: str | None = None  # why the bytes that arrived are no frames

    # -- for the readers and writers

    async def read(self) -> memoryview | None:
        """Return the next frame, without its size; None if the connection has ended."""
        while not self._frames:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        frame = self._frames.popleft()
        self.waiting_bytes -= len(frame) + FRAME_OVERHEAD_BYTES
        if self._is_paused and self.waiting_bytes <= READ_AHEAD_BYTES // 2 and not self._ended:
            self._is_paused = False
            self._connected().resume_reading()
        return frame

    def write_frame(self, frame: Buffer) -> None:
        """Write a frame that has no size in front of it."""
        self.write([_pack_size(len(frame)), frame])

    def write(self, parts: Sequence[Buffer]) -> None:
        """Write frames with their sizes. What is written to a lost connection is dropped."""
        if not self.is_closing:
            self._connected().write(b"".join(parts))

    async def drain(self) -> None:
        """Return when the peer has taken most of what was written, or the connection is lost."""
        await self._room.wait()

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection when everything written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()

    async def until_lost(self) -> None:
        """Return when the connection is closed, by either side."""
        await self._lost.wait()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES)
        self.local_host = _host(transport.get_extra_info("sockname"))
        self.peer_host = _host(transport.get_extra_info("peername"))
        self._opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return
        try:
            frames: Sequence[memoryview] = self._reader.buffer_updated(nbytes)
        except FrameError as error:
            frames, self.broken = error.frames, str(error)
        self._frames.extend(frames)
        self.waiting_bytes += sum(map(len, frames)) + FRAME_OVERHEAD_BYTES * len(frames)
        if self.broken is not None:
            self._end()
            return
        if self.waiting_bytes > READ_AHEAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._connected().pause_reading()
        if frames:
            self._changed.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._room.set()
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._changed.set()

    def _connected(self) -> asyncio.Transport:
        assert self._transport is not None, "the stream is connected"
        return self._transport


def _host(address: object) -> str:
    return str(address[0]) if isinstance(address, tuple) else ""
