"""DIGEST-MD5 (RFC 2831), the client's side."""

from __future__ import annotations

import pytest

from minikafka.kernel.zookeeper_security import DigestLogin
from minikafka.world.real import zookeeper_login
from minikafka.world.real.zookeeper_login import DigestLoginRefused, check_final, digest_response

# The example of RFC 2831, section 4.
EXAMPLE = DigestLogin("chris", "secret")
CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
    b"algorithm=md5-sess,charset=utf-8"
)
CLIENT_NONCE = "OA6MHXh6VqTrRk"


@pytest.fixture(autouse=True)
def uri_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_login, "DIGEST_URI", "imap/elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    response = digest_response(EXAMPLE, CHALLENGE, CLIENT_NONCE).decode()
    assert response.startswith('charset=utf-8,username="chris",realm="elwood.innosoft.com",')
    assert "response=d388dad90d4bbd760a152321f2143af7" in response.split(",")
    final = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
    check_final(EXAMPLE, CHALLENGE, CLIENT_NONCE, final)


@pytest.mark.parametrize("final", [b"", b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"error=x"])
def test_a_server_that_does_not_know_the_password_is_refused(final: bytes) -> None:
    with pytest.raises(DigestLoginRefused, match="the server does not know the user's password"):
        check_final(EXAMPLE, CHALLENGE, CLIENT_NONCE, final)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"", "no challenge of DIGEST-MD5"),
        (b'realm="r",nonce="n",algorithm=md5', "no challenge of DIGEST-MD5"),
        (b'nonce="n",algorithm=md5-sess,qop="auth-conf"', "a protection"),
        (b'nonce="n', "is not one of DIGEST-MD5"),
        (b"\xff\x00", "is not one of DIGEST-MD5"),
    ],
)
def test_an_invalid_challenge_is_refused(challenge: bytes, reason: str) -> None:
    with pytest.raises(DigestLoginRefused, match=reason):
        digest_response(EXAMPLE, challenge, CLIENT_NONCE)


def test_quotes_are_escaped() -> None:
    login = DigestLogin('a"b\\c', "p")
    challenge = rb'realm="x\"y",nonce="n",algorithm=md5-sess'
    response = digest_response(login, challenge, "c")
    assert response.startswith(rb'username="a\"b\\c",realm="x\"y",')


def test_the_password_is_in_no_representation() -> None:
    assert "secret" not in repr(EXAMPLE)
