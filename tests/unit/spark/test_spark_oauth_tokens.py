"""The tokens that a Spark process requests from an endpoint, for all of its connections."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.client_security import ClientSecurity
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.oauth_tokens import EndpointTokens, tokens_of
from tests.support.security.sasl_brokers import OAUTHBEARER
from tests.support.security.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

pytestmark = pytest.mark.mission("SPF-7")

OPTIONS = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET, "scope": "a b"}


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer("spark") as running:
        running.body = json.dumps({"access_token": "t-1", "expires_in": 100}).encode()
        yield running


@pytest.fixture
def tokens(server: TokenServer) -> EndpointTokens:
    return EndpointTokens(TokenEndpoint.of(server.url, OPTIONS))


def sent(tokens: EndpointTokens, wall_ms: int) -> bytes:
    return tokens.exchange("nonce", wall_ms).initial_response()


def test_a_token_is_requested_once_and_again_before_it_expires(
    server: TokenServer, tokens: EndpointTokens
) -> None:
    for wall_ms in (0, 1, 79_999):
        assert sent(tokens, wall_ms) == b"n,,\x01auth=Bearer t-1\x01\x01"
    assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["a b"]}]
    server.body = json.dumps({"access_token": "t-2", "expires_in": 100}).encode()
    assert b"t-2" in sent(tokens, 80_000)
    assert len(server.forms) == 2


def test_a_token_may_be_created(server: TokenServer, tokens: EndpointTokens) -> None:
    server.status = 201
    assert b"t-1" in sent(tokens, 0)


def test_a_valid_token_is_kept_while_the_endpoint_is_down(
    server: TokenServer, tokens: EndpointTokens
) -> None:
    sent(tokens, 0)
    server.status = 503
    assert b"t-1" in sent(tokens, 80_000)
    assert b"t-1" in sent(tokens, 80_999)
    assert len(server.forms) == 2  # one attempt in a second
    assert b"t-1" in sent(tokens, 81_000)
    assert len(server.forms) == 3
    with pytest.raises(OSError, match=r"no token from http://.*: the response has the status 503"):
        sent(tokens, 100_000)


def test_a_valid_token_is_kept_after_a_refusal(server: TokenServer, tokens: EndpointTokens) -> None:
    sent(tokens, 0)
    server.status = 401
    assert b"t-1" in sent(tokens, 80_000)
    with pytest.raises(KafkaError, match="refused the client with the status 401"):
        sent(tokens, 100_000)


def test_a_client_that_is_refused_is_an_error_at_once(server: TokenServer) -> None:
    wrong = TokenEndpoint.of(server.url, {**OPTIONS, "clientSecret": "hush-wrong"})
    with pytest.raises(KafkaError, match="refused the client with the status 401") as refused:
        sent(EndpointTokens(wrong), 0)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hush" not in f"{refused.value} {wrong!r}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"no", "the response is not JSON"),
        (b"[]", "has no access_token"),
        (b'{"access_token": "hush hush"}', "has no access_token that can be sent"),
        (b'{"access_token": "hush"}', "says when it expires"),
        (b'{"access_token": "hush", "expires_in": "soon"}', "says when it expires"),
        (b'{"access_token": "a.eyJleHAiOjF9.hush"}', "the token has expired"),
        (b'{"access_token": "a.eyJleHAiOjFlOTk5fQ.hush"}', "says when it expires"),  # 1e999
    ],
)
def test_a_response_without_a_token_is_named_without_it(
    server: TokenServer, tokens: EndpointTokens, body: bytes, reason: str
) -> None:
    server.body = body
    with pytest.raises(OSError, match=reason) as failed:
        sent(tokens, 2_000)
    assert "hush" not in str(failed.value)


def test_the_secret_follows_no_redirection(server: TokenServer, tokens: EndpointTokens) -> None:
    server.status = 307
    with pytest.raises(OSError, match="the status 307"):
        sent(tokens, 0)
    assert len(server.forms) == 1


def test_the_claims_of_a_token_say_when_it_expires(
    server: TokenServer, tokens: EndpointTokens
) -> None:
    """Before what the response says."""
    server.body = b'{"access_token": "a.eyJleHAiOjEwfQ.c", "expires_in": 9999}'
    sent(tokens, 0)
    sent(tokens, 7_999)
    assert len(server.forms) == 1
    sent(tokens, 8_000)
    assert len(server.forms) == 2


def test_connections_of_a_process_share_a_token_and_extensions_are_sent(
    server: TokenServer,
) -> None:
    entry = (
        f'{OAUTHBEARER} required clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" '
        'extension_logicalCluster="lkc-1";'
    )

    def security() -> ClientSecurity:
        return ClientSecurity(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config=entry,
            sasl_oauthbearer_token_endpoint_url=server.url,
        )

    for _ in range(3):
        assert b"\x01logicalCluster=lkc-1\x01" in sent(tokens_of(security()), 0)
    assert server.forms == [{"grant_type": ["client_credentials"]}]
