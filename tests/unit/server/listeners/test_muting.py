"""A muted connection is not served: after a throttled request, and when it is opened too early."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.core.client_quota import RateConfig
from minikafka.server.listeners.connection_quotas import ConnectionQuotaConfig, ConnectionQuotas
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab, framed


class Throttling:
    """Echoes frames; mutes the connection of a frame that begins with ``m`` for a second."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.parked: list[tuple[ServerConnection, ReplySlot]] = []

    def __call__(self, connection: ServerConnection, frame: memoryview) -> None:
        body = bytes(frame)
        self.served.append(body)
        slot = connection.open_slot(len(body))
        if body.startswith(b"p"):
            self.parked.append((connection, slot))
            return
        if body.startswith(b"m"):
            connection.mute(1_000)
        slot.send(framed(body))


@pytest.mark.mission("SEC-144")
async def test_the_response_leaves_at_once_and_later_requests_wait(lab: Lab) -> None:
    handler = Throttling()
    server = await lab.serve(handler)
    throttled, other = await lab.connect(server), await lab.connect(server)
    throttled.send(b"m1", b"2", b"3")  # in one read
    assert await throttled.receive() == b"m1"
    throttled.send(b"4")
    other.send(b"other")
    assert await other.receive() == b"other"
    lab.clock.advance(999)
    other.send(b"again")
    assert await other.receive() == b"again"
    assert handler.served == [b"m1", b"other", b"again"]
    lab.clock.advance(1)
    assert [await throttled.receive() for _ in range(3)] == [b"2", b"3", b"4"]


async def test_the_longest_of_several_throttle_times_counts(lab: Lab) -> None:
    handler = Throttling()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1", b"p2")
    await lab.until(lambda: len(handler.parked) == 2)
    for (connection, _), delay_ms in zip(handler.parked * 2, (1_000, 3_000, 2_000), strict=False):
        connection.mute(delay_ms)
    for _, slot in handler.parked:
        slot.send(framed(b"done"))
    assert await peer.receive() == b"done"
    assert await peer.receive() == b"done"
    peer.send(b"x")
    lab.clock.advance(2_999)
    await asyncio.sleep(0.01)
    assert handler.served == [b"p1", b"p2"]
    lab.clock.advance(1)
    assert await peer.receive() == b"x"


async def test_a_muted_connection_is_not_read(lab: Lab) -> None:
    """Although its reply comes later, which may let reading go on."""
    seen: list[tuple[ServerConnection, ReplySlot]] = []

    def park(connection: ServerConnection, frame: memoryview) -> bool:
        if seen and connection.unanswered:
            return True
        seen.append((connection, connection.open_slot(len(frame))))
        return False

    server = await lab.serve(park)
    peer = await lab.connect(server)
    peer.send(b"1", b"2")
    await lab.until(lambda: len(seen) == 1)
    connection, slot = seen[0]
    connection.mute(1_000)
    slot.send(framed(b"1"))
    assert await peer.receive() == b"1"
    peer.send(b"3")
    await asyncio.sleep(0.02)
    assert len(seen) == 1
    assert not connection.transport.is_reading()
    lab.clock.advance(1_000)
    await lab.until(lambda: len(seen) == 2)


async def test_the_transport_of_a_muted_connection_stays_paused(lab: Lab) -> None:
    handler = Throttling()
    server = await lab.serve(handler)
    peer = await lab.connect(server)
    peer.send(b"p1")
    await lab.until(lambda: len(handler.parked) == 1)
    ((connection, slot),) = handler.parked
    connection.mute(1_000)
    slot.send(framed(b"done"))
    assert await peer.receive() == b"done"
    await asyncio.sleep(0.02)
    assert not connection.transport.is_reading()
    lab.clock.advance(1_000)
    await lab.until(lambda: connection.transport.is_reading())


async def test_a_closed_connection_leaves_no_timer(lab: Lab) -> None:
    server = await lab.serve(Throttling())
    peer = await lab.connect(server)
    peer.send(b"m1")
    assert await peer.receive() == b"m1"
    assert any(timer.due_ms == 1_000 and not timer.cancelled for timer in lab.clock.timers)
    await server.close()
    assert not any(not timer.cancelled for timer in lab.clock.timers)


@pytest.mark.mission("SEC-104")
async def test_connections_above_the_rate_are_served_later(lab: Lab) -> None:
    """With two windows of a second the rate is measured over one second at least."""
    quotas = ConnectionQuotas(
        ConnectionQuotaConfig(max_connection_creation_rate=2),
        protected_listener="BROKERS",
        rates=RateConfig(2, 1),
    )
    handler = Throttling()
    server = await lab.serve(handler, quotas=quotas)
    brokers = await lab.serve(handler, quotas=quotas, listener="BROKERS")
    peers = [await lab.connect(server) for _ in range(6)]
    await lab.until(lambda: server.connection_count == 6)
    for number, peer in enumerate(peers):
        peer.send(str(number).encode())
    broker = await lab.connect(brokers)
    broker.send(b"broker")
    assert await broker.receive() == b"broker"
    assert [await peer.receive() for peer in peers[:2]] == [b"0", b"1"]
    assert set(handler.served) == {b"broker", b"0", b"1"}
    for number, peer in enumerate(peers[2:], 2):
        lab.clock.advance(1_000)
        assert await peer.receive() == str(number).encode()


@pytest.mark.mission("SEC-148")
async def test_connections_of_an_address_above_its_rate_are_closed_without_a_response(
    lab: Lab,
) -> None:
    quotas = ConnectionQuotas(rates=RateConfig(2, 1))
    quotas.limit_ip("127.0.0.1", 2)
    handler = Throttling()
    server = await lab.serve(handler, quotas=quotas)
    peers = [await lab.connect(server) for _ in range(4)]
    await lab.until(lambda: server.connection_count == 4)
    for peer in peers:
        peer.send(b"hello")
    assert [await peer.receive() for peer in peers[:2]] == [b"hello"] * 2
    lab.clock.advance(1_000)
    assert [await peer.is_closed() for peer in peers[2:]] == [True, True]
    assert handler.served == [b"hello"] * 2
