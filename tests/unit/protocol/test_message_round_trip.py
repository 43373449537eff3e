"""Every message in every version: encoded, decoded, the same again."""

from dataclasses import fields, is_dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import (
    DecodeError,
    EncodeError,
    decode,
    element_count,
    encode,
    encode_parts,
    error_codes,
)
from minikafka.protocol.messages.registry import (
    REQUESTS,
    RESPONSES,
    response_class,
    version_range,
)
from minikafka.protocol.schema import Message
from tests.support.protocol.messages import ALL_VERSIONS, messages, title

few = settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS, ids=title)
@few
@given(data=st.data())
def test_round_trip(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    encoded = encode(message, version)
    assert decode(cls, version, encoded) == message
    # The same from the middle of a frame, with something behind it.
    frame = memoryview(b"head" + encoded + b"tail")
    assert decode(cls, version, frame, 4) == message
    assert b"".join(encode_parts(message, version)) == encoded


def elements_of(value: object) -> list[object]:
    """Return the elements of the arrays in the fields of a message or struct."""
    found = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else []
    return [element for array in found if isinstance(array, list) for element in array]


@pytest.mark.mission("SAFE-31")
@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS, ids=title)
@few
@given(data=st.data())
def test_elements_are_counted_on_two_levels(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    outer = elements_of(message)
    inner = [element for each in outer for element in elements_of(each)]
    assert element_count(message) == len(outer) + len(inner)


def codes_in(value: object) -> list[int]:
    """Return the error codes of a message or struct, and of all elements in it."""
    names = ("error_code", "partition_error_code")
    mine = [getattr(value, name) for name in names if hasattr(value, name)]
    return [code for code in mine if code] + [
        code for element in elements_of(value) for code in codes_in(element)
    ]


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS, ids=title)
@few
@given(data=st.data())
def test_error_codes_are_found_on_all_levels(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    assert sorted(error_codes(message)) == sorted(codes_in(message))


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS, ids=title)
def test_defaults_round_trip_and_no_cut_is_accepted(cls: type[Message], version: int) -> None:
    encoded = encode(cls(), version)
    assert decode(cls, version, encoded) == cls()
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            decode(cls, version, encoded[:end])


def test_a_version_that_a_message_does_not_have() -> None:
    cls = REQUESTS[ApiKey.METADATA]
    for version in (-1, ApiKey.METADATA.max_version + 1):
        with pytest.raises(DecodeError):
            decode(cls, version, b"")
        with pytest.raises(EncodeError):
            encode(cls(), version)


def test_registry_pairs_requests_with_responses() -> None:
    assert REQUESTS.keys() == RESPONSES.keys()
    for key, cls in REQUESTS.items():
        assert cls.__name__ == key.api_name + "Request"
        assert RESPONSES[key].__name__ == key.api_name + "Response"
        assert response_class(cls) is response_class(cls()) is RESPONSES[key]
        assert version_range(key) == (key.first_version, key.max_version)
        assert cls.SPEC.is_request
        assert not RESPONSES[key].SPEC.is_request
