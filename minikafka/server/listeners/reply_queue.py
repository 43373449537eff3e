"""The reply queue of one connection: replies leave in the order of requests, several in one write.

A request that is not answered at once has a ``ReplySlot``. It is filled at any time, and its reply
leaves when all earlier requests have theirs. The replies of one read leave together after its last
frame. A later reply is written at once if no request is unanswered then; others are written
together in the next turn of the loop, and large ones one connection after the other
(``LargeWrites``). A queue has one of these states:

    state      event                                               next state
    IDLE       a read begins                                       READ
    IDLE       a small reply is ready, and no request is waiting   IDLE
    IDLE       a reply is ready, and a request is waiting          SCHEDULED
    IDLE       a large reply is ready                              SCHEDULED
    READ       the read ends, and the replies are written          IDLE
    SCHEDULED  a read begins                                       READ
    SCHEDULED  next turn, small replies are written                IDLE
    SCHEDULED  next turn, large replies get in line                LARGE
    LARGE      a read begins                                       READ
    LARGE      its turn in line, the replies are written           IDLE
    any        end                                                 ENDED

Any other event leaves the state as it is. An ended queue drops replies.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

from minikafka.kernel.ports import Buffer
from minikafka.server.listeners.flow_control import PAUSED, FlowControl, Pause
from minikafka.server.listeners.listener_resources import ListenerResources

_JOIN_MAX_BYTES: Final = 64 * 1024  # replies that are together smaller are joined, with a copy
# Larger deferred replies are written one connection after the other (``LargeWrites``). The system
# takes no more than SOCKET_BYTES of a reply at once.
LARGE_REPLY_BYTES: Final = 256 * 1024
SOCKET_BYTES: Final = 4 * 1024 * 1024

# A whole frame with its size prefix, in one buffer or several; None for a request without reply.
ReplyBytes: TypeAlias = Buffer | Sequence[Buffer] | None


class ReplyState(Enum):
    """How ready replies are written, see the table above."""

    IDLE = auto()
    READ = auto()
    SCHEDULED = auto()
    LARGE = auto()
    ENDED = auto()


_IDLE: Final = ReplyState.IDLE
_READ: Final = ReplyState.READ
_SCHEDULED: Final = ReplyState.SCHEDULED
_ENDED: Final = ReplyState.ENDED


class Refusal(NamedTuple):
    """Fills a slot whose reply cannot be encoded: the connection is closed in its place."""

    reason: str
    facts: dict[str, object]


class ReplyTimes(Protocol):
    """Is notified of what happens to replies."""

    def response_waited(self, waited_us: int) -> None: ...

    def response_sent(self, took_us: int) -> None: ...


class ReplySlot:
    """The place of one reply in its connection's order. Call ``send`` or ``refuse`` exactly once,
    at any time. A reply to a closed connection is dropped."""

    __slots__ = ("_queue", "is_sent", "number", "ready_ns", "reply", "request_bytes", "times")

    def __init__(self, queue: ReplyQueue, number: int, request_bytes: int) -> None:
        self.number = number  # of the request on its connection, from 1
        self._queue = queue
        self.request_bytes = request_bytes
        self.reply: ReplyBytes | Refusal = None
        self.is_sent = False
        self.times: ReplyTimes | None = None
        self.ready_ns = 0  # since when the reply waits for those of earlier requests

    def send(self, reply: ReplyBytes) -> None:
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        self.reply = reply
        self._queue.resolve(self)

    def refuse(self, reason: str, **facts: object) -> None:
        """Close the connection because the reply cannot be encoded, and log ``reason``. Replies to
        earlier requests are sent first; later requests are not served."""
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        self.reply = Refusal(reason, facts)
        self._queue.resolve(self)


class ReplyQueue:
    """The unanswered requests of one connection, and the replies that are ready."""

    __slots__ = (
        "_counted_unsent",
        "_flow",
        "_last_times",
        "_out",
        "_replies",
        "_requests",
        "_resources",
        "_sending",
        "_sending_ns",
        "_transport",
        "_written_unsent",
        "out_bytes",
        "state",
        "unanswered",
    )

    def __init__(
        self, resources: ListenerResources, flow: FlowControl, unanswered: deque[ReplySlot]
    ) -> None:
        self.state = _IDLE
        # Requests that were served and whose reply was not written. Bound: queued_max_requests.
        self.unanswered = unanswered
        self.out_bytes = 0
        self._out: list[Buffer] = []  # ready, not written: within one read, or one reply
        self._requests = 0  # served so far
        self._replies = 0  # of these, those whose reply was handed to ``_out``
        self._last_times: ReplyTimes | None = None  # of the last of them
        # The last reply of a write that the peer has not taken yet, and since when.
        self._sending: ReplyTimes | None = None
        self._sending_ns = 0
        # Bytes of the replies written since the transport was last empty: it holds a reply whole
        # until its last byte is taken. And how many are counted in the budget's ``response_bytes``.
        self._written_unsent = 0
        self._counted_unsent = 0
        self._resources = resources
        self._flow = flow
        self._transport: asyncio.Transport | None = None

    def opened(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._limit_writes(transport)

    # -- the order of replies

    def open_slot(self, request_bytes: int) -> ReplySlot:
        self._requests += 1
        slot = ReplySlot(self, self._requests, request_bytes)
        if self.state is not _ENDED:
            self.unanswered.append(slot)
            self._flow.count(request_bytes)
        return slot

    def send_now(self, reply: ReplyBytes, times: ReplyTimes) -> None:
        """Send the reply to the request that is served now, which has no slot."""
        if self.state is not _READ:
            assert self.state is _ENDED, "a reply after the read needs a slot"
            return
        assert not self.unanswered, "earlier requests wait for their replies"
        self._replies = self._requests = self._requests + 1
        self._last_times = times
        if reply is not None:
            self._add(reply)

    def resolve(self, slot: ReplySlot) -> None:
        """Send the reply of a slot that was filled, and those of the filled slots behind it. If an
        earlier request has no reply yet, they wait for it."""
        if self.state is _ENDED:
            return
        slots, flow = self.unanswered, self._flow
        if slots[0] is not slot:
            if isinstance(slot.reply, Refusal) and flow.connection is not None:
                flow.connection.stop_serving()
            flow.count(reply_size(slot.reply))
            slot.ready_ns = self._resources.now_ns()
            return
        self._send(slots.popleft())
        freed = slot.request_bytes
        while slots and slots[0].is_sent:
            held = slots.popleft()
            if held.times is not None:
                held.times.response_waited((self._resources.now_ns() - held.ready_ns) // 1000)
            freed += held.request_bytes + reply_size(held.reply)
            self._send(held)
        flow.answered(freed)
        if self.state is _READ:
            return
        if self._out and self.state is _IDLE:
            if slots or self.out_bytes > LARGE_REPLY_BYTES:
                self.state = _SCHEDULED
                asyncio.get_running_loop().call_soon(self._write_scheduled)
            else:  # no other reply could join this write
                self.flush()
        if flow.state is PAUSED:
            flow.resume()

    def _send(self, slot: ReplySlot) -> None:
        assert slot.number == self._replies + 1, f"reply {slot.number} after {self._replies}"
        self._replies = slot.number
        self._last_times = slot.times
        reply = slot.reply
        slot.reply = None  # free it now: the parked operation may keep the slot much longer
        if not isinstance(reply, Refusal):
            if reply is not None:
                self._add(reply)
        elif self._flow.connection is not None:
            self._flow.connection.refuse(reply.reason, **reply.facts)

    def _add(self, reply: Buffer | Sequence[Buffer]) -> None:
        if isinstance(reply, (bytes, bytearray, memoryview)):  # mostly bytes
            self._out.append(reply)
            self.out_bytes += len(reply)
        else:
            self._out.extend(reply)
            self.out_bytes += reply_size(reply)

    # -- writing

    def begin_read(self) -> None:
        self.state = _READ

    def end_read(self) -> None:
        if self.state is _READ:
            self.state = _IDLE
            if self._out:
                self.flush()

    def _write_scheduled(self) -> None:
        if self.state is not _SCHEDULED:
            return
        if self.out_bytes > LARGE_REPLY_BYTES:
            self.state = ReplyState.LARGE
            self._count_unsent(self._written_unsent + self.out_bytes)
            self._resources.large_writes.add(self)
        else:
            self.state = _IDLE
            self.flush()

    def write_large(self) -> int:
        """Write the ready replies. Return how many bytes the system may have copied."""
        size = self.out_bytes
        if self.state is not _ENDED:
            self.state = _IDLE
            self.flush()
        if Pause.WRITE_BUFFER not in self._flow.reasons:
            self._count_unsent(0)
        return min(size, SOCKET_BYTES)

    def flush(self) -> None:
        """Write the ready replies."""
        out, size, transport = self._out, self.out_bytes, self._transport
        if not out or transport is None:
            return
        self._out, self.out_bytes = [], 0
        if size > LARGE_REPLY_BYTES:
            transport.set_write_buffer_limits(0, 0)  # be paused until the last byte is taken
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_MAX_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        reasons = self._flow.reasons
        if reasons and Pause.WRITE_BUFFER in reasons:
            self._check_unsent(size, transport)
        elif size > LARGE_REPLY_BYTES:
            self._limit_writes(transport)

    def _check_unsent(self, size: int, transport: asyncio.Transport) -> None:
        """Count ``size`` bytes that were written to a peer that takes too little."""
        unsent = transport.get_write_buffer_size()
        self._written_unsent += size
        self._count_unsent(self._written_unsent)
        connection = self._flow.connection
        if unsent > self._resources.config.write_max_bytes and connection is not None:
            connection.abort("slow_reader", unsent_bytes=unsent)

    def _limit_writes(self, transport: asyncio.Transport) -> None:
        config = self._resources.config
        transport.set_write_buffer_limits(
            config.write_high_water_bytes, config.write_low_water_bytes
        )

    def _count_unsent(self, size: int) -> None:
        """Count ``size`` bytes of replies as not taken by the peer, instead of those counted
        before."""
        if size != self._counted_unsent:
            self._resources.budget.add_responses(size - self._counted_unsent)
            self._counted_unsent = size

    def writing_paused(self) -> None:
        """Note that the peer has not taken the last write."""
        self._sending, self._sending_ns = self._last_times, self._resources.now_ns()

    def writing_resumed(self) -> None:
        """Note that the peer has taken what was written, or most of it."""
        if self._sending is not None:
            self._sending.response_sent((self._resources.now_ns() - self._sending_ns) // 1000)
            self._sending = None
        self._written_unsent = 0
        self._count_unsent(0)
        if self._transport is not None:
            self._limit_writes(self._transport)

    def end(self) -> None:
        """Drop the replies that are ready and those to come: the connection is closed."""
        self.state = _ENDED
        self.unanswered.clear()
        self._out.clear()
        self.out_bytes = 0

    def lost(self) -> None:
        """Count nothing of what was written: the transport has dropped it."""
        self._count_unsent(0)
        self._transport = None  # that of TLS goes on to refer to its connection


def reply_size(reply: ReplyBytes | Refusal) -> int:
    if reply is None or isinstance(reply, Refusal):
        return 0
    if isinstance(reply, (bytes, bytearray, memoryview)):
        return len(reply)
    return sum(map(len, reply))
