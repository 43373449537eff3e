"""Whatever the bytes are: a message or DecodeError, in memory that the bytes account for."""

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import write_uvarint
from minikafka.protocol.codec import DecodeError, decode, encode
from minikafka.protocol.frames import decode_request_header
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.messages.scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from minikafka.protocol.schema import Message
from tests.support.protocol.golden import golden
from tests.support.protocol.messages import ALL_VERSIONS, messages, title

BAD_INTEGERS = [b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\x80"]


def decode_or_refuse(cls: type[Message], version: int, data: bytes) -> Any:
    try:
        return decode(cls, version, data)
    except DecodeError:
        return None


def mutated(dice: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randint(0, len(out))
        match dice.randrange(5):
            case 0 if out:
                out[at % len(out)] = dice.randrange(256)
            case 1:
                out[at:at] = dice.randbytes(dice.randint(1, 5))
            case 2:
                del out[at : at + dice.randint(1, 8)]
            case 3:
                bad = dice.choice(BAD_INTEGERS)
                out[at : at + len(bad)] = bad
            case _:
                out = out[:at]
    return bytes(out)


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS, ids=title)
@settings(
    max_examples=2, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(drawn=st.data(), seed=st.integers(0, 1 << 32))
def test_mutations(cls: type[Message], version: int, drawn: st.DataObject, seed: int) -> None:
    dice = random.Random(seed)
    data = encode(drawn.draw(messages(cls, version)), version)
    for _ in range(30):
        decode_or_refuse(cls, version, mutated(dice, data))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=60))
def test_noise(message: tuple[type[Message], int], data: bytes) -> None:
    decode_or_refuse(*message, data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_noise_as_request_header(data: bytes) -> None:
    try:
        _, position = decode_request_header(memoryview(data))
    except DecodeError:
        return
    assert 8 <= position <= len(data)


@pytest.mark.parametrize(
    ("cls", "version", "text"),
    [
        (REQUESTS[ApiKey.METADATA], 0, "7fffffff"),
        (REQUESTS[ApiKey.METADATA], 0, "ffffffff"),  # null only from version 1
        (REQUESTS[ApiKey.METADATA], 9, "ffffffff0f"),
        (REQUESTS[ApiKey.METADATA], 9, "808080808010"),
        (REQUESTS[ApiKey.METADATA], 9, "02 00 00 00 00 00"),  # a null name
        (REQUESTS[ApiKey.METADATA], 9, "02 02 ff 00 00 00 00 00"),  # not UTF-8
        (REQUESTS[ApiKey.METADATA], 9, "01 00 00 00 01 00 05 aa"),  # a cut tagged field
        (REQUESTS[ApiKey.METADATA], 9, "01 00 00 00 ff ff ff ff 0f"),  # very many of them
        (
            REQUESTS[ApiKey.PRODUCE],
            3,
            "ffff 0001 00000000 00000001 0001 'a' 00000001 00000000 7fff",
        ),
        (REQUESTS[ApiKey.PRODUCE], 9, "00 0001 00000000 02 02 'a' 02 00000000 ffffffff07"),
        (RESPONSES[ApiKey.LEADER_AND_ISR], 1, "0000 80000000"),
        (
            REQUESTS[ApiKey.UPDATE_METADATA],
            8,
            "00000001 00 00000001 0000000000000001 01 01 01 00 02",
        ),
    ],
)
def test_absurd_lengths(cls: type[Message], version: int, text: str) -> None:
    data = golden(text)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=f"{cls.__name__} v{version}: "):
            decode(cls, version, data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_error_says_where() -> None:
    with pytest.raises(DecodeError, match="MetadataRequest v9: name is null"):
        decode(REQUESTS[ApiKey.METADATA], 9, golden("02 00 00 00 00"))
    with pytest.raises(DecodeError, match="topics: 2147483647 elements cannot be in so few bytes"):
        decode(REQUESTS[ApiKey.METADATA], 0, golden("7fffffff"))


def requested_keys(count: int) -> bytes:
    """The body of a FindCoordinator v4 request with ``count`` empty keys."""
    return b"\0" + write_uvarint(count + 1) + b"\1" * count + b"\0"


def requested_partitions(topics: int, each: int) -> bytes:
    """The body of a ListOffsets v1 request."""
    partitions = struct.pack(">i", each) + bytes(12 * each)
    return struct.pack(">ii", -1, topics) + (b"\0\1t" + partitions) * topics


@pytest.mark.mission("SAFE-30")
def test_a_request_has_only_so_many_elements() -> None:
    request: Any = REQUESTS[ApiKey.FIND_COORDINATOR]
    limit = request.SPEC.max_elements
    assert len(decode(request, 4, requested_keys(limit)).coordinator_keys) == limit
    data = requested_keys(100_000)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=f"coordinator_keys: .* more than {limit} array"):
            decode(request, 4, data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.mission("SAFE-30")
def test_the_elements_of_all_arrays_count_together() -> None:
    request: Any = REQUESTS[ApiKey.LIST_OFFSETS]
    limit = request.SPEC.max_elements
    topics = limit // 100
    assert len(decode(request, 1, requested_partitions(topics, 99)).topics) == topics
    with pytest.raises(DecodeError, match=f"partitions: .* more than {limit} array elements"):
        decode(request, 1, requested_partitions(topics, 100))


@pytest.mark.mission("SAFE-30")
def test_null_arrays_do_not_raise_the_limit() -> None:
    request: Any = REQUESTS[ApiKey.OFFSET_FETCH]
    limit = request.SPEC.max_elements
    group = b"\2g" + b"\0" + b"\0"  # all topics: null
    body = write_uvarint(limit + 2) + group * (limit + 1) + b"\0\0"
    with pytest.raises(DecodeError, match=f"groups: .* more than {limit} array elements"):
        decode(request, 8, body)
    topic = b"\2t" + write_uvarint(limit - 1) + bytes(4 * (limit - 2)) + b"\0"
    nulls = group * 10 + b"\2g" + b"\2" + topic + b"\0"
    with pytest.raises(DecodeError, match="partition_indexes: the message has more than"):
        decode(request, 8, b"\x0c" + nulls + b"\0\0")


@pytest.mark.mission("SAFE-30")
def test_unknown_tagged_fields_count_as_elements() -> None:
    request: Any = REQUESTS[ApiKey.FIND_COORDINATOR]
    limit = request.SPEC.max_elements
    tags = write_uvarint(limit + 1) + b"\7\0" * (limit + 1)
    with pytest.raises(DecodeError, match=f"{limit + 1} tagged fields are too many"):
        decode(request, 4, b"\0\1" + tags)
    with pytest.raises(DecodeError, match="2000 tagged fields are too many"):
        decode_request_header(
            memoryview(golden("000a 0004 00000007 ffff") + write_uvarint(2000) + b"\7\0" * 2000)
        )


@pytest.mark.parametrize("length", [32_767, 32_768])
def test_a_text_is_as_long_in_a_flexible_version_as_in_others(length: int) -> None:
    """Kafka's generated readers refuse more, so no other client could read it back."""
    request = DescribeUserScramCredentialsRequest([UserName("u" * length)])
    data = encode(request, 0)
    if length == 32_767:
        assert decode(DescribeUserScramCredentialsRequest, 0, data) == request
    else:
        with pytest.raises(DecodeError, match="name: a text of 32768 bytes"):
            decode(DescribeUserScramCredentialsRequest, 0, data)
