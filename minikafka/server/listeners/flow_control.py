"""The flow control of one connection: for which reasons it is neither served nor read.

A connection has a set of reasons (``Pause``). Each begins and ends by itself:

    reason          begins when                                       ends when
    STARTING        it opens while the broker serves nothing yet      the broker serves requests
    MUTED           a quota is exceeded                               the delay of the quota is over
    WRITE_BUFFER    the peer does not take its replies                it has taken most of them
    FRAME_MEMORY    its frame under way may not take more memory      it may
    AFTER_REPLIES   its handler defers a frame                        no request is unanswered
    QUEUE           queued.max.requests or queued_max_bytes is held   half of both is held
    REQUEST_MEMORY  request memory is used up, and it holds some      some is free, or it holds none
    CLOSING         it is refused or closed                           never

While there is a reason the connection serves no frame. Reading goes on until a frame arrives, or
until ``pause``, so that TCP slows the client down. When the last reason has ended, the connection
serves the frames that it holds, and reads on. It does so in the next turn of the loop, since a
reason often ends within a handler: to serve at once would call another handler inside it.

    state      event                                    next state
    READING    pause                                    PAUSED
    PAUSED     resume without a reason                  RESUMING
    RESUMING   next turn with a reason                  PAUSED
    RESUMING   next turn, held frames have to wait      PAUSED
    RESUMING   next turn, some held frames are served   RESUMING
    RESUMING   next turn, all held frames are served    READING
    any        end                                      ENDED

Any other event leaves the state as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from enum import Enum, IntEnum, auto
from typing import Final, Protocol

from minikafka.kernel.ports import TimerHandle
from minikafka.server.listeners.connected_clients import ConnectedClient
from minikafka.server.listeners.listener_resources import ListenerResources


class Pause(IntEnum):
    """Why a connection is neither served nor read, see the first table."""

    STARTING = auto()
    MUTED = auto()
    WRITE_BUFFER = auto()
    FRAME_MEMORY = auto()
    AFTER_REPLIES = auto()
    QUEUE = auto()
    REQUEST_MEMORY = auto()
    CLOSING = auto()


class FlowState(Enum):
    """What the transport does, see the second table."""

    READING = auto()
    PAUSED = auto()
    RESUMING = auto()
    ENDED = auto()


READING: Final = FlowState.READING
PAUSED: Final = FlowState.PAUSED
RESUMING: Final = FlowState.RESUMING
ENDED: Final = FlowState.ENDED


class PausedConnection(ConnectedClient, Protocol):
    """A connection, as its flow control and its reply queue see it."""

    def serve_held(self) -> None:
        """Serve the held frames. Those that have to wait are held again, with ``pause``."""

    def stop_serving(self) -> None: ...

    def refuse(self, reason: str, **facts: object) -> None: ...

    def abort(self, reason: str, **facts: object) -> None: ...


class FlowControl:
    """The reasons and the state of one connection, and the bytes of its unanswered requests."""

    __slots__ = (
        "_config",
        "_memory",
        "_muted_until_ms",
        "_resources",
        "_unanswered",
        "_unmute",
        "connection",
        "queued_bytes",
        "reasons",
        "state",
        "transport",
    )

    def __init__(
        self, resources: ListenerResources, unanswered: Sized, connection: PausedConnection
    ) -> None:
        self.state = READING
        self.reasons: set[Pause] = set()
        # Of unanswered requests, and of replies that wait for earlier ones.
        self.queued_bytes = 0
        self._unanswered = unanswered
        self._resources = resources
        self._config = resources.config
        self._memory = resources.memory
        self.connection: PausedConnection | None = connection  # until ``end``
        self.transport: asyncio.Transport | None = None
        self._muted_until_ms = 0
        self._unmute: TimerHandle | None = None

    # -- reading and stopping

    def must_wait(self) -> bool:
        """Begin QUEUE or REQUEST_MEMORY if a limit is reached. Return whether there is a reason."""
        waiting = len(self._unanswered)
        if waiting:
            config, queued_bytes = self._config, self.queued_bytes
            if waiting >= config.queued_max_requests or queued_bytes >= config.queued_max_bytes:
                self.reasons.add(Pause.QUEUE)
            if queued_bytes > 0 and self._memory.is_full:
                self._await_memory()
        return bool(self.reasons)

    def pause(self) -> None:
        """Stop reading, until ``resume`` finds no reason."""
        if self.state is READING and self.transport is not None:
            self.state = PAUSED
            self.transport.pause_reading()

    def begin(self, reason: Pause) -> None:
        """Begin a reason for which nothing more is read."""
        self.reasons.add(reason)
        self.pause()

    def end_reason(self, reason: Pause) -> None:
        self.reasons.discard(reason)
        self.resume()

    def resume(self) -> None:
        """If no reason is left, serve and read on in the next turn of the loop."""
        if self.state is PAUSED and not self.must_wait():
            self.state = RESUMING
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        if self.connection is None:
            return
        self.state = PAUSED
        self.connection.serve_held()
        self._read_on()

    def _read_on(self) -> None:
        if self.state is PAUSED and self.transport is not None and not self.must_wait():
            self.state = READING
            self.transport.resume_reading()

    # -- the reasons

    def defer_frame(self) -> None:
        """Begin AFTER_REPLIES, if a request is unanswered."""
        if self._unanswered:
            self.reasons.add(Pause.AFTER_REPLIES)

    def mute(self, delay_ms: int) -> None:
        """Begin MUTED for ``delay_ms``. Of several delays that which ends last counts."""
        clock, connection = self._resources.clock, self.connection
        until_ms = clock.monotonic_ms() + delay_ms
        if connection is None or until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        self._resources.clients.mute(connection, until_ms)
        self.reasons.add(Pause.MUTED)
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = clock.call_later(delay_ms, self._end_of_mute)

    def _end_of_mute(self) -> None:
        self._unmute = None
        self._muted_until_ms = 0  # a timer may be early, by less than a millisecond
        if self.connection is not None:
            self._resources.clients.unmute(self.connection)
        self.end_reason(Pause.MUTED)

    def count(self, size: int) -> None:
        """Count ``size`` more bytes of unanswered requests and of replies behind them."""
        self.queued_bytes += size
        self._memory.add(size)

    def answered(self, freed: int) -> None:
        """Count ``freed`` bytes less. End the reasons that this ends; ``resume`` is to follow."""
        if self.state is ENDED:
            return
        self.queued_bytes -= freed
        self._memory.add(-freed)
        reasons = self.reasons
        if not reasons:
            return
        waiting, queued_bytes, config = len(self._unanswered), self.queued_bytes, self._config
        if not waiting:
            reasons.discard(Pause.AFTER_REPLIES)
        if not queued_bytes:
            reasons.discard(Pause.REQUEST_MEMORY)
        few_bytes = queued_bytes <= config.queued_max_bytes // 2
        if few_bytes and waiting <= config.queued_max_requests // 2:
            reasons.discard(Pause.QUEUE)

    def _await_memory(self) -> None:
        self.reasons.add(Pause.REQUEST_MEMORY)
        if self._memory.wait(self._memory_is_free) and self.connection is not None:
            self._resources.log.warning(
                "request_memory_exhausted",
                client=self.connection.client_host,
                used_bytes=self._resources.budget.used_bytes,
            )

    def _memory_is_free(self) -> None:
        self.end_reason(Pause.REQUEST_MEMORY)

    def end(self) -> None:
        """Free what is counted. The connection is closed: it neither serves nor reads."""
        self.state = ENDED
        self.reasons.add(Pause.CLOSING)
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
        self._memory.forget(self._memory_is_free)
        self.count(-self.queued_bytes)
        self.connection = self.transport = None  # or they would keep each other in memory
