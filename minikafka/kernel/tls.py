"""What a TLS connection needs, as data: keys, trust and rules. The Network port uses it."""

from __future__ import annotations

import asyncio
from dataclasses import field
from enum import Enum

from minikafka.kernel.lazy_dataclass import dataclass


class TlsError(ValueError):
    """TLS settings that cannot be used; the message contains no secret."""


class ClientAuth(Enum):
    """Whether a server asks clients for a certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of a listener, or of connections to other nodes.

    ``key`` and ``chain`` are PEM texts, the key without a password; empty for a client without a
    certificate. ``trusted`` has the trusted certificates as PEM; if empty, a client trusts those
    of the system, and a server trusts no client's. ``protocols`` are OpenSSL's names of TLS
    versions, ``ciphers`` its names of the suites of TLS 1.2; if empty, all are allowed.
    ``client_auth`` concerns servers. With ``check_host_name`` a client compares the host with the
    server's certificate."""

    key: bytes = field(default=b"", repr=False)
    chain: bytes = b""
    trusted: bytes = b""
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    client_auth: ClientAuth = ClientAuth.NONE
    check_host_name: bool = True


def peer_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """Return the certificate (DER) of the peer; None without TLS or without a certificate."""
    connection = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    found: bytes | None = connection.getpeercert(binary_form=True)
    return found
