"""The messages of GSSAPI (RFC 4752) around a security context, from both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.security.kerberos_names import KerberosShortNamer
from minikafka.core.security.sasl.exchange import (
    Challenge,
    Disconnect,
    ExchangeError,
    Failure,
    Success,
)
from minikafka.core.security.sasl.gssapi import MAX_TOKEN_BYTES, GssapiClient, GssapiServer
from minikafka.kernel.kerberos import Initiation
from minikafka.kernel.principals import Principal
from tests.support.security.fake_kerberos import SIGNED, FakeContext

NO_LAYER = SIGNED + bytes((1, 0, 0, 0))
TICKET = b"ticket of alice/admin@EXAMPLE.COM"


def server(mutual: bool = True) -> GssapiServer:
    namer = KerberosShortNamer(["DEFAULT"], "EXAMPLE.COM")
    return GssapiServer(FakeContext(mutual=mutual), namer.short_name)


def client(mutual: bool = True) -> GssapiClient:
    context = FakeContext("alice/admin@EXAMPLE.COM", mutual)
    return GssapiClient(Initiation(context, context.step(b"")))


def offered(mutual: bool = True) -> GssapiServer:
    """A server that waits for the client's choice of a layer."""
    made = server(mutual)
    made.respond(TICKET, 0)
    if mutual:
        made.respond(b"", 0)
    return made


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("mutual", [True, False])
def test_both_sides_agree_on_no_layer(mutual: bool) -> None:
    """Java's clients send one token for the context, others let the service authenticate itself."""
    ours, theirs = client(mutual), server(mutual)
    token: bytes | None = ours.initial_response()
    tokens = [token]
    while True:
        assert token is not None
        outcome = theirs.respond(token, 0)
        if isinstance(outcome, Success):
            break
        assert isinstance(outcome, Challenge)
        token = ours.respond(outcome.token)
        tokens += [outcome.token, token]
    context = [TICKET, b"welcome", b""] if mutual else [TICKET]
    assert tokens == [*context, NO_LAYER, NO_LAYER]
    assert outcome == Success(None, Principal("alice"))
    assert ours.respond(b"") is None


@pytest.mark.mission("SEC-160")
def test_the_authorization_id_has_no_effect() -> None:
    assert offered().respond(NO_LAYER + b"root", 0) == Success(None, Principal("alice"))
    # A client that chooses no layer may still name the size of its buffer, as Java does.
    assert offered().respond(SIGNED + b"\x01\x01\x00\x00", 0) == Success(None, Principal("alice"))


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    ("token", "detail"),
    [
        (SIGNED + b"\x01\x00\x00", "the choice of a layer has 3 bytes"),
        (SIGNED + b"\x02\x00\xff\xff", "the client chose layer 2"),
        (SIGNED + b"\x00\x00\x00\x00", "the client chose layer 0"),
        (SIGNED + b"\x05\x00\x00\x00", "the client chose layer 5"),
        (b"\x01\x00\x00\x00", "invalid Message Integrity Check"),
        (b"", "invalid Message Integrity Check"),
        (bytes(MAX_TOKEN_BYTES + 1), "a token of 65537 bytes"),
    ],
)
def test_other_choices_are_refused_with_the_standard_message(token: bytes, detail: str) -> None:
    outcome = offered().respond(token, 0)
    assert isinstance(outcome, Failure)
    assert outcome.message is None
    assert detail in outcome.detail


@pytest.mark.mission("SEC-160")
def test_a_wrong_ticket_is_refused_and_a_replayed_one_only_disconnected() -> None:
    assert server().respond(b"rubbish", 0) == Failure(None, "Invalid token was supplied")
    assert server().respond(b"replayed", 0) == Disconnect("Request is a replay")
    large = server().respond(bytes(MAX_TOKEN_BYTES + 1), 0)
    assert large == Failure(None, "a token of 65537 bytes")
    assert server().respond(bytes(MAX_TOKEN_BYTES), 0) == Failure(
        None, "Invalid token was supplied"
    )


@pytest.mark.mission("SEC-160")
def test_a_context_may_take_several_steps() -> None:
    service = server()
    assert [service.respond(b"more", 0) for _ in range(2)] == [Challenge(b"more")] * 2
    assert service.respond(TICKET, 0) == Challenge(b"welcome")
    exchange = client()
    assert [exchange.respond(b"more") for _ in range(2)] == [b"more"] * 2
    assert exchange.respond(b"welcome") == b""
    assert exchange.respond(NO_LAYER) == NO_LAYER


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize("name", ["alice@OTHER.COM", "a/b/c@EXAMPLE.COM", "@EXAMPLE.COM"])
def test_a_principal_without_a_short_name_is_refused(name: str) -> None:
    exchange = server(mutual=False)
    exchange.respond(f"ticket of {name}".encode(), 0)
    outcome = exchange.respond(NO_LAYER, 0)
    assert isinstance(outcome, Failure)
    assert outcome.message is None


def test_nothing_follows_the_end() -> None:
    exchange = offered()
    assert isinstance(exchange.respond(NO_LAYER, 0), Success)
    assert isinstance(exchange.respond(NO_LAYER, 0), Failure)
    refused = offered()
    assert isinstance(refused.respond(b"", 0), Failure)
    assert isinstance(refused.respond(NO_LAYER, 0), Failure)
    replayed = server(mutual=False)
    replayed.respond(b"replayed", 0)
    assert isinstance(replayed.respond(TICKET, 0), Failure)
    early = server()
    early.respond(TICKET, 0)
    assert isinstance(early.respond(NO_LAYER, 0), Failure)


@pytest.mark.mission("SEC-160")
@pytest.mark.parametrize(
    ("token", "error"),
    [
        (SIGNED + b"\x06\x00\xff\xff", "demands a security layer"),
        (SIGNED + b"\x01", "demands a security layer"),
        (b"\x01\x00\x00\x00", "invalid Message Integrity Check"),
        (bytes(MAX_TOKEN_BYTES + 1), "a token of 65537 bytes"),
        (bytes(MAX_TOKEN_BYTES), "invalid Message Integrity Check"),
    ],
)
def test_a_client_refuses_a_server_without_the_key_or_with_a_layer(
    token: bytes, error: str
) -> None:
    exchange = client(mutual=False)
    with pytest.raises(ExchangeError, match=error):
        exchange.respond(token)
    with pytest.raises(ExchangeError, match="Invalid token"):
        client().respond(b"rubbish")


def test_a_client_ends_with_the_empty_token_alone() -> None:
    exchange = client(mutual=False)
    exchange.respond(NO_LAYER)
    with pytest.raises(ExchangeError, match="goes on after the end"):
        exchange.respond(b"x")


PIECES = st.sampled_from([TICKET, b"welcome", b"", b"replayed", NO_LAYER, SIGNED, b"x"])


@pytest.mark.mission("SEC-160")
@given(st.integers(0, 3), st.lists(PIECES | st.binary(max_size=12), max_size=6), st.booleans())
def test_only_a_ticket_and_a_choice_log_in(right: int, more: list[bytes], mutual: bool) -> None:
    exchange = server(mutual)
    expected = [TICKET, b"", NO_LAYER] if mutual else [TICKET, NO_LAYER]
    tokens = expected[:right] + more
    outcomes = [exchange.respond(token, 0) for token in tokens]
    ended = len(expected) - 1
    logs_in = tokens[:ended] == expected[:ended] and tokens[ended : ended + 1] == [NO_LAYER]
    successes = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Success)]
    assert successes == ([ended] if logs_in else [])
