"""The bare server of a file: what a server written in Python on uvloop can reach with reads.

A request names a place in the file, and the response has the bytes there. They are read into memory
that is used again, since fresh memory would cost page faults, and written without a copy.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from typing import cast

import uvloop

SIZE = struct.Struct(">i")
REQUEST = struct.Struct(">iqi")  # correlation id, position, length
HEAD = struct.Struct(">ii")  # size, correlation id


def frame(position: int, length: int, frame_bytes: int) -> bytes:
    """Return a request for ``length`` bytes; the frame is as long as a broker's."""
    body = REQUEST.pack(1, position, length)
    return SIZE.pack(frame_bytes - SIZE.size) + body.ljust(frame_bytes - SIZE.size, b"\0")


class FileProbe(asyncio.BufferedProtocol):
    """One connection. Each response has ``overhead`` bytes besides those of the file."""

    def __init__(self, fd: int, overhead: int) -> None:
        self._fd = fd
        self._padding = bytes(overhead - HEAD.size)
        self._buffer = memoryview(bytearray(1 << 16))
        self._used = 0
        self._free: list[bytearray] = []
        self._busy: list[bytearray] = []  # written, and perhaps not taken by the client yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)  # a write is carried out at once

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._used :]

    def buffer_updated(self, nbytes: int) -> None:
        self._used += nbytes
        start = 0
        parts: list[bytes | memoryview] = []
        while self._used - start >= 4:
            (size,) = SIZE.unpack_from(self._buffer, start)
            if self._used - start < 4 + size:
                break
            correlation_id, position, length = REQUEST.unpack_from(self._buffer, start + 4)
            start += 4 + size
            data = self._read(position, length)
            total = HEAD.size + len(self._padding) + length
            parts += (HEAD.pack(total - 4, correlation_id) + self._padding, data)
        rest = self._used - start
        if start and rest:
            self._buffer[:rest] = bytes(self._buffer[start : self._used])
        self._used = rest
        if parts:
            self._transport.writelines(parts)
            if not self._transport.get_write_buffer_size():
                self._free += self._busy
                self._busy = []

    def _read(self, position: int, length: int) -> memoryview:
        memory = self._free.pop() if self._free else bytearray(length)
        if len(memory) < length:
            memory = bytearray(length)
        self._busy.append(memory)
        data = memoryview(memory)[:length]
        assert os.preadv(self._fd, [data], position) == length
        return data


async def serve(path: str, overhead: int) -> None:
    fd = os.open(path, os.O_RDONLY)
    server = await asyncio.get_running_loop().create_server(
        lambda: FileProbe(fd, overhead), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2])))
