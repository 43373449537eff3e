"""The memory of frames under way: which connection may take more of it when there is none left."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.server.listeners.memory_budget import MemoryBudget

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
