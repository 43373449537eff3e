"""The last events of a broker's log, for a page that follows them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.ports import Clock
from minikafka.server.broker.purgatories import Reaper, expiration_reaper_name

MAX_EVENTS: Final = 4096
MAX_FACT: Final = 1000  # characters: a client may choose a name of 32 KB
MAX_WAIT_MS: Final = 20_000  # less than the HTTP server allows a request
PURGATORY: Final = "Events"
_KEY: Final = "events"


class FeedEvent(NamedTuple):
    """An event of the log, by its place since the broker's start, from 1."""

    number: int
    time_ms: int
    level: str
    name: str
    facts: Mapping[str, Any]


class EventFeed:
    """Keeps the last ``MAX_EVENTS`` events. A reader names the last number that it has read; one
    that is slower than the broker misses events and can see how many. Nothing is kept for it.

    A reader may wait for the next event: as a delayed operation in a purgatory, as a Fetch waits
    for records. ``append`` may be called from any thread."""

    reaper: Reaper[DelayedOperation]

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[FeedEvent] = deque(maxlen=MAX_EVENTS)
        self._last = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waking = False

    def start(self, broker_id: int) -> None:
        """Let readers wait from now on. Events are kept since the construction."""
        purgatory: Purgatory[DelayedOperation] = Purgatory(PURGATORY)
        name = expiration_reaper_name(broker_id, PURGATORY)
        self.reaper = Reaper(self._clock, purgatory, name)

    @property
    def last(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._last

    def append(self, level: str, name: str, facts: Mapping[str, Any]) -> None:
        """Keep an event, as ``kernel.events.Sink``. Facts are cut and become JSON values."""
        self._last += 1
        shown = {key: shown_fact(value) for key, value in facts.items()}
        self._events.append(FeedEvent(self._last, self._clock.wall_ms(), level, name, shown))
        if self._loop is not None and not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def since(self, number: int, limit: int) -> tuple[list[FeedEvent], int]:
        """Return up to ``limit`` events after the one of that number, oldest first, and how many
        before them are lost. A number from before a restart of the broker counts as 0."""
        after = number if number <= self._last else 0
        kept = list(self._events)
        first = kept[0].number if kept else self._last + 1
        missed = max(0, first - after - 1)
        start = max(0, after + 1 - first)
        return kept[start : start + limit], missed

    async def wait(self, number: int, wait_ms: int) -> None:
        """Return when there is an event after ``number``, or after ``wait_ms``."""
        self._loop = asyncio.get_running_loop()
        operation = DelayedEvents(self, number, wait_ms)
        self.reaper.try_complete_else_watch(operation, [_KEY])
        try:
            await operation.done
        finally:
            operation.force_complete()  # if the reader has gone

    def _wake(self) -> None:
        self._waking = False
        self.reaper.check_and_complete(_KEY)


class DelayedEvents(DelayedOperation):
    """A reader that waits for an event."""

    __slots__ = ("_feed", "_number", "done")

    def __init__(self, feed: EventFeed, number: int, wait_ms: int) -> None:
        super().__init__(wait_ms)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._feed = feed
        self._number = number

    def try_complete(self) -> bool:
        return self._feed.last != self._number and self.force_complete()

    def on_complete(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def on_expiration(self) -> None:
        """The response has no events."""

    def watched_keys(self) -> list[str]:
        return [_KEY]


def shown_fact(value: object) -> object:
    """Return a fact of an event as a JSON value. A list, a tuple or a set becomes a list of numbers
    and texts; every other object becomes its ``repr``. What is longer than ``MAX_FACT`` is cut."""
    if isinstance(value, set | frozenset):
        return _shown_list(sorted(value, key=str))
    if isinstance(value, list) or type(value) is tuple:
        return _shown_list(value)
    return _shown(value)


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_FACT else f"{text[:MAX_FACT]}... ({len(text)} characters)"


def _shown_list(values: Sequence[object]) -> list[object]:
    """Return elements as JSON values until they have ``MAX_FACT`` characters together; the last one
    says then how many there are."""
    shown: list[object] = []
    size = 0
    for value in values:
        shown.append(_shown(value))
        size += len(str(shown[-1]))
        if size > MAX_FACT and len(shown) < len(values):
            return [*shown, f"... ({len(values)} elements)"]
    return shown
