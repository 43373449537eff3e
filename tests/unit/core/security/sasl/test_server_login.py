"""The broker's state machine of SASL logins, row by row as Kafka's, and under random input."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.security.sasl.exchange import Send, Success
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.sasl.server_login import (
    SERVE,
    Action,
    Close,
    CloseAfterDelay,
    CloseCause,
    EnabledMechanism,
    LoggedIn,
    Serve,
    ServerLogin,
    session_lifetime_ms,
)
from minikafka.core.security.scram_credentials import SCRAM_SHA_256
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.support.security.logins import (
    NOW_MS,
    SERVED,
    WALL_MS,
    login_config,
    oauthbearer,
    request_frame,
    response_of,
    sent,
    server_login,
    unsecured,
)

ALICE = b"\0alice\0secret"
BOB = b"\0bob\0builder"
METADATA = request_frame(MetadataRequest(topics=[]), 1)
VERSIONS = request_frame(ApiVersionsRequest(), 0)
NAMES = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
INVALID_SIZE = "Failing SASL authentication due to invalid receive size"
WRONG_PASSWORD = "Authentication failed: Invalid username or password"
STANDARD = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "SCRAM-SHA-256"
)


def receive(login: ServerLogin, frame: bytes, at_ms: int = 0) -> Sequence[Action]:
    """Receive a frame ``at_ms`` after the start of the test."""
    return login.receive(frame, NOW_MS + at_ms, WALL_MS + at_ms)


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request_frame(SaslHandshakeRequest(mechanism), version)


def token(auth_bytes: bytes, version: int = 2) -> bytes:
    return request_frame(SaslAuthenticateRequest(auth_bytes), version)


def authenticating(
    mechanism: str = "PLAIN", version: int = 1, max_reauth_ms: int = 0
) -> ServerLogin:
    """A login whose handshake is over."""
    login = server_login(max_reauth_ms)
    assert_handshake(receive(login, handshake(mechanism, version)), version)
    return login


def assert_handshake(actions: Sequence[Action], version: int = 1) -> None:
    response = response_of(sent(actions), SaslHandshakeResponse, version)
    assert response == SaslHandshakeResponse(0, NAMES)


def logged_in(max_reauth_ms: int = 0) -> ServerLogin:
    login = authenticating(max_reauth_ms=max_reauth_ms)
    send, done = receive(login, token(ALICE))
    assert isinstance(send, Send)
    assert isinstance(done, LoggedIn)
    return login


def assert_over(login: ServerLogin) -> None:
    """Whatever comes after a failure is dropped."""
    for frame in (VERSIONS, handshake("PLAIN"), token(ALICE), ALICE, b""):
        assert receive(login, frame) == ()
    assert login.refuse_frame("a frame of -1 bytes") == ()


def failure(actions: Sequence[Action]) -> CloseAfterDelay:
    (action,) = actions
    assert isinstance(action, CloseAfterDelay)
    return action


def closed(actions: Sequence[Action]) -> Close:
    (action,) = actions
    assert isinstance(action, Close)
    return action


# -- start


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x60\x82\x02\x00",
        b"\0" * 7,
        struct.pack(">hhih", 88, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 18, 0, 1, 100),
        # The header of ApiVersions v3 and later ends with tagged fields, also in unknown versions.
        struct.pack(">hhih", 18, 99, 1, -1),
    ],
)
def test_a_first_frame_without_a_readable_header(frame: bytes) -> None:
    login = server_login()
    fail = failure(receive(login, frame))
    assert fail.frame is None
    assert fail.reason == (
        "Exception handling first SASL packet from client, GSSAPI is not supported by server"
    )
    assert not fail.reauthentication
    assert fail.mechanism is None
    assert_over(login)


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("version", range(5))
def test_api_versions_before_the_handshake(version: int) -> None:
    login = server_login()
    actions = receive(login, request_frame(ApiVersionsRequest("app", "1.0"), version))
    response = response_of(sent(actions), ApiVersionsResponse, version)
    assert response.error_code == 0
    assert tuple(response.api_keys) == SERVED
    assert_handshake(receive(login, handshake("PLAIN")))


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_of_api_versions_gets_a_response_of_version_0(version: int) -> None:
    login = server_login()
    frame = struct.pack(">hhihB", 18, version, 7, -1, 0) + b"whatever"
    for _ in range(2):
        response = response_of(sent(receive(login, frame)), ApiVersionsResponse, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.api_keys == [ApiVersion(ApiKey.API_VERSIONS, 0, 4)]
    response = response_of(sent(receive(login, VERSIONS)), ApiVersionsResponse, 0)
    assert tuple(response.api_keys) == SERVED


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("name", ["", "-app", "app!"])
def test_a_bad_software_name_is_an_invalid_request(name: str) -> None:
    login = server_login()
    frame = request_frame(ApiVersionsRequest(name, "1"), 3)
    response = response_of(sent(receive(login, frame)), ApiVersionsResponse, 3)
    assert response == ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    assert_handshake(receive(login, handshake("PLAIN")))


@pytest.mark.mission("SEC-110")
def test_a_second_api_versions_request_closes_the_connection() -> None:
    login = server_login()
    assert response_of(sent(receive(login, VERSIONS)), ApiVersionsResponse, 0).error_code == 0
    close = closed(receive(login, VERSIONS))
    assert close == Close(
        CloseCause.UNEXPECTED_REQUEST, "ApiVersions was requested a second time during the login"
    )
    assert_over(login)


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("first", [(), (VERSIONS,)])
def test_an_unknown_mechanism(first: Sequence[bytes]) -> None:
    login = server_login()
    for frame in first:
        receive(login, frame)
    fail = failure(receive(login, handshake("plain")))
    assert fail.frame is not None
    response = response_of(fail.frame, SaslHandshakeResponse, 1)
    assert response == SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, NAMES)
    assert fail.reason == "Unsupported SASL mechanism plain"
    assert_over(login)


def test_a_reason_shows_only_the_beginning_of_a_long_name() -> None:
    fail = failure(receive(server_login(), handshake("x" * 30_000)))
    assert fail.reason == "Unsupported SASL mechanism " + "x" * 200 + "..."


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("first", [(), (VERSIONS,)])
@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 17, 2, 7, -1) + b"\0\5PLAIN",
        struct.pack(">hhih", 17, -1, 7, -1) + b"\0\5PLAIN",
        struct.pack(">hhih", 17, 1, 7, -1) + b"\0\5PLAI",
        struct.pack(">hhih", 17, 1, 7, -1) + b"\xff\xff",
    ],
)
def test_a_handshake_that_cannot_be_decoded_closes(first: Sequence[bytes], frame: bytes) -> None:
    login = server_login()
    for before in first:
        receive(login, before)
    assert closed(receive(login, frame)).cause is CloseCause.UNEXPECTED_REQUEST
    assert_over(login)


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("first", [(), (VERSIONS,)])
@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (METADATA, "METADATA"),
        (token(ALICE), "SASL_AUTHENTICATE"),
        (struct.pack(">hhih", 52, 0, 7, -1), "52"),
    ],
)
def test_any_other_request_before_the_handshake(
    first: Sequence[bytes], frame: bytes, name: str
) -> None:
    login = server_login()
    for before in first:
        receive(login, before)
    fail = failure(receive(login, frame))
    assert fail.frame is None
    assert fail.reason == f"Unexpected Kafka request of type {name} during SASL handshake."
    assert_over(login)


def test_an_unknown_api_closes_after_the_first_frame() -> None:
    login = server_login()
    receive(login, VERSIONS)
    close = closed(receive(login, struct.pack(">hhih", 999, 0, 1, -1)))
    assert close == Close(CloseCause.UNEXPECTED_REQUEST, "unknown API key 999")


# -- tokens


@pytest.mark.parametrize("version", range(3))
def test_plain_in_frames(version: int) -> None:
    login = authenticating()
    assert login.principal is None
    send, done = receive(login, token(ALICE, version))
    assert isinstance(send, Send)
    response = response_of(send.frame, SaslAuthenticateResponse, version)
    assert response == SaslAuthenticateResponse(0, "", b"", 0)
    assert done == LoggedIn(Principal("alice"), "PLAIN", None, None, version > 0)
    assert login.principal == Principal("alice")


def scram(login: ServerLogin, client: ScramClient, at_ms: int = 0) -> Sequence[Action]:
    """Run SCRAM in frames up to the last actions of the broker."""
    actions = receive(login, token(client.initial_response()), at_ms)
    if not isinstance(actions[0], Send):
        return actions
    challenge = response_of(sent(actions), SaslAuthenticateResponse, 2)
    assert challenge.session_lifetime_ms == 0
    final = client.respond(bytes(challenge.auth_bytes))
    assert final is not None
    return receive(login, token(final), at_ms)


def scram_client(user: str, password: str, by_token: bool = False) -> ScramClient:
    return ScramClient(SCRAM_SHA_256, user, password, "abc", by_token)


def test_scram_in_frames() -> None:
    client = scram_client("bob", "builder")
    login = authenticating("SCRAM-SHA-256")
    send, done = scram(login, client)
    assert isinstance(send, Send)
    response = response_of(send.frame, SaslAuthenticateResponse, 2)
    assert client.respond(bytes(response.auth_bytes)) is None
    assert done == LoggedIn(Principal("bob"), "SCRAM-SHA-256", None, None, True)


def test_each_exchange_has_another_nonce() -> None:
    seen = set()
    for seed in (b"0" * 16, b"1" * 16):
        login = ServerLogin(login_config(max_reauth_ms=9000), seed)
        for at_ms in (0, 1000):
            receive(login, handshake("SCRAM-SHA-256"), at_ms)
            client = scram_client("bob", "builder")
            actions = receive(login, token(client.initial_response()), at_ms)
            challenge = bytes(response_of(sent(actions), SaslAuthenticateResponse, 2).auth_bytes)
            seen.add(challenge)
            final = client.respond(challenge)
            assert final is not None
            assert isinstance(receive(login, token(final), at_ms)[1], LoggedIn)
    assert len(seen) == 4


@pytest.mark.mission("SEC-107")
def test_a_failure_with_a_message_of_its_own() -> None:
    login = authenticating()
    fail = failure(receive(login, token(b"\0alice\0wrong")))
    assert fail.frame is not None
    response = response_of(fail.frame, SaslAuthenticateResponse, 2)
    assert response == SaslAuthenticateResponse(
        ErrorCode.SASL_AUTHENTICATION_FAILED, WRONG_PASSWORD, b"", 0
    )
    assert fail == CloseAfterDelay(fail.frame, WRONG_PASSWORD, "wrong password", False, "PLAIN")
    assert login.principal is None
    assert_over(login)


@pytest.mark.mission("SEC-113")
@pytest.mark.parametrize("user", ["bob", "mallory"])
def test_a_failure_with_the_standard_message(user: str) -> None:
    login = authenticating("SCRAM-SHA-256")
    fail = failure(scram(login, scram_client(user, "wrong")))
    assert fail.frame is not None
    response = response_of(fail.frame, SaslAuthenticateResponse, 2)
    assert response.error_message == STANDARD == fail.reason
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_over(login)


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize(
    ("frame", "kind", "version", "error_code"),
    [
        (VERSIONS, ApiVersionsResponse, 0, ErrorCode.ILLEGAL_SASL_STATE),
        (
            struct.pack(">hhihB", 18, 99, 7, -1, 0),
            ApiVersionsResponse,
            0,
            ErrorCode.ILLEGAL_SASL_STATE,
        ),
        (handshake("PLAIN"), SaslHandshakeResponse, 1, ErrorCode.ILLEGAL_SASL_STATE),
        (METADATA, MetadataResponse, 1, None),
        (request_frame(FetchRequest(), 12), FetchResponse, 12, ErrorCode.ILLEGAL_SASL_STATE),
    ],
)
def test_another_request_while_tokens_are_expected(
    frame: bytes,
    kind: type[ApiVersionsResponse | SaslHandshakeResponse | MetadataResponse | FetchResponse],
    version: int,
    error_code: ErrorCode | None,
) -> None:
    login = authenticating()
    fail = failure(receive(login, frame))
    assert fail.frame is not None
    response = response_of(fail.frame, kind, version)
    if isinstance(response, MetadataResponse):
        assert (response.brokers, response.controller_id, response.topics) == ([], -1, [])
    else:
        assert response.error_code == error_code
    assert fail.reason.startswith("Unexpected Kafka request of type ")
    assert fail.reason.endswith(" during SASL authentication.")
    assert_over(login)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        ALICE,
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 52, 0, 1, -1),
        struct.pack(">hhihB", 3, 99, 1, -1, 0),
        struct.pack(">hhihB", 36, 3, 1, -1, 0) + b"\1\0",
        struct.pack(">hhih", 36, 1, 1, -1) + b"\0\0\0\5",
        struct.pack(">hhih", 36, 1, 1, -1) + b"\xff\xff\xff\xff",
    ],
)
def test_an_unreadable_frame_while_tokens_are_expected(frame: bytes) -> None:
    login = authenticating()
    assert closed(receive(login, frame)).cause is CloseCause.UNEXPECTED_REQUEST
    assert_over(login)


# -- raw tokens, after handshake v0


@pytest.mark.mission("SEC-110")
def test_plain_with_raw_tokens() -> None:
    login = authenticating(version=0)
    assert receive(login, ALICE) == (
        Send(b"\0\0\0\0"),
        LoggedIn(Principal("alice"), "PLAIN", None, None, False),
    )
    assert receive(login, METADATA) == SERVE


@pytest.mark.mission("SEC-110")
def test_scram_with_raw_tokens() -> None:
    login = authenticating("SCRAM-SHA-256", version=0)
    client = scram_client("alice", "secret")
    challenge = sent(receive(login, client.initial_response()))
    assert int.from_bytes(challenge[:4], "big") == len(challenge) - 4
    final = client.respond(challenge[4:])
    assert final is not None
    send, done = receive(login, final)
    assert isinstance(send, Send)
    assert client.respond(send.frame[4:]) is None
    assert done == LoggedIn(Principal("alice"), "SCRAM-SHA-256", None, None, False)


@pytest.mark.mission("SEC-110")
def test_refused_raw_tokens() -> None:
    login = authenticating(version=0)
    fail = failure(receive(login, b"\0alice\0wrong"))
    assert fail == CloseAfterDelay(None, WRONG_PASSWORD, "wrong password", False, "PLAIN")
    assert_over(login)
    login = authenticating("SCRAM-SHA-256", version=0)
    close = closed(receive(login, scram_client("mallory", "x").initial_response()))
    assert close == Close(
        CloseCause.RAW_TOKEN_REFUSED, "the user has no credential for this mechanism"
    )
    assert_over(login)


# -- sizes


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("before", [(), (VERSIONS,), (VERSIONS, handshake("PLAIN"))])
def test_a_frame_above_the_limit(before: Sequence[bytes]) -> None:
    for refuse in (True, False):
        login = server_login()
        for frame in before:
            receive(login, frame)
        assert login.max_frame_bytes == 524_288
        if refuse:
            fail = failure(login.refuse_frame("a frame of 524289 bytes"))
        else:
            fail = failure(receive(login, bytes(524_289)))
        assert (fail.frame, fail.reason) == (None, INVALID_SIZE)
        assert fail.detail == "a frame of 524289 bytes"
        assert_over(login)


def test_a_frame_at_the_limit_is_processed() -> None:
    login = authenticating(version=0)
    fail = failure(receive(login, b"\0alice\0" + b"x" * (524_288 - 7)))
    assert fail.reason == WRONG_PASSWORD


def test_the_limit_ends_with_the_login() -> None:
    login = logged_in()
    assert login.max_frame_bytes is None
    assert receive(login, bytes(524_289)) == SERVE
    close = closed(login.refuse_frame("a frame of 2000000000 bytes"))
    assert close == Close(CloseCause.UNEXPECTED_REQUEST, "a frame of 2000000000 bytes")


# -- after the login


@pytest.mark.mission("SEC-110")
@pytest.mark.parametrize("frame", [METADATA, VERSIONS, handshake("PLAIN"), token(ALICE), b""])
def test_a_session_without_an_end_serves_everything(frame: bytes) -> None:
    """Its SaslHandshake and SaslAuthenticate are refused by the request handler, in their turn."""
    login = logged_in()
    assert login.serves_everything
    assert not login.waits_for_replies(frame, 10**9)
    assert receive(login, frame, 10**9) == SERVE
    assert login.principal == Principal("alice")


@pytest.mark.mission("SEC-115")
@pytest.mark.parametrize("version", range(3))
def test_the_client_gets_the_lifetime_of_its_session(version: int) -> None:
    login = authenticating(max_reauth_ms=3000)
    send, done = receive(login, token(ALICE, version))
    assert isinstance(send, Send)
    response = response_of(send.frame, SaslAuthenticateResponse, version)
    assert response.session_lifetime_ms == (3000 if version else 0)
    assert isinstance(done, LoggedIn)
    assert done.session_end_ms == NOW_MS + 3000
    assert not login.serves_everything


@pytest.mark.mission("SEC-115")
def test_a_session_goes_on_after_each_re_authentication() -> None:
    login = logged_in(max_reauth_ms=3000)
    for at_ms in (0, 2800, 5600):  # the first one may come at once
        assert receive(login, METADATA, at_ms) == SERVE
        assert login.waits_for_replies(handshake("PLAIN"), NOW_MS + at_ms)
        assert not login.waits_for_replies(METADATA, NOW_MS + at_ms)
        assert_handshake(receive(login, handshake("PLAIN"), at_ms))
        assert login.waits_for_replies(METADATA, NOW_MS + at_ms)
        assert login.principal == Principal("alice")
        send, done = receive(login, token(ALICE), at_ms + 40)
        assert isinstance(send, Send)
        assert response_of(send.frame, SaslAuthenticateResponse, 2).session_lifetime_ms == 3000
        end_ms = NOW_MS + at_ms + 40 + 3000
        assert done == LoggedIn(Principal("alice"), "PLAIN", end_ms, 40, True)


@pytest.mark.mission("SEC-115")
def test_re_authentication_is_possible_after_the_end_of_the_session() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert_handshake(receive(login, handshake("PLAIN"), 99_000))
    assert isinstance(receive(login, token(ALICE), 99_001)[1], LoggedIn)
    assert receive(login, METADATA, 99_002) == SERVE


@pytest.mark.mission("SEC-116")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("frame", [METADATA, VERSIONS, token(ALICE), b""])
def test_a_session_past_its_end_is_cut_at_the_next_request(version: int, frame: bytes) -> None:
    login = authenticating(version=version, max_reauth_ms=3000)
    receive(login, token(ALICE) if version else ALICE)
    assert receive(login, METADATA, 2999) == SERVE
    assert [login.waits_for_replies(frame, NOW_MS + at_ms) for at_ms in (2999, 3000)] == [
        False,
        True,
    ]
    close = closed(receive(login, frame, 3000))
    assert close == Close(CloseCause.SESSION_EXPIRED, "the session of the client has expired")
    assert_over(login)


@pytest.mark.mission("SEC-116")
def test_the_end_of_a_session_does_not_follow_the_wall_clock() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert login.receive(METADATA, NOW_MS + 2999, WALL_MS + 10**9) == SERVE
    assert closed(login.receive(METADATA, NOW_MS + 3000, WALL_MS - 10**9))


@pytest.mark.mission("SEC-117")
def test_re_authentication_as_somebody_else() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert_handshake(receive(login, handshake("PLAIN"), 2000))
    fail = failure(receive(login, token(BOB), 2000))
    assert fail.frame is not None
    response = response_of(fail.frame, SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == fail.reason
    assert fail.reason == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert fail.reauthentication
    assert_over(login)


@pytest.mark.mission("SEC-117")
def test_re_authentication_as_somebody_else_with_raw_tokens() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert_handshake(receive(login, handshake("PLAIN", 0), 2000), 0)
    fail = failure(receive(login, BOB, 2000))
    assert fail.frame is None
    assert fail.reason.startswith("Cannot change principals")


@pytest.mark.mission("SEC-117")
def test_re_authentication_with_another_mechanism() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert_handshake(receive(login, handshake("SCRAM-SHA-256"), 2000))
    fail = failure(receive(login, token(b"n,,n=alice,r=abc"), 2000))
    assert fail.frame is None
    assert fail.reason == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
        "re-authentication of mechanism 'PLAIN'"
    )
    assert fail.reauthentication
    assert_over(login)


@pytest.mark.mission("SEC-117")
def test_re_authentication_twice_within_a_second() -> None:
    login = logged_in(max_reauth_ms=3000)
    assert_handshake(receive(login, handshake("PLAIN"), 500))
    receive(login, token(ALICE), 500)
    # The request handler refuses it with ILLEGAL_SASL_STATE, and the connection lives on.
    assert receive(login, handshake("PLAIN"), 1499) == SERVE
    assert receive(login, METADATA, 1499) == SERVE
    assert_handshake(receive(login, handshake("PLAIN"), 1500))


@pytest.mark.mission("SEC-117")
def test_other_failures_of_a_re_authentication() -> None:
    login = logged_in(max_reauth_ms=3000)
    fail = failure(receive(login, handshake("NTLM"), 2000))
    assert fail.frame is None  # as with Kafka, unlike in the first login
    assert fail.reauthentication

    login = logged_in(max_reauth_ms=3000)
    receive(login, handshake("PLAIN"), 2000)
    fail = failure(receive(login, METADATA, 2000))
    assert fail.reason == "Unexpected Kafka request of type METADATA during SASL authentication."
    assert fail.reauthentication

    login = logged_in(max_reauth_ms=3000)
    receive(login, handshake("PLAIN"), 2000)
    assert login.max_frame_bytes == 524_288
    assert failure(login.refuse_frame("a frame of 524289 bytes")).reauthentication

    login = logged_in(max_reauth_ms=3000)
    close = closed(receive(login, struct.pack(">hhih", 17, 2, 7, -1), 2000))
    assert close.cause is CloseCause.UNEXPECTED_REQUEST


@pytest.mark.mission("SEC-117")
def test_the_standard_message_names_a_re_authentication() -> None:
    login = authenticating("SCRAM-SHA-256", max_reauth_ms=3000)
    scram(login, scram_client("bob", "builder"))
    receive(login, handshake("SCRAM-SHA-256"), 2000)
    fail = failure(scram(login, scram_client("bob", "wrong"), 2000))
    assert fail.reason == STANDARD.replace("authentication due", "re-authentication due")


# -- the lifetime of a session


@pytest.mark.mission("SEC-115")
@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_ms", "lifetime_ms"),
    [
        (0, None, None),
        (-1, None, None),
        (3000, None, 3000),
        (0, WALL_MS + 500, 500),
        (-1, WALL_MS + 500, 500),
        (0, WALL_MS - 500, 0),
        (3000, WALL_MS + 500, 500),
        (3000, WALL_MS + 5000, 3000),
        (3000, WALL_MS - 1, 0),
        (0, 2**70, 2**63 - 1),
    ],
)
def test_the_lifetime_of_a_session(
    max_reauth_ms: int, expires_ms: int | None, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(max_reauth_ms, expires_ms, WALL_MS) == lifetime_ms


@pytest.mark.mission("SEC-116")
def test_a_login_by_token_ends_with_the_token() -> None:
    login = authenticating("SCRAM-SHA-256")
    send, done = scram(login, scram_client("token-1", "hmac", by_token=True))
    assert isinstance(send, Send)
    assert response_of(send.frame, SaslAuthenticateResponse, 2).session_lifetime_ms == 60_000
    assert isinstance(done, LoggedIn)
    assert done.principal == Principal("alice")
    assert done.principal.by_token
    assert receive(login, METADATA, 59_999) == SERVE
    assert closed(receive(login, METADATA, 60_000)).cause is CloseCause.SESSION_EXPIRED


@pytest.mark.mission("SEC-116")
def test_an_expired_token_logs_in_and_is_cut_at_once() -> None:
    login = authenticating("SCRAM-SHA-256")
    send, done = scram(login, scram_client("expired", "hmac", by_token=True))
    assert isinstance(send, Send)
    assert response_of(send.frame, SaslAuthenticateResponse, 2).session_lifetime_ms == 0
    assert isinstance(done, LoggedIn)
    assert closed(receive(login, METADATA)).cause is CloseCause.SESSION_EXPIRED


@pytest.mark.mission("SEC-118")
def test_a_login_with_an_oauth_token_ends_with_the_token() -> None:
    login = server_login(OAUTHBEARER=oauthbearer(60_000))
    receive(login, handshake("OAUTHBEARER"))
    client = OAuthBearerClient(unsecured("carol", 20))
    send, done = receive(login, token(client.initial_response()))
    assert isinstance(send, Send)
    assert response_of(send.frame, SaslAuthenticateResponse, 2) == SaslAuthenticateResponse(
        0, "", b"", 20_000
    )
    assert done == LoggedIn(Principal("carol"), "OAUTHBEARER", NOW_MS + 20_000, None, True)


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("bearer", "json"),
    [
        (unsecured("carol", -1), '{"status":"invalid_token"}'),
        (
            unsecured("carol", 20, "other"),
            '{"status":"insufficient_scope", "scope":"[kafka]"}',
        ),
    ],
)
def test_a_refused_oauth_token_has_error_0_and_then_58(bearer: str, json: str) -> None:
    login = server_login(OAUTHBEARER=oauthbearer())
    receive(login, handshake("OAUTHBEARER"))
    client = OAuthBearerClient(bearer)
    response = response_of(
        sent(receive(login, token(client.initial_response()))), SaslAuthenticateResponse, 2
    )
    assert response == SaslAuthenticateResponse(0, "", json.encode(), 0)
    fail = failure(receive(login, token(b"\x01")))
    assert fail.frame is not None
    response = response_of(fail.frame, SaslAuthenticateResponse, 2)
    assert response == SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, json, b"", 0)
    assert_over(login)


def test_an_error_message_is_cut_to_the_limit_of_all_versions() -> None:
    names = iter(["a", "é" * 100_000])

    class Renaming:
        def respond(self, token: bytes, wall_ms: int) -> Success:
            return Success(b"", Principal(next(names)))

    login = server_login(X=EnabledMechanism(lambda nonce: Renaming(), 3000))
    receive(login, handshake("X"))
    assert isinstance(receive(login, token(b""))[1], LoggedIn)
    receive(login, handshake("X"), 2000)
    fail = failure(receive(login, token(b"", 1), 2000))
    assert fail.frame is not None
    message = response_of(fail.frame, SaslAuthenticateResponse, 1).error_message
    assert message is not None
    assert len(message) == 4000
    assert message.startswith("Cannot change principals during re-authentication from User.a: ")


# -- random input

BYTES = st.binary(max_size=40)
TOKENS = st.one_of(
    BYTES,
    st.sampled_from([b"\0alice\0wrong", BOB[:-1], b"\0\0", b"n,,n=alice,r=abc", b"\1"]),
    st.builds(
        lambda nonce, proof: b"c=biws,r=abc" + nonce + b",p=" + base64.b64encode(proof),
        BYTES,
        st.binary(min_size=32, max_size=32),
    ),
)
FRAMES = st.one_of(
    TOKENS,
    st.builds(
        lambda key, version, rest: struct.pack(">hhih", key, version, 7, -1) + rest,
        st.sampled_from([-1, 0, 3, 17, 18, 36, 52, 88]),
        st.integers(-2, 5),
        BYTES,
    ),
    st.builds(handshake, st.sampled_from([*NAMES, "GSSAPI"]), st.integers(0, 1)),
    st.builds(token, TOKENS, st.integers(0, 2)),
    st.sampled_from([VERSIONS, METADATA]),
)
# Random frames rarely get far, so half of the logins begin with a good handshake.
OPENINGS = st.sampled_from([(), (VERSIONS,)]).flatmap(
    lambda first: st.one_of(
        st.just(first),
        st.builds(
            lambda name, version: (*first, handshake(name, version)),
            st.sampled_from(NAMES),
            st.integers(0, 1),
        ),
    )
)


@pytest.mark.mission("SEC-110")
@settings(max_examples=300)
@given(OPENINGS, st.lists(FRAMES, max_size=5))
def test_random_frames_never_raise_and_never_log_in(
    opening: Sequence[bytes], frames: Sequence[bytes]
) -> None:
    login = server_login(3000)
    for frame in (*opening, *frames):
        actions = receive(login, frame)
        assert len(actions) <= 1
        assert not any(isinstance(action, (LoggedIn, Serve)) for action in actions)
        assert login.principal is None
        assert not login.serves_everything


@pytest.mark.mission("SEC-117")
@settings(max_examples=200)
@given(OPENINGS, st.lists(st.tuples(FRAMES, st.sampled_from([0, 400, 2000])), max_size=6))
def test_random_frames_never_prolong_a_session(
    opening: Sequence[bytes], frames: Sequence[tuple[bytes, int]]
) -> None:
    login = logged_in(max_reauth_ms=3000)
    at_ms = 0
    for frame, pause_ms in (*((frame, 400) for frame in opening), *frames):
        at_ms += pause_ms
        actions = receive(login, frame, at_ms)
        assert not any(isinstance(action, LoggedIn) for action in actions)
        assert actions != SERVE or at_ms < 3000
        assert login.principal == Principal("alice")
