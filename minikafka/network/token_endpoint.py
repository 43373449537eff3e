"""The token endpoint of a client: the request of a token through a Network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.client_security import OAuthToken
from minikafka.kernel.config import ConfigDef
from minikafka.kernel.ports import Clock, Network
from minikafka.kernel.tls import TlsSettings
from minikafka.kernel.tls_settings import TLS_SETTINGS
from minikafka.network.http_client import HttpStatusError, HttpUrl, http_post

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
