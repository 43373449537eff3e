"""SCRAM against the example of RFC 7677, against itself, and what either side refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.security.sasl.exchange import (
    Challenge,
    ExchangeError,
    Failure,
    ServerOutcome,
    Success,
)
from minikafka.core.security.sasl.scram import (
    MAX_CLIENT_ITERATIONS,
    NONCE_BYTES,
    ScramClient,
    ScramServer,
    scram_nonce,
)
from minikafka.core.security.scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    Mechanism,
    ScramCredential,
    TokenCredential,
    credential_of,
    salted_password,
)
from minikafka.kernel.principals import Principal

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(
    password: str, mechanism: Mechanism = SCRAM_SHA_256, iterations: int = 4096
) -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, iterations)
    return credential_of(mechanism, SALT, salted, iterations)


PENCIL = credential("pencil")
TOKENS = {"tok": TokenCredential("alice", PENCIL, 12_345)}


def server(nonce: str = RFC_SERVER_NONCE, **users: ScramCredential) -> ScramServer:
    return ScramServer(SCRAM_SHA_256, nonce, (users or {"user": PENCIL}).get, TOKENS.get)


def client(user: str = "user", password: str = "pencil", by_token: bool = False) -> ScramClient:
    return ScramClient(SCRAM_SHA_256, user, password, RFC_CLIENT_NONCE, by_token)


def run(one: ScramClient, other: ScramServer) -> ServerOutcome:
    """Run an exchange up to the server's outcome, which a successful client verifies."""
    first = other.respond(one.initial_response(), 0)
    if not isinstance(first, Challenge):
        return first
    final = one.respond(first.token)
    assert final is not None
    outcome = other.respond(final, 0)
    if isinstance(outcome, Success):
        assert outcome.token is not None
        assert one.respond(outcome.token) is None
    return outcome


@pytest.mark.mission("SEC-111")
def test_both_sides_send_the_messages_of_the_rfc() -> None:
    one, other = client(), server()
    assert one.initial_response() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert other.respond(one.initial_response(), 0) == Challenge(SERVER_FIRST)
    assert one.respond(SERVER_FIRST) == CLIENT_FINAL
    assert other.respond(CLIENT_FINAL, 0) == Success(SERVER_FINAL, Principal("user"))
    assert one.respond(SERVER_FINAL) is None


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("user", ["a", "a,b=c", "=2C", "a b", "=3D,=2C,"])
def test_a_user_with_the_right_password_logs_in(mechanism: Mechanism, user: str) -> None:
    users = {user: credential("pw", mechanism, 4097)}
    outcome = run(
        ScramClient(mechanism, user, "pw", "abc"), ScramServer(mechanism, "def", users.get)
    )
    assert isinstance(outcome, Success)
    assert outcome.principal == Principal(user)
    assert outcome.expires_ms is None
    assert not outcome.principal.by_token


@pytest.mark.mission("SEC-113")
def test_a_wrong_password_and_an_unknown_user_have_the_same_message() -> None:
    wrong = run(client(password="Pencil"), server())
    unknown = run(client("mallory"), server())
    assert isinstance(wrong, Failure)
    assert isinstance(unknown, Failure)
    assert wrong.message is unknown.message is None  # the standard message
    assert wrong.detail == "the proof of the client is wrong"
    assert unknown.detail == "the user has no credential for this mechanism"


@pytest.mark.mission("SEC-113")
def test_a_changed_or_deleted_credential_counts_from_the_next_login_on() -> None:
    users = {"user": PENCIL}
    under_way = ScramServer(SCRAM_SHA_256, "n", users.get)
    one = client()
    first = under_way.respond(one.initial_response(), 0)
    assert isinstance(first, Challenge)
    users["user"] = credential("pen")
    final = one.respond(first.token)
    assert final is not None
    assert isinstance(under_way.respond(final, 0), Success)
    assert isinstance(run(client(), ScramServer(SCRAM_SHA_256, "n", users.get)), Failure)
    assert isinstance(
        run(client(password="pen"), ScramServer(SCRAM_SHA_256, "n", users.get)), Success
    )
    del users["user"]
    assert isinstance(
        run(client(password="pen"), ScramServer(SCRAM_SHA_256, "n", users.get)), Failure
    )


def test_a_delegation_token_logs_its_owner_in() -> None:
    outcome = run(client("tok", by_token=True), server())
    assert isinstance(outcome, Success)
    assert outcome.principal == Principal("alice")
    assert outcome.principal.by_token
    assert outcome.expires_ms == 12_345


def test_a_token_is_no_user_and_a_user_no_token() -> None:
    as_user = run(client("tok"), server())
    as_token = run(client("user", by_token=True), server())
    assert isinstance(as_user, Failure)
    assert as_token == Failure(None, "there is no delegation token with this id")


@pytest.mark.parametrize(
    ("extensions", "by_token"),
    [
        (b",tokenauth=true", True),
        (b",tokenauth=TRUE", True),
        (b",x=1,tokenauth=true,y=2=3", True),
        (b",tokenauth=false", False),
        (b",tokenauth=false,tokenauth=true", True),
        (b",tokenauth=true,tokenauth=false", False),
        (b",Tokenauth=true", False),
        (b",x=tokenauth=true", False),
    ],
)
def test_only_the_extension_tokenauth_counts(extensions: bytes, by_token: bool) -> None:
    outcome = server().respond(b"n,,n=tok,r=abc" + extensions, 0)
    assert isinstance(outcome, Challenge) == by_token


@pytest.mark.parametrize(
    ("token", "accepted"),
    [
        (b"n,,n=user,r=abc", True),
        (b"n,a=user,n=user,r=abc", True),
        (b"n,,m=anything,n=user,r=abc", True),
        (b"n,,n=user,r=abc,ext=v=alue", True),
        (b"", False),
        (b"y,,n=user,r=abc", False),
        (b"p=tls-unique,,n=user,r=abc", False),
        (b"n,x=user,n=user,r=abc", False),
        (b"n,,m,n=user,r=abc", False),
        (b"n,,n=us=er,r=abc", False),
        (b"n,,n=us=2cer,r=abc", False),
        ("n,,n=usér,r=abc".encode(), False),
        (b"n,,n=,r=abc", False),
        (b"n,,n=user,r=a bc", False),
        (b"n,,n=user,r=", False),
        (b"n,,n=user", False),
        (b"n,,n=user,r=abc,", False),
        (b"n,,n=user,r=abc,1x=y", False),
        (b"n,,n=user,r=abc\n", False),
    ],
)
def test_the_form_of_the_first_message(token: bytes, accepted: bool) -> None:
    outcome = server().respond(token, 0)
    assert isinstance(outcome, Challenge) == accepted
    if isinstance(outcome, Failure):
        assert outcome == Failure(None, "the first message of the client is malformed")


def test_another_authorization_id_is_refused_with_its_own_message() -> None:
    message = (
        "Authentication failed: Client requested an authorization id that is different from "
        "username"
    )
    assert server().respond(b"n,a=root,n=user,r=abc", 0) == Failure(message, message)


def test_a_credential_with_too_few_iterations_is_refused() -> None:
    weak = server(user=credential("pencil", iterations=4095))
    outcome = weak.respond(client().initial_response(), 0)
    assert outcome == Failure(
        None, "the credential has 4095 iterations, at least 4096 are required"
    )


@pytest.mark.parametrize(
    ("final", "detail"),
    [
        (b"", "the final message of the client is malformed"),
        (CLIENT_FINAL + b",x=y", "the final message of the client is malformed"),
        (b"c=biws,r=abc,p=123", "the final message of the client is malformed"),
        (b"c=biws,r=abc,p=dHg=", "the final message of the client has another nonce"),
        (
            CLIENT_FINAL.replace(b"k0,", b"k1,"),
            "the final message of the client has another nonce",
        ),
        (CLIENT_FINAL.rpartition(b"p=")[0] + b"p=", "the proof of the client has the wrong length"),
        (
            CLIENT_FINAL.rpartition(b"p=")[0] + b"p=dHg=",
            "the proof of the client has the wrong length",
        ),
        (CLIENT_FINAL.replace(b"p=d", b"p=e"), "the proof of the client is wrong"),
        (CLIENT_FINAL.replace(b"c=biws", b"c=eSws"), "the proof of the client is wrong"),
    ],
)
def test_a_wrong_final_message_is_refused(final: bytes, detail: str) -> None:
    other = server()
    other.respond(client().initial_response(), 0)
    assert other.respond(final, 0) == Failure(None, detail)


def test_the_proof_covers_the_messages_as_they_were_sent() -> None:
    """Kafka loses the ``m`` field and the extensions of the final message."""
    other = server()
    bare = b"m=x,n=user,r=abc,b=2,a=1"
    first = other.respond(b"n,a=user," + bare, 0)
    assert isinstance(first, Challenge)
    without_proof = b"c=bixhPXVzZXIs,r=abc" + RFC_SERVER_NONCE.encode() + b",ext=1"
    message = b",".join((bare, first.token, without_proof))
    salted = salted_password(SCRAM_SHA_256, "pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    outcome = other.respond(without_proof + b",p=" + base64.b64encode(proof), 0)
    assert isinstance(outcome, Success)


@pytest.mark.parametrize(
    ("server_first", "message"),
    [
        (b"", "the first message of the server is malformed"),
        (b"e=other-error", "the first message of the server is malformed"),
        (SERVER_FIRST.replace(b"4096", b"x"), "the first message of the server is malformed"),
        (SERVER_FIRST.replace(b"gQ==", b"gQ"), "the first message of the server is malformed"),
        (
            SERVER_FIRST.replace(b"r=r", b"r=R"),
            "the nonce of the server does not begin with that of the client",
        ),
        (
            SERVER_FIRST.replace(b"4096", b"4095"),
            f"the server requests 4095 iterations, 4096 to {MAX_CLIENT_ITERATIONS} are allowed",
        ),
        (
            SERVER_FIRST.replace(b"4096", b"1000001"),
            f"the server requests 1000001 iterations, 4096 to {MAX_CLIENT_ITERATIONS} are allowed",
        ),
    ],
)
def test_the_client_refuses_a_wrong_first_message(server_first: bytes, message: str) -> None:
    one = client()
    one.initial_response()
    with pytest.raises(ExchangeError) as refused:
        one.respond(server_first)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("server_final", "message"),
    [
        (b"", "the final message of the server is malformed"),
        (b"v=", "the server could not prove that it knows the credential of the user"),
        (
            SERVER_FINAL.replace(b"v=6", b"v=7"),
            "the server could not prove that it knows the credential of the user",
        ),
        (b"e=unknown-user", "the server refused the login: unknown-user"),
    ],
)
def test_the_client_refuses_a_server_that_does_not_know_the_credential(
    server_final: bytes, message: str
) -> None:
    one = client()
    one.initial_response()
    one.respond(SERVER_FIRST)
    with pytest.raises(ExchangeError) as refused:
        one.respond(server_final)
    assert str(refused.value) == message


def test_a_nonce_has_130_bits_in_base_36() -> None:
    assert scram_nonce(bytes(NONCE_BYTES)) == "0"
    assert int(scram_nonce(b"\xff" * NONCE_BYTES), 36) == 2**130 - 1
    assert scram_nonce(bytes(NONCE_BYTES - 1) + b"\x40") == "1"
    assert scram_nonce(bytes(NONCE_BYTES - 2) + b"\x09\x00") == "10"


def test_a_credential_does_not_show_its_keys() -> None:
    assert "stored_key" not in repr(PENCIL)
    assert "server_key" not in repr(PENCIL)


FIELD = st.sampled_from(
    [b"n,", b",", b"n=user", b"r=abc", b"a=user", b"c=biws", b"p=dHg=", b"=", b"tokenauth=true"]
)


@settings(max_examples=200)
@given(st.lists(st.one_of(FIELD, st.binary(max_size=8)), max_size=8).map(b"".join), st.binary())
def test_random_tokens_never_raise_and_never_log_in(first: bytes, final: bytes) -> None:
    other = server()
    if isinstance(other.respond(first, 0), Challenge):
        assert isinstance(other.respond(final, 0), Failure)
