"""The simulated wires: delays, order, cuts and clogs between hosts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.loop import SimLoop
from minikafka.world.sim.trace import Trace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """How the wires behave. ``split_probability``: a write arrives in more than one piece.
    ``give_up_us``: as long as Linux retransmits before it gives a connection up (tcp_retries2)."""

    min_delay_us: int = 50
    max_delay_us: int = 1000
    split_probability: float = 0.1
    window_bytes: int = 256 * 1024
    connect_timeout_us: int = 127_000_000
    give_up_us: int = 924_000_000


class Links:
    """The open and blocked directions between hosts, and the lanes on them.

    A direction is open unless it is blocked or one of its ends is dark (without power). Bytes
    never vanish from the middle of a lane, as TCP sends them again: a blocked lane holds them,
    and lets them go, in order, when it is opened again.
    """

    def __init__(
        self, loop: SimLoop, entropy: SimEntropy, trace: Trace, profile: LinkProfile
    ) -> None:
        self.loop = loop
        self.entropy = entropy
        self.trace = trace
        self.profile = profile
        self.context: Context = copy_context()  # of nobody: for what happens on the wire
        self._blocked: set[tuple[str, str]] = set()
        self._dark: set[str] = set()
        self._lanes: dict[Lane[object], None] = {}
        self._listeners: list[Callable[[], None]] = []

    def is_open(self, source: str, target: str) -> bool:
        return (
            (source, target) not in self._blocked
            and source not in self._dark
            and target not in self._dark
        )

    def block(self, source: str, target: str) -> None:
        """Block one direction until ``open``."""
        self._blocked.add((source, target))
        self._changed()

    def open(self, source: str, target: str) -> None:
        self._blocked.discard((source, target))
        self._changed()

    def open_all(self) -> None:
        """Undo every block; hosts without power stay dark."""
        self._blocked.clear()
        self._changed()

    def is_dark(self, host: str) -> bool:
        return host in self._dark

    def set_dark(self, host: str, dark: bool) -> None:
        """Without power a host neither sends nor receives, nor refuses."""
        if dark:
            self._dark.add(host)
        else:
            self._dark.discard(host)
        self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _changed(self) -> None:
        for lane in list(self._lanes):
            lane.look()
        for listener in self._listeners:
            listener()

    def delay_us(self, source: str, target: str) -> int:
        low, high = self.profile.min_delay_us, self.profile.max_delay_us
        if source == target:
            low, high = max(1, low // 10), max(1, high // 10)
        return self.entropy.between(low, high)

    def add(self, lane: Lane[object]) -> None:
        self._lanes[lane] = None

    def remove(self, lane: Lane[object]) -> None:
        self._lanes.pop(lane, None)


class Lane(Generic[T]):
    """One direction of one connection: things arrive in order, each after a random delay.

    ``deliver`` is called in the wire's context, so it must not run a process's code itself.
    ``give_up`` is called when something has been held for ``LinkProfile.give_up_us``.
    """

    def __init__(
        self,
        links: Links,
        source: str,
        target: str,
        deliver: Callable[[T], None],
        give_up: Callable[[], None] | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self._links = links
        self._deliver = deliver
        self._give_up = give_up
        self._moving: deque[tuple[int, T]] = deque()  # bounded by its users' windows
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._held = False
        self._closed = False
        links.add(self)  # type: ignore[arg-type]

    def send(self, thing: T) -> None:
        """Send a thing; ignored on a closed lane."""
        if self._closed:
            return
        links = self._links
        arrival_us = links.loop.now_us + links.delay_us(self.source, self.target)
        if self._moving and self._moving[-1][0] > arrival_us:
            arrival_us = self._moving[-1][0]
        self._moving.append((arrival_us, thing))
        self.look()

    def look(self) -> None:
        """After a change: go on if the lane is open, hold if it is blocked."""
        if not self._moving or self._closed:
            return
        if not self._links.is_open(self.source, self.target):
            self._hold()
        elif self._timer is None:
            if self._held:
                self._release()
            self._timer = self._links.loop.call_at_us(
                self._moving[0][0], self._arrive, context=self._links.context
            )

    def _hold(self) -> None:
        self._held = True
        self._stop_timers(keep_patience=True)
        if self._patience is None and self._give_up is not None:
            self._patience = self._links.loop.call_at_us(
                self._links.loop.now_us + self._links.profile.give_up_us,
                self._give_up,
                context=self._links.context,
            )

    def _release(self) -> None:
        """Send the held things again after the lane was opened."""
        self._held = False
        self._stop_timers()
        links = self._links
        earliest_us = links.loop.now_us + links.delay_us(self.source, self.target)
        held, self._moving = self._moving, deque()
        for arrival_us, thing in held:
            self._moving.append((max(arrival_us, earliest_us), thing))

    def _stop_timers(self, keep_patience: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._patience is not None and not keep_patience:
            self._patience.cancel()
            self._patience = None

    def _arrive(self) -> None:
        self._timer = None
        now_us = self._links.loop.now_us
        while self._moving and self._moving[0][0] <= now_us:
            self._deliver(self._moving.popleft()[1])
        self.look()

    def rush(self) -> None:
        """Deliver at once what is under way, as far as the lane is open."""
        while self._moving and self._links.is_open(self.source, self.target):
            self._deliver(self._moving.popleft()[1])

    def drop(self) -> None:
        """Lose all things under way."""
        self._moving.clear()
        self._stop_timers()

    def close(self) -> None:
        self.drop()
        self._closed = True
        self._links.remove(self)  # type: ignore[arg-type]
