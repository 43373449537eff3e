"""Logins of outgoing connections: before the first request, and again within the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from minikafka.core.security.sasl.exchange import ClientExchange
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.scram_credentials import SCRAM_SHA_256
from minikafka.kernel.errors import ErrorCode, LoginRefused
from minikafka.kernel.principals import Principal
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.network.login_networks import SaslNetwork
from minikafka.protocol.frames import (
    decode_request_header,
    encode_response,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.server.listeners.listener_sasl import ListenerSasl
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server import Server
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.world.sim.entropy import SimEntropy
from tests.support.network.network_lab import Lab
from tests.support.security.logins import login_config

SESSION_MS = 10_000
TIMEOUT_MS = 60_000
METADATA = MetadataRequest(topics=[])
NewExchange = Callable[[str, int], ClientExchange]


def plain(nonce: str, wall_ms: int) -> ClientExchange:
    return PlainClient("alice", "secret")


def scram(nonce: str, wall_ms: int) -> ClientExchange:
    return ScramClient(SCRAM_SHA_256, "bob", "builder", nonce, False)


class Broker:
    """A SASL listener that responds to Metadata, at once or when ``respond`` is called."""

    def __init__(self, lab: Lab, session_ms: int = 0) -> None:
        self.lab = lab
        self.users: list[Principal] = []
        self.requests: list[int] = []  # correlation ids
        self.parks = False
        self.parked: list[tuple[ReplySlot, int]] = []
        self.sasl = ListenerSasl(login_config(session_ms), 0, lab.clock, SimEntropy(1), lab.log)

    async def start(self) -> Server:
        self.server = await self.lab.serve(self._on_frame, sasl=self.sasl)
        return self.server

    def _on_frame(self, connection: ServerConnection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        self.users.append(connection.principal)
        self.requests.append(header.correlation_id)
        slot = connection.open_slot(len(frame))
        self.parked.append((slot, header.correlation_id))
        if not self.parks:
            self.respond()

    def respond(self) -> None:
        parked, self.parked = self.parked, []
        for slot, correlation_id in parked:
            slot.send(encode_response(correlation_id, MetadataResponse(controller_id=7), 1))

    async def connect(self, new_exchange: NewExchange = plain) -> Channel:
        network = SaslNetwork(self.lab.network, new_exchange, self.lab.clock, SimEntropy(2))
        clock, port = self.lab.clock, self.server.port
        config = ChannelConfig(max_in_flight=10)
        return await Channel.open(network, clock, "127.0.0.1", port, "test", config, self.lab.log)


async def responded(lab: Lab, work: Coroutine[Any, Any, Any]) -> Any:
    """Run ``work``, which waits for a response that the broker delays."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0.001)
        lab.clock.advance(1)
    return await task


@pytest.mark.mission("SEC-157")
@pytest.mark.parametrize(("new_exchange", "user"), [(plain, "alice"), (scram, "bob")])
async def test_a_channel_logs_in_before_its_first_request(
    lab: Lab, new_exchange: NewExchange, user: str
) -> None:
    broker = Broker(lab)
    await broker.start()
    channel = await broker.connect(new_exchange)
    response = await channel.request(METADATA, 1, TIMEOUT_MS)
    assert response.controller_id == 7
    assert broker.users == [Principal(user)]
    channel.close()


async def test_a_refused_login_is_an_error_that_names_the_reason(lab: Lab) -> None:
    broker = Broker(lab)
    await broker.start()
    with pytest.raises(LoginRefused) as raised:
        await responded(lab, broker.connect(lambda nonce, wall_ms: PlainClient("alice", "wrong")))
    assert raised.value.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong" not in str(raised.value)
    assert broker.requests == []


async def test_a_peer_that_is_lost_during_the_login_is_a_connection_error(lab: Lab) -> None:
    def hang_up(connection: ServerConnection, frame: memoryview) -> None:
        connection.close()

    broker = Broker(lab)
    broker.server = await lab.serve(hang_up)
    with pytest.raises(ConnectionError):
        await broker.connect()


@pytest.mark.mission("SEC-157")
async def test_a_session_is_renewed_before_the_next_request(lab: Lab) -> None:
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    channel = await broker.connect()
    for _ in range(5):
        await channel.request(METADATA, 1, TIMEOUT_MS)
        lab.clock.advance(SESSION_MS - 400)
    assert broker.sasl.counts.successful_authentication == 1
    assert broker.sasl.counts.successful_reauthentication == 4
    assert channel.is_open
    channel.close()


@pytest.mark.mission("SEC-157")
async def test_a_re_authentication_comes_between_requests_in_flight_and_later_ones(
    lab: Lab,
) -> None:
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    channel = await broker.connect()
    broker.parks = True
    before = [asyncio.ensure_future(channel.request(METADATA, 1, TIMEOUT_MS)) for _ in range(3)]
    await lab.until(lambda: len(broker.requests) == 3)
    lab.clock.advance(SESSION_MS - 400)
    after = [asyncio.ensure_future(channel.request(METADATA, 1, TIMEOUT_MS)) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert broker.requests == [0, 1, 2]  # the others wait for the login, and it for these
    broker.respond()
    await lab.until(lambda: len(broker.requests) == 6)
    broker.respond()
    found: list[Any] = await asyncio.gather(*before, *after)
    assert [response.controller_id for response in found] == [7] * 6
    assert broker.requests == list(range(6))
    assert broker.sasl.counts.successful_reauthentication == 1
    channel.close()


async def test_requests_fail_when_a_re_authentication_is_refused(lab: Lab) -> None:
    passwords = iter(["secret", "changed"])
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    channel = await broker.connect(lambda nonce, wall_ms: PlainClient("alice", next(passwords)))
    lab.clock.advance(SESSION_MS - 400)
    with pytest.raises(ConnectionError, match="refused the login"):
        await responded(lab, channel.request(METADATA, 1, TIMEOUT_MS))
    assert not channel.is_open


async def test_a_request_without_response_is_sent_when_the_re_authentication_is_over(
    lab: Lab,
) -> None:
    """Not before: the producer closes the connection as soon as it is sent."""
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    broker.parks = True
    channel = await broker.connect()
    lab.clock.advance(SESSION_MS - 400)
    await channel.send(METADATA, 1, TIMEOUT_MS)
    channel.close()
    await channel.wait_closed()
    assert broker.requests == [0]
    assert broker.sasl.counts.successful_reauthentication == 1


async def test_a_request_without_response_fails_when_a_re_authentication_is_refused(
    lab: Lab,
) -> None:
    passwords = iter(["secret", "changed"])
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    channel = await broker.connect(lambda nonce, wall_ms: PlainClient("alice", next(passwords)))
    lab.clock.advance(SESSION_MS - 400)
    with pytest.raises(ConnectionError, match="refused the login"):
        await responded(lab, channel.send(METADATA, 1, TIMEOUT_MS))
    assert broker.requests == []


async def test_a_re_authentication_without_a_response_closes_the_channel(lab: Lab) -> None:
    broker = Broker(lab, SESSION_MS)
    await broker.start()
    channel = await broker.connect()
    broker.parks = True
    held = asyncio.ensure_future(channel.request(METADATA, 1, TIMEOUT_MS))
    await lab.until(lambda: len(broker.requests) == 1)
    lab.clock.advance(SESSION_MS - 400)
    waiting = asyncio.ensure_future(channel.request(METADATA, 1, TIMEOUT_MS))
    await asyncio.sleep(0)
    lab.clock.advance(ChannelConfig().connection_setup_timeout_ms)
    for request in (held, waiting):
        with pytest.raises(ConnectionError, match="no re-authentication"):
            await request
