"""The load generator: one raw connection that keeps N requests in flight and times the answers."""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import cast

SIZE = struct.Struct(">i")
LIMIT_S = 120  # no measurement takes as long: what does is stuck


@dataclass(frozen=True)
class Result:
    """``latencies_ms`` one for each request, in order."""

    requests: int
    seconds: float
    answered_bytes: int
    latencies_ms: list[float]

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Load(asyncio.BufferedProtocol):
    """Sends the same frames in turn, over and over; keeps the first answer for a look at it.

    Before these it sends each frame of ``opening`` after the answer to the one before: a login."""

    def __init__(
        self, frames: Sequence[bytes], count: int, in_flight: int, opening: Sequence[bytes] = ()
    ) -> None:
        self._opening = deque(opening)
        self._frames = cycle(frames)
        self._left = count
        self._count = count
        self._in_flight = in_flight
        self._sent_at: deque[float] = deque()
        self._latencies: list[float] = []
        self._bytes = 0
        self._buffer = memoryview(bytearray(4 << 20))
        self._used = 0
        self.last_answer = b""
        self.done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._go_on()

    def _go_on(self) -> None:
        if self._opening:
            self._transport.write(self._opening[0])
            return
        self._started = time.perf_counter()
        for _ in range(min(self._in_flight, self._left)):
            self._send()

    def _send(self) -> None:
        self._left -= 1
        self._sent_at.append(time.perf_counter())
        self._transport.write(next(self._frames))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._used :]

    def buffer_updated(self, nbytes: int) -> None:
        self._used += nbytes
        start = 0
        while self._used - start >= 4:
            (size,) = SIZE.unpack_from(self._buffer, start)
            if self._used - start < 4 + size:
                break
            if self._opening:
                start += 4 + size
                self._opening.popleft()
                self._go_on()
                continue
            if not self.last_answer:
                self.last_answer = bytes(self._buffer[start + 4 : start + 4 + size])
            self._bytes += size
            start += 4 + size
            self._latencies.append((time.perf_counter() - self._sent_at.popleft()) * 1000)
            if self._left:
                self._send()
        rest = self._used - start
        if start and rest:
            self._buffer[:rest] = bytes(self._buffer[start : self._used])
        self._used = rest
        if len(self._latencies) == self._count and not self.done.done():
            seconds = time.perf_counter() - self._started
            self.done.set_result(Result(self._count, seconds, self._bytes, self._latencies))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"closed by the server: {error}"))


async def drive(port: int, frame: bytes, count: int, in_flight: int) -> tuple[Result, bytes]:
    """Send ``frame`` ``count`` times; the result, and the first answer's bytes."""
    return await drive_in_turn(port, [frame], count, in_flight)


async def drive_in_turn(
    port: int,
    frames: Sequence[bytes],
    count: int,
    in_flight: int,
    opening: Sequence[bytes] = (),
    tls: ssl.SSLContext | None = None,
) -> tuple[Result, bytes]:
    """Send ``count`` times one of ``frames``, each in its turn, after ``opening``; returns as
    ``drive``."""
    loop = asyncio.get_running_loop()
    _, load = await loop.create_connection(
        lambda: Load(frames, count, in_flight, opening), "127.0.0.1", port, ssl=tls
    )
    async with asyncio.timeout(LIMIT_S):
        return await load.done, load.last_answer
