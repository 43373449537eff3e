"""OAUTHBEARER: the messages of both sides, and how a refused token fails the login."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.sasl.exchange import (
    Challenge,
    ExchangeError,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.core.security.sasl.oauthbearer import (
    BearerToken,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenRefusal,
)
from minikafka.kernel.principals import Principal

TOKENS: dict[str, BearerToken | TokenRefusal] = {
    "good": BearerToken("alice", 99),
    "comma": BearerToken("a,b=c", 99),
    "bad": TokenRefusal("it is bad"),
    "weak": TokenRefusal("it is weak", "insufficient_scope", "[admin]"),
}


def validate(token: str, wall_ms: int) -> BearerToken | TokenRefusal:
    assert wall_ms == 5
    return TOKENS.get(token, TokenRefusal("unknown"))


def server() -> OAuthBearerServer:
    return OAuthBearerServer(validate)


def respond(token: bytes) -> ServerOutcome:
    return server().respond(token, 5)


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"n,,\x01auth=Bearer good\x01\x01", "alice"),
        (b"n,,\x01auth=BEARER   good\x01\x01", "alice"),
        (b"n,a=alice,\x01auth=bearer good\x01\x01", "alice"),
        (b"n,a=a=2Cb=3Dc,\x01auth=bearer comma\x01\x01", "a,b=c"),
        (b"n,,\x01auth=Bearer good\x01traceId=a=b c\r\n\x01x=y\x01\x01", "alice"),
        (b"n,,\x01x=y\x01auth=Bearer good\x01\x01", "alice"),
    ],
)
def test_a_valid_token_logs_in(token: bytes, user: str) -> None:
    assert respond(token) == Success(b"", Principal(user), 99)


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("token", "json"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("weak", '{"status":"insufficient_scope", "scope":"[admin]"}'),
    ],
)
def test_a_refused_token_fails_after_the_acknowledgement(token: str, json: str) -> None:
    one, other = OAuthBearerClient(token), server()
    first = other.respond(one.initial_response(), 5)
    assert first == Challenge(json.encode())
    acknowledgement = one.respond(json.encode())
    assert acknowledgement == b"\x01"
    assert other.respond(acknowledgement, 5) == Failure(json, f"it is {token}")
    with pytest.raises(ExchangeError, match="goes on after it has refused"):
        one.respond(b"")


def test_a_client_may_try_another_token_instead() -> None:
    other = server()
    assert isinstance(other.respond(OAuthBearerClient("bad").initial_response(), 5), Challenge)
    assert isinstance(other.respond(OAuthBearerClient("good").initial_response(), 5), Success)
    # The refusal is forgotten then.
    other = server()
    other.respond(OAuthBearerClient("bad").initial_response(), 5)
    other.respond(b"x", 5)
    assert other.respond(b"\x01", 5) == Failure(
        None, "the first message of the client is malformed"
    )


@pytest.mark.mission("SEC-118")
@pytest.mark.parametrize(
    ("token", "detail"),
    [
        (b"", "the first message of the client is malformed"),
        (b"\x01", "the first message of the client is malformed"),
        (b"y,,\x01auth=Bearer good\x01\x01", "the first message of the client is malformed"),
        (b"n,,\x01auth=Bearer good\x01", "the first message of the client is malformed"),
        (b"n,,\x01auth=Bearer good\x01\x01x", "the first message of the client is malformed"),
        (b"n,'a=b,\x01auth=Bearer good\x01\x01", "the first message of the client is malformed"),
        (b"n,,\x01auth=Bearer g\xc3\xa9\x01\x01", "the first message of the client is malformed"),
        (
            b"n,,\x01a1=x\x01auth=Bearer good\x01\x01",
            "the first message of the client is malformed",
        ),
        (b"n,,\x01\x01", "the client sent no token, or a malformed one"),
        (b"n,,\x01x=y\x01\x01", "the client sent no token, or a malformed one"),
        (b"n,,\x01auth=good\x01\x01", "the client sent no token, or a malformed one"),
        (b"n,,\x01auth=Bearer\tgood\x01\x01", "the client sent no token, or a malformed one"),
        (b"n,,\x01auth=Bearer go=od\x01\x01", "the client sent no token, or a malformed one"),
        (b"n,,\x01auth=Basic good\x01\x01", "the client sent the scheme Basic"),
    ],
)
def test_an_unreadable_message_gets_the_standard_text(token: bytes, detail: str) -> None:
    assert respond(token) == Failure(None, detail)


@pytest.mark.mission("SEC-118")
def test_another_authorization_id_is_refused() -> None:
    message = (
        "Authentication failed: Client requested an authorization id (bob) that is different from "
        "the token's principal name (alice)"
    )
    assert respond(b"n,a=bob,\x01auth=Bearer good\x01\x01") == Failure(message, message)


def test_the_message_of_a_client() -> None:
    assert OAuthBearerClient("tok").initial_response() == b"n,,\x01auth=Bearer tok\x01\x01"
    client = OAuthBearerClient("tok", {"traceId": "1", "b": "x y"})
    assert client.initial_response() == b"n,,\x01auth=Bearer tok\x01traceId=1\x01b=x y\x01\x01"
    assert client.respond(b"") is None


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "é"}]
)
def test_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is invalid"):
        OAuthBearerClient("tok", extensions)


PARTS = st.sampled_from([b"n,", b",", b"\x01", b"auth=", b"Bearer ", b"bad", b"a=alice", b"x=y"])


@given(st.lists(st.lists(PARTS | st.binary(max_size=4), max_size=8).map(b"".join), max_size=3))
def test_random_messages_never_raise_and_never_log_in(messages: list[bytes]) -> None:
    other = server()
    for message in messages:
        assert not isinstance(other.respond(message, 5), Success)
