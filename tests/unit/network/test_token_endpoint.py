"""Tokens that a client requests from an endpoint through its Network."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.errors import ErrorCode, LoginRefused
from minikafka.network.oauth_tokens import RETRIES, OAuthTokens, endpoint_tls, token_requests
from minikafka.world.real.network import RealNetwork
from tests.support.network.http_end import HttpEnd, response
from tests.support.security.certificates import Authority
from tests.support.world.manual_clock import ManualClock

pytestmark = pytest.mark.mission("SPF-7")

TOKEN_BODY = b'{"access_token": "t-1", "expires_in": 100}'
TOKEN = response(TOKEN_BODY)
OPTIONS = {"clientId": "c", "clientSecret": "hush", "scope": "a b"}


def tokens_from(url: str, options: dict[str, str], clock: ManualClock | None = None) -> OAuthTokens:
    endpoint = TokenEndpoint.of(url, options)
    tls = endpoint_tls(endpoint.tls, lambda _: b"")
    clock = clock or ManualClock()
    requests = token_requests(endpoint, RealNetwork(), clock, tls)
    return OAuthTokens(requests, clock, 5_000, source=url)


@pytest.mark.parametrize("status", ["200 OK", "201 Created"])
async def test_a_token_is_requested_by_the_credentials_of_the_client(status: str) -> None:
    end = HttpEnd(response(TOKEN_BODY, status))
    port = await end.start()
    tokens = tokens_from(f"http://127.0.0.1:{port}/token?a=b", OPTIONS)
    await tokens.refresh()
    assert tokens.exchange("nonce", 0).initial_response() == b"n,,\x01auth=Bearer t-1\x01\x01"
    head, _, body = end.requests[0].partition("\r\n\r\n")
    assert head.startswith("POST /token?a=b HTTP/1.1\r\n")
    assert "Authorization: Basic YzpodXNo" in head  # c:hush
    assert body == "grant_type=client_credentials&scope=a+b"
    end.stop()


@pytest.mark.parametrize("trusted", [True, False])
async def test_an_endpoint_with_tls_is_one_that_the_options_trust(
    tmp_path: Path, trusted: bool
) -> None:
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = authority.issue("endpoint", ("127.0.0.1",))
    pem = tmp_path / "pem"
    pem.write_bytes(identity.key_pem() + identity.chain_pem)
    context.load_cert_chain(pem)
    end = HttpEnd(TOKEN)
    port = await end.start(context)
    issuer = authority if trusted else Authority()
    options = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": issuer.issue("other").authority_pem.decode(),
    }
    tokens = tokens_from(f"https://127.0.0.1:{port}/", {**OPTIONS, **options})
    if trusted:
        await tokens.refresh()
        assert tokens.ready()
    else:
        with pytest.raises(ConnectionError, match=r"https://.* failed: .*certificate") as failed:
            await tokens.refresh()
        assert "hush" not in str(failed.value)
        assert end.requests == []
    end.stop()


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("401 Unauthorized", "clientId, clientSecret and scope"),
        ("400 Bad Request", "clientId, clientSecret and scope"),
        ("404 Not Found", r"sasl\.oauthbearer\.token\.endpoint\.url"),
        ("501 Not Implemented", r"sasl\.oauthbearer\.token\.endpoint\.url"),
    ],
)
async def test_a_refusal_is_final_and_names_the_endpoint_and_no_secret(
    status: str, remedy: str
) -> None:
    end = HttpEnd(response(b'{"error": "invalid_client"}', status))
    port = await end.start()
    tokens = tokens_from(f"http://127.0.0.1:{port}/token", OPTIONS)
    match = f"/token refused the client with the status {status[:3]}: check {remedy}"
    with pytest.raises(LoginRefused, match=match) as refused:
        await tokens.refresh()
    assert refused.value.error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hush" not in str(refused.value)
    end.stop()


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Slow Down", "307 Elsewhere"])
async def test_another_status_may_pass_and_is_retried_after_a_backoff(status: str) -> None:
    end = HttpEnd(response(b"", status, "Location: /elsewhere\r\n"))
    port = await end.start()
    clock = ManualClock()
    tokens = tokens_from(f"http://127.0.0.1:{port}/token", OPTIONS, clock)
    for failures in range(3):
        assert len(end.requests) == failures
        for _ in range(2):  # the second one is the same error without a request
            with pytest.raises(ConnectionError, match=rf"failed: .* {status[:3]}") as failed:
                await tokens.refresh()
            assert not isinstance(failed.value, LoginRefused)
        clock.advance(RETRIES.delay_ms(failures, 0))
    end.reply = TOKEN
    await tokens.refresh()
    assert tokens.ready()
    assert len(end.requests) == 4
    end.stop()


async def test_a_valid_token_outlasts_a_refusal_until_it_expires() -> None:
    end = HttpEnd(TOKEN)
    port = await end.start()
    clock = ManualClock()
    tokens = tokens_from(f"http://127.0.0.1:{port}/token", OPTIONS, clock)
    await tokens.refresh()
    end.reply = response(b"", "401 Unauthorized")
    clock.advance(90_000)
    await tokens.refresh()
    assert b"t-1" in tokens.exchange("nonce", 0).initial_response()
    clock.advance(10_000)
    with pytest.raises(LoginRefused):
        await tokens.refresh()
    end.stop()
