"""The memory that clients make a broker hold: one account by kind, and one limit for the sum.

Queued requests of all connections count (Kafka's ``MemoryPool``), and frames under way: which
connection may take more memory for its frame when there is none left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from minikafka.kernel.ports import Clock, TimerHandle

UNLIMITED: Final = -1
NO_LIMIT: Final = 2**62


class RequestMemory:
    """Counts the bytes that connections hold for unanswered requests, and wakes those that wait.

    The limit is ``max_bytes`` (``queued.max.request.bytes``); 0 or less is unlimited, as in Kafka.
    It is less while other kinds of memory leave less (``MemoryBudget``).
    A connection that holds some bytes waits while the memory ``is_full``. One that holds none goes
    on: otherwise Produce requests that wait for followers could keep the fetches of these followers
    from being served. So the limit may be exceeded by one request of each connection.
    """

    def __init__(self, max_bytes: int = UNLIMITED) -> None:
        self.used_bytes = 0
        self._max_bytes = max_bytes if max_bytes > 0 else NO_LIMIT
        self._full_at = self._max_bytes
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self._full_at

    @property
    def room(self) -> int:
        """How many bytes are left until the memory ``is_full``."""
        return self._full_at - self.used_bytes

    def add(self, size: int) -> None:
        """Count ``size`` more bytes, or fewer if it is negative. If bytes are free now, call what
        has waited for that; it must not call ``add``."""
        self.used_bytes += size
        assert self.used_bytes >= 0, "more bytes were freed than were counted"
        if self._waiting:
            self._wake_if_free()

    def limit_to(self, size: int) -> None:
        """Set how many bytes the other kinds of memory leave."""
        self._full_at = min(self._max_bytes, size)
        if self._waiting:
            self._wake_if_free()

    def _wake_if_free(self) -> None:
        if self.used_bytes < self._full_at:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def wait(self, wake: Callable[[], None]) -> bool:
        """Call ``wake`` once when the memory is no longer full. Returns False if it waits
        already."""
        if wake in self._waiting:
            return False
        self._waiting[wake] = None
        return True

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiting.pop(wake, None)


# A response may have so many bytes of records in any case: consumers and followers must progress.
RESPONSE_BYTES_ANYWAY: Final = 1024 * 1024
# Responses to consumers take at most one of so many parts of the limit, and parked fetches of
# followers stay parked while all parked fetches take less than one of so many parts.
CONSUMER_SHARE: Final = 2
PARKED_SHARE: Final = 4


class MemoryBudget:
    """Accounts what the clients of a broker make it hold. ``max_bytes``
    (``client.memory.max.bytes``) limits the sum of five kinds:

    - frames (``frame_bytes``): large buffers that receive requests;
    - requests (``requests``): unanswered requests, and replies that wait for earlier ones;
    - responses (``response_bytes``): large replies that their clients have not taken;
    - parked fetches (``parked_fetch_bytes``): the partitions that they wait for;
    - fetch sessions (``session_bytes``): the partitions that they remember.

    The owner of each kind looks at the account when its kind is about to grow. When the memory is
    used up, only the frame that began first gets a larger buffer (``FrameMemory``), a connection
    with an unanswered request is not read (``RequestMemory``), responses are cut to the
    ``response_room``, the largest parked fetches complete at once (``ParkedFetches``), and
    consumers get no session. Nothing waits for ever: the first frame is received, every connection
    is served one request, every response may have ``RESPONSE_BYTES_ANYWAY``, and the fetches and
    sessions of followers are spared. The limit may be exceeded by as much.

    The default is half of the heap that Kafka starts with, which holds the same things there.

    ``max_request_bytes`` (``queued.max.request.bytes``) limits requests alone. For both limits 0 or
    less is unlimited.
    """

    def __init__(self, max_bytes: int = UNLIMITED, max_request_bytes: int = UNLIMITED) -> None:
        self.max_bytes = max_bytes if max_bytes > 0 else NO_LIMIT
        self.requests = RequestMemory(max_request_bytes)
        self.frame_bytes = 0
        self.response_bytes = 0
        self.parked_fetch_bytes = 0
        self.session_bytes = 0
        self._other_bytes = 0  # the sum of these four
        self._add(0)

    @property
    def used_bytes(self) -> int:
        return self.requests.used_bytes + self._other_bytes

    @property
    def is_exceeded(self) -> bool:
        return self.used_bytes > self.max_bytes

    @property
    def is_exceeded_by_parked(self) -> bool:
        """Whether the limit is exceeded, and parked fetches have a large part in it."""
        return self.is_exceeded and self.parked_fetch_bytes > self.max_bytes // PARKED_SHARE

    @property
    def session_room(self) -> int:
        """How many bytes all fetch sessions together may take now."""
        return max(0, self.max_bytes - self.used_bytes + self.session_bytes)

    def response_room(self, to_follower: bool) -> int:
        """Return how many bytes of records a response may have now."""
        room = self.max_bytes - self.used_bytes
        if not to_follower:
            room = min(room, self.max_bytes // CONSUMER_SHARE - self.response_bytes)
        return max(room, RESPONSE_BYTES_ANYWAY)

    def add_frames(self, size: int) -> None:
        """Count ``size`` more bytes of large receive buffers, or fewer if it is negative."""
        self.frame_bytes += size
        assert self.frame_bytes >= 0, "more bytes were freed than were taken"
        self._add(size)

    def add_responses(self, size: int) -> None:
        """Count ``size`` more bytes of replies that clients have not taken, or fewer if it is
        negative."""
        self.response_bytes += size
        assert self.response_bytes >= 0, "more bytes were taken than were sent"
        self._add(size)

    def add_parked_fetches(self, size: int) -> None:
        """Count ``size`` more bytes of parked fetches, or fewer if it is negative."""
        self.parked_fetch_bytes += size
        assert self.parked_fetch_bytes >= 0, "more fetches were completed than were parked"
        self._other_bytes += size  # ``_add``, written out for every parked Fetch
        self.requests.limit_to(self.max_bytes - self._other_bytes)

    def set_sessions(self, size: int) -> None:
        """Set the bytes of all fetch sessions."""
        if size != self.session_bytes:
            grown_by = size - self.session_bytes
            self.session_bytes = size
            self._add(grown_by)

    def _add(self, size: int) -> None:
        """Count bytes of the other kinds, and leave to requests what these do not take. So the
        account costs a request nothing."""
        self._other_bytes += size
        self.requests.limit_to(self.max_bytes - self._other_bytes)


# While connections wait for memory, the frame that began first has so long to become complete.
FIRST_FRAME_MS: Final = 10_000
LARGE_BUFFERS_SHARE: Final = 4


class Receiver(Protocol):
    """A connection, as ``FrameMemory`` sees it."""

    def receive_more(self) -> None:
        """Read on: the growth that was asked for is granted and counted."""

    def free_buffer(self) -> int:
        """Free the buffers that are kept for the next frame. Return the bytes that remain."""

    def refuse_frame(self) -> None:
        """Close the connection, because its frame takes too long while others wait."""


class FrameMemory:
    """Grants the growth of receive buffers, for the connections of one listener.

    A connection asks when its frame has filled its buffer. While the memory of clients is used up
    (``MemoryBudget``), only the frame that began first may take more: connections with later ones
    are not read. So one frame after the other becomes complete, and the limit is exceeded by one
    frame at most. If the first is not complete after ``FIRST_FRAME_MS``, its connection is closed:
    a client that sends half a frame and stops cannot make the others wait for ever.

    Buffers that are kept for later frames are freed when all large buffers together have more than
    one of ``LARGE_BUFFERS_SHARE`` parts of the limit.

    Kafka's MemoryPool takes the memory of a whole frame before its first byte is read, and all
    connections wait while there is none.
    """

    def __init__(self, budget: MemoryBudget, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._counted: dict[Receiver, int] = {}
        # Those with a frame under way in a large buffer, in the order in which these began, and
        # those that keep a large buffer for the next frame.
        self._under_way: dict[Receiver, int] = {}
        self._kept: dict[Receiver, None] = {}
        self._frames = 0  # began so far
        self._waiting: dict[Receiver, int] = {}  # the growth that they asked for
        self._turn: TimerHandle | None = None

    def hold(self, receiver: Receiver, size: int, is_under_way: bool) -> None:
        """Note that a connection has large buffers of ``size`` bytes, and whether a frame is under
        way in them."""
        self._count(receiver, size)
        if is_under_way and size:
            self._begin(receiver)
            return
        self.complete(receiver)
        if size:
            self._kept[receiver] = None
            if self._budget.frame_bytes > self._budget.max_bytes // LARGE_BUFFERS_SHARE:
                self._free_kept()

    def complete(self, receiver: Receiver) -> None:
        """The frame of a connection is no longer under way."""
        if self._under_way.pop(receiver, None) is not None and self._waiting:
            self._serve_soon()

    def grow(self, receiver: Receiver, growth: int) -> bool:
        """Return whether the frame under way may take ``growth`` more bytes, which are counted
        then. If not, the connection is not to be read until its ``receive_more`` is called."""
        self._begin(receiver)
        if not self._has_room(growth):
            self._free_kept()
        if self._has_room(growth) or self._first is receiver:
            self._count(receiver, self._counted.get(receiver, 0) + growth)
            return True
        self._wait(receiver, growth)
        return False

    def forget(self, receiver: Receiver) -> None:
        """A connection is lost, with its buffers."""
        self._waiting.pop(receiver, None)
        self._kept.pop(receiver, None)
        self._count(receiver, 0)
        self.complete(receiver)

    @property
    def _first(self) -> Receiver | None:
        return next(iter(self._under_way), None)

    def _begin(self, receiver: Receiver) -> None:
        self._kept.pop(receiver, None)
        if receiver not in self._under_way:
            self._frames += 1
            self._under_way[receiver] = self._frames

    def _count(self, receiver: Receiver, size: int) -> None:
        before = self._counted.pop(receiver, 0)
        if size:
            self._counted[receiver] = size
        if size != before:
            self._budget.add_frames(size - before)

    def _has_room(self, growth: int) -> bool:
        return self._budget.used_bytes + growth <= self._budget.max_bytes

    def _free_kept(self) -> None:
        kept, self._kept = self._kept, {}
        for receiver in kept:
            self._count(receiver, receiver.free_buffer())

    # -- waiting

    def _wait(self, receiver: Receiver, growth: int) -> None:
        self._waiting[receiver] = growth
        self._budget.requests.wait(self._serve_soon)
        self._begin_turn()

    def _serve_soon(self) -> None:
        """Called when memory is free, or another frame is the first. The caller is counting."""
        asyncio.get_running_loop().call_soon(self._serve_waiting)

    def _serve_waiting(self) -> None:
        first = self._first
        if first is not None and first in self._waiting:
            self._grant(first)
        while self._waiting:
            receiver, growth = next(iter(self._waiting.items()))
            if not self._has_room(growth):
                self._budget.requests.wait(self._serve_soon)
                self._begin_turn()
                return
            self._grant(receiver)

    def _grant(self, receiver: Receiver) -> None:
        growth = self._waiting.pop(receiver)
        self._count(receiver, self._counted.get(receiver, 0) + growth)
        receiver.receive_more()

    def _begin_turn(self) -> None:
        first = self._first
        if self._turn is None and first is not None:
            end = partial(self._end_turn, first, self._under_way[first])
            self._turn = self._clock.call_later(FIRST_FRAME_MS, end)

    def _end_turn(self, receiver: Receiver, frame: int) -> None:
        self._turn = None
        if self._waiting:
            if self._under_way.get(receiver) == frame:
                self.complete(receiver)
                receiver.refuse_frame()
            self._begin_turn()
