"""The client's state machine of SASL logins, against the broker's and against wrong responses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.security.sasl.client_login import (
    FIRST_CORRELATION_ID,
    LAST_CORRELATION_ID,
    ClientAction,
    ClientLoggedIn,
    ClientLogin,
    LoginFailed,
)
from minikafka.core.security.sasl.exchange import ClientExchange, Send
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.sasl.server_login import (
    Close,
    CloseAfterDelay,
    CloseCause,
    LoggedIn,
    ServerLogin,
)
from minikafka.core.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import Principal
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.support.security.logins import (
    NOW_MS,
    SEED,
    SERVED,
    WALL_MS,
    login_config,
    oauthbearer,
    unsecured,
)

Exchange = Callable[[], ClientExchange]

GOOD: list[tuple[Exchange, str]] = [
    (lambda: PlainClient("alice", "secret"), "alice"),
    (lambda: ScramClient(SCRAM_SHA_256, "alice", "secret", "abc"), "alice"),
    (lambda: ScramClient(SCRAM_SHA_512, "bob", "builder", "abc"), "bob"),
    (lambda: ScramClient(SCRAM_SHA_256, "token-1", "hmac", "abc", by_token=True), "alice"),
    (lambda: OAuthBearerClient(unsecured("carol", 3600), {"a": "b"}), "carol"),
]
INVALID = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
)
BAD: list[tuple[Exchange, str]] = [
    (
        lambda: PlainClient("alice", "wrong"),
        "Authentication failed: Invalid username or password",
    ),
    (lambda: ScramClient(SCRAM_SHA_256, "alice", "x", "abc"), INVALID + "SCRAM-SHA-256"),
    (lambda: ScramClient(SCRAM_SHA_512, "eve", "x", "abc"), INVALID + "SCRAM-SHA-512"),
    (lambda: OAuthBearerClient(unsecured("carol", -1)), '{"status":"invalid_token"}'),
]


def server(max_reauth_ms: int = 0, served: Sequence[ApiVersion] = SERVED) -> ServerLogin:
    config = login_config(max_reauth_ms, OAUTHBEARER=oauthbearer(max_reauth_ms))
    response = ApiVersionsResponse(api_keys=list(served))
    return ServerLogin(replace(config, api_versions=lambda _: response), SEED)


def served(handshake: int | None, authenticate: int | None) -> list[ApiVersion]:
    """ApiVersions rows with these highest versions; None: no such row."""
    rows = {17: handshake, 18: 4, 36: authenticate}
    return [ApiVersion(key, 0, last) for key, last in rows.items() if last is not None]


class Wire:
    """A client and a broker, joined in memory. ``keys`` are the requests of the client, with their
    versions; a raw token is (-1, -1)."""

    def __init__(self, login: ClientLogin, other: ServerLogin) -> None:
        self.login = login
        self.other = other
        self.keys: list[tuple[int, int]] = []
        self.accepted: LoggedIn | None = None
        self.closed: Close | CloseAfterDelay | None = None

    def run(
        self, exchange: ClientExchange, at_ms: int = 0, jitter: float = 0.5
    ) -> ClientAction | None:
        """Log in. Return the client's last action, None if the broker closed without bytes."""
        (action,) = self.login.begin(exchange, jitter)
        while isinstance(action, Send):
            self._note(action.frame[4:])
            actions = self.other.receive(action.frame[4:], NOW_MS + at_ms, WALL_MS + at_ms)
            reply = self._reply(actions)
            if reply is None:
                return None
            assert self.login.in_progress
            (action,) = self.login.receive(memoryview(reply)[4:], at_ms)
        assert not self.login.in_progress
        return action

    def _note(self, frame: bytes) -> None:
        if self.other.principal is None and self.keys and self.keys[-1] in ((17, 0), (-1, -1)):
            self.keys.append((-1, -1))
            return
        header, _ = decode_request_header(memoryview(frame))
        assert FIRST_CORRELATION_ID <= header.correlation_id <= LAST_CORRELATION_ID
        assert header.client_id == "me"
        self.keys.append((header.api_key, header.api_version))

    def _reply(self, actions: Sequence[object]) -> bytes | None:
        reply = None
        for action in actions:
            if isinstance(action, Send):
                reply = action.frame
            elif isinstance(action, LoggedIn):
                self.accepted = action
            else:
                assert isinstance(action, (Close, CloseAfterDelay))
                self.closed = action
                reply = action.frame if isinstance(action, CloseAfterDelay) else None
        return reply


@pytest.mark.parametrize(("exchange", "user"), GOOD)
@pytest.mark.parametrize("authenticate", [0, 1, 2, 7])
def test_every_mechanism_in_frames(exchange: Exchange, user: str, authenticate: int) -> None:
    wire = Wire(ClientLogin("me"), server(served=served(5, authenticate)))
    done = wire.run(exchange())
    assert isinstance(done, ClientLoggedIn)
    assert wire.accepted is not None
    assert wire.accepted.principal == Principal(user)
    assert wire.keys[:2] == [(18, 0), (17, 1)]
    assert set(wire.keys[2:]) == {(36, min(authenticate, 2))}


@pytest.mark.parametrize(("exchange", "user"), GOOD)
@pytest.mark.parametrize("rows", [served(0, None), served(1, None), served(0, 2), served(None, 2)])
def test_every_mechanism_with_raw_tokens(
    exchange: Exchange, user: str, rows: list[ApiVersion]
) -> None:
    wire = Wire(ClientLogin("me"), server(served=rows))
    assert wire.run(exchange()) == ClientLoggedIn(None, None)
    assert wire.accepted is not None
    assert wire.accepted.principal == Principal(user)
    assert wire.keys[:2] == [(18, 0), (17, 0)]
    assert set(wire.keys[2:]) == {(-1, -1)}


@pytest.mark.parametrize(("exchange", "message"), BAD)
def test_a_refused_login_has_the_message_of_the_broker(exchange: Exchange, message: str) -> None:
    wire = Wire(ClientLogin("me"), server())
    failed = wire.run(exchange())
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.error.message == message
    assert wire.accepted is None
    assert isinstance(wire.closed, CloseAfterDelay)


@pytest.mark.parametrize(("exchange", "message"), BAD)
def test_a_refused_login_with_raw_tokens_is_closed(exchange: Exchange, message: str) -> None:
    wire = Wire(ClientLogin("me"), server(served=served(0, None)))
    assert wire.run(exchange()) is None
    if isinstance(wire.closed, Close):
        assert wire.closed.cause is CloseCause.RAW_TOKEN_REFUSED
        assert message.startswith(INVALID)
    else:
        assert wire.closed is not None
        assert wire.closed.reason == message


def test_a_mechanism_that_is_not_enabled() -> None:
    class Unknown(PlainClient):
        mechanism = "NTLM"

    failed = Wire(ClientLogin("me"), server()).run(Unknown("a", "b"))
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert failed.error.message == (
        "Client SASL mechanism 'NTLM' not enabled in the server, enabled mechanisms are "
        "[PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER]"
    )


@pytest.mark.mission("SEC-115")
@pytest.mark.parametrize(("jitter", "part"), [(0.0, 0.85), (0.5, 0.9), (1.0, 0.95)])
def test_a_client_authenticates_again_before_its_session_ends(jitter: float, part: float) -> None:
    wire = Wire(ClientLogin("me"), server(max_reauth_ms=100_000))
    done = wire.run(PlainClient("alice", "secret"), 7, jitter)
    assert done == ClientLoggedIn(100_000, 7 + int(100_000 * part))


@pytest.mark.mission("SEC-115")
@pytest.mark.parametrize(("exchange", "user"), GOOD)
def test_re_authentication_with_every_mechanism(exchange: Exchange, user: str) -> None:
    wire = Wire(ClientLogin("me"), server(max_reauth_ms=3000))
    at_ms = 0
    for _ in range(4):  # more than there are correlation ids
        done = wire.run(exchange(), at_ms)
        assert done == ClientLoggedIn(3000, at_ms + 2700)
        assert wire.accepted is not None
        assert wire.accepted.session_end_ms == NOW_MS + at_ms + 3000
        at_ms += 2700
    assert wire.accepted is not None
    assert wire.accepted.principal == Principal(user)
    assert wire.accepted.reauthentication_ms == 0
    assert wire.keys.count((18, 0)) == 1
    assert wire.keys.count((17, 1)) == 4


@pytest.mark.mission("SEC-117")
def test_failures_of_a_re_authentication() -> None:
    wire = Wire(ClientLogin("me"), server(max_reauth_ms=3000))
    wire.run(PlainClient("alice", "secret"))
    failed = wire.run(PlainClient("bob", "builder"), 2700)
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.error.message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    wire = Wire(ClientLogin("me"), server(max_reauth_ms=3000))
    wire.run(PlainClient("alice", "secret"))
    assert wire.run(ScramClient(SCRAM_SHA_256, "alice", "secret", "abc"), 2700) is None


def test_a_client_that_knows_the_versions_does_not_ask() -> None:
    wire = Wire(ClientLogin("me", served(1, 1)), server())
    assert isinstance(wire.run(PlainClient("alice", "secret")), ClientLoggedIn)
    assert wire.keys == [(17, 1), (36, 1)]


# -- responses of a wrong server


def client(*frames: bytes, exchange: ClientExchange | None = None) -> Sequence[ClientAction]:
    """Begin a login with PLAIN, receive frames, and return the last actions."""
    login = ClientLogin("me")
    actions = login.begin(exchange or PlainClient("alice", "secret"), 0)
    for frame in frames:
        actions = login.receive(frame, 0)
    return actions


VERSIONS = encode_response(FIRST_CORRELATION_ID, ApiVersionsResponse(api_keys=list(SERVED)), 0)[4:]
HANDSHAKE = encode_response(FIRST_CORRELATION_ID + 1, SaslHandshakeResponse(0, ["X"]), 1)[4:]


def authenticated(response: SaslAuthenticateResponse) -> bytes:
    return encode_response(FIRST_CORRELATION_ID + 2, response, 2)[4:]


@pytest.mark.parametrize(
    ("frames", "code", "message"),
    [
        (
            [encode_response(FIRST_CORRELATION_ID, ApiVersionsResponse(35), 0)[4:]],
            ErrorCode.UNSUPPORTED_VERSION,
            None,
        ),
        (
            [VERSIONS, encode_response(FIRST_CORRELATION_ID + 1, SaslHandshakeResponse(34), 1)[4:]],
            ErrorCode.ILLEGAL_SASL_STATE,
            "Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are []",
        ),
        (
            [
                VERSIONS,
                encode_response(FIRST_CORRELATION_ID + 1, SaslHandshakeResponse(3, ["X"]), 1)[4:],
            ],
            ErrorCode.ILLEGAL_SASL_STATE,
            (
                "Unknown error code UNKNOWN_TOPIC_OR_PARTITION, client mechanism is PLAIN, enabled "
                "mechanisms are [X]"
            ),
        ),
        (
            [VERSIONS, HANDSHAKE, authenticated(SaslAuthenticateResponse(58, None))],
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            None,
        ),
        (
            [VERSIONS, HANDSHAKE, authenticated(SaslAuthenticateResponse(34, "not now"))],
            ErrorCode.ILLEGAL_SASL_STATE,
            "not now",
        ),
    ],
)
def test_errors_of_the_broker(frames: list[bytes], code: ErrorCode, message: str | None) -> None:
    (failed,) = client(*frames)
    assert isinstance(failed, LoginFailed)
    assert (failed.error.code, failed.error.message) == (code, message)


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"HTTP/1.1 400 Bad Request"],
        [VERSIONS[:-1]],
        [struct.pack(">i", FIRST_CORRELATION_ID + 1) + VERSIONS[4:]],
        [VERSIONS, HANDSHAKE[:5]],
        [VERSIONS, VERSIONS],
        [VERSIONS, HANDSHAKE, b""],
        [VERSIONS, HANDSHAKE, HANDSHAKE],
    ],
)
def test_an_unreadable_response(frames: list[bytes]) -> None:
    (failed,) = client(*frames)
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.ILLEGAL_SASL_STATE
    assert failed.error.message is not None
    assert failed.error.message.startswith("the server may expect another protocol, ")


@pytest.mark.parametrize("token", [b"", b"v=", b"r=abc,s=,i=4096"])
def test_a_server_that_does_not_know_the_credential(token: bytes) -> None:
    scram = ScramClient(SCRAM_SHA_256, "alice", "secret", "abc")
    (failed,) = client(
        VERSIONS,
        HANDSHAKE,
        authenticated(SaslAuthenticateResponse(auth_bytes=token)),
        exchange=scram,
    )
    if token.startswith(b"r="):
        assert isinstance(failed, Send)  # it only has the password's proof now
        return
    assert isinstance(failed, LoginFailed)
    assert failed.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.error.message == "the first message of the server is malformed"


FRAMES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([VERSIONS, HANDSHAKE]),
    st.builds(
        lambda offset, rest: struct.pack(">i", FIRST_CORRELATION_ID + offset) + rest,
        st.integers(0, 3),
        st.binary(max_size=30),
    ),
    st.builds(
        lambda code, token, life: authenticated(SaslAuthenticateResponse(code, "", token, life)),
        st.sampled_from([0, 58, 32_000]),
        st.binary(max_size=10) | st.sampled_from([b"r=abcd,s=,i=4096", b"v=", b"v=AAAA"]),
        st.integers(-(2**63), 2**63 - 1),
    ),
)


@settings(max_examples=200)
@given(st.sampled_from([(), (VERSIONS,), (VERSIONS, HANDSHAKE)]), st.lists(FRAMES, max_size=5))
def test_random_responses_never_raise_and_never_end_in_a_login(
    opening: Sequence[bytes], frames: Sequence[bytes]
) -> None:
    login = ClientLogin("me")
    login.begin(ScramClient(SCRAM_SHA_256, "alice", "secret", "abc"), 1)
    for frame in (*opening, *frames):
        if login.in_progress:
            (action,) = login.receive(frame, 0)
            assert isinstance(action, (Send, LoginFailed))
