"""SASL/PLAIN: what a token must contain, and Kafka's messages for tokens that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.sasl.exchange import Failure, Success
from minikafka.core.security.sasl.plain import PlainClient, PlainServer
from minikafka.kernel.principals import Principal

USERS = {"alice": "secret", "bob": "pässwörd", "empty": ""}
OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
WRONG = "Authentication failed: Invalid username or password"


def server() -> PlainServer:
    return PlainServer(USERS.get)


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0bob\0pässwörd".encode(), "bob"),
    ],
)
def test_a_user_with_the_right_password_logs_in(token: bytes, user: str) -> None:
    assert server().respond(token, 0) == Success(b"", Principal(user))


@pytest.mark.mission("SEC-107")
@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0empty\0", "Authentication failed: password not specified"),
        (b"\0alice\0Secret", WRONG),
        (b"\0alice\0secret ", WRONG),
        (b"\0Alice\0secret", WRONG),
        (b"\0mallory\0secret", WRONG),
        (b"\0alice\0\xff", WRONG),
        (b"bob\0alice\0Secret", WRONG),
        (b"bob\0alice\0secret", OTHER_ID),
    ],
)
def test_each_refusal_has_the_message_of_kafka(token: bytes, message: str) -> None:
    outcome = server().respond(token, 0)
    assert isinstance(outcome, Failure)
    assert outcome.message == message


@pytest.mark.mission("SEC-113")
def test_only_the_log_tells_an_unknown_user_from_a_wrong_password() -> None:
    assert server().respond(b"\0mallory\0x", 0) == Failure(WRONG, "unknown user")
    assert server().respond(b"\0alice\0x", 0) == Failure(WRONG, "wrong password")


def test_the_client_sends_user_and_password() -> None:
    client = PlainClient("bob", "pässwörd")
    assert client.initial_response() == "\0bob\0pässwörd".encode()
    assert client.respond(b"") is None
    assert server().respond(client.initial_response(), 0) == Success(b"", Principal("bob"))


@given(st.binary(max_size=64))
def test_no_other_token_logs_in(token: bytes) -> None:
    assert isinstance(server().respond(token, 0), Failure)
