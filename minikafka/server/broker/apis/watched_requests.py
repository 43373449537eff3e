"""The slowest and the last requests of a broker, while a page looks at them.

``RequestTimes`` counts all requests, by API. What one of them was (its client, size and phases) is
kept here, and only until ``WATCHED_MS`` after the last look. While nobody looks ``Apis.watch`` is
None, and no request pays for this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappush, heapreplace
from struct import Struct
from typing import Any, Final

from minikafka.kernel.ports import Clock
from minikafka.protocol.frames import RequestHeader
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.request_times import RequestTimes

WATCHED_MS: Final = 10_000  # after a look
MAX_REQUESTS: Final = 50  # of the slowest, and of the last ones
MAX_OF_ONE_API: Final = 10  # of the slowest: fetches that wait for records would take every place
WINDOW_MS: Final = 30_000  # the slowest are those of the last one to two windows
FACTS_MS: Final = 1_000  # how old facts may be: they change with each request
MAX_TEXT: Final = 200  # characters of a client id, which may have 32 KB

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id


class WatchedRequest:
    """One request with its phases, as ``request_times`` has them, in microseconds."""

    __slots__ = (
        "_times",
        "_watching",
        "api",
        "client",
        "client_id",
        "correlation_id",
        "local_us",
        "noted_ms",
        "queue_us",
        "remote_us",
        "send_us",
        "size_bytes",
        "version",
        "wait_us",
    )

    def __init__(
        self,
        watching: WatchedRequests,
        times: RequestTimes,
        version: int,
        correlation_id: int,
        client_id: str,
        client: str,
        size_bytes: int,
    ) -> None:
        self._watching = watching
        self._times = times
        self.api = times.name
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client = client
        self.size_bytes = size_bytes
        self.noted_ms = 0  # when it had its response, in monotonic time
        self.queue_us = self.local_us = self.remote_us = 0
        self.wait_us = 0  # of the response, for those of earlier requests
        self.send_us = 0

    @property
    def total_us(self) -> int:
        return self.queue_us + self.local_us + self.remote_us

    def served(self, queue_us: int, local_us: int, remote_us: int) -> None:
        self.queue_us, self.local_us, self.remote_us = queue_us, local_us, remote_us
        self._watching.note(self)

    def response_waited(self, waited_us: int) -> None:
        self.wait_us = waited_us
        self._times.response_waited(waited_us)

    def response_sent(self, took_us: int) -> None:
        self.send_us = took_us
        self._times.response_sent(took_us)

    def facts(self, wall_ahead_ms: int) -> dict[str, Any]:
        """``wall_ahead_ms`` is by how much wall time is ahead of monotonic time."""
        facts = {name: getattr(self, name) for name in _SHOWN}
        return facts | {"time_ms": self.noted_ms + wall_ahead_ms}


_SHOWN: Final = (
    "api",
    "client",
    "client_id",
    "correlation_id",
    "local_us",
    "queue_us",
    "remote_us",
    "send_us",
    "size_bytes",
    "total_us",
    "version",
    "wait_us",
)


class SlowestRequests:
    """The slowest requests of each API, of the last one to two windows."""

    def __init__(self) -> None:
        self._window = 0
        self._number = 0
        # By API, heaps of (total time, number, request): the least slow one is first.
        self._now: dict[str, list[tuple[int, int, WatchedRequest]]] = {}
        self._before: dict[str, list[tuple[int, int, WatchedRequest]]] = {}

    def note(self, request: WatchedRequest, now_ms: int) -> None:
        self._turn(now_ms)
        self._number += 1
        heap = self._now.setdefault(request.api, [])
        entry = (request.total_us, self._number, request)
        if len(heap) < MAX_OF_ONE_API:
            heappush(heap, entry)
        elif request.total_us > heap[0][0]:
            heapreplace(heap, entry)

    def slowest(self, now_ms: int) -> list[WatchedRequest]:
        """Return up to ``MAX_REQUESTS`` of them, the slowest first."""
        self._turn(now_ms)
        kept = []
        for api in self._now.keys() | self._before.keys():
            both = [*self._now.get(api, ()), *self._before.get(api, ())]
            kept += sorted(both, reverse=True)[:MAX_OF_ONE_API]
        kept.sort(reverse=True)
        return [request for _, _, request in kept[:MAX_REQUESTS]]

    def _turn(self, now_ms: int) -> None:
        window = now_ms // WINDOW_MS
        if window != self._window:
            self._before = self._now if window == self._window + 1 else {}
            self._now = {}
            self._window = window


class WatchedRequests:
    """Keeps requests of ``apis`` from ``watch`` on, until ``WATCHED_MS`` after its last call."""

    def __init__(self, apis: Apis, clock: Clock) -> None:
        self._apis = apis
        self._clock = clock
        self._until_ms = 0
        self._slowest = SlowestRequests()
        self._last: deque[WatchedRequest] = deque(maxlen=MAX_REQUESTS)
        self._facts: Mapping[str, Any] = {}
        self._facts_ms = 0

    def watch(self) -> None:
        self._until_ms = self._clock.monotonic_ms() + WATCHED_MS
        self._apis.watch = self

    def facts(self) -> Mapping[str, Any]:
        """Return the slowest requests, slowest first, and the last ones, newest first. They may be
        a second old."""
        now_ms = self._clock.monotonic_ms()
        if not self._facts or now_ms - self._facts_ms >= FACTS_MS:
            self._facts_ms = now_ms
            ahead_ms = self._clock.wall_ms() - now_ms
            self._facts = {
                "slowest": [each.facts(ahead_ms) for each in self._slowest.slowest(now_ms)],
                "last": [each.facts(ahead_ms) for each in reversed(self._last)],
            }
        return self._facts

    def note(self, request: WatchedRequest) -> None:
        """Keep a request that has its response."""
        now_ms = self._clock.monotonic_ms()
        if now_ms > self._until_ms:
            self._apis.watch = None
            return
        request.noted_ms = now_ms
        self._last.append(request)
        self._slowest.note(request, now_ms)

    def request(
        self, times: RequestTimes, header: RequestHeader, client_host: str, size_bytes: int
    ) -> WatchedRequest:
        version, correlation_id = header.api_version, header.correlation_id
        client_id = (header.client_id or "")[:MAX_TEXT]
        return WatchedRequest(
            self, times, version, correlation_id, client_id, client_host, size_bytes
        )
