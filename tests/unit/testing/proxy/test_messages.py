"""Which addresses of brokers the proxy replaces, and which versions pass it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.layout import Array, Struct, fields_of
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.testing.proxy.messages import (
    NodeAddress,
    addresses,
    advertise,
    cap_versions,
    known_api,
    may_have_addresses,
    served_versions,
)
from tests.support.protocol.messages import messages

VERSIONS = [
    (api_key, version)
    for api_key in ApiKey
    for version in range(api_key.first_version, api_key.max_version + 1)
    if may_have_addresses(api_key, version)
]
ADDRESS = {"host", "port"}
NODE_IDS = {"broker_id", "node_id"}


def structs(cls: type) -> Iterator[type]:
    """Yield a class of messages, and the classes of what is nested in it."""
    yield cls
    for field in fields_of(cls):
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from structs(inner.cls)


def names(cls: type) -> set[str]:
    return {field.name for field in fields_of(cls)}


def is_address(cls: type) -> bool:
    """Whether this names a broker's address. The endpoint of an application of Kafka Streams has no
    node id."""
    return names(cls) >= ADDRESS and not NODE_IDS.isdisjoint(names(cls))


def nested(value: Any) -> Iterator[Any]:
    """Yield all structures of a message."""
    if isinstance(value, list):
        for element in value:
            yield from nested(element)
    elif hasattr(type(value), "__dataclass_fields__"):
        yield value
        for field in fields_of(value.__class__):
            yield from nested(getattr(value, field.name))


@pytest.mark.mission("IN-83")
def test_responses_with_addresses_are_known() -> None:
    """A response class that has a broker's host and port is one of those that are rewritten."""
    have = {api_key for api_key in ApiKey for cls in structs(RESPONSES[api_key]) if is_address(cls)}
    assert have == {api_key for api_key, _ in VERSIONS}


@pytest.mark.mission("IN-83")
@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=str)
@given(data=st.data())
def test_every_address_is_replaced_and_nothing_else(
    api_key: ApiKey, version: int, data: st.DataObject
) -> None:
    original = data.draw(messages(RESPONSES[api_key], version))
    if api_key is ApiKey.DESCRIBE_CLUSTER:
        original.endpoint_type = 1
    encoded = encode(original, version)
    response: Any = decode(RESPONSES[api_key], version, encoded)
    expected: Any = decode(RESPONSES[api_key], version, encoded)
    found: list[NodeAddress] = []
    for each in nested(expected):
        if is_address(each.__class__):
            node_id = each.broker_id if hasattr(each, "broker_id") else each.node_id
            if each.host and each.port > 0:
                found.append(NodeAddress(node_id, each.host, each.port))
                each.host, each.port = f"proxy-{node_id}", 1
    assert sorted(addresses(api_key, response)) == sorted(found)
    advertise(api_key, response, lambda node_id: (f"proxy-{node_id}", 1))
    assert response == expected
    assert decode(RESPONSES[api_key], version, encode(response, version)) == expected


@pytest.mark.mission("IN-83")
def test_a_coordinator_that_is_not_known_and_controllers_stay() -> None:
    coordinators = FindCoordinatorResponse(
        coordinators=[Coordinator("g", -1, "", -1), Coordinator("h", 2, "b", 9092)]
    )
    assert addresses(ApiKey.FIND_COORDINATOR, coordinators) == [NodeAddress(2, "b", 9092)]
    controllers = DescribeClusterResponse(
        endpoint_type=2, brokers=[DescribeClusterBroker(1, "c", 9093)]
    )
    assert addresses(ApiKey.DESCRIBE_CLUSTER, controllers) == []


@pytest.mark.mission("IN-84")
@given(
    st.lists(
        st.builds(ApiVersion, st.integers(-1, 100), st.integers(0, 20), st.integers(0, 20)),
        max_size=20,
    )
)
def test_versions_that_pass_are_those_that_both_know(rows: list[ApiVersion]) -> None:
    response = ApiVersionsResponse(api_keys=list(rows))
    cap_versions(response)
    expected = [
        (row.api_key, version)
        for row in rows
        if (api_key := known_api(row.api_key)) is not None
        for version in range(row.min_version, row.max_version + 1)
        if served_versions(api_key)[0] <= version <= api_key.max_version
    ]
    assert expected == [
        (row.api_key, version)
        for row in response.api_keys
        for version in range(row.min_version, row.max_version + 1)
    ]
    assert all(row.min_version <= row.max_version for row in response.api_keys)


@pytest.mark.mission("IN-84")
def test_frames_of_sasl_without_headers_do_not_pass() -> None:
    assert served_versions(ApiKey.SASL_HANDSHAKE) == (1, 1)
