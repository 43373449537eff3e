"""Bare servers on the loop of a broker, with nothing of Kafka: what one in Python reaches at most.

usage: python -m scripts.lib.bench.probe KIND [ARGUMENT ...]

``log DIRECTORY BYTES`` checks a CRC-32C, writes the request behind the ones before, as a log does
(to write over pages that exist takes the system half as long), and responds with so many bytes.
``file PATH OVERHEAD`` reads the place of a file that a request names into memory that is used
again, since fresh memory would cost page faults, and sends it without a copy. ``fixed BYTES``
responds to each read and has one buffer for all connections. Each prints its port.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import cast

import crc32c
import uvloop

SIZE = struct.Struct(">i")
CORRELATION_ID = struct.Struct(">4xi")
REQUEST = struct.Struct(">iqi")  # correlation id, position, length
HEAD = struct.Struct(">ii")  # size, correlation id
BUFFER_BYTES = 4 << 20
BATCH_CRC_START = 21  # bytes of a batch before its checksummed part


def read_frame(position: int, length: int, frame_bytes: int) -> bytes:
    """Return a request for ``length`` bytes of a file; the frame is as long as a broker's."""
    body = REQUEST.pack(1, position, length)
    return SIZE.pack(frame_bytes - SIZE.size) + body.ljust(frame_bytes - SIZE.size, b"\0")


class Frames(asyncio.BufferedProtocol):
    """Cuts what arrives into frames, and calls ``received`` with each and ``read`` at the end."""

    def __init__(self) -> None:
        self._buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))  # untouched pages take no memory
        self._used = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._used :]

    def buffer_updated(self, nbytes: int) -> None:
        self._used += nbytes
        start = 0
        while self._used - start >= 4:
            (size,) = SIZE.unpack_from(self._buffer, start)
            if self._used - start < 4 + size:
                break
            start += 4 + size
            self.received(self._buffer[start - size : start])
        rest = self._used - start
        if start and rest:
            self._buffer[:rest] = bytes(self._buffer[start : self._used])
        self._used = rest
        if start:
            self.read()

    def received(self, frame: memoryview) -> None:
        raise AssertionError("each kind of connection has its own")

    def read(self) -> None: ...


class File:
    """The file of all connections of a probe that writes."""

    def __init__(self, directory: str) -> None:
        self._fd = os.open(os.path.join(directory, "probe"), os.O_CREAT | os.O_RDWR)
        self._end = 0

    def append(self, data: memoryview) -> None:
        os.pwrite(self._fd, data, self._end)
        self._end += len(data)


class LogProbe(Frames):
    """Writes the responses to the requests of one read together."""

    def __init__(self, file: File, answer: bytes) -> None:
        super().__init__()
        self._file, self._answer = file, answer
        self._responses: list[bytes] = []

    def received(self, frame: memoryview) -> None:
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        crc32c.crc32c(frame[BATCH_CRC_START:])
        self._file.append(frame)
        self._responses.append(HEAD.pack(4 + len(self._answer), correlation_id) + self._answer)

    def read(self) -> None:
        self._transport.write(b"".join(self._responses))
        self._responses.clear()


class FileProbe(Frames):
    """Each response has ``overhead`` bytes besides those of the file."""

    def __init__(self, fd: int, overhead: int) -> None:
        super().__init__()
        self._fd = fd
        self._padding = bytes(overhead - HEAD.size)
        self._free: list[bytearray] = []
        self._busy: list[bytearray] = []  # written, and perhaps not taken by the client yet
        self._parts: list[bytes | memoryview] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.set_write_buffer_limits(0)  # a write is carried out at once

    def received(self, frame: memoryview) -> None:
        correlation_id, position, length = REQUEST.unpack_from(frame)
        memory = self._free.pop() if self._free else bytearray(length)
        if len(memory) < length:
            memory = bytearray(length)
        self._busy.append(memory)
        data = memoryview(memory)[:length]
        assert os.preadv(self._fd, [data], position) == length
        total = HEAD.size + len(self._padding) + length
        self._parts += (HEAD.pack(total - 4, correlation_id) + self._padding, data)

    def read(self) -> None:
        self._transport.writelines(self._parts)
        self._parts.clear()
        if not self._transport.get_write_buffer_size():
            self._free += self._busy
            self._busy = []


class FixedProbe(asyncio.BufferedProtocol):
    """What a connection of this loop weighs at least."""

    __slots__ = ("_buffer", "_response", "_transport")

    def __init__(self, buffer: bytearray, response: bytes) -> None:
        self._buffer, self._response = buffer, response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(self._response)


async def serve(make: Callable[[], asyncio.BaseProtocol]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(kind: str, *arguments: str) -> None:
    if kind == "log":
        directory, size = arguments
        with tempfile.TemporaryDirectory(dir=directory) as home:
            file, answer = File(home), bytes(int(size))
            uvloop.run(serve(lambda: LogProbe(file, answer)))
    elif kind == "file":
        fd, overhead = os.open(arguments[0], os.O_RDONLY), int(arguments[1])
        uvloop.run(serve(lambda: FileProbe(fd, overhead)))
    else:
        buffer, response = (
            bytearray(1 << 16),
            SIZE.pack(int(arguments[0])) + bytes(int(arguments[0])),
        )
        uvloop.run(serve(lambda: FixedProbe(buffer, response)))


if __name__ == "__main__":
    main(*sys.argv[1:])
