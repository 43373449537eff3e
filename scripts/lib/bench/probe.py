"""The bare probe: the same bytes on the same loop with none of Kafka's meaning.

A produce is a size, a CRC-32C and a pwrite. What a broker written in Python on uvloop could reach
at most. ``file_probe`` is that for a fetch.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
import tempfile
from typing import cast

import crc32c
import uvloop

SIZE = struct.Struct(">i")
CORRELATION_ID = struct.Struct(">4xi")
BUFFER_BYTES = 4 << 20
BATCH_CRC_START = 21  # bytes of a batch before its checksummed part


class File:
    """The file of all connections. Each write is behind the one before, as in a log: to write over
    pages that exist takes the system half as long."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._end = 0

    def append(self, data: memoryview) -> None:
        os.pwrite(self._fd, data, self._end)
        self._end += len(data)


class Probe(asyncio.BufferedProtocol):
    """One connection. A produce is answered by as many bytes as a broker answers."""

    def __init__(self, file: File, answer: bytes) -> None:
        self._file = file
        self._answer = answer
        self._buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))  # untouched pages take no memory
        self._used = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._used :]

    def buffer_updated(self, nbytes: int) -> None:
        self._used += nbytes
        start = 0
        answers: list[bytes] = []
        while self._used - start >= 4:
            (size,) = SIZE.unpack_from(self._buffer, start)
            if self._used - start < 4 + size:
                break
            answers.append(self._produce(self._buffer[start + 4 : start + 4 + size]))
            start += 4 + size
        rest = self._used - start
        if start and rest:
            self._buffer[:rest] = bytes(self._buffer[start : self._used])
        self._used = rest
        if answers:
            self._transport.write(b"".join(answers) if len(answers) > 1 else answers[0])

    def _produce(self, frame: memoryview) -> bytes:
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        crc32c.crc32c(frame[BATCH_CRC_START:])
        self._file.append(frame)
        return SIZE.pack(4 + len(self._answer)) + SIZE.pack(correlation_id) + self._answer


async def serve(directory: str, answer_bytes: int) -> None:
    file = File(os.open(os.path.join(directory, "probe"), os.O_CREAT | os.O_RDWR))
    server = await asyncio.get_running_loop().create_server(
        lambda: Probe(file, bytes(answer_bytes)), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as home:
        uvloop.run(serve(home, int(sys.argv[2])))
