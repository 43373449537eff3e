"""Fetch in the nine versions of Kafka 2.0, and some flexible ones, byte by byte."""

from uuid import UUID

import pytest

from minikafka.protocol.codec import EncodeError, decode, encode
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.support.protocol.golden import golden

HEADER = "{size} 0001 {version} 00000007 0003 'cli'"
REQUESTS = {
    (0, 1, 2): """
        ffffffff 000001f4 00000001              # replica, max wait, min bytes
        00000001 0001 'a' 00000002              # topics, name, partitions
          00000003 0000000000000102 00000400    # partition, fetch offset, max bytes
          00000004 0000000000000103 00000400
    """,
    (3,): """
        ffffffff 000001f4 00000001 00100000     # ..., max bytes
        00000001 0001 'a' 00000002
          00000003 0000000000000102 00000400
          00000004 0000000000000103 00000400
    """,
    (4,): """
        ffffffff 000001f4 00000001 00100000 01  # ..., isolation level
        00000001 0001 'a' 00000002
          00000003 0000000000000102 00000400
          00000004 0000000000000103 00000400
    """,
    (5, 6): """
        ffffffff 000001f4 00000001 00100000 01
        00000001 0001 'a' 00000002
          00000003 0000000000000102 0000000000000005 00000400   # ..., log start offset, max bytes
          00000004 0000000000000103 ffffffffffffffff 00000400
    """,
    (7, 8): """
        ffffffff 000001f4 00000001 00100000 01
        00000009 00000002                       # session id, session epoch
        00000001 0001 'a' 00000002
          00000003 0000000000000102 0000000000000005 00000400
          00000004 0000000000000103 ffffffffffffffff 00000400
        00000001 0001 'b' 00000002 00000000 00000006   # forgotten: topic, partitions
    """,
}
RESPONSES = {
    (0,): """
        00000001 0001 'a' 00000002              # topics, name, partitions
          00000003 0000 0000000000000110 00000003 'xyz'   # ..., high watermark, records
          00000004 0001 ffffffffffffffff 00000000
    """,
    (1, 2, 3): """
        0000000a                                # throttle time
        00000001 0001 'a' 00000002
          00000003 0000 0000000000000110 00000003 'xyz'
          00000004 0001 ffffffffffffffff 00000000
    """,
    (4,): """
        0000000a
        00000001 0001 'a' 00000002
          00000003 0000 0000000000000110 0000000000000109   # ..., last stable offset
            00000001 0000000000000064 0000000000000105      # aborted: producer id, first offset
            00000003 'xyz'
          00000004 0001 ffffffffffffffff ffffffffffffffff
            ffffffff                                        # aborted: null
            00000000
    """,
    (5, 6): """
        0000000a
        00000001 0001 'a' 00000002
          00000003 0000 0000000000000110 0000000000000109 0000000000000005   # ..., log start
            00000001 0000000000000064 0000000000000105
            00000003 'xyz'
          00000004 0001 ffffffffffffffff ffffffffffffffff ffffffffffffffff
            ffffffff
            00000000
    """,
    (7, 8): """
        0000000a 0000 00000009                  # throttle time, error, session id
        00000001 0001 'a' 00000002
          00000003 0000 0000000000000110 0000000000000109 0000000000000005
            00000001 0000000000000064 0000000000000105
            00000003 'xyz'
          00000004 0001 ffffffffffffffff ffffffffffffffff ffffffffffffffff
            ffffffff
            00000000
    """,
}


def layout(layouts: dict[tuple[int, ...], str], version: int) -> str:
    return next(text for versions, text in layouts.items() if version in versions)


def request(version: int) -> FetchRequest:
    first, second = (
        FetchPartition(partition=3, fetch_offset=0x102, partition_max_bytes=1024),
        FetchPartition(partition=4, fetch_offset=0x103, partition_max_bytes=1024),
    )
    message = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[FetchTopic(topic="a", partitions=[first, second])],
    )
    if version >= 3:
        message.max_bytes = 1 << 20
    if version >= 4:
        message.isolation_level = 1
    if version >= 5:
        first.log_start_offset = 5
    if version >= 7:
        message.session_id, message.session_epoch = 9, 2
        message.forgotten_topics_data = [ForgottenTopic(topic="b", partitions=[0, 6])]
    return message


def response(version: int) -> FetchResponse:
    first = PartitionData(partition_index=3, high_watermark=0x110, records=b"xyz")
    second = PartitionData(partition_index=4, error_code=1, high_watermark=-1, records=b"")
    if version >= 4:
        first.last_stable_offset = 0x109
        first.aborted_transactions = [AbortedTransaction(producer_id=100, first_offset=0x105)]
        second.aborted_transactions = None
    if version >= 5:
        first.log_start_offset = 5
    return FetchResponse(
        throttle_time_ms=10 if version >= 1 else 0,
        session_id=9 if version >= 7 else 0,
        responses=[FetchableTopicResponse(topic="a", partitions=[first, second])],
    )


@pytest.mark.mission("FET-1", "R-9")
@pytest.mark.parametrize("version", range(9))
def test_request_frames_0_to_8(version: int) -> None:
    size = {0: 68, 3: 72, 4: 73, 5: 89, 7: 116}[max(v for v in (0, 3, 4, 5, 7) if v <= version)]
    text = HEADER + layout(REQUESTS, version)
    frame = golden(text.format(size=f"{size:08x}", version=f"{version:04x}"))
    header = RequestHeader(1, version, 7, "cli")
    assert encode_request(header, request(version)) == frame
    assert len(frame) == size + 4
    got, position = decode_request_header(memoryview(frame)[4:])
    assert got == header
    assert decode(FetchRequest, version, memoryview(frame)[4:], position) == request(version)


@pytest.mark.mission("FET-1", "FET-10")
@pytest.mark.parametrize("version", range(9))
def test_response_frames_0_to_8(version: int) -> None:
    sizes = {0: 54, 1: 58, 4: 98, 5: 114, 7: 120}
    size = sizes[max(v for v in sizes if v <= version)]
    frame = golden(f"{size:08x} 00000007\n" + layout(RESPONSES, version))
    assert encode_response(7, response(version), version) == frame
    assert len(frame) == size + 4
    assert decode_response(FetchResponse, version, frame[4:]) == (7, response(version))


@pytest.mark.mission("FET-3")
@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_a_partition_takes_24_bytes_of_a_request(version: int) -> None:
    def size(partitions: int) -> int:
        topic = FetchTopic(
            topic="a", partitions=[FetchPartition(partition=i) for i in range(partitions)]
        )
        return len(encode(FetchRequest(topics=[topic]), version))

    assert [size(n) - size(0) for n in (1, 2, 1000)] == [24, 48, 24_000]
    assert (
        encode(
            FetchRequest(
                topics=[
                    FetchTopic(
                        topic="a",
                        partitions=[
                            FetchPartition(
                                partition=1,
                                fetch_offset=2,
                                log_start_offset=3,
                                partition_max_bytes=4,
                            )
                        ],
                    )
                ]
            ),
            version,
        ).count(golden("00000001 0000000000000002 0000000000000003 00000004"))
        == 1
    )


def test_version_12_is_flexible() -> None:
    frame = golden("""
        00000054 0001 000c 00000007 0003 'cli' 00
        ffffffff 000001f4 00000001 00100000 00  # replica, max wait, min, max bytes, isolation
        00000000 ffffffff                       # session id, session epoch
        02 02 'a' 02                            # topics + 1, name + 1, partitions + 1
          00000003 00000004 0000000000000102    # partition, current leader epoch, fetch offset
          00000002 ffffffffffffffff 00000400 00 # last fetched epoch, log start, max bytes, tags
          00
        01 01                                   # forgotten topics + 1, rack + 1
        01 00 02 02 'k'                         # one tagged field: 0, 2 bytes: cluster id
    """)
    message = FetchRequest(
        cluster_id="k",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic="a",
                partitions=[
                    FetchPartition(
                        partition=3,
                        current_leader_epoch=4,
                        fetch_offset=0x102,
                        last_fetched_epoch=2,
                        partition_max_bytes=1024,
                    )
                ],
            )
        ],
    )
    assert encode_request(RequestHeader(1, 12, 7, "cli"), message) == frame


def test_a_diverging_epoch_travels_as_tagged_field() -> None:
    message = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="a",
                partitions=[PartitionData(diverging_epoch=EpochEndOffset(epoch=3, end_offset=7))],
            )
        ]
    )
    tail = golden("01 00 0d 00000003 0000000000000007 00  00  00")
    encoded = encode(message, 12)
    assert encoded.endswith(tail)
    assert decode(FetchResponse, 12, encoded) == message
    with pytest.raises(EncodeError, match=r"PartitionData\.diverging_epoch"):
        encode(message, 11)


def test_topics_by_id_and_the_replica_as_tagged_state_in_version_15() -> None:
    topic_id = UUID(int=5)
    message = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=77),
        topics=[FetchTopic(topic="dropped: there is no name", topic_id=topic_id)],
    )
    encoded = encode(message, 15)
    assert encoded.endswith(golden("01 01 0d 00000002 000000000000004d 00"))
    decoded = decode(FetchRequest, 15, encoded)
    assert decoded.replica_state == message.replica_state
    assert decoded.topics == [FetchTopic(topic_id=topic_id)]
    with pytest.raises(EncodeError, match=r"FetchRequest\.replica_id"):
        encode(FetchRequest(replica_id=2), 15)
    with pytest.raises(EncodeError, match=r"FetchRequest\.replica_state"):
        encode(message, 14)
