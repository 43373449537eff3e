"""What the ``SPEC`` of each request says of its shape, and that the messages have it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.layout import Array, Field, Struct, fields_of
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.places import WHOLE, Level, Places
from minikafka.protocol.schema import ORDINARY, request


def with_versions(api_key: ApiKey) -> list[tuple[Places, range]]:
    places = REQUESTS[api_key].SPEC.places
    bounds = [*(each.since for each in places), api_key.max_version + 1]
    return [(each, range(*pair)) for each, pair in zip(places, pairwise(bounds), strict=True)]


PLACES = [
    pytest.param(api_key, places, versions, id=f"{api_key.api_name}-{places.since}")
    for api_key in ApiKey
    for places, versions in with_versions(api_key)
]


def field_of(cls: type, name: str) -> Field:
    found = [field for field in fields_of(cls) if field.name == name]
    assert found, f"{cls.__name__} has no field {name}"
    return found[0]


def is_present(cls: type, name: str, version: int) -> bool:
    return field_of(cls, name).versions.has(version)


def elements(cls: type, level: Level, versions: range) -> list[type]:
    """Return the classes of the elements of a level; none if the elements are names themselves."""
    classes: list[type] = []
    for name in level.lists.split("|"):
        field = field_of(cls, name)
        assert all(field.versions.has(version) for version in versions)
        assert isinstance(field.type, Array)
        if isinstance(field.type.element, Struct):
            classes.append(field.type.element.cls)
        else:
            assert (level.key, level.also) == ("", ())
    return classes


def innermost(cls: type, levels: Sequence[Level], versions: range) -> list[type]:
    """Check the levels of a message, and return the classes of the last elements."""
    classes = [cls]
    for level in levels:
        classes = [inner for each in classes for inner in elements(each, level, versions)]
        names = [name for name in (level.key, *level.also) if name]
        for each in classes:
            for name in names:
                assert any(is_present(each, name, version) for version in versions)
            for version in versions:
                assert not names or any(is_present(each, name, version) for name in names)
    return classes


@pytest.mark.parametrize("api_key", ApiKey, ids=lambda key: key.api_name)
def test_every_request_has_a_limit_and_places_for_all_versions(api_key: ApiKey) -> None:
    spec = REQUESTS[api_key].SPEC
    assert spec.max_elements is not None
    since = [places.since for places in spec.places]
    assert since[0] == 0
    assert since == sorted(set(since))
    assert since[-1] <= api_key.max_version


def test_a_request_without_a_limit_or_places_is_an_error_that_names_them() -> None:
    with pytest.raises(TypeError, match="'max_elements'"):
        request(ApiKey.FETCH, WHOLE)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'places'"):
        request(ApiKey.FETCH, max_elements=ORDINARY)  # type: ignore[call-arg]


@pytest.mark.parametrize(("api_key", "places", "versions"), PLACES)
def test_places_name_fields_of_the_messages(
    api_key: ApiKey, places: Places, versions: range
) -> None:
    requested, response = REQUESTS[api_key], RESPONSES[api_key]
    for name in (places.group, places.transactional_id):
        assert name is None or any(is_present(requested, name, version) for version in versions)
    innermost(requested, places.request, versions)
    with_errors = innermost(response, places.response, versions)
    for name in places.values:
        assert all(field_of(cls, name) for cls in with_errors)
    if places.error_level is not None:
        for cls in innermost(response, places.response[: places.error_level], versions):
            assert all(is_present(cls, "error_code", version) for version in versions)


def test_addresses_are_where_responses_say() -> None:
    for response in RESPONSES.values():
        for each in response.SPEC.addresses:
            cls: type = response
            if each.elements:
                assert field_of(response, each.elements).versions.first == each.since
                (cls,) = elements(response, Level(each.elements), range(0))
            for name in (each.node_id, "host", "port"):
                assert is_present(cls, name, each.since)
