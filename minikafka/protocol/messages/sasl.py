"""SaslHandshake and SaslAuthenticate (keys 17 and 36).

Handshake v0 is followed by raw tokens on the connection, v1 by SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    ORDINARY,
    Bytes,
    In,
    Int16,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class SaslHandshakeRequest(Message):
    """The client's choice of a mechanism."""

    SPEC = request(ApiKey.SASL_HANDSHAKE, WHOLE, max_elements=ORDINARY)

    mechanism: String = ""


@dataclass(slots=True)
class SaslHandshakeResponse(Message):
    """The mechanisms that the listener accepts."""

    SPEC = response(ApiKey.SASL_HANDSHAKE)

    error_code: Int16 = 0
    mechanisms: list[String] = field(default_factory=list)


@dataclass(slots=True)
class SaslAuthenticateRequest(Message):
    """A token of the mechanism's exchange, from the client."""

    SPEC = request(ApiKey.SASL_AUTHENTICATE, WHOLE, max_elements=ORDINARY)

    auth_bytes: Bytes = b""


@dataclass(slots=True)
class SaslAuthenticateResponse(Message):
    """A token of the mechanism's exchange, from the server.

    ``session_lifetime_ms`` is the time until the client must authenticate again (KIP-368), 0 for
    never.
    """

    SPEC = response(ApiKey.SASL_AUTHENTICATE)

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In("1+", ignorable=True)] = 0
