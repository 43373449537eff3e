"""The server side of connections: order of replies, bounds, and peers that misbehave."""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from minikafka.kernel.ports import ProtocolFactory, TlsOfListener
from minikafka.server.listeners.connection_quotas import ConnectionQuotaConfig, ConnectionQuotas
from minikafka.server.listeners.flow_control import Pause
from minikafka.server.listeners.listener_resources import ServerConfig
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server_connection import (
    FRAMES_AT_ONCE,
    IDLE_SWEEPS,
    ServerConnection,
)
from tests.support.network.network_lab import Lab, Peer, framed
from tests.support.network.wired_connection import WiredConnection


def reading_end(peer: Peer) -> asyncio.ReadTransport:
    """A socket's transport both reads and writes."""
    transport = peer.writer.transport
    assert isinstance(transport, asyncio.Transport)
    return transport


def echo(connection: ServerConnection, frame: memoryview) -> None:
    connection.open_slot(len(frame)).send(framed(bytes(frame)))


class Parking:
    """Parks frames that begin with ``p`` until told, echoes the others."""

    def __init__(self) -> None:
        self.parked: dict[bytes, ReplySlot] = {}
        self.seen = 0

    def __call__(self, connection: ServerConnection, frame: memoryview) -> bool | None:
        body = bytes(frame)
        self.seen += 1
        slot = connection.open_slot(len(body))
        if body.startswith(b"p"):
            self.parked[body] = slot
        else:
            slot.send(framed(body))
        return None

    def release(self, body: bytes, reply: bytes | None = None) -> None:
        self.parked.pop(body).send(framed(body) if reply is None else reply)


async def test_each_frame_gets_a_response(lab: Lab) -> None:
    server = await lab.serve(echo)
    peer = await lab.connect(server)
    for body in (b"", b"one", b"x" * 200_000):
        peer.send(body)
        assert await peer.receive() == body


@pytest.mark.mission("PRO-3")
async def test_pipelined_requests_get_responses_in_request_order(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1", b"a", b"p2", b"b")
    await lab.until(lambda: handler.seen == 4)
    handler.release(b"p2")
    peer.send(b"c")
    await lab.until(lambda: handler.seen == 5)
    handler.release(b"p1")
    assert [await peer.receive() for _ in range(5)] == [b"p1", b"a", b"p2", b"b", b"c"]


async def test_a_request_without_reply_keeps_its_place(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1", b"p2", b"a")
    await lab.until(lambda: handler.seen == 3)
    handler.parked.pop(b"p2").send(None)
    handler.parked.pop(b"p1").send(None)
    assert await peer.receive() == b"a"


async def test_replies_of_one_read_leave_in_one_write(lab: Lab) -> None:
    wire = WiredConnection(echo)
    for read in ([b"a", b"b", b"c"], [b"d"]):
        wire.receive(*read)
    assert wire.writes == [framed(b"a") + framed(b"b") + framed(b"c"), framed(b"d")]


async def test_a_reply_out_of_order_is_not_written(lab: Lab) -> None:
    """The order of slots is the order of requests: here a bug exchanges two of them."""
    handler = Parking()
    wire = WiredConnection(handler)
    wire.receive(b"p1", b"p2")
    wire.connection.unanswered.reverse()
    with pytest.raises(AssertionError, match="reply 2 after 0"):
        handler.release(b"p2")
    assert wire.writes == []


async def test_many_frames_of_one_read_are_served_in_turns(lab: Lab) -> None:
    wire = WiredConnection(echo)
    wire.receive(*[b"a"] * (2 * FRAMES_AT_ONCE + 1))
    turns: list[Any] = []
    while sum(turns) < 2 * FRAMES_AT_ONCE + 1:
        turns.append(sum(map(len, wire.writes)) // len(framed(b"a")))
        wire.writes.clear()
        await asyncio.sleep(0)
    assert turns == [FRAMES_AT_ONCE, FRAMES_AT_ONCE, 1]


async def test_parked_replies_that_become_ready_together_leave_in_one_write(lab: Lab) -> None:
    handler = Parking()
    wire = WiredConnection(handler)
    wire.receive(b"p1", b"p2", b"p3", b"p4")
    for body in (b"p1", b"p2"):
        handler.release(body)
    await asyncio.sleep(0)
    handler.release(b"p3")
    await asyncio.sleep(0)
    assert wire.writes == [framed(b"p1") + framed(b"p2"), framed(b"p3")]
    handler.release(b"p4")
    assert wire.writes[2:] == [framed(b"p4")], "no other request waits"
    wire.receive(b"p5", b"p6")
    handler.release(b"p5")
    wire.receive(b"a")
    assert wire.writes[3:] == [framed(b"p5")]
    handler.release(b"p6")
    assert wire.writes[4:] == [framed(b"p6") + framed(b"a")]


async def test_a_reply_may_come_in_parts(lab: Lab) -> None:
    body = b"head" + b"r" * 100_000

    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        parts = [framed(body)[:8], memoryview(body)[4:]]
        connection.open_slot(len(frame)).send(cast(Any, parts))

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    peer.send(b"x", b"y")
    assert await peer.receive() == body
    assert await peer.receive() == body


async def test_an_impossible_length_closes_that_connection_only(lab: Lab) -> None:
    server = await lab.serve(echo, ServerConfig(socket_request_max_bytes=1000))
    good, negative, huge = [await lab.connect(server) for _ in range(3)]
    negative.send(b"before")
    negative.writer.write(struct.pack(">i", -1))
    assert await negative.receive() == b"before"
    assert await negative.is_closed()
    huge.writer.write(framed(b"before") + struct.pack(">i", 1001))
    assert await huge.receive() == b"before"
    assert await huge.is_closed()
    good.send(b"still here")
    assert await good.receive() == b"still here"
    assert lab.log.reasons() == ["bad_frame", "bad_frame"]


@pytest.mark.parametrize("held", [False, True])
async def test_all_that_came_before_an_impossible_length_is_served(lab: Lab, held: bool) -> None:
    parked: list[ReplySlot] = []

    def on_frame(connection: ServerConnection, frame: memoryview) -> bool:
        if connection.unanswered:
            return True
        if held and not parked:
            parked.append(connection.open_slot(len(frame)))
        else:
            echo(connection, frame)
        return False

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    count = 3 * FRAMES_AT_ONCE
    peer.writer.write(framed(b"good") * count + struct.pack(">i", -1))
    if held:
        await lab.until(lambda: len(parked) == 1)
        parked[0].send(framed(b"good"))
    for _ in range(count):
        assert await peer.receive() == b"good"
    assert await peer.is_closed()
    assert lab.log.reasons() == ["bad_frame"]


class OneByOne(Parking):
    """Serves no frame while an earlier one is unanswered, except ``o``, which may overlap."""

    def __call__(self, connection: ServerConnection, frame: memoryview) -> bool:
        if connection.unanswered and not bytes(frame).startswith(b"o"):
            return True
        super().__call__(connection, frame)
        return False


@pytest.mark.mission("ORD-1")
async def test_a_frame_that_has_to_wait_is_served_after_all_replies_before_it(lab: Lab) -> None:
    handler = OneByOne()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    other = await lab.connect(server)
    peer.send(b"p1", b"o", b"a", b"b")
    await lab.until(lambda: handler.seen == 2)
    peer.send(b"p2", b"c")
    other.send(b"d")
    assert await other.receive() == b"d"
    assert handler.seen == 3
    handler.release(b"p1")
    assert [await peer.receive() for _ in range(4)] == [b"p1", b"o", b"a", b"b"]
    await lab.until(lambda: b"p2" in handler.parked)
    handler.release(b"p2")
    assert [await peer.receive() for _ in range(2)] == [b"p2", b"c"]


async def test_a_bad_length_behind_a_parked_request_closes_after_its_reply(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.writer.write(framed(b"p1") + struct.pack(">i", -1))
    await lab.until(lambda: handler.seen == 1)
    handler.release(b"p1")
    assert await peer.receive() == b"p1"
    assert await peer.is_closed()
    assert lab.log.reasons() == ["bad_frame"]


@pytest.mark.mission("ORD-1")
@pytest.mark.parametrize("later", ["same read", "next read", "first reply"])
async def test_a_refusal_takes_its_turn_and_nothing_is_served_behind_it(
    lab: Lab, later: str
) -> None:
    handler = Parking()

    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        if bytes(frame) == b"bad":
            handler.seen += 1
            connection.open_slot(len(frame)).refuse("request_failed")
        else:
            handler(connection, frame)

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    if later == "same read":
        peer.send(b"p1", b"p2", b"bad", b"late")
        await lab.until(lambda: handler.seen == 3)
    else:
        peer.send(b"p1", b"p2", b"bad")
        await lab.until(lambda: handler.seen == 3)
        if later == "next read":
            peer.send(b"late")
    handler.release(b"p1")
    assert await peer.receive() == b"p1"
    if later == "first reply":
        peer.send(b"late")
    handler.release(b"p2")
    assert await peer.receive() == b"p2"
    assert await peer.is_closed()
    assert handler.seen == 3
    assert lab.log.reasons() == ["request_failed"]


async def test_a_late_refusal_discards_later_requests(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1", b"p2")
    await lab.until(lambda: handler.seen == 2)
    handler.parked.pop(b"p2").refuse("request_failed")
    peer.send(b"late")
    for _ in range(20):
        await asyncio.sleep(0)
    handler.release(b"p1")
    assert await peer.receive() == b"p1"
    assert await peer.is_closed()
    assert handler.seen == 2


async def test_a_peer_gone_mid_frame_leaves_nothing_behind(lab: Lab) -> None:
    server = await lab.serve(echo)
    peer = await lab.connect(server)
    peer.writer.write(struct.pack(">i", 500) + b"half")
    await lab.until(lambda: server.connection_count == 1)
    peer.close()
    await lab.until(lambda: server.connection_count == 0)
    assert [f["unread_bytes"] for _, e, f in lab.log.events if e == "connection_lost"] == [8]


async def test_a_reply_after_the_peer_has_gone_is_dropped(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1")
    await lab.until(lambda: handler.seen == 1)
    peer.close()
    await lab.until(lambda: server.connection_count == 0)
    handler.release(b"p1")


async def test_refuse_sends_pending_responses_and_ignores_later_frames(lab: Lab) -> None:
    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        if bytes(frame) == b"bad":
            connection.refuse("unknown_api", api_key=99)
        else:
            echo(connection, frame)

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    peer.send(b"a", b"bad", b"b")
    assert await peer.receive() == b"a"
    assert await peer.is_closed()
    assert lab.log.reasons() == ["unknown_api"]


async def test_too_many_pending_requests_pause_reading(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler, ServerConfig(queued_max_requests=4))
    peer = await lab.connect(server)
    for number in range(4):
        peer.send(b"p%d" % number)
        await lab.until(partial(lambda n: handler.seen == n + 1, number))
    peer.send(b"a")
    for _ in range(20):
        await asyncio.sleep(0)
    assert handler.seen == 4
    for number in range(4):
        handler.release(b"p%d" % number)
    assert [await peer.receive() for _ in range(5)] == [b"p0", b"p1", b"p2", b"p3", b"a"]


async def test_held_replies_count_against_the_bytes_of_a_connection(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler, ServerConfig(queued_max_bytes=1000))
    peer = await lab.connect(server)
    peer.send(b"p0", b"x" * 600)
    await lab.until(lambda: handler.seen == 2)
    peer.send(b"a")
    for _ in range(20):
        await asyncio.sleep(0)
    assert handler.seen == 2
    handler.release(b"p0")
    assert await peer.receive() == b"p0"
    assert len(await peer.receive()) == 600
    assert await peer.receive() == b"a"


async def turns_of_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.mark.mission("SAFE-41")
async def test_queued_requests_of_all_connections_share_one_memory(lab: Lab) -> None:
    handler, budget = Parking(), MemoryBudget(max_request_bytes=1000)
    memory = budget.requests
    server = await lab.serve(handler, budget=budget)
    first, second, idle = [await lab.connect(server) for _ in range(3)]
    first.send(b"p1" + bytes(600))
    second.send(b"p2" + bytes(600))
    await lab.until(lambda: handler.seen == 2)
    first.send(b"a")
    second.send(b"b")
    await turns_of_the_loop()
    assert handler.seen == 2
    assert memory.used_bytes == 1204
    assert {event for _, event, _ in lab.log.events} == {"request_memory_exhausted"}
    idle.send(b"fetch")
    assert await idle.receive() == b"fetch"  # it holds nothing: something always proceeds
    handler.release(b"p1" + bytes(600), framed(b"1"))
    assert [await first.receive() for _ in range(2)] == [b"1", b"a"]
    await lab.until(lambda: handler.seen == 5)  # the second was woken by the first
    handler.release(b"p2" + bytes(600), framed(b"2"))
    assert [await second.receive() for _ in range(2)] == [b"2", b"b"]
    assert memory.used_bytes == 0


@pytest.mark.mission("SAFE-41")
async def test_a_lost_connection_frees_its_memory_and_wakes_others(lab: Lab) -> None:
    handler, budget = Parking(), MemoryBudget(max_request_bytes=1000)
    memory = budget.requests
    server = await lab.serve(handler, budget=budget)
    lost, waiting = [await lab.connect(server) for _ in range(2)]
    lost.send(b"p1" + bytes(990))
    waiting.send(b"p2" + bytes(90))
    await lab.until(lambda: handler.seen == 2)
    waiting.send(b"p3")
    await turns_of_the_loop()
    assert handler.seen == 2
    lost.close()
    await lab.until(lambda: handler.seen == 3)
    assert memory.used_bytes == 94


async def test_a_slow_reader_is_not_served_until_it_takes_its_replies(lab: Lab) -> None:
    answered = 0

    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        nonlocal answered
        answered += 1
        connection.open_slot(len(frame)).send(framed(b"x" * 1_000_000))

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    reading_end(peer).pause_reading()
    peer.send(*[b"more"] * 100)
    for _ in range(50):
        await asyncio.sleep(0)
    assert 1 < answered < 20  # one read brought them all, yet serving stopped
    assert server.budget.response_bytes > ServerConfig().write_low_water_bytes
    reading_end(peer).resume_reading()
    for _ in range(100):
        assert len(await peer.receive()) == 1_000_000
    assert answered == 100
    assert server.budget.response_bytes == 0


async def test_a_slow_reader_whose_parked_replies_pile_up_is_dropped(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler, ServerConfig(write_max_bytes=20_000_000))
    peer = await lab.connect(server)
    reading_end(peer).pause_reading()
    peer.send(*[b"p%d" % number for number in range(40)])
    await lab.until(lambda: handler.seen == 40)
    for number in range(40):
        handler.release(b"p%d" % number, bytes(1_000_000))
    await lab.until(lambda: server.connection_count == 0)
    assert lab.log.reasons() == ["slow_reader"]
    assert server.budget.response_bytes == 0


async def test_idle_connections_are_closed_and_live_ones_are_not(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler, ServerConfig(connections_max_idle_ms=8000))
    idle, busy, parked = [await lab.connect(server) for _ in range(3)]
    for peer in (idle, busy, parked):
        peer.send(b"a")
        await peer.receive()
    parked.send(b"p1")
    await lab.until(lambda: handler.seen == 4)
    for _ in range(IDLE_SWEEPS + 1):
        busy.send(b"b")
        await busy.receive()
        lab.clock.advance(1000)
    assert await idle.is_closed()
    assert server.connection_count == 2
    handler.release(b"p1")
    assert await parked.receive() == b"p1"
    assert lab.log.reasons() == ["idle"]


async def test_idle_connections_stay_when_the_limit_is_off(lab: Lab) -> None:
    await lab.serve(echo, ServerConfig(connections_max_idle_ms=-1))
    assert lab.clock.timers == []


async def test_connections_beyond_the_limit_are_refused(lab: Lab) -> None:
    quotas = ConnectionQuotas(ConnectionQuotaConfig(max_connections=1))
    server = await lab.serve(echo, quotas=quotas)
    first = await lab.connect(server)
    first.send(b"a")
    await first.receive()
    second = await lab.connect(server)
    assert await second.is_closed()
    first.send(b"b")
    assert await first.receive() == b"b"
    assert lab.log.reasons() == ["max_connections"]


@pytest.mark.mission("SAFE-22")
async def test_connections_of_one_address_are_bounded_over_all_listeners(lab: Lab) -> None:
    """The bound may change while connections are open; one that is closed makes room."""
    quotas = ConnectionQuotas(ConnectionQuotaConfig(max_connections_per_ip=2))
    one = await lab.serve(echo, quotas=quotas, listener="ONE")
    two = await lab.serve(echo, quotas=quotas, listener="TWO")
    first, second = await lab.connect(one), await lab.connect(two)
    for peer in (first, second):
        peer.send(b"a")
        assert await peer.receive() == b"a"
    assert await (await lab.connect(one)).is_closed()
    await lab.until(lambda: quotas.total == 2)
    quotas.configure(
        ConnectionQuotaConfig(
            max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 3}
        )
    )
    third = await lab.connect(two)
    third.send(b"c")
    assert await third.receive() == b"c"
    quotas.configure(ConnectionQuotaConfig(max_connections_per_ip=2))
    first.close()
    third.close()
    await lab.until(lambda: quotas.total == 1)
    fourth = await lab.connect(one)
    fourth.send(b"d")
    assert await fourth.receive() == b"d"
    assert lab.log.reasons() == ["max_connections_per_ip"]


async def test_early_connections_are_served_once_processing_is_enabled(lab: Lab) -> None:
    handler = Parking()
    server = await lab.serve(handler, holding=True)
    early, silent = await lab.connect(server), await lab.connect(server)
    early.send(b"a", b"b")
    await lab.until(lambda: any(c.held for c in server._connections.values()))
    assert handler.seen == 0
    server.enable_request_processing()
    early.send(b"c")
    assert [await early.receive() for _ in range(3)] == [b"a", b"b", b"c"]
    silent.send(b"d")
    assert await silent.receive() == b"d"


async def test_closing_hangs_up_on_all(lab: Lab) -> None:
    server = await lab.serve(echo)
    peers = [await lab.connect(server) for _ in range(3)]
    await lab.until(lambda: server.connection_count == 3)
    await server.close()
    assert [await peer.is_closed() for peer in peers] == [True] * 3
    assert server.connection_count == 0


async def test_closing_does_not_wait_for_a_peer_that_takes_nothing(lab: Lab) -> None:
    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        connection.open_slot(len(frame)).send(framed(b"x" * 50_000_000))

    server = await lab.serve(on_frame)
    peer = await lab.connect(server)
    reading_end(peer).pause_reading()
    peer.send(b"a")
    await lab.until(
        lambda: any(Pause.WRITE_BUFFER in c.flow.reasons for c in server._connections.values())
    )
    closing = asyncio.ensure_future(server.close(grace_ms=1000))
    await asyncio.sleep(0)
    assert not closing.done()
    lab.clock.advance(1000)
    await closing
    assert lab.log.reasons() == ["shutdown"]


@pytest.mark.parametrize("abandoned", [False, True])
async def test_a_connection_that_is_made_after_the_end_is_closed(lab: Lab, abandoned: bool) -> None:
    """The loop makes a connection some turns after it was accepted, with TLS some round trips."""
    network: Any = DeafNetwork()
    lab.network = network
    server = await lab.serve(echo)
    if abandoned:
        server.abandon()
    else:
        await server.close()
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().connect_accepted_socket(network.factory, ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    writer.write(framed(b"a"))
    with contextlib.suppress(ConnectionError):
        assert await reader.read(1) == b""
    writer.close()
    assert server.connection_count == 0


class DeafListener:
    port = 1

    def close(self) -> None: ...


class DeafNetwork:
    """A Network whose listener accepts nothing. ``factory`` and ``failed`` are the server's."""

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> DeafListener:
        self.factory = factory
        self.failed = accept_failed
        return DeafListener()


@pytest.mark.mission("SAFE-26")
async def test_connections_that_cannot_be_accepted_are_counted_and_logged_once_a_second(
    lab: Lab,
) -> None:
    network: Any = DeafNetwork()
    lab.network = network
    server = await lab.serve(echo)
    for _ in range(5):
        network.failed(OSError(errno.EMFILE, "too many open files"))
    lab.clock.advance(1_000)
    network.failed(OSError(errno.EMFILE, "too many open files"))
    assert server.accept_failures == 6
    events = [facts for _, event, facts in lab.log.events if event == "accept_failed"]
    assert [facts["suppressed"] for facts in events] == [0, 4]
