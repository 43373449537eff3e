"""The OAuth tokens of a Spark process, from the endpoint ``sasl.oauthbearer.token.endpoint.url``.

Each process requests a token when it needs one, and all its connections share it."""

from __future__ import annotations

import http.client
from functools import lru_cache
from pathlib import Path

from minikafka.core.security.sasl.exchange import ClientExchange
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.client_security import ClientSecurity, OAuthToken
from minikafka.kernel.errors import KafkaError
from minikafka.network.client_security import token_endpoint
from minikafka.network.http_client import MAX_BODY_BYTES, SUCCESSES, TIMEOUT_MS, HttpUrl
from minikafka.network.oauth_tokens import REFRESH_PART, RETRY_MS, endpoint_tls
from minikafka.world.real.tls import client_context


@lru_cache(maxsize=8)
def tokens_of(security: ClientSecurity) -> EndpointTokens:
    """Return the tokens of a client with an endpoint; the same for all of its connections."""
    endpoint = token_endpoint(security)
    assert endpoint is not None, "a client without an endpoint has other options to log in with"
    return EndpointTokens(endpoint)


class EndpointTokens:
    """Keeps the current token, and requests another one before it expires."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token: OAuthToken | None = None
        self._refresh_at_ms = 0

    def exchange(self, nonce: str, wall_ms: int) -> ClientExchange:
        """Begin a login. Without a valid token raises KafkaError SASL_AUTHENTICATION_FAILED if the
        endpoint refuses the client, OSError if it cannot be used."""
        token = self._current(wall_ms)
        return OAuthBearerClient(token.value, token.extensions)

    def _current(self, wall_ms: int) -> OAuthToken:
        token = self._token
        if token is None or wall_ms >= self._refresh_at_ms:
            try:
                token = request_token(self._endpoint, wall_ms)
            except (OSError, KafkaError):
                if token is None or wall_ms >= token.expires_ms:
                    raise
                self._refresh_at_ms = wall_ms + RETRY_MS
                return token
            self._token = token
            self._refresh_at_ms = wall_ms + int((token.expires_ms - wall_ms) * REFRESH_PART)
        return token


def request_token(endpoint: TokenEndpoint, wall_ms: int) -> OAuthToken:
    """Request a token. Redirections are not followed: they would get the secret. Raises OSError,
    and KafkaError for a client that is refused; their messages have no secret."""
    url = HttpUrl.parse(endpoint.url)
    timeout_s = TIMEOUT_MS / 1000
    connection = http.client.HTTPConnection(url.host, url.port, timeout=timeout_s)
    if url.scheme == "https":
        context = client_context(endpoint_tls(endpoint.tls, lambda path: Path(path).read_bytes()))
        connection = http.client.HTTPSConnection(
            url.host, url.port, timeout=timeout_s, context=context
        )
    try:
        connection.request("POST", url.target, endpoint.body(), endpoint.headers())
        response = connection.getresponse()
        refusal = endpoint.refusal(response.status)
        if refusal is not None:
            raise refusal
        if response.status not in SUCCESSES:
            raise OSError(f"the response has the status {response.status}")
        return endpoint.token(response.read(MAX_BODY_BYTES), wall_ms)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OSError(f"no token from {endpoint.url}: {error}") from error
    finally:
        connection.close()
