"""The simulated links between hosts: delays, order of delivery, blocked and slow directions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.loop import SimLoop
from minikafka.world.sim.trace import Trace

T = TypeVar("T")
Address: TypeAlias = tuple[str, int]


class Wiretap(Protocol):
    """Sees the bytes of all connections. It must not change what happens: it sets no timer and
    throws no dice, so a simulation with it equals one without."""

    def sent(self, source: Address, target: Address, piece: memoryview) -> None:
        """The next bytes of a direction leave ``source``."""

    def arrived(self, source: Address, target: Address, count: int) -> None:
        """The next ``count`` bytes of a direction have reached ``target``."""

    def stopped(self, source: Address, target: Address, passing: int | None) -> None:
        """The bytes in flight after the first ``passing`` are held; None: all move again."""

    def closed(self, client: Address, server: Address) -> None:
        """Both ends are closed: what has not arrived is lost."""

    def message_sent(self, lane: Lane[Any], message: object) -> None:
        """A message for ZooKeeper or from it, or the refusal of a connection, leaves. Messages of a
        lane arrive in order."""

    def message_arrived(self, lane: Lane[Any]) -> None:
        """The next message of the lane has arrived."""

    def messages_stopped(self, lane: Lane[Any], passing: int | None) -> None:
        """The messages in flight after the first ``passing`` are held; None: all move again."""

    def messages_lost(self, lane: Lane[Any]) -> None:
        """What is in flight on the lane is lost."""


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """The behaviour of all links.

    ``split_probability`` is the probability that a write arrives in several pieces. ``give_up_us``
    is the time after which a connection over a blocked link fails, as Linux stops to retransmit
    (tcp_retries2).
    """

    min_delay_us: int = 50
    max_delay_us: int = 1000
    split_probability: float = 0.1
    window_bytes: int = 256 * 1024
    connect_timeout_us: int = 127_000_000
    give_up_us: int = 924_000_000


class Links:
    """The directions between hosts, open or blocked, and the lanes of connections on them.

    A direction is open unless it is blocked or one of its hosts is dark (without power). A blocked
    lane holds its messages and delivers them in order when it is open again: TCP retransmits, so
    nothing is lost in the middle of a connection.
    """

    def __init__(
        self, loop: SimLoop, entropy: SimEntropy, trace: Trace, profile: LinkProfile
    ) -> None:
        self.loop = loop
        self.entropy = entropy
        self.trace = trace
        self.profile = profile
        self.wiretap: Wiretap | None = None
        self.context: Context = copy_context()  # of no process: callbacks of links run in it
        self._blocked: set[tuple[str, str]] = set()
        self._slow_us: dict[tuple[str, str], int] = {}
        self._dark: set[str] = set()
        self._lanes: dict[Lane[object], None] = {}
        self._listeners: list[Callable[[], None]] = []

    def is_open(self, source: str, target: str) -> bool:
        return (
            (source, target) not in self._blocked
            and source not in self._dark
            and target not in self._dark
        )

    def is_blocked(self, source: str, target: str) -> bool:
        """Return whether the direction is blocked, whether or not both hosts have power."""
        return (source, target) in self._blocked

    def block(self, source: str, target: str) -> None:
        """Block one direction until ``open``."""
        self._blocked.add((source, target))
        self._changed()

    def open(self, source: str, target: str) -> None:
        self._blocked.discard((source, target))
        self._changed()

    def open_all(self) -> None:
        """Open all blocked directions. Dark hosts stay dark."""
        self._blocked.clear()
        self._changed()

    def slow_us(self, source: str, target: str) -> int:
        """Return the delay that ``slow`` has added to a direction."""
        return self._slow_us.get((source, target), 0)

    def slow(self, source: str, target: str, extra_us: int) -> None:
        """Add ``extra_us`` to the delay of what is sent from now on; 0 ends that."""
        if extra_us:
            self._slow_us[source, target] = extra_us
        else:
            self._slow_us.pop((source, target), None)

    def is_held(self, source: str, target: str) -> bool:
        """Return whether a lane of this direction holds messages since ``Lane.hold_from``."""
        return any(
            lane.is_held and (lane.source, lane.target) == (source, target) for lane in self._lanes
        )

    def normalize(self, source: str, target: str) -> None:
        """End what ``slow`` and ``Lane.hold_from`` have done to a direction."""
        self._slow_us.pop((source, target), None)
        for lane in list(self._lanes):
            if (lane.source, lane.target) == (source, target):
                lane.release()

    def normalize_all(self) -> None:
        """Do the same for every direction."""
        self._slow_us.clear()
        for lane in list(self._lanes):
            lane.release()

    def is_dark(self, host: str) -> bool:
        return host in self._dark

    def set_dark(self, host: str, dark: bool) -> None:
        """Switch the power of a host off or on. A dark host sends nothing, not even refusals."""
        if dark:
            self._dark.add(host)
        else:
            self._dark.discard(host)
        self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _changed(self) -> None:
        for lane in list(self._lanes):
            lane.reschedule()
        for listener in self._listeners:
            listener()

    def delay_us(self, source: str, target: str) -> int:
        low, high = self.profile.min_delay_us, self.profile.max_delay_us
        if source == target:
            low, high = max(1, low // 10), max(1, high // 10)
        return self.entropy.between(low, high) + self._slow_us.get((source, target), 0)

    def add(self, lane: Lane[object]) -> None:
        self._lanes[lane] = None

    def remove(self, lane: Lane[object]) -> None:
        self._lanes.pop(lane, None)


class Lane(Generic[T]):
    """One direction of one connection. Messages arrive in order, each after a random delay.

    ``deliver`` is called in the context of the links, so it must not run code of a process itself.
    ``give_up`` is called when the lane has held messages for ``LinkProfile.give_up_us``.
    ``stopped`` is called when it begins to hold messages, with those before them, at each message
    that is sent meanwhile, and with None when it moves again.
    """

    def __init__(
        self,
        links: Links,
        source: str,
        target: str,
        deliver: Callable[[T], None],
        give_up: Callable[[], None] | None = None,
        stopped: Callable[[Sequence[T] | None], None] = lambda passing: None,
    ) -> None:
        self.source = source
        self.target = target
        self._links = links
        self._deliver = deliver
        self._give_up = give_up
        self._stopped = stopped
        self._in_flight: deque[tuple[int, T]] = deque()  # bounded by its users' windows
        self._timer: asyncio.TimerHandle | None = None
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._held = False
        self._may_pass: int | None = None  # messages in flight before those that are held
        self._closed = False
        links.add(self)  # type: ignore[arg-type]

    @property
    def is_held(self) -> bool:
        """Whether ``hold_from`` holds messages."""
        return self._may_pass is not None

    def in_flight(self) -> list[T]:
        """Return the messages that have not arrived, in their order."""
        return [message for _, message in self._in_flight]

    def hold_from(self, index: int) -> None:
        """Hold the message at ``index`` of those in flight, and all that follow it, until
        ``release``. A message that is held stays so."""
        self._may_pass = index if self._may_pass is None else min(index, self._may_pass)
        self._stopped(self.in_flight()[: self._may_pass])
        self.reschedule()

    def release(self) -> None:
        """Deliver what ``hold_from`` has held, after another delay."""
        if self._may_pass is not None:
            self._may_pass = None
            self.reschedule()
            if self._links.is_open(self.source, self.target):
                self._stopped(None)

    def send(self, message: T) -> None:
        """Send a message. On a closed lane it is dropped."""
        if self._closed:
            return
        links = self._links
        arrival_us = links.loop.now_us + links.delay_us(self.source, self.target)
        if self._in_flight and self._in_flight[-1][0] > arrival_us:
            arrival_us = self._in_flight[-1][0]
        self._in_flight.append((arrival_us, message))
        self.reschedule()

    def reschedule(self) -> None:
        """Schedule the next delivery, or hold the messages if the direction is blocked."""
        if not self._in_flight or self._closed:
            return
        if not self._is_open():
            self._hold()
        elif self._timer is None:
            if self._held:
                self._release()
            self._timer = self._links.loop.call_at_us(
                self._in_flight[0][0], self._arrive, context=self._links.context
            )

    def _is_open(self) -> bool:
        """Return whether the first message in flight may arrive."""
        return self._may_pass != 0 and self._links.is_open(self.source, self.target)

    def _hold(self) -> None:
        self._held = True
        self._stopped(())
        self._stop_timers(keep_give_up_timer=True)
        if self._give_up_timer is None and self._give_up is not None:
            self._give_up_timer = self._links.loop.call_at_us(
                self._links.loop.now_us + self._links.profile.give_up_us,
                self._give_up,
                context=self._links.context,
            )

    def _release(self) -> None:
        """Delay the held messages again, since they are retransmitted."""
        self._held = False
        self._stopped(None if self._may_pass is None else self.in_flight()[: self._may_pass])
        self._stop_timers()
        links = self._links
        earliest_us = links.loop.now_us + links.delay_us(self.source, self.target)
        held, self._in_flight = self._in_flight, deque()
        for arrival_us, message in held:
            self._in_flight.append((max(arrival_us, earliest_us), message))

    def _stop_timers(self, keep_give_up_timer: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._give_up_timer is not None and not keep_give_up_timer:
            self._give_up_timer.cancel()
            self._give_up_timer = None

    def _arrive(self) -> None:
        self._timer = None
        now_us = self._links.loop.now_us
        while self._in_flight and self._in_flight[0][0] <= now_us and self._may_pass != 0:
            self._deliver_first()
        self.reschedule()

    def _deliver_first(self) -> None:
        if self._may_pass is not None:
            self._may_pass -= 1
        self._deliver(self._in_flight.popleft()[1])

    def deliver_all(self) -> None:
        """Deliver all messages in flight at once, unless the direction is blocked."""
        while self._in_flight and self._is_open():
            self._deliver_first()

    def drop(self) -> None:
        """Lose all messages in flight, also those that are held."""
        self._in_flight.clear()
        self._may_pass = None
        self._stop_timers()

    def close(self) -> None:
        self.drop()
        self._closed = True
        self._links.remove(self)  # type: ignore[arg-type]
