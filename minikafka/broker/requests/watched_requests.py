"""The slowest and the last requests of a broker, while a page looks at them.

``RequestTimes`` counts all requests, by API. What one of them was (its client, size and phases) is
kept here, and only until ``WATCHED_MS`` after the last look. While nobody looks ``Apis`` creates
plain replies, and no request pays for this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heappush, heapreplace
from typing import Any, Final

from minikafka.broker.quotas import RequestThrottle
from minikafka.broker.requests.apis import NOT_YET, Apis, PendingReply, Route
from minikafka.broker.requests.request_times import RequestTimes
from minikafka.kernel.ports import Clock
from minikafka.network.reply_slots import ReplySlot
from minikafka.protocol.frames import RequestHeader

WATCHED_MS: Final = 10_000  # after a look
MAX_REQUESTS: Final = 50  # of the slowest, and of the last ones
MAX_OF_ONE_API: Final = 10  # of the slowest: fetches that wait for records would take every place
WINDOW_MS: Final = 30_000  # the slowest are those of the last one to two windows
FACTS_MS: Final = 1_000  # how old facts may be: they change with each request
MAX_TEXT: Final = 200  # characters of a client id, which may have 32 KB


class WatchedRequest:
    """One request with its phases, as ``request_times`` has them, in microseconds."""

    __slots__ = (
        "_times",
        "api",
        "client",
        "client_id",
        "correlation_id",
        "local_us",
        "queue_us",
        "remote_us",
        "send_us",
        "size_bytes",
        "time_ms",
        "total_us",
        "version",
        "wait_us",
    )

    def __init__(self, times: RequestTimes, header: RequestHeader, slot: ReplySlot) -> None:
        self._times = times
        self.api = times.name
        self.version = header.api_version
        self.client_id = (header.client_id or "")[:MAX_TEXT]
        self.client = slot.client_host
        self.correlation_id = header.correlation_id
        self.size_bytes = slot.request_bytes
        self.time_ms = 0  # of the response
        self.total_us = self.queue_us = self.local_us = self.remote_us = 0
        self.wait_us = 0  # of the response, for those of earlier requests
        self.send_us = 0

    def response_waited(self, waited_us: int) -> None:
        self.wait_us = waited_us
        self._times.response_waited(waited_us)

    def response_sent(self, took_us: int) -> None:
        self.send_us = took_us
        self._times.response_sent(took_us)

    def facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "_times"}


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

    @property
    def is_watching(self) -> bool:
        return self._apis.make_reply is not PendingReply

    def watch(self) -> None:
        self._until_ms = self._clock.monotonic_ms() + WATCHED_MS
        if not self.is_watching:
            self._apis.make_reply = self._watched_reply

    def facts(self) -> Mapping[str, Any]:
        """Return the slowest requests, slowest first, and the last ones, newest first. They may be
        a second old."""
        now_ms = self._clock.monotonic_ms()
        if not self._facts or now_ms - self._facts_ms >= FACTS_MS:
            self._facts_ms = now_ms
            self._facts = {
                "slowest": [request.facts() for request in self._slowest.slowest(now_ms)],
                "last": [request.facts() for request in reversed(self._last)],
            }
        return self._facts

    def note(self, request: WatchedRequest) -> None:
        """Keep a request that has its response."""
        now_ms = self._clock.monotonic_ms()
        if now_ms > self._until_ms:
            self._apis.make_reply = PendingReply
            return
        request.time_ms = self._clock.wall_ms()
        request.total_us = request.queue_us + request.local_us + request.remote_us
        self._last.append(request)
        self._slowest.note(request, now_ms)

    def _watched_reply(
        self,
        apis: Apis,
        slot: ReplySlot,
        route: Route,
        header: RequestHeader,
        version: int,
        times: RequestTimes,
        throttle: RequestThrottle | None,
    ) -> PendingReply:
        reply = _WatchedReply(apis, slot, route, header, version, times, throttle)
        reply.watch(self, WatchedRequest(times, header, slot))
        return reply


class _WatchedReply(PendingReply):
    """Notes its request when that has its response."""

    __slots__ = ("_request", "_watching")

    def watch(self, watching: WatchedRequests, request: WatchedRequest) -> None:
        self._watching = watching
        self._request = request
        self._slot.times = request

    def handled(self, queue_us: int, local_us: int, now_ns: int) -> None:
        request = self._request
        request.queue_us, request.local_us = queue_us, local_us
        super().handled(queue_us, local_us, now_ns)
        if self._handled_ns == NOT_YET:
            self._watching.note(request)

    def _responded(self) -> None:
        if self._slot.is_sent:
            self._request.remote_us = (self._apis.now_ns() - self._handled_ns) // 1000
            self._watching.note(self._request)
        super()._responded()
