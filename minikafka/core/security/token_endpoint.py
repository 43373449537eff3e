"""Tokens that a client requests from an OAuth provider by its credentials (RFC 6749, section 4.4;
KIP-768)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlencode

from minikafka.core.security.sasl.oauthbearer import OAuthBearerClient
from minikafka.kernel.client_security import OAuthToken
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

_EXTENSION: Final = "extension_"
# With these an endpoint has refused the client, or is none: the same request would get no other
# response. Kafka: ``HttpAccessTokenRetriever.UNRETRYABLE_HTTP_CODES``.
_CLIENT_REFUSED: Final = (400, 401, 402, 403)
_NO_ENDPOINT: Final = (404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505)
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_MOST_SECONDS: Final = 2**40  # JSON has larger numbers, also infinite ones


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The address of an endpoint, and what a client sends there. ``tls`` has the options ``ssl.*``
    of the connection, if the address begins with https."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> TokenEndpoint:
        """Read the options of a JAAS entry, which are Kafka's. Raises ValueError."""
        for name in ("clientId", "clientSecret"):
            if not options.get(name):
                raise ValueError(f"has no {name} for the token endpoint")
        extensions = {
            key.removeprefix(_EXTENSION): text
            for key, text in options.items()
            if key.startswith(_EXTENSION)
        }
        try:
            OAuthBearerClient("token", extensions)
        except ValueError:
            raise ValueError("has an extension that cannot be sent") from None
        return cls(
            url,
            options["clientId"],
            options["clientSecret"],
            options.get("scope"),
            extensions,
            {key: text for key, text in options.items() if key.startswith("ssl.")},
        )

    def headers(self) -> dict[str, str]:
        pair = f"{self.client_id}:{self.client_secret}".encode()
        return {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }

    def body(self) -> bytes:
        scope = {"scope": self.scope} if self.scope else {}
        return urlencode({"grant_type": "client_credentials", **scope}).encode()

    def refusal(self, status: int) -> KafkaError | None:
        """Return the error of a response with this status, None if the next one may be another."""
        if status in _CLIENT_REFUSED:
            remedy = "clientId, clientSecret and scope in sasl.jaas.config"
        elif status in _NO_ENDPOINT:
            remedy = "sasl.oauthbearer.token.endpoint.url"
        else:
            return None
        what = f"{self.url} refused the client with the status {status}: check {remedy}"
        return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"Authentication failed: {what}")

    def token(self, response: bytes, wall_ms: int) -> OAuthToken:
        """Return the token of a response. It expires when its claims say so, or else after
        ``expires_in`` of the response. Raises ValueError, whose message has no part of it."""
        try:
            found = json.loads(response)
        except ValueError:
            raise ValueError("the response is not JSON") from None
        value = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(value, str) or not _TOKEN.fullmatch(value):
            raise ValueError("the response has no access_token that can be sent")
        expires_ms = _expiry(value)
        if expires_ms is None:
            seconds = found.get("expires_in")
            if not isinstance(seconds, int | float) or not 0 < seconds < _MOST_SECONDS:
                raise ValueError("neither the token nor the response says when it expires")
            expires_ms = wall_ms + int(seconds * 1000)
        if expires_ms <= wall_ms:
            raise ValueError("the token has expired")
        return OAuthToken(value, expires_ms, self.extensions)


def _expiry(token: str) -> int | None:
    """Return the claim ``exp`` of a JSON web token in milliseconds, None if there is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
    except ValueError:
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(expires, int | float) or not 0 < expires < _MOST_SECONDS:
        return None
    return int(expires * 1000)
