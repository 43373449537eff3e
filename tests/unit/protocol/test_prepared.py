"""Requests whose forms are known decode as all requests do, whatever their bytes are."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_request
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.prepared import (
    LEARN_EVERY,
    MAX_BYTES,
    MAX_FORMS,
    PreparedRequests,
    has_records,
    rebuild_of,
)
from minikafka.protocol.schema import Message
from tests.support.protocol.messages import messages, title

VERSIONS = [
    (cls, version)
    for cls in REQUESTS.values()
    for version in range(cls.SPEC.versions.first, cls.SPEC.versions.last + 1)
]
# Where, how many bytes are taken out, and what is put in their place.
DAMAGE = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.binary(max_size=2)), max_size=2
)


def frame_of(message: Message, version: int, number: int = 7, client: str | None = "c") -> Any:
    key = message.SPEC.api_key
    assert key is not None
    return memoryview(encode_request(RequestHeader(key, version, number, client), message))[4:]


def learn(prepared: PreparedRequests, frame: memoryview) -> None:
    """Let it learn the form of a frame, unless it has none."""
    header, position = decode_request_header(frame)
    for _ in range(LEARN_EVERY):
        request_class = REQUESTS[header.api_key]  # type: ignore[index]
        message = decode(request_class, header.api_version, frame, position)
        prepared.learn(frame, header, position, message)


def decoded(frame: memoryview) -> tuple[RequestHeader, int, Message]:
    header, position = decode_request_header(frame)
    return header, position, decode(REQUESTS[header.api_key], header.api_version, frame, position)  # type: ignore[index]


@pytest.mark.mission("FAST-13")
@pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=title)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(data=st.data(), damage=DAMAGE)
def test_a_known_form_is_read_as_by_the_decoder(
    cls: type[Message], version: int, data: st.DataObject, damage: list[tuple[int, int, bytes]]
) -> None:
    prepared = PreparedRequests()
    message = data.draw(messages(cls, version))
    frame = frame_of(message, version)
    learn(prepared, frame)
    found = prepared.decode(frame)
    assert found is None or found == decoded(frame)
    other = bytearray(frame)
    for where, count, new in damage:
        place = 4 + where % (len(other) - 3)  # the key and the version are those of the caller
        other[place : place + count] = new
    found = prepared.decode(memoryview(other))
    assert found is None or found == decoded(memoryview(other))
    with contextlib.suppress(DecodeError):  # a form is learned of whatever can be decoded
        learn(prepared, memoryview(other))


def fetch(session_epoch: int, *offsets: int) -> FetchRequest:
    rows = [FetchPartition(n, fetch_offset=offset) for n, offset in enumerate(offsets)]
    return FetchRequest(
        session_id=5, session_epoch=session_epoch, topics=[FetchTopic("t", partitions=rows)]
    )


@pytest.mark.mission("FAST-13")
@pytest.mark.parametrize(
    ("first", "second", "versions"),
    [
        (fetch(1, 5), fetch(2, 2**40), range(7, 13)),
        (fetch(1, 5, 6), fetch(1, 6, 5), range(7, 13)),
        (HeartbeatRequest("g", 1, "m"), HeartbeatRequest("g", 1, "m"), range(5)),
    ],
)
def test_requests_that_differ_in_varying_fields_have_one_form(
    first: Message, second: Message, versions: range
) -> None:
    for version in versions:
        prepared = PreparedRequests()
        learn(prepared, frame_of(first, version))
        frame = frame_of(second, version, 2**31 - 1)
        assert prepared.decode(frame) == decoded(frame)
        assert prepared.decode(frame_of(second, version, client="other")) is None


@pytest.mark.mission("FAST-13")
def test_a_handler_changes_only_its_copy_of_a_message() -> None:
    prepared = PreparedRequests()
    frame = frame_of(fetch(1, 5, 6), 12)
    learn(prepared, frame)
    found = prepared.decode(frame)
    assert found is not None
    message: Any = found[2]
    message.topics[0].partitions.clear()
    message.topics.append(FetchTopic("another"))
    assert prepared.decode(frame) == decoded(frame)


def test_a_copy_keeps_fields_absent_in_its_version() -> None:
    topics = [FetchTopic(partitions=[FetchPartition()])]
    request = FetchRequest(session_id=9, session_epoch=8, topics=topics)
    copy = rebuild_of(FetchRequest, 4)(request, iter([33]).__next__)
    assert (copy.session_id, copy.topics[0].partitions[0].fetch_offset) == (9, 33)
    assert copy.topics[0] is not topics[0]


def test_messages_with_record_batches_are_found_at_any_depth() -> None:
    assert has_records(ProduceRequest)
    assert has_records(FetchResponse)
    assert not has_records(FetchRequest)


@pytest.mark.mission("FAST-13")
def test_the_forms_that_clients_make_up_are_bounded() -> None:
    prepared = PreparedRequests()
    learn(prepared, frame_of(HeartbeatRequest("g" * MAX_BYTES, 1, "m"), 4))
    assert prepared._count == 0
    for number in range(10 * LEARN_EVERY):
        frame = frame_of(HeartbeatRequest(f"g{number:04}", 1, "m"), 4)
        header, position = decode_request_header(frame)
        prepared.learn(frame, header, position, decode(HeartbeatRequest, 4, frame, position))
    assert prepared._count == 10, "few of requests that never come again"
    prepared._count = MAX_FORMS
    learn(prepared, frame_of(HeartbeatRequest("g", 1, "m"), 3))
    assert len(prepared._layouts) == prepared._count == 1
