"""Every message of Kafka 2.0 in every version, against the layouts that Kafka 2.0.1 wrote down."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.layout import layout_of
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.schema import Message
from tests.support.protocol import layouts_2_0
from tests.support.protocol.layouts_2_0 import Api, Fields

APIS = layouts_2_0.read()

API_KEYS: dict[int, ApiKey] = {int(key): key for key in ApiKey}


@pytest.mark.mission("PRO-1")
def test_the_43_apis_and_their_versions() -> None:
    ours = {
        (int(key), version)
        for key in ApiKey
        if key.max_version_2_0 is not None
        for version in range(key.max_version_2_0 + 1)
    }
    assert ours == {(api.key, api.version) for api in APIS}
    assert {key for key, _ in ours} == set(range(43))
    assert len(APIS) == 124
    assert {(api.key, api.name) for api in APIS} <= {(int(key), key.api_name) for key in ApiKey}


def flat(ours: Any, version: int) -> list[Any]:
    """The values of a message in the order of the wire; an array is its length and its elements."""
    found: list[Any] = []
    for field in layout_of(type(ours), version, flexible=False).plain:
        found += flat_value(getattr(ours, field.name), version)
    return found


def flat_value(value: Any, version: int) -> list[Any]:
    if isinstance(value, list):
        return [len(value), *(part for element in value for part in flat_value(element, version))]
    if isinstance(value, memoryview):
        return [bytes(value)]
    if hasattr(value, "__dataclass_fields__"):
        return flat(value, version)
    return [value]


def flat_rows(layout: layouts_2_0.Layout, value: Any) -> list[Any]:
    if isinstance(layout, Fields):
        pairs = zip(layout.types, value, strict=True)
        return [part for each, v in pairs for part in flat_rows(each, v)]
    if isinstance(layout, layouts_2_0.ArrayOf) and value is not None:
        return [len(value), *(part for v in value for part in flat_rows(layout.element, v))]
    return [value]


@pytest.mark.mission("PRO-1", "PRD-2", "FET-1")
@pytest.mark.parametrize("api", APIS, ids=str)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(data=st.data())
def test_each_layout(api: Api, data: st.DataObject) -> None:
    key = API_KEYS[api.key]
    pairs: list[tuple[type[Message], Fields]] = [
        (REQUESTS[key], api.request),
        (RESPONSES[key], api.response),
    ]
    for cls, layout in pairs:
        value = data.draw(layouts_2_0.values(layout))
        written = layouts_2_0.encode(layout, value)
        ours = decode(cls, api.version, written)
        assert flat(ours, api.version) == flat_rows(layout, value)
        assert encode(ours, api.version) == written
