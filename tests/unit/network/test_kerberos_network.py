"""Outgoing connections with GSSAPI: a ticket comes before each login, and nothing waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.core.security.kerberos_names import ServiceLogin
from minikafka.core.security.sasl.gssapi import GssapiServer
from minikafka.core.security.sasl.server_login import EnabledMechanism
from minikafka.kernel.errors import ErrorCode, LoginRefused
from minikafka.kernel.kerberos import KerberosError, KerberosIdentity
from minikafka.kernel.principals import Principal
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.network.login_networks import KerberosNetwork
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.server.listeners.listener_sasl import ListenerSasl
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.world.sim.entropy import SimEntropy
from tests.support.network.network_lab import Lab
from tests.support.security.fake_kerberos import FakeContext, FakeKerberos
from tests.support.security.logins import login_config

SESSION_MS = 10_000
TIMEOUT_MS = 60_000
METADATA = MetadataRequest(topics=[])
ALICE = KerberosIdentity("alice", "/alice.keytab")


class KerberizedBroker:
    """A listener with GSSAPI that responds to Metadata when ``respond`` is called."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.kerberos = FakeKerberos()
        self.users: list[Principal] = []
        self.parked: list[tuple[ReplySlot, int]] = []
        gssapi = EnabledMechanism(
            lambda nonce: GssapiServer(FakeContext(), lambda name: name), SESSION_MS
        )
        config = login_config(0, GSSAPI=gssapi)
        self.sasl = ListenerSasl(config, 0, lab.clock, SimEntropy(1), lab.log)

    def _on_frame(self, connection: ServerConnection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        self.users.append(connection.principal)
        self.parked.append((connection.open_slot(len(frame)), header.correlation_id))

    def respond(self) -> None:
        parked, self.parked = self.parked, []
        for slot, correlation_id in parked:
            slot.send(encode_response(correlation_id, MetadataResponse(controller_id=7), 1))

    async def connect(self) -> Channel:
        lab = self.lab
        server = await lab.serve(self._on_frame, sasl=self.sasl)
        login = ServiceLogin(ALICE, "kafka")
        network = KerberosNetwork(lab.network, login, self.kerberos, lab.clock, SimEntropy(2))
        config = ChannelConfig(max_in_flight=10)
        return await Channel.open(
            network, lab.clock, "127.0.0.1", server.port, "test", config, lab.log
        )


def send(channel: Channel) -> asyncio.Future[Any]:
    return asyncio.ensure_future(channel.request(METADATA, 1, TIMEOUT_MS))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.mission("SEC-160")
async def test_a_connection_begins_with_a_ticket_for_the_host(lab: Lab) -> None:
    broker = KerberizedBroker(lab)
    channel = await broker.connect()
    request = send(channel)
    await lab.until(lambda: len(broker.parked) == 1)
    broker.respond()
    assert (await request).controller_id == 7
    assert broker.users == [Principal("alice")]
    assert broker.kerberos.initiated == [(ALICE, "kafka", "127.0.0.1")]
    channel.close()


@pytest.mark.mission("SEC-160")
async def test_a_connection_without_a_ticket_is_refused_with_the_reason(lab: Lab) -> None:
    broker = KerberizedBroker(lab)
    broker.kerberos.failure = KerberosError("Cannot contact any KDC for realm 'EXAMPLE.COM'")
    with pytest.raises(LoginRefused, match="Cannot contact any KDC") as raised:
        await broker.connect()
    assert raised.value.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.mission("SEC-160")
async def test_requests_wait_for_the_ticket_of_a_re_authentication(lab: Lab) -> None:
    """Those in flight get their responses while the KDC has not responded."""
    broker = KerberizedBroker(lab)
    channel = await broker.connect()
    earlier = send(channel)
    await lab.until(lambda: len(broker.parked) == 1)
    lab.clock.advance(SESSION_MS - 400)
    broker.kerberos.kdc_up.clear()
    later = [send(channel), send(channel)]
    await settle()
    assert len(broker.kerberos.initiated) == 2
    broker.respond()
    assert (await earlier).controller_id == 7
    assert not broker.parked
    broker.kerberos.kdc_up.set()
    await lab.until(lambda: len(broker.parked) == 2)
    broker.respond()
    assert [found.controller_id for found in await asyncio.gather(*later)] == [7, 7]
    assert broker.sasl.counts.successful_reauthentication == 1
    assert broker.users == [Principal("alice")] * 3
    channel.close()


@pytest.mark.mission("SEC-160")
async def test_a_re_authentication_without_a_ticket_closes_the_channel(lab: Lab) -> None:
    broker = KerberizedBroker(lab)
    channel = await broker.connect()
    lab.clock.advance(SESSION_MS - 400)
    broker.kerberos.failure = KerberosError("the KDC has locked the principal")
    with pytest.raises(ConnectionError, match="the KDC has locked the principal"):
        await send(channel)
    assert not channel.is_open


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("closes", [True, False])
async def test_no_task_is_left_of_a_channel_that_waits_for_a_ticket(lab: Lab, closes: bool) -> None:
    broker = KerberizedBroker(lab)
    channel = await broker.connect()
    lab.clock.advance(SESSION_MS - 400)
    broker.kerberos.kdc_up.clear()
    before = asyncio.all_tasks()
    request = send(channel)
    await settle()
    assert len(asyncio.all_tasks() - before) == 2
    if closes:
        channel.close()
    else:
        lab.clock.advance(ChannelConfig().connection_setup_timeout_ms)
    with pytest.raises(ConnectionError):
        await request
    await settle()
    assert asyncio.all_tasks() - before == set()
