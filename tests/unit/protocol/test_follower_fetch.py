"""The common Fetch of followers as bytes: what is read and written is what the codec has."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.codec import decode
from minikafka.protocol.follower_fetch import (
    FIRST_VERSION,
    LAST_VERSION,
    PackedFollowerFetch,
    follower_fetch,
    follower_fetch_response,
)
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

VERSIONS = st.integers(FIRST_VERSION, LAST_VERSION)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
IDS = st.uuids()


def request(offset: int, session_id: int, epoch: int, topic_id: UUID, **partition: Any) -> Any:
    row = FetchPartition(fetch_offset=offset, **partition)
    return FetchRequest(
        replica_state=ReplicaState(2, 77),
        max_wait_ms=500,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=topic_id, partitions=[row])],
    )


@pytest.mark.mission("FET-25")
@given(
    version=VERSIONS,
    client_id=st.text(max_size=20),
    numbers=st.tuples(INT, INT, INT, LONG),
    others=st.tuples(INT, INT, INT, LONG),
    row=st.tuples(INT, INT, INT, LONG, INT),
    topic_id=IDS,
)
def test_a_packed_request_equals_an_encoded_one(
    version: int,
    client_id: str,
    numbers: tuple[int, int, int, int],
    others: tuple[int, int, int, int],
    row: tuple[int, int, int, int, int],
    topic_id: UUID,
) -> None:
    names = ("partition", "current_leader_epoch", "last_fetched_epoch", "log_start_offset")
    partition = dict(zip((*names, "partition_max_bytes"), row, strict=True))

    def encoded(values: tuple[int, int, int, int]) -> bytes:
        correlation_id, session_id, epoch, offset = values
        header = RequestHeader(1, version, correlation_id, client_id)
        return encode_request(header, request(offset, session_id, epoch, topic_id, **partition))

    packed = PackedFollowerFetch(encoded(numbers)).frame(*others)
    assert packed == encoded(others)
    first, second = (follower_fetch(memoryview(encoded(each))[4:]) for each in (numbers, others))
    assert first is not None
    assert second is not None
    assert second[:5] == (version, *others)
    assert first.alike == second.alike


@pytest.mark.mission("FET-25")
@given(
    version=VERSIONS,
    client_id=st.text(max_size=4),
    place=st.integers(0, 200),
    byte=st.integers(0, 255),
)
def test_requests_that_are_alike_decode_alike(
    version: int, client_id: str, place: int, byte: int
) -> None:
    """A byte that no number holds makes another request, whatever it means."""
    header = RequestHeader(1, version, 1, client_id)
    frame = bytearray(encode_request(header, request(5, 6, 7, UUID(int=8)))[4:])
    before = follower_fetch(memoryview(bytes(frame)))
    frame[place % len(frame)] = byte
    after = follower_fetch(memoryview(frame))
    assert before is not None
    if after is None or after.alike != before.alike:
        return
    header, start = decode_request_header(memoryview(frame))
    message = decode(FetchRequest, version, memoryview(frame), start)
    assert header.correlation_id == after.correlation_id
    assert message == request(after.offset, after.session_id, after.session_epoch, UUID(int=8))


DATA = st.builds(
    PartitionData,
    partition_index=INT,
    error_code=st.sampled_from([0, 0, 0, 6]),
    high_watermark=LONG,
    last_stable_offset=LONG,
    log_start_offset=LONG,
    diverging_epoch=st.sampled_from([None, None, EpochEndOffset(1, 2)]),
    aborted_transactions=st.sampled_from([None, None, []]),
    preferred_read_replica=INT,
    records=st.one_of(st.binary(min_size=1, max_size=300), st.sampled_from([b"", None])),
)
RESPONSES = st.builds(
    FetchResponse,
    throttle_time_ms=INT,
    error_code=st.sampled_from([0, 0, 0, 70]),
    session_id=INT,
    responses=st.lists(
        st.builds(
            FetchableTopicResponse,
            topic_id=IDS,
            partitions=st.lists(DATA, min_size=1, max_size=2),
        ),
        max_size=2,
    ),
)


@pytest.mark.mission("FET-25")
@given(
    version=VERSIONS,
    response=RESPONSES,
    damage=st.none() | st.tuples(st.floats(0, 0.999), st.integers(0, 255)),
)
def test_a_response_equals_a_decoded_one(
    version: int, response: FetchResponse, damage: tuple[float, int] | None
) -> None:
    frame = bytearray(encode_response(3, response, version)[4:])
    if damage is not None:
        share, byte = damage
        frame[int(share * len(frame))] = byte
    found = follower_fetch_response(memoryview(frame))
    if found is None:
        return
    _, decoded = decode_response(FetchResponse, version, memoryview(frame))
    ((topic,),) = (decoded.responses,)
    assert (decoded.error_code, decoded.session_id) == (0, found.session_id)
    assert (topic.topic_id.bytes, topic.partitions) == (found.topic_id, [found.data])


@pytest.mark.mission("FET-25")
@given(version=VERSIONS, session_id=INT, topic_id=IDS, records=st.binary(min_size=1))
def test_a_response_of_one_partition_is_read(
    version: int, session_id: int, topic_id: UUID, records: bytes
) -> None:
    data = PartitionData(4, 0, 1, 2, 3, aborted_transactions=None, records=records)
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=[data])]
    response = FetchResponse(session_id=session_id, responses=topics)
    frame = memoryview(encode_response(3, response, version))[4:]
    found = follower_fetch_response(frame)
    assert found == (session_id, topic_id.bytes, data)
    for end in range(len(frame)):
        assert follower_fetch_response(frame[:end]) is None


def test_a_request_of_two_partitions_cannot_be_packed() -> None:
    message = request(5, 6, 7, UUID(int=8))
    message.topics[0].partitions *= 2
    with pytest.raises(ValueError, match="no common Fetch"):
        PackedFollowerFetch(encode_request(RequestHeader(1, LAST_VERSION, 1, "f"), message))


@pytest.mark.mission("FET-25")
@pytest.mark.parametrize("rack_length", range(40))
def test_the_request_of_a_consumer_with_a_rack_is_none_of_a_follower(rack_length: int) -> None:
    """It would be decoded twice. One whose rack has 15 characters has the size of a follower's."""
    message = request(1, 2, 3, UUID(int=7))
    message.replica_state, message.rack_id = None, "r" * rack_length
    frame = encode_request(RequestHeader(1, LAST_VERSION, 5, "c"), message)
    assert follower_fetch(memoryview(frame)[4:]) is None
