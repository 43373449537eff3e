"""What the proxy changes in messages: addresses of brokers, and the versions that it can decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.registry import RESPONSES

_APIS: Final = {int(api_key): api_key for api_key in ApiKey}
BROKERS: Final = 1  # DescribeCluster's ``endpoint_type``; 2 are controllers


class NodeAddress(NamedTuple):
    """Where a broker can be reached."""

    node_id: int
    host: str
    port: int


# Returns the host and the port that clients get for a node.
Advertised: TypeAlias = Callable[[int], tuple[str, int]]


# The frames after SaslHandshake v0 are those of the mechanism, without headers.
_FIRST_VERSIONS: Final[Mapping[ApiKey, int]] = {ApiKey.SASL_HANDSHAKE: 1}


def known_api(number: int) -> ApiKey | None:
    """Return the API of this number; None if we have no messages for it."""
    return _APIS.get(number)


def served_versions(api_key: ApiKey) -> tuple[int, int]:
    """Return the first and the last version that pass the proxy."""
    return _FIRST_VERSIONS.get(api_key, api_key.first_version), api_key.max_version


def may_have_addresses(api_key: ApiKey, version: int) -> bool:
    """Whether responses of this version can name the address of a broker."""
    return any(version >= place.since for place in RESPONSES[api_key].SPEC.addresses)


def addresses(api_key: ApiKey, response: Any) -> list[NodeAddress]:
    """Return the addresses of brokers in a response. A coordinator that is not known has none."""
    return [
        NodeAddress(getattr(element, node_id), element.host, element.port)
        for element, node_id in _elements(api_key, response)
    ]


def advertise(api_key: ApiKey, response: Any, advertised: Advertised) -> None:
    """Replace the addresses of brokers in a response."""
    for element, node_id in _elements(api_key, response):
        element.host, element.port = advertised(getattr(element, node_id))


def cap_versions(response: ApiVersionsResponse) -> None:
    """Leave in a response to ApiVersions what passes the proxy."""
    kept: list[ApiVersion] = []
    for row in response.api_keys:
        api_key = known_api(row.api_key)
        if api_key is None:
            continue
        first, last = served_versions(api_key)
        first, last = max(first, row.min_version), min(last, row.max_version)
        if first <= last:
            kept.append(ApiVersion(row.api_key, first, last))
    response.api_keys = kept


def unsupported_api_versions() -> ApiVersionsResponse:
    """Return the response, in version 0, to ApiVersions of a version that is not known (KIP-511):
    the client repeats the request in one that is."""
    first, last = served_versions(ApiKey.API_VERSIONS)
    return ApiVersionsResponse(
        ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(ApiKey.API_VERSIONS, first, last)]
    )


def _elements(api_key: ApiKey, response: Any) -> Iterator[tuple[Any, str]]:
    """Yield what has an address, with the attribute of its node id."""
    if getattr(response, "endpoint_type", BROKERS) != BROKERS:
        return
    for place in RESPONSES[api_key].SPEC.addresses:
        elements = getattr(response, place.elements) if place.elements else (response,)
        for element in elements:
            if element.host and element.port > 0:
                yield element, place.node_id
