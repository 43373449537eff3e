"""What TLS on every Network keeps to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from minikafka.kernel.ports import Listener, World
from minikafka.kernel.tls import ClientAuth, TlsError, TlsSettings, peer_certificate
from minikafka.network.channel import Channel
from minikafka.network.login_networks import TlsNetwork
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.network.wire_end import WireEnd
from tests.support.security.certificates import Authority, Identity

if TYPE_CHECKING:
    from tests.contract.conftest import Play

HOST = "127.0.0.1"
OURS, FOREIGN = Authority("ours"), Authority("foreign")


def settings(identity: Identity | None, *trusted: Authority) -> TlsSettings:
    return TlsSettings(
        identity.key_pem() if identity else b"",
        identity.chain_pem if identity else b"",
        b"".join(each.pem for each in trusted),
    )


BROKER = OURS.issue("broker", (HOST,))
ALICE = OURS.issue("alice", ("alice",))
EVE = FOREIGN.issue("eve", ("eve",))
SERVER = settings(BROKER, OURS)
CLIENT = settings(None, OURS)


class ServerEnd(WireEnd):
    """Puts itself into a queue when its handshake has succeeded."""

    def __init__(self, accepted: asyncio.Queue[WireEnd]) -> None:
        super().__init__()
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._accepted.put_nowait(self)


@dataclass
class Listening:
    """A TLS listener that collects its connections and its failed handshakes."""

    world: World
    settings: TlsSettings
    accepted: asyncio.Queue[WireEnd] = field(default_factory=asyncio.Queue)
    failures: asyncio.Queue[OSError] = field(default_factory=asyncio.Queue)
    listener: Listener | None = None

    def handshake_failed(self, host: str, error: OSError) -> None:
        assert host
        self.failures.put_nowait(error)

    async def start(self) -> Listening:
        self.listener = await self.world.network.listen(self._accept, HOST, 0, tls=self)
        return self

    def _accept(self) -> WireEnd:
        return ServerEnd(self.accepted)

    async def connect(self, tls: TlsSettings | None) -> WireEnd:
        assert self.listener is not None
        _, end = await self.world.network.connect(WireEnd, HOST, self.listener.port, tls)
        assert isinstance(end, WireEnd)
        return end


def on_both(play: Play, body: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def with_directory(world: World, _: str) -> None:
        await body(world)

    play(with_directory)


async def is_refused(server: Listening, tls: TlsSettings | None) -> bool:
    """Whether the connection fails at once, or is closed before the server has served it. In TLS
    1.3 a client has finished its handshake before the server looks at its certificate."""
    try:
        end = await server.connect(tls)
    except OSError:
        return True
    end.transport.write(b"anyone?")
    await end.lost()
    return server.accepted.empty()


@pytest.mark.mission("SEC-122")
def test_bytes_of_any_size_arrive_in_order_both_ways(play: Play) -> None:
    async def body(world: World) -> None:
        server = await Listening(world, SERVER).start()
        client = await server.connect(CLIENT)
        accepted = await server.accepted.get()
        sent = bytes(i * 11 % 256 for i in range(256)) * 4000  # 1 MB
        for start in range(0, len(sent), 70_001):
            client.transport.write(sent[start : start + 70_001])
        accepted.transport.writelines([b"ans", memoryview(b"wer")])
        assert await accepted.received(len(sent)) == sent
        assert await client.received(6) == b"answer"
        client.transport.close()
        await accepted.lost()

    on_both(play, body)


def test_requests_without_a_response_arrive_before_the_close(play: Play) -> None:
    async def body(world: World) -> None:
        server = await Listening(world, SERVER).start()
        assert server.listener is not None
        network = TlsNetwork(world.network, lambda: CLIENT)
        channel = await Channel.open(network, world.clock, HOST, server.listener.port)
        accepted = await server.accepted.get()
        data = PartitionProduceData(0, b"x" * 100_000)
        produce = ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[data])])
        for _ in range(30):
            await channel.send(produce, 9, 10_000)
        channel.close()
        await channel.wait_closed()
        assert len(await accepted.received(0)) == 30 * len(
            encode_request(RequestHeader(ApiKey.PRODUCE, 9, 0, None), produce)
        )

    on_both(play, body)


@pytest.mark.mission("SEC-123")
@pytest.mark.parametrize(
    ("auth", "shown", "seen"),
    [
        (ClientAuth.NONE, ALICE, None),
        (ClientAuth.NONE, EVE, None),
        (ClientAuth.REQUESTED, None, None),
        (ClientAuth.REQUESTED, ALICE, ALICE.der),
        (ClientAuth.REQUIRED, ALICE, ALICE.der),
    ],
    ids=["shown in vain", "foreign in vain", "none", "requested", "required"],
)
def test_a_server_gets_the_certificate_of_a_client(
    play: Play, auth: ClientAuth, shown: Identity | None, seen: bytes | None
) -> None:
    async def body(world: World) -> None:
        server = await Listening(world, replace(SERVER, client_auth=auth)).start()
        client = await server.connect(settings(shown, OURS))
        accepted = await server.accepted.get()
        assert peer_certificate(accepted.transport) == seen
        assert peer_certificate(client.transport) == BROKER.der

    on_both(play, body)


@pytest.mark.mission("SEC-123")
@pytest.mark.parametrize(
    ("auth", "client"),
    [
        (ClientAuth.REQUIRED, CLIENT),
        (ClientAuth.REQUIRED, settings(EVE, OURS)),
        (ClientAuth.REQUESTED, settings(EVE, OURS)),
        (ClientAuth.NONE, settings(None, FOREIGN)),
        (ClientAuth.NONE, replace(CLIENT, protocols=("TLSv1.2",))),
        (ClientAuth.NONE, None),
    ],
    ids=["no certificate", "foreign", "foreign, requested", "untrusted server", "version", "plain"],
)
def test_a_connection_that_breaks_the_rules_is_not_served(
    play: Play, auth: ClientAuth, client: TlsSettings | None
) -> None:
    async def body(world: World) -> None:
        rules = replace(SERVER, client_auth=auth, protocols=("TLSv1.3",))
        server = await Listening(world, rules).start()
        assert await is_refused(server, client)
        assert isinstance(await server.failures.get(), OSError)
        good = await server.connect(settings(ALICE, OURS))  # others are served
        accepted = await server.accepted.get()
        good.transport.write(b"hello")
        assert await accepted.received(5) == b"hello"

    on_both(play, body)


@pytest.mark.mission("SEC-125")
def test_new_connections_use_new_settings_and_old_ones_live_on(play: Play) -> None:
    async def body(world: World) -> None:
        server = await Listening(world, SERVER).start()
        old = await server.connect(CLIENT)
        accepted = await server.accepted.get()
        renewed = OURS.issue("renewed", (HOST,))
        server.settings = settings(renewed, OURS)
        new = await server.connect(CLIENT)
        assert peer_certificate(new.transport) == renewed.der
        assert peer_certificate(old.transport) == BROKER.der
        old.transport.write(b"still")
        assert await accepted.received(5) == b"still"

    on_both(play, body)


def test_settings_without_a_key_cannot_listen(play: Play) -> None:
    async def body(world: World) -> None:
        with pytest.raises(TlsError, match="key"):
            world.network.check_tls(CLIENT, of_listener=True)
        world.network.check_tls(SERVER, of_listener=True)
        world.network.check_tls(CLIENT, of_listener=False)

    on_both(play, body)


@pytest.mark.mission("SEC-126")
def test_a_client_compares_the_host_with_the_certificate(play_real: Play) -> None:
    async def body(world: World) -> None:
        server = await Listening(world, settings(OURS.issue("other", ("elsewhere",)), OURS)).start()
        with pytest.raises(ssl.SSLCertVerificationError):
            await server.connect(CLIENT)
        await server.connect(replace(CLIENT, check_host_name=False))

    on_both(play_real, body)


@pytest.mark.mission("SEC-124")
def test_versions_and_suites_are_those_of_the_settings(play_real: Play) -> None:
    suite = "ECDHE-ECDSA-AES128-GCM-SHA256"

    async def body(world: World) -> None:
        rules = replace(SERVER, protocols=("TLSv1.2",), ciphers=(suite,))
        server = await Listening(world, rules).start()
        client = await server.connect(CLIENT)
        connection = client.transport.get_extra_info("ssl_object")
        assert (connection.version(), connection.cipher()[0]) == ("TLSv1.2", suite)
        for wrong in (
            replace(SERVER, ciphers=("NO-SUCH",)),
            replace(SERVER, protocols=("SSLv3",)),
            replace(SERVER, protocols=()),
            replace(SERVER, protocols=("TLSv1.1", "TLSv1.3")),
            replace(SERVER, key=b"garbage"),
        ):
            with pytest.raises(TlsError):
                world.network.check_tls(wrong, of_listener=True)

    on_both(play_real, body)


@pytest.mark.mission("SEC-125")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_handshake_is_tried_without_a_connection(play: Play, version: str) -> None:
    async def body(world: World) -> None:
        check = world.network.check_handshake
        server = replace(SERVER, client_auth=ClientAuth.REQUIRED, protocols=(version,))
        check(replace(SERVER, protocols=(version,)), CLIENT)
        check(server, settings(ALICE, OURS))  # whose host has another name
        for client in (CLIENT, settings(EVE, OURS), settings(ALICE, FOREIGN)):
            with pytest.raises(TlsError):
                check(server, client)

    on_both(play, body)
