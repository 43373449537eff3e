"""Logins with GSSAPI as frames: with SaslAuthenticate, with raw tokens, without a handshake."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from minikafka.core.security.sasl.client_login import ClientLogin, LoginFailed
from minikafka.core.security.sasl.exchange import Send
from minikafka.core.security.sasl.gssapi import GssapiClient, GssapiServer
from minikafka.core.security.sasl.server_login import (
    Action,
    Close,
    CloseAfterDelay,
    CloseCause,
    EnabledMechanism,
    LoggedIn,
    ServerLogin,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.kerberos import Initiation
from minikafka.kernel.principals import Principal
from minikafka.protocol.messages.api_versions import ApiVersion
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from tests.support.security.fake_kerberos import SIGNED, FakeContext
from tests.support.security.logins import (
    NOW_MS,
    WALL_MS,
    request_frame,
    response_of,
    sent,
    server_login,
)

NO_LAYER = SIGNED + bytes((1, 0, 0, 0))
TICKET = b"ticket of alice"


def gssapi_login(mutual: bool = True) -> ServerLogin:
    def start(nonce: str) -> GssapiServer:
        return GssapiServer(FakeContext(mutual=mutual), lambda name: name)

    return server_login(60_000, GSSAPI=EnabledMechanism(start, 60_000))


def receive(login: ServerLogin, frame: bytes, at_ms: int = 0) -> Sequence[Action]:
    return login.receive(frame, NOW_MS + at_ms, WALL_MS + at_ms)


def handshake(version: int) -> bytes:
    return request_frame(SaslHandshakeRequest("GSSAPI"), version)


def token(auth_bytes: bytes) -> bytes:
    return request_frame(SaslAuthenticateRequest(auth_bytes), 2)


def framed(login: ServerLogin, at_ms: int = 0, ticket: bytes = TICKET) -> Sequence[Action]:
    receive(login, handshake(1), at_ms)
    for auth_bytes, expected in ((ticket, b"welcome"), (b"", NO_LAYER)):
        response = response_of(
            sent(receive(login, token(auth_bytes), at_ms)), SaslAuthenticateResponse, 2
        )
        assert (response.error_code, bytes(response.auth_bytes)) == (0, expected)
    return receive(login, token(NO_LAYER), at_ms)


@pytest.mark.mission("SEC-160")
def test_the_last_token_has_an_empty_response_with_the_length_of_the_session() -> None:
    login = gssapi_login()
    send, logged_in = framed(login)
    assert isinstance(send, Send)
    response = response_of(send.frame, SaslAuthenticateResponse, 2)
    assert bytes(response.auth_bytes) == b""
    assert response.session_lifetime_ms == 60_000
    assert isinstance(logged_in, LoggedIn)
    assert (logged_in.principal, logged_in.mechanism) == (Principal("alice"), "GSSAPI")


@pytest.mark.mission("SEC-160")
def test_a_re_authentication_keeps_the_principal() -> None:
    login = gssapi_login()
    framed(login)
    assert isinstance(framed(login, 2000)[1], LoggedIn)
    (fail,) = framed(login, 4000, b"ticket of bob")
    assert isinstance(fail, CloseAfterDelay)
    assert "Cannot change principals" in fail.reason


def raw_logs_in(login: ServerLogin) -> None:
    assert sent(receive(login, TICKET)) == struct.pack(">i", 7) + b"welcome"
    assert sent(receive(login, b"")) == struct.pack(">i", len(NO_LAYER)) + NO_LAYER
    (logged_in,) = receive(login, NO_LAYER)  # and no frame, as Java's clients read none
    assert isinstance(logged_in, LoggedIn)
    assert logged_in.principal == Principal("alice")


@pytest.mark.mission("SEC-160")
def test_raw_tokens_follow_handshake_0() -> None:
    login = gssapi_login()
    receive(login, handshake(0))
    raw_logs_in(login)


@pytest.mark.mission("SEC-160")
def test_a_first_frame_that_is_no_request_is_a_token_of_a_client_of_0_9() -> None:
    raw_logs_in(gssapi_login())
    (closed,) = receive(gssapi_login(), b"\x60\x82\x02\x00")
    assert isinstance(closed, Close)
    assert closed.cause is CloseCause.RAW_TOKEN_REFUSED


@pytest.mark.mission("SEC-160")
def test_a_wrong_ticket_has_the_standard_message() -> None:
    login = gssapi_login()
    receive(login, handshake(1))
    (fail,) = receive(login, token(b"rubbish"))
    assert isinstance(fail, CloseAfterDelay)
    assert fail.frame is not None
    response = response_of(fail.frame, SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism GSSAPI"
    )
    assert fail.detail == "Invalid token was supplied"


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("version", [0, 1])
def test_a_replayed_ticket_closes_without_a_response(version: int) -> None:
    login = gssapi_login()
    receive(login, handshake(version))
    (closed,) = receive(login, token(b"replayed") if version else b"replayed")
    assert closed == Close(CloseCause.LOGIN_INTERRUPTED, "Request is a replay")
    assert receive(login, token(TICKET)) == ()


@pytest.mark.mission("SEC-160")
def test_a_client_refuses_a_broker_without_sasl_authenticate() -> None:
    context = FakeContext("alice")
    ours = ClientLogin("me", [ApiVersion(17, 0, 0)])
    (send,) = ours.begin(GssapiClient(Initiation(context, context.step(b""))), 0.5)
    assert isinstance(send, Send)
    frame = sent(receive(gssapi_login(), send.frame[4:]))
    (failed,) = ours.receive(frame[4:], NOW_MS)
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.UNSUPPORTED_VERSION
