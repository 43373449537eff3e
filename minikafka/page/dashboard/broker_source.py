"""Follows the inside of one broker over its debug listener: its state and its log.

Both are read by the HTTP client of ``network``, so this runs in the simulated world, too.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.ports import Clock, Network
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpGetConnection, HttpUrl
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.messages import EntityKey, Facts, LoggedEvent

LOOK_EVERY_MS: Final = 250  # while the broker logs events
# A look takes the broker's loop for some tenths of a millisecond. Two a second, where four met
# almost 1 % of its requests, are not seen in their p99. So the next look waits longer, until there
# is an event: by this, or by ``REST_MS`` while only the kinds AT_REST change.
NO_EVENT_MS: Final = 250
REST_MS: Final = 750
AT_REST: Final = frozenset(
    {"purgatory", "session", "request", "requests", "connections", "client_metrics"}
)
TIMEOUT_MS: Final = 2_000
LOST_AFTER_MS: Final = 2_000  # without a response
RETRY_AFTER_MS: Final = 500
WAIT_MS: Final = 8_000  # for an event; less than ``http_get`` allows
EVENTS_AT_ONCE: Final = 500
EVENTS_BEFORE: Final = 500  # which the first look shows
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
END_OF_LOG: Final = 2**53  # a number beyond all events
SELDOM: Final = frozenset({"requests"})  # kinds with large lists, which change all the time
SELDOM_EVERY_MS: Final = 2_000
REACHABLE: Final[EntityKey] = ("reachable", "")

T = TypeVar("T")


class SourceLost(Exception):
    """A broker's debug listener does not respond; the text says why, in one sentence."""


class BrokerSource:
    """Puts the facts of a broker on the stage, and its events, as long as it responds.

    ``network`` returns the network to use for the next request, ``watched`` the topics all of whose
    partitions are wanted, however many the broker has. ``on_events`` is called when new events have
    been read. The debug listener is a loopback
    address, so another broker of that address on this machine may respond: it is not followed."""

    def __init__(
        self,
        clock: Clock,
        network: Callable[[], Network],
        broadcast: Broadcast,
        broker_id: int,
        endpoint: Endpoint,
        watched: Callable[[], Collection[str]] = frozenset,
        on_events: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._broadcast = broadcast
        self._broker_id = broker_id
        self._watched = watched
        self._url = HttpUrl("http", endpoint.host, endpoint.port, "/")
        # Each keeps a connection, which costs the broker half as much as new ones.
        self._state, self._events = (
            HttpGetConnection(network, self._url, TlsSettings(), MAX_BODY_BYTES) for _ in range(2)
        )
        self._held: dict[EntityKey, Facts] = {}  # of kinds that are shown seldom
        self._held_until_ms = 0
        self._on_events = on_events
        self._has_events = asyncio.Event()  # since the last look

    async def follow(self) -> None:
        """Follow the broker until it is lost. Raises SourceLost."""
        looking = asyncio.create_task(self._follow_state(), name=f"state-{self._broker_id}")
        reading = asyncio.create_task(self._follow_events(), name=f"events-{self._broker_id}")
        try:
            await asyncio.wait([looking, reading], return_when=asyncio.FIRST_COMPLETED)
            for task in (looking, reading):
                if task.done():
                    task.result()
        finally:
            for task in (looking, reading):
                task.cancel()
            await asyncio.gather(looking, reading, return_exceptions=True)
            self._state.close()
            self._events.close()

    async def _follow_state(self) -> None:
        since, seen_ms = 0, self._clock.monotonic_ms()
        while True:
            begun_ms = self._clock.monotonic_ms()
            try:
                topics = ",".join(sorted(self._watched()))
                path = f"/state.json?since={since}&partitions={topics}"
                shown = await self._get(self._state, path, TIMEOUT_MS, shown_state)
            except OSError as error:
                if self._clock.monotonic_ms() - seen_ms >= LOST_AFTER_MS:
                    raise SourceLost(self._why(error)) from None
                since = 0  # it may have started again: its numbers then count from 1
                at_rest = False
            else:
                seen_ms, since = self._clock.monotonic_ms(), shown.last
                at_rest = all(kind in AT_REST for kind, _ in shown.changed)
                self._put(shown)
            took_ms = self._clock.monotonic_ms() - begun_ms
            await self._clock.sleep(max(LOOK_EVERY_MS - took_ms, LOOK_EVERY_MS // 5))
            await self._rest(REST_MS if at_rest else NO_EVENT_MS)

    async def _rest(self, longest_ms: int) -> None:
        """Wait for so long, or until there are events since the last rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_ms / 1000):
                await self._has_events.wait()
        self._has_events.clear()

    def _put(self, shown: ShownState) -> None:
        """Put a response of /state.json on the stage."""
        stage, at_ms = self._broadcast.stage, self._clock.wall_ms()
        changed = dict(shown.changed)
        if shown.reset:
            self._held = {}
            stage.replace(self._broker_id, at_ms, changed | {REACHABLE: {"debug": True}})
        else:
            self._held |= {key: changed.pop(key) for key in list(changed) if key[0] in SELDOM}
            if self._held and self._clock.monotonic_ms() >= self._held_until_ms:
                self._held_until_ms = self._clock.monotonic_ms() + SELDOM_EVERY_MS
                changed |= self._held
                self._held = {}
            stage.apply(self._broker_id, at_ms, changed.items(), shown.removed)
        self._broadcast.publish()

    async def _follow_events(self) -> None:
        """Read the log from ``EVENTS_BEFORE`` events before its end, or after the last event that
        this page has."""
        since: int | None = None
        while True:
            try:
                if since is None:
                    path = f"/events.json?since={END_OF_LOG}&limit=0"
                    end = await self._get(self._events, path, TIMEOUT_MS, shown_events)
                    since = max(0, end.last - EVENTS_BEFORE)
                path = f"/events.json?since={since}&wait={WAIT_MS}&limit={EVENTS_AT_ONCE}"
                limit_ms = WAIT_MS + TIMEOUT_MS // 2
                shown = await self._get(self._events, path, limit_ms, shown_events)
            except OSError:  # ``_follow_state`` finds out whether the broker is lost
                await self._clock.sleep(RETRY_AFTER_MS)
                continue
            if shown.missed and since:
                at_ms = self._clock.wall_ms()
                self._broadcast.stage.add_missed(self._broker_id, shown.missed, at_ms)
            for event in shown.events:
                self._broadcast.stage.add_event(self._broker_id, event)
            since = shown.last
            self._broadcast.publish()
            if shown.events:
                self._has_events.set()
                self._on_events()

    async def _get(
        self,
        connection: HttpGetConnection,
        path: str,
        timeout_ms: int,
        parse: Callable[[Mapping[str, Any]], T],
    ) -> T:
        """Return the response to a request. Raises OSError, also for a response that ``parse``
        does not take: of another release, or of another process that has the port now."""
        async with asyncio.timeout(timeout_ms / 1000):
            body = await connection.get(path)
        try:
            shown = json.loads(body, parse_constant=lambda name: None, parse_float=_finite)
        except ValueError as error:
            raise OSError(f"the response is no JSON: {error}") from None
        if not isinstance(shown, dict) or shown.get("broker") != self._broker_id:
            raise OSError("the response is another broker's")
        try:
            return parse(shown)
        except (KeyError, TypeError, ValueError) as error:
            raise OSError(f"the response is not understood: {error!r}") from None

    def _why(self, error: OSError) -> str:
        reason = "it does not respond" if isinstance(error, TimeoutError) else str(error)
        address = f"http://{self._url.host}:{self._url.port}"
        return f"The debug listener {address} of broker {self._broker_id} is lost: {reason}."


class ShownState(NamedTuple):
    """A response of /state.json."""

    last: int
    reset: bool
    changed: Mapping[EntityKey, Facts]
    removed: Sequence[EntityKey]


class ShownEvents(NamedTuple):
    """A response of /events.json."""

    last: int
    missed: int
    events: Sequence[LoggedEvent]


def shown_state(shown: Mapping[str, Any]) -> ShownState:
    """Raises KeyError, TypeError or ValueError for a response of another form."""
    return ShownState(
        int(shown["last"]),
        bool(shown["reset"]),
        {_key(row): dict(row["facts"]) for row in shown["changed"]},
        [_key(row) for row in shown["removed"]],
    )


def shown_events(shown: Mapping[str, Any]) -> ShownEvents:
    """Raises KeyError, TypeError or ValueError for a response of another form."""
    events = [
        LoggedEvent(
            int(row["number"]),
            int(row["time_ms"]),
            str(row["level"]),
            str(row["name"]),
            dict(row["facts"]),
        )
        for row in shown["events"]
    ]
    return ShownEvents(int(shown["last"]), int(shown["missed"]), events)


def _key(row: Any) -> EntityKey:
    return str(row["kind"]), str(row["name"])


def _finite(text: str) -> float | None:
    """Return a number; None for one beyond all numbers, which the page could not show as JSON."""
    number = float(text)
    return number if math.isfinite(number) else None
