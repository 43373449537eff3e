"""Requests of clients that a broker forwards to the controller (KIP-590): what an envelope has.

A broker that is not the controller sends the request, with the principal and the address of its
client, in an Envelope. Kafka's ``ForwardingManager``, ``EnvelopeUtils`` and
``DefaultKafkaPrincipalBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.messages.api_versions import ApiVersion
from minikafka.protocol.messages.principal_data import DefaultPrincipalData
from minikafka.protocol.versioned import decode_versioned, encode_versioned, version_of

PRINCIPAL_VERSION: Final = 0
_ADDRESS_SIZES: Final = (4, 16)


def takes_envelopes(offered: Iterable[ApiVersion]) -> bool:
    """Return whether a controller with these rows in its ApiVersions serves forwarded requests.

    Every Kafka with ZooKeeper lists Envelope, but closes the connection when it gets one. The last
    such release is 3.9. So a controller that has a newer version of one of its APIs is ours."""
    known = {int(api_key): api_key.max_version_3_9 for api_key in ApiKey}
    of_3_9 = {api_key: newest for api_key, newest in known.items() if newest is not None}
    return any(row.max_version > of_3_9.get(row.api_key, row.max_version) for row in offered)


def encode_principal(principal: Principal) -> bytes:
    message = DefaultPrincipalData(principal.type, principal.name, principal.by_token)
    return encode_versioned(message, PRINCIPAL_VERSION)


def decode_principal(serialized: bytes | None) -> Principal:
    """Raises DecodeError for anything but what ``encode_principal`` returns."""
    if serialized is None:
        raise DecodeError("no principal")
    version = version_of(serialized)
    if version != PRINCIPAL_VERSION:
        raise DecodeError(f"version {version} of a principal is unknown")
    message, _ = decode_versioned(DefaultPrincipalData, serialized)
    return Principal(message.name, message.type, message.token_authenticated)


def encode_address(host: str) -> bytes:
    """Return the 4 or 16 bytes of an IP address. A host without one, which exists in the simulator
    only, keeps its name."""
    try:
        return ip_address(host).packed
    except ValueError:
        return host.encode()


def decode_address(packed: bytes) -> str:
    """Return the host that ``encode_address`` has encoded. As in Java, an IPv4 address inside an
    IPv6 address becomes an IPv4 address. Raises ValueError if it is no text either."""
    if len(packed) not in _ADDRESS_SIZES:
        return packed.decode()
    address = ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)


def explain_not_controller(response: Any, reason: str) -> None:
    """Put ``reason`` into each NOT_CONTROLLER of a response that has room for a message and none.

    Some clients (kafka-python 3) take an error without a message for a success."""
    moved = getattr(response, "error_code", None) == ErrorCode.NOT_CONTROLLER
    if moved and not getattr(response, "error_message", reason):
        response.error_message = reason
    for field in fields(response):
        rows = getattr(response, field.name)
        if isinstance(rows, list):
            for row in rows:
                if is_dataclass(row):
                    explain_not_controller(row, reason)
