"""The login of connections: order, limits, delays, re-authentication, time-outs and counts."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from dataclasses import asdict

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import ANONYMOUS, Principal
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from minikafka.server.listeners.listener_resources import ServerConfig
from minikafka.server.listeners.listener_sasl import LOGIN_TIMEOUT_MS, ListenerSasl
from minikafka.server.listeners.reply_queue import ReplySlot
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.world.sim.entropy import SimEntropy
from tests.support.network.network_lab import Lab, Peer, framed
from tests.support.security.logins import login_config, request_frame, response_of

DELAY_MS = 100
HANDSHAKE = request_frame(SaslHandshakeRequest("PLAIN"), 1)
ALICE = request_frame(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
WRONG = request_frame(SaslAuthenticateRequest(b"\0alice\0wrong"), 2)
METADATA = request_frame(MetadataRequest(topics=[]), 1)


class Handler:
    """Echoes frames, parks those that begin with ``p``, and keeps who sent them."""

    def __init__(self) -> None:
        self.served: list[tuple[bytes, Principal]] = []
        self.parked: dict[bytes, ReplySlot] = {}

    def __call__(self, connection: ServerConnection, frame: memoryview) -> bool:
        body = bytes(frame)
        self.served.append((body, connection.principal))
        slot = connection.open_slot(len(body))
        if body.startswith(b"p"):
            self.parked[body] = slot
        else:
            slot.send(framed(body))
        return False


class SaslLab:
    """A SASL listener, whose handler is ``handler``."""

    def __init__(self, lab: Lab, max_reauth_ms: int = 0) -> None:
        self.lab = lab
        self.handler = Handler()
        self.sasl = ListenerSasl(
            login_config(max_reauth_ms), DELAY_MS, lab.clock, SimEntropy(1), lab.log
        )

    async def connect(self, config: ServerConfig | None = None, holding: bool = False) -> Peer:
        self.server = await self.lab.serve(self.handler, config, holding, sasl=self.sasl)
        return await self.lab.connect(self.server)

    async def logged_in(self) -> Peer:
        peer = await self.connect()
        await log_in(peer)
        return peer

    def counts(self) -> dict[str, int]:
        return {name: count for name, count in asdict(self.sasl.counts).items() if count}


async def authenticate(peer: Peer, request: bytes = ALICE) -> SaslAuthenticateResponse:
    peer.send(request)
    return response_of(framed(await peer.receive()), SaslAuthenticateResponse, 2)


async def handshake(peer: Peer) -> SaslHandshakeResponse:
    peer.send(HANDSHAKE)
    return response_of(framed(await peer.receive()), SaslHandshakeResponse, 1)


async def log_in(peer: Peer) -> None:
    assert (await handshake(peer)).error_code == ErrorCode.NONE
    assert (await authenticate(peer)).error_code == ErrorCode.NONE


@pytest.mark.mission("SEC-106")
async def test_requests_after_the_login_are_those_of_the_user(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    peer.send(request_frame(ApiVersionsRequest(), 0))
    versions = response_of(framed(await peer.receive()), ApiVersionsResponse, 0)
    assert versions.error_code == ErrorCode.NONE
    await log_in(peer)
    peer.send(b"first", HANDSHAKE)
    assert [await peer.receive(), await peer.receive()] == [b"first", HANDSHAKE]
    assert sasl.handler.served == [(b"first", Principal("alice")), (HANDSHAKE, Principal("alice"))]
    assert sasl.counts() == {"successful_authentication": 1}


@pytest.mark.mission("SEC-106")
async def test_a_login_and_requests_in_one_read_are_served_in_order(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    peer.send(HANDSHAKE, ALICE, b"first", b"p", b"last")
    assert len(await peer.receive()) > 0
    response = response_of(framed(await peer.receive()), SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.NONE
    assert await peer.receive() == b"first"
    sasl.handler.parked[b"p"].send(framed(b"p"))
    assert [await peer.receive(), await peer.receive()] == [b"p", b"last"]
    assert {principal for _, principal in sasl.handler.served} == {Principal("alice")}


@pytest.mark.mission("SEC-110")
async def test_nothing_is_served_before_the_login(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    peer.send(METADATA, HANDSHAKE, ALICE, METADATA)
    await lab.until(lambda: sasl.counts() != {})
    lab.clock.advance(DELAY_MS)
    assert await peer.is_closed()
    assert sasl.handler.served == []
    assert sasl.counts() == {"failed_authentication": 1}


@pytest.mark.mission("SEC-107")
async def test_a_failure_is_sent_and_the_connection_closed_after_the_delay(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    await handshake(peer)
    peer.send(WRONG, ALICE, METADATA)
    await lab.until(lambda: sasl.counts() != {})
    lab.clock.advance(DELAY_MS - 1)
    other = await lab.connect(sasl.server)
    await log_in(other)  # meanwhile others are served
    assert not peer.reader.at_eof()
    assert len(peer.reader._buffer) == 0  # type: ignore[attr-defined]
    lab.clock.advance(1)
    response = response_of(framed(await peer.receive()), SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert await peer.is_closed()
    assert sasl.handler.served == []
    assert sasl.counts() == {"failed_authentication": 1, "successful_authentication": 1}
    (event,) = [event for event in lab.log.events if event[1] == "authentication_failed"]
    assert event[0] == "info"
    assert event[2]["detail"] == "wrong password"
    assert "wrong" not in str(event[2] | {"detail": ""})


async def test_a_client_that_leaves_during_the_delay_leaves_no_timer(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    await handshake(peer)
    peer.send(WRONG)
    await lab.until(lambda: sasl.counts() != {})
    await sasl.server.close()
    assert [timer for timer in lab.clock.timers if not timer.cancelled] == []


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("size", [-1, 524_289])
@pytest.mark.parametrize("steps", [0, 1])
async def test_a_frame_above_the_limit_is_not_read_before_the_login(
    lab: Lab, size: int, steps: int
) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    if steps:
        await handshake(peer)
    peer.writer.write(struct.pack(">i", size) + b"x" * 1000)
    await lab.until(lambda: sasl.counts() == {"failed_authentication": 1})
    lab.clock.advance(DELAY_MS)
    assert await peer.is_closed()


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("pipelined", [False, True])
async def test_the_limit_after_the_login_is_that_of_requests(lab: Lab, pipelined: bool) -> None:
    """Also for a frame whose size arrives together with the login."""
    sasl = SaslLab(lab)
    large = b"x" * 600_000
    peer = await sasl.connect(ServerConfig(socket_request_max_bytes=600_000))
    if pipelined:
        peer.send(HANDSHAKE, ALICE, b"small", large)
        assert [len(await peer.receive()) for _ in range(3)][2] == 5
    else:
        await log_in(peer)
        peer.send(large)
    assert await peer.receive() == large
    peer.writer.write(struct.pack(">i", 600_001))
    assert await peer.is_closed()
    assert lab.log.reasons() == ["bad_frame"]


@pytest.mark.mission("SEC-115")
async def test_a_client_authenticates_again_between_its_requests(lab: Lab) -> None:
    sasl = SaslLab(lab, max_reauth_ms=3000)
    peer = await sasl.connect()
    await handshake(peer)
    assert (await authenticate(peer)).session_lifetime_ms == 3000
    peer.send(b"p")
    await lab.until(lambda: b"p" in sasl.handler.parked)
    lab.clock.advance(2800)
    peer.send(HANDSHAKE, ALICE, b"after")  # these wait for the reply to the parked request
    sasl.handler.parked[b"p"].send(framed(b"p"))
    assert await peer.receive() == b"p"
    assert len(await peer.receive()) > 0
    again = response_of(framed(await peer.receive()), SaslAuthenticateResponse, 2)
    assert (again.error_code, again.session_lifetime_ms) == (ErrorCode.NONE, 3000)
    assert await peer.receive() == b"after"
    lab.clock.advance(2999)
    peer.send(b"late")
    assert await peer.receive() == b"late"
    assert sasl.counts() == {"successful_authentication": 1, "successful_reauthentication": 1}


@pytest.mark.mission("SEC-116")
async def test_the_first_request_after_the_session_closes_behind_earlier_replies(lab: Lab) -> None:
    sasl = SaslLab(lab, max_reauth_ms=3000)
    peer = await sasl.logged_in()
    peer.send(b"p")
    await lab.until(lambda: b"p" in sasl.handler.parked)
    lab.clock.advance(3000)
    peer.send(b"late", b"later")
    sasl.handler.parked[b"p"].send(framed(b"p"))
    assert await peer.receive() == b"p"
    assert await peer.is_closed()
    assert [body for body, _ in sasl.handler.served] == [b"p"]
    assert sasl.counts() == {"successful_authentication": 1, "expired_connections_killed": 1}


@pytest.mark.mission("SEC-117")
async def test_a_failed_re_authentication_closes_and_is_counted(lab: Lab) -> None:
    sasl = SaslLab(lab, max_reauth_ms=3000)
    peer = await sasl.logged_in()
    await handshake(peer)
    peer.send(request_frame(SaslAuthenticateRequest(b"\0bob\0builder"), 2))
    await lab.until(lambda: "failed_reauthentication" in sasl.counts())
    lab.clock.advance(DELAY_MS)
    response = response_of(framed(await peer.receive()), SaslAuthenticateResponse, 2)
    assert response.error_message is not None
    assert "Cannot change principals" in response.error_message
    assert await peer.is_closed()
    assert sasl.counts() == {"successful_authentication": 1, "failed_reauthentication": 1}


@pytest.mark.mission("SEC-116")
async def test_clients_that_do_not_learn_the_end_of_their_session_are_counted(lab: Lab) -> None:
    sasl = SaslLab(lab, max_reauth_ms=3000)
    peer = await sasl.connect()
    await handshake(peer)
    peer.send(request_frame(SaslAuthenticateRequest(b"\0alice\0secret"), 0))
    await peer.receive()
    assert sasl.counts() == {
        "successful_authentication": 1,
        "successful_authentication_no_reauth": 1,
    }


@pytest.mark.mission("SEC-110")
async def test_an_unfinished_login_is_closed_after_its_time_out(lab: Lab) -> None:
    sasl = SaslLab(lab)
    silent = await sasl.connect()
    done = await lab.connect(sasl.server)
    await log_in(done)
    await lab.until(lambda: sasl.server.connection_count == 2)
    lab.clock.advance(LOGIN_TIMEOUT_MS)
    assert await silent.is_closed()
    done.send(b"still here")
    assert await done.receive() == b"still here"
    assert sasl.counts() == {"successful_authentication": 1, "failed_authentication": 1}


async def test_a_broker_that_starts_does_not_count_its_own_time(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect(holding=True)
    peer.send(HANDSHAKE)
    await lab.until(lambda: sasl.server.connection_count == 1)
    lab.clock.advance(LOGIN_TIMEOUT_MS)
    sasl.server.enable_request_processing()
    assert len(await peer.receive()) > 0
    assert (await authenticate(peer)).error_code == ErrorCode.NONE


async def test_a_connection_is_anonymous_before_its_login(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    await handshake(peer)
    (connection,) = sasl.server._connections.values()
    assert connection.principal == ANONYMOUS
    await authenticate(peer)
    assert connection.principal == Principal("alice")


@pytest.mark.mission("SEC-108")
async def test_many_failing_logins_are_held_for_the_delay_only(lab: Lab) -> None:
    """Meanwhile a client that has logged in is served, and one event a second is logged."""
    sasl = SaslLab(lab)
    victim = await sasl.logged_in()
    for _ in range(5):
        peers = [await lab.connect(sasl.server) for _ in range(40)]
        before = sasl.sasl.counts.failed_authentication
        for peer in peers:
            peer.send(HANDSHAKE, WRONG)
        await lab.until(lambda: sasl.sasl.counts.failed_authentication == before + 40)  # noqa: B023
        assert sasl.server.connection_count == 41
        victim.send(b"request")
        assert await victim.receive() == b"request"
        lab.clock.advance(DELAY_MS)
        await lab.until(lambda: sasl.server.connection_count == 1)
    assert len([timer for timer in lab.clock.timers if not timer.cancelled]) == 1
    assert [event for _, event, _ in lab.log.events].count("authentication_failed") == 1


@pytest.mark.mission("SEC-108")
@pytest.mark.parametrize("request_frame", [WRONG, METADATA, ALICE], ids=["wrong", "other", "good"])
async def test_a_closed_connection_is_freed_at_once(lab: Lab, request_frame: bytes) -> None:
    """It has a buffer of 64 KiB, and the garbage collector of a broker runs rarely."""
    sasl = SaslLab(lab, max_reauth_ms=3000)
    peer = await sasl.connect()
    peer.send(HANDSHAKE, request_frame)
    await lab.until(lambda: sasl.counts() != {})
    (connection,) = sasl.server._connections.values()
    connection.overlapping = {0}  # it has no weak references itself, if it is compiled
    held = weakref.ref(connection.overlapping)
    del connection
    gc.collect()
    gc.disable()
    try:
        lab.clock.advance(DELAY_MS)
        peer.close()
        await lab.until(lambda: sasl.server.connection_count == 0)
        lab.clock.advance(LOGIN_TIMEOUT_MS)  # it keeps cancelled timers
        await asyncio.sleep(0)
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.mission("GLASS-54")
async def test_a_client_that_logs_in_counts_with_its_software(lab: Lab) -> None:
    sasl = SaslLab(lab)
    peer = await sasl.connect()
    peer.send(request_frame(ApiVersionsRequest("librdkafka", "2.6.0"), 3))
    await peer.receive()
    assert dict(sasl.server.clients.by_software()) == {}
    await log_in(peer)
    assert dict(sasl.server.clients.by_software()) == {("test", "librdkafka", "2.6.0"): 1}
    silent = await lab.connect(sasl.server)
    await log_in(silent)
    assert sasl.server.clients.by_software().total() == 1
