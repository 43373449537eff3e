"""The load generator: connections that keep requests in flight, and rounds in turns."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from statistics import median

import psutil
import uvloop

from scripts.lib.bench.harness import cpu_seconds, in_turns, percentile
from scripts.lib.bench.probe import Frames
from scripts.lib.bench.requests import Check

LIMIT_S = 120  # no measurement takes as long: one that does is stuck
IN_FLIGHT = 5
NO_CHECK: Check = len  # of a server that knows nothing of Kafka


@dataclass
class Result:
    """One round. ``shares`` are the responses of each connection, ``cpu_s`` the server's CPU time,
    ``answer`` the first response."""

    count: int
    seconds: float = 0.0
    cpu_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    answer: bytes = b""

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of one request."""
        return self.cpu_s / self.count * 1e6

    @property
    def unfairness(self) -> float:
        return max(self.shares) / max(1, min(self.shares))

    def percentile_ms(self, share: float) -> float:
        return percentile(sorted(self.latencies_ms), share)


@dataclass(frozen=True)
class Client:
    """What is sent to one server, and how its responses are checked.

    ``frames`` has the requests of each connection, sent in turn again and again. ``opening`` is
    sent first, one by one: a login. After it the first request of each connection, which is
    slower, is not counted. The first and the last response of a round are checked.
    """

    port: int
    frames: Sequence[Sequence[bytes]]
    check: Check
    processes: Sequence[psutil.Process] = ()
    in_flight: int = IN_FLIGHT
    opening: Sequence[bytes] = ()
    tls: ssl.SSLContext | None = None

    def drive(self, count: int) -> Result:
        """Send ``count`` requests: each connection sends the next one when it has a response."""
        return uvloop.run(self._drive(count))

    async def _drive(self, count: int) -> Result:
        loop = asyncio.get_running_loop()
        run = Run(count, loop.create_future())
        connections = [
            Connection(run, [*frames[1:], frames[0]], [*self.opening, frames[0]])
            for frames in self.frames
        ]
        async with asyncio.timeout(LIMIT_S):
            for each in connections:
                await loop.create_connection(lambda: each, "127.0.0.1", self.port, ssl=self.tls)  # noqa: B023
            await asyncio.gather(*(each.opened for each in connections))
            cpu, started = cpu_seconds(self.processes), time.perf_counter()
            for each in connections:
                each.begin(self.in_flight)
            await run.done
            run.result.seconds = time.perf_counter() - started
            run.result.cpu_s = cpu_seconds(self.processes) - cpu
        for each in connections:
            each.close()
        run.result.shares = [each.count for each in connections]
        for answer in (run.result.answer, run.last):
            self.check(answer)
        return run.result


class Run:
    """What the connections of one round share."""

    def __init__(self, count: int, done: asyncio.Future[None]) -> None:
        self.result = Result(count)
        self.left = count
        self.done = done
        self.last = b""


class Connection(Frames):
    def __init__(self, run: Run, frames: Sequence[bytes], opening: Sequence[bytes]) -> None:
        super().__init__()
        self._run = run
        self._opening = deque(opening)
        self._frames = cycle(frames)
        self._sent_at: deque[float] = deque()
        self.count = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open()

    def _open(self) -> None:
        if self._opening:
            self._transport.write(self._opening[0])
        else:
            self.opened.set_result(None)

    def begin(self, in_flight: int) -> None:
        for _ in range(in_flight):
            self._send()

    def close(self) -> None:
        self._transport.close()

    def _send(self) -> None:
        if self._run.left:
            self._run.left -= 1
            self._sent_at.append(time.perf_counter())
            self._transport.write(next(self._frames))

    def received(self, frame: memoryview) -> None:
        if self._opening:
            self._opening.popleft()
            self._open()
            return
        run = self._run
        latencies = run.result.latencies_ms
        latencies.append((time.perf_counter() - self._sent_at.popleft()) * 1000)
        self.count += 1
        if run.left:
            self._send()
        if not run.result.answer:
            run.result.answer = bytes(frame)
        if len(latencies) == run.result.count:
            run.last = bytes(frame)
            run.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.opened, self._run.done):
            if not future.done():
                future.set_exception(ConnectionError(f"closed by the server: {error}"))


def drive_in_turns(
    clients: Mapping[str, Client], count: int, rounds: int
) -> dict[str, list[Result]]:
    """Warm up each client, and take rounds of all in turns."""
    for client in clients.values():
        client.drive(max(50, count // 10))
    drives = {name: partial(client.drive, count) for name, client in clients.items()}
    return in_turns(drives, rounds)


def middle(results: Sequence[Result]) -> Result:
    """Return the round whose rate is the median, with the least CPU time of all rounds."""
    ordered = sorted(results, key=lambda each: each.per_second)
    found = ordered[len(ordered) // 2]
    found.cpu_s = min(each.cpu_s for each in results)
    return found


def rate(results: Sequence[Result]) -> float:
    return median(each.per_second for each in results)
