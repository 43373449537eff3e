"""The links between the brokers of a process and their clients: what a test cuts or slows.

Each end of a connection that a broker has is a ``LinkEnd``. Without a fault the loop calls the
protocol directly, and what the protocol writes is written to the transport directly. A fault puts a
queue in front of both.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, cast
from weakref import WeakSet, WeakValueDictionary

from minikafka.kernel.ports import ProtocolFactory

Buffer: TypeAlias = bytes | bytearray | memoryview
PIECE_BYTES: Final = 64 * 1024


class LinkFault:
    """Cuts or slows the links between ``broker`` and ``other``; None stands for all others, with
    the clients. ``struck`` is called for each piece of data, or connection, that is held back."""

    def __init__(self, broker: int, other: int | None, delay_s: float | None = None) -> None:
        self.delay_s = delay_s  # None: nothing passes
        self.struck: Callable[[], None] = lambda: None
        self._broker = broker
        self._other = other

    def concerns(self, one: int, other: int | None) -> bool:
        """Whether the link of broker ``one`` to ``other``, None for a client, has the fault."""
        if self._other is None:
            return self._broker in (one, other)
        return {self._broker, self._other} == {one, other}


class LinkState(NamedTuple):
    """What the faults make of one link."""

    is_cut: bool
    delay_s: float
    faults: tuple[LinkFault, ...]

    def strike(self) -> None:
        for fault in self.faults:
            fault.struck()


WHOLE: Final = LinkState(False, 0.0, ())


class ClusterLinks:
    """All links of a cluster, on its event loop."""

    def __init__(self) -> None:
        self._faults: list[LinkFault] = []
        self._ends: WeakSet[LinkEnd] = WeakSet()
        self._listeners: dict[int, int] = {}  # the broker of a port
        self._connected: WeakValueDictionary[int, LinkEnd] = WeakValueDictionary()  # by local port
        self._changed = asyncio.Event()

    def add(self, fault: LinkFault) -> None:
        self._faults.append(fault)
        self._apply()

    def remove(self, fault: LinkFault) -> None:
        """End a fault. What it holds back goes on; a fault that is not there is ignored."""
        if fault in self._faults:
            self._faults.remove(fault)
            self._apply()

    def listens(self, port: int, broker: int) -> None:
        self._listeners[port] = broker

    def connected(self, port: int, end: LinkEnd) -> None:
        """Note that a broker has connected from a local port."""
        self._connected[port] = end

    def broker_at(self, port: int) -> int | None:
        """Return the broker that listens on a port or has connected from it; None for a client."""
        end = self._connected.get(port)
        if end is not None and not end.is_gone:
            return end.broker
        return self._listeners.get(port)

    def state(self, one: int, other: int | None) -> LinkState:
        if not self._faults or one == other:  # a broker reaches itself
            return WHOLE
        found = tuple(fault for fault in self._faults if fault.concerns(one, other))
        delays = [fault.delay_s for fault in found if fault.delay_s is not None]
        return LinkState(len(delays) < len(found), sum(delays), found)

    async def until_open(self, one: int, port: int) -> None:
        """Wait as long as a link that is cut or slow delays a new connection of broker ``one``."""
        other = self.broker_at(port)
        state = self.state(one, other)
        if state.faults:
            state.strike()
            await asyncio.sleep(state.delay_s)
        while self.state(one, other).is_cut:
            self._changed.clear()
            await self._changed.wait()

    def opened(self, end: LinkEnd) -> None:
        self._ends.add(end)
        if self._faults:
            asyncio.get_running_loop().call_soon(end.apply)

    def _apply(self) -> None:
        self._changed.set()
        for end in list(self._ends):
            end.apply()


class LinkEnd(asyncio.Transport, asyncio.BufferedProtocol):
    """One end of a connection of ``broker``: the transport of the broker's protocol. It is also the
    protocol of the loop's transport until the connection is made, and while its link has a fault.

    ``listener_port`` is the port that it connects to, 0 for an accepted connection. Each end holds
    back what it sends; the end of a client's connection also what it receives.

    The protocol refers to its end. So the end refers to the protocol only while the loop's
    transport, which forgets its protocol when the connection is lost, does not: an end would stay
    in memory until a garbage collection.
    """

    def __init__(
        self, links: ClusterLinks, broker: int, listener_port: int, factory: ProtocolFactory
    ) -> None:
        super().__init__()
        self.broker = broker
        self.is_closed = False  # by the protocol
        self.reading_paused = False  # by the protocol
        self.held_bytes = 0  # to be sent
        self._links = links
        self._is_outgoing = listener_port != 0
        self._other_port = listener_port
        self._factory: ProtocolFactory | None = factory  # until the connection is made
        self._below: asyncio.Transport
        self._protocol: asyncio.BufferedProtocol | None = None  # unless the loop calls it directly
        self._state = WHOLE
        self._sends: deque[tuple[float, bytes | None]] = deque()  # with due times; None: close
        self._receipts: deque[tuple[float, bytes]] = deque()
        self._piece = bytearray()
        self._lost: Exception | None = None
        self._is_lost = False
        self._is_between = False  # whether the loop calls this object instead of the protocol
        self._is_passing = False  # ``_go_on`` runs
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gone(self) -> bool:
        return self._below.is_closing()

    def apply(self) -> None:
        """Do what the faults of the link say now."""
        if self._below.is_closing():
            return
        self._state = state = self._links.state(self.broker, self._other)
        if state.faults and not self._is_between:
            self._is_between = True
            self._protocol = cast(asyncio.BufferedProtocol, self._below.get_protocol())
            self._below.set_protocol(self)
            del self.write, self.writelines
        if not self.reading_paused and not self._is_full:
            self._below.resume_reading()
        self._go_on()

    @property
    def _is_full(self) -> bool:
        """Whether nothing more is read: behind a cut one piece is taken, as that is a hit."""
        return self._state.is_cut and bool(self._receipts)

    @property
    def _other(self) -> int | None:
        return self._links.broker_at(self._other_port)

    # ------------------------------------------------------------------------------- the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's
        if self._is_outgoing:
            own = transport.get_extra_info("sockname")
            self._links.connected(own[1] if own else 0, self)
        else:
            peer = transport.get_extra_info("peername")
            self._other_port = peer[1] if peer else 0
        assert self._factory is not None, "a connection is made once"
        protocol, self._factory = self._factory(), None
        self._pass_writes()
        self._below.set_protocol(protocol)
        protocol.connection_made(self)
        self._links.opened(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        if not self._piece:
            self._piece = bytearray(PIECE_BYTES)
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._piece[:nbytes])
        due = 0.0
        if self._other is None and self._state.faults:  # a broker's end has held it back
            self._state.strike()
            due = self._due()
        self._receipts.append((due, data))
        if self._is_full:
            self._below.pause_reading()
        self._go_on()

    def eof_received(self) -> None:
        """The connection is closed next."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self._is_lost = exc, True
        self._sends.clear()
        self.held_bytes = 0
        self._go_on()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    # --------------------------------------------------------------------------- the protocol calls

    def write(self, data: Buffer) -> None:
        """Queue data. Without a fault the transport's own method takes its place."""
        if self.is_closed or self._is_lost:
            return
        if self._state.faults:
            self._state.strike()
        self._sends.append((self._due(), bytes(data)))
        self.held_bytes += len(data)
        self._go_on()

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(pieces))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self.is_closed or self._below.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise RuntimeError("the protocol of a link's end does not change")

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._below.get_protocol() if self._protocol is None else self._protocol

    def is_reading(self) -> bool:
        return not self.reading_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._below.get_write_buffer_limits()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size() + self.held_bytes

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self._end(self._below.close)

    def abort(self) -> None:
        self._sends.clear()
        self.held_bytes = 0
        self._end(self._below.abort)

    def _end(self, end: Callable[[], None]) -> None:
        """End the connection; behind a fault the other side sees it later."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self._is_between:
            end()
            return
        self._sends.append((self._due(), None))
        self._receipts.clear()
        asyncio.get_running_loop().call_soon(self._report_loss)
        self._go_on()

    def pause_reading(self) -> None:
        self.reading_paused = True
        if not self._below.is_closing():
            self._below.pause_reading()

    def resume_reading(self) -> None:
        self.reading_paused = False
        if not self._is_full and not self._below.is_closing():
            self._below.resume_reading()
        if self._receipts:
            asyncio.get_running_loop().call_soon(self._go_on)

    # -------------------------------------------------------------------------------------- details

    def _pass_writes(self) -> None:
        self.write = self._below.write  # type: ignore[method-assign]
        self.writelines = self._below.writelines  # type: ignore[method-assign, assignment]

    def _due(self) -> float:
        return asyncio.get_running_loop().time() + self._state.delay_s

    def _go_on(self) -> None:
        """Pass what is due, and return to the direct way when no fault is left. What the protocol
        does meanwhile, such as to write, comes back here and is left to the call that runs."""
        if self._state.is_cut or self._is_passing:
            return
        self._is_passing = True
        try:
            while self._pass_one():
                pass
        finally:
            self._is_passing = False
        if self._is_lost and not self._receipts:
            self._report_loss()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state.faults:
            receipts = () if self.reading_paused else self._receipts
            due = [queue[0][0] for queue in (self._sends, receipts) if queue]
            if due:
                self._timer = asyncio.get_running_loop().call_at(min(due), self._go_on)
        elif not (self._sends or self._receipts or self.is_closed) and self._is_between:
            self._is_between = False
            self._pass_writes()
            protocol, self._protocol = self._protocol, None
            if protocol is not None and not self._is_lost:
                self._below.set_protocol(protocol)

    def _pass_one(self) -> bool:
        """Pass the next piece that is due. False if there is none."""
        if self._state.is_cut:
            return False
        now = asyncio.get_running_loop().time() if self._state.faults else float("inf")
        if self._sends and self._sends[0][0] <= now:
            self._send(self._sends.popleft()[1])
        elif self._receipts and self._receipts[0][0] <= now and not self.reading_paused:
            self._deliver(*self._receipts.popleft())
        else:
            return False
        return True

    def _send(self, data: bytes | None) -> None:
        if data is None:
            self._below.close()
        else:
            self.held_bytes -= len(data)
            self._below.write(data)

    def _deliver(self, due: float, data: bytes) -> None:
        """Give data to the protocol, until it pauses reading or closes."""
        at, protocol = 0, self._protocol
        while at < len(data) and protocol is not None and not self.is_closed:
            if self.reading_paused:
                self._receipts.appendleft((due, data[at:]))
                return
            buffer = memoryview(protocol.get_buffer(len(data) - at)).cast("B")
            count = min(len(buffer), len(data) - at)
            buffer[:count] = data[at : at + count]
            protocol.buffer_updated(count)
            at += count

    def _report_loss(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(self._lost)
