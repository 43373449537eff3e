"""The OAuth token of a client: a function of the application provides it (KIP-255), or an endpoint
does, from which it is requested through a Network.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from minikafka.core.backoff import ExponentialBackoff
from minikafka.core.client.errors import LOGIN_REFUSED
from minikafka.core.security.sasl.exchange import ClientExchange
from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.client_security import TOKEN_PROVIDER, OAuthToken, OAuthTokenProvider
from minikafka.kernel.config import ConfigDef
from minikafka.kernel.errors import KafkaError, LoginRefused
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, Network
from minikafka.kernel.security_settings import TLS_SETTINGS
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpStatusError, HttpUrl, http_post

# A token is refreshed after this part of its life, as by Kafka's client.
REFRESH_PART: Final = 0.8
# After a refresh that failed, while the old token is still valid.
RETRY_MS: Final = 1_000
# After a failure without a valid token: Kafka's ``sasl.login.retry.backoff.ms`` and ``.max.ms``.
RETRIES: Final = ExponentialBackoff(100, 10_000, jitter=0)
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")


class OAuthTokens:
    """Keeps the current token of a client, and refreshes it when a login needs it.

    There is no timer: connections are opened after ``refresh``, and a re-authentication waits until
    ``ready`` returns true. ``close`` ends a refresh that is under way."""

    def __init__(
        self,
        provider: OAuthTokenProvider,
        clock: Clock,
        timeout_ms: int,
        log: EventLog | None = None,
        source: str = TOKEN_PROVIDER,
    ) -> None:
        """``source`` names the provider in errors."""
        self._provider = provider
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._source = source
        self._log = log or event_log("channel")
        self._token: OAuthToken | None = None
        self._refresh_at_ms = 0
        self._failures = 0
        self._failure: ConnectionError | None = None
        self._retry_at_ms = 0
        self._refreshing: asyncio.Task[None] | None = None

    def exchange(self, nonce: str, wall_ms: int) -> ClientExchange:
        """Begin a login with the current token. Call it after ``refresh``, or if ``ready``."""
        assert self._token is not None, "no token was provided yet"
        return OAuthBearerClient(self._token.value, self._token.extensions)

    def ready(self) -> bool:
        """Return whether the token is fresh. If it is not, start a refresh in the background."""
        if self._clock.wall_ms() < self._refresh_at_ms:
            return True
        self._start()
        return False

    async def refresh(self) -> None:
        """Call the provider unless the token is fresh; concurrent callers share one call.

        Without a valid token raises LoginRefused if the provider refuses the client, and
        ConnectionError for another failure. The same error is raised again, without a call, until
        the backoff is over."""
        if self._clock.wall_ms() >= self._refresh_at_ms:
            refreshing = self._start()
            await asyncio.wait([refreshing])
            if refreshing.cancelled():
                raise ConnectionError("the client is closed")
            error = refreshing.exception()
            if error is not None:
                raise error

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def wait_closed(self) -> None:
        """After ``close``, wait for the end of the call to the provider."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])

    def _start(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._note_end)
        return self._refreshing

    def _note_end(self, refreshing: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not refreshing.cancelled():
            refreshing.exception()  # retrieved; callers that wait get it

    async def _refresh(self) -> None:
        """Raises ConnectionError without a valid token."""
        if self._failure is not None and self._clock.monotonic_ms() < self._retry_at_ms:
            raise self._failure.with_traceback(None)
        try:
            token = await self._provided()
        except ConnectionError as error:
            now_ms = self._clock.wall_ms()
            if self._token is None or now_ms >= self._token.expires_ms:
                self._retry_at_ms = self._clock.monotonic_ms() + RETRIES.delay_ms(self._failures, 0)
                self._failures += 1
                self._failure = error
                raise
            self._log.warning("token_refresh_failed", error=str(error))
            self._refresh_at_ms = now_ms + RETRY_MS
            return
        self._failures, self._failure = 0, None
        now_ms = self._clock.wall_ms()
        self._token = token
        self._refresh_at_ms = now_ms + int((token.expires_ms - now_ms) * REFRESH_PART)

    async def _provided(self) -> OAuthToken:
        """Return a token that can be sent. Raises LoginRefused for the KafkaError of a refused
        login, and ConnectionError for anything else."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as limit:
                found = self._provider()
                token = await found if inspect.isawaitable(found) else found
        except Exception as error:  # whatever the application raises
            if limit.expired():
                what = f"returned no token within {self._timeout_ms} ms"
                raise ConnectionError(f"{self._source} {what}") from error
            if isinstance(error, KafkaError) and error.code in LOGIN_REFUSED:
                raise LoginRefused(self._source, error) from error
            reason = f"{type(error).__name__}: {error}"
            raise ConnectionError(f"{self._source} failed: {reason}") from error
        problem = self._problem(token)
        if problem is not None:
            raise ConnectionError(f"{self._source} returned {problem}")
        return token

    def _problem(self, token: object) -> str | None:
        """Return what is wrong with a token, without showing it."""
        if not isinstance(token, OAuthToken):
            return f"{type(token).__name__} instead of OAuthToken"
        if not isinstance(token.value, str) or not _TOKEN.fullmatch(token.value):
            return "a token with characters that cannot be sent"
        if token.expires_ms <= self._clock.wall_ms():
            return "a token that has expired"
        try:
            OAuthBearerClient(token.value, token.extensions)
        except ValueError:
            return "an extension that cannot be sent"
        return None


_TLS: Final = ConfigDef.of(TLS_SETTINGS)


def endpoint_tls(options: Mapping[str, str], read: Callable[[str], bytes]) -> TlsSettings:
    """Return the TLS settings of an endpoint's options ``ssl.*``: without any, the system's
    certificates count. ``read`` reads a file whole. Raises ConfigError."""
    known = {key: text for key, text in options.items() if key in _TLS.settings}
    if not known:
        return TlsSettings()
    from minikafka.network.tls_configuration import tls_settings

    return tls_settings(_TLS.parse(known), read)


def token_requests(
    endpoint: TokenEndpoint, network: Network, clock: Clock, tls: TlsSettings
) -> Callable[[], Awaitable[OAuthToken]]:
    """Return a provider of tokens that requests each from the endpoint.

    It raises KafkaError if the endpoint refuses the client, OSError or ValueError for another
    failure, which may pass."""
    url = HttpUrl.parse(endpoint.url)

    async def request() -> OAuthToken:
        try:
            response = await http_post(network, url, tls, endpoint.headers(), endpoint.body())
        except HttpStatusError as error:
            refusal = endpoint.refusal(error.status)
            raise refusal or error from None
        return endpoint.token(response, clock.wall_ms())

    return request
