"""What a producer takes as a record."""

from __future__ import annotations

import pytest

from minikafka.core.client.producer.producer_batch import as_bytes, as_headers, check_timestamp


def test_content_is_bytes_or_nothing() -> None:
    assert as_bytes(None) is None
    for content in (b"ab", bytearray(b"ab"), memoryview(b"ab")):
        found = as_bytes(content)
        assert found == b"ab"
        assert type(found) is bytes
    with pytest.raises(TypeError, match="not str"):
        as_bytes("ab")


def test_headers_are_pairs_of_name_and_content() -> None:
    found = as_headers([("a", b"1"), ("a", bytearray(b"2")), ("b", None)])  # type: ignore[list-item]
    assert found == [("a", b"1"), ("a", b"2"), ("b", None)]
    assert type(found[1][1]) is bytes
    for wrong in ({"a": b"1"}, [(b"a", b"1")], [(1, None)], [("a", "1")]):
        with pytest.raises(TypeError):
            as_headers(wrong)  # type: ignore[arg-type]


def test_timestamps_are_milliseconds_of_63_bits() -> None:
    check_timestamp(0)
    check_timestamp(2**63 - 1)
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="negative, or beyond"):
            check_timestamp(wrong)
    with pytest.raises(TypeError):
        check_timestamp(1.5)  # type: ignore[arg-type]
