"""Produce in the seven versions of Kafka 2.0, and the first flexible one, byte by byte."""

import pytest

from minikafka.protocol.codec import DecodeError, decode, encode
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.support.protocol.golden import golden

REQUEST = """
    {size} 0000 {version} 00000007 0003 'cli'   # size, key, version, correlation id, client id
    {transactional_id}
    ffff 00007530                               # acks -1, timeout 30 s
    00000002                                    # topics
      0001 'a' 00000002                         # name, partitions
        00000000 00000003 'xyz'                 # index, records
        00000001 ffffffff                       # index, null
      0002 'bc' 00000001
        00000005 00000000                       # index, empty
"""
RESPONSES = {
    (0,): """
        {size} 00000007                         # size, correlation id
        00000001 0001 'a' 00000002              # topics, name, partitions
          00000000 0000 0000000000000102        # index, error, base offset
          00000001 0003 ffffffffffffffff
    """,
    (1,): """
        {size} 00000007
        00000001 0001 'a' 00000002
          00000000 0000 0000000000000102
          00000001 0003 ffffffffffffffff
        0000000a                                # throttle time
    """,
    (2, 3, 4): """
        {size} 00000007
        00000001 0001 'a' 00000002
          00000000 0000 0000000000000102 0000000000000304   # ..., log append time
          00000001 0003 ffffffffffffffff ffffffffffffffff
        0000000a
    """,
    (5, 6): """
        {size} 00000007
        00000001 0001 'a' 00000002
          00000000 0000 0000000000000102 0000000000000304 0000000000000005  # ..., log start
          00000001 0003 ffffffffffffffff ffffffffffffffff ffffffffffffffff
        0000000a
    """,
}


def request(version: int) -> ProduceRequest:
    return ProduceRequest(
        transactional_id="tx" if version >= 3 else None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="a",
                partition_data=[
                    PartitionProduceData(index=0, records=b"xyz"),
                    PartitionProduceData(index=1, records=None),
                ],
            ),
            TopicProduceData(
                name="bc", partition_data=[PartitionProduceData(index=5, records=b"")]
            ),
        ],
    )


def response(version: int) -> ProduceResponse:
    good = PartitionProduceResponse(index=0, base_offset=0x102)
    if version >= 2:
        good.log_append_time_ms = 0x304
    if version >= 5:
        good.log_start_offset = 5
    return ProduceResponse(
        throttle_time_ms=10 if version >= 1 else 0,
        responses=[
            TopicProduceResponse(
                name="a",
                partition_responses=[
                    good,
                    PartitionProduceResponse(index=1, error_code=3, base_offset=-1),
                ],
            )
        ],
    )


@pytest.mark.mission("PRD-2", "R-9", "R-12")
@pytest.mark.parametrize("version", range(7))
def test_request_frames_0_to_6(version: int) -> None:
    tail = "0002 'tx'" if version >= 3 else ""
    size = 69 if version >= 3 else 65
    frame = golden(
        REQUEST.format(size=f"{size:08x}", version=f"{version:04x}", transactional_id=tail)
    )
    header = RequestHeader(0, version, 7, "cli")
    assert encode_request(header, request(version)) == frame
    assert len(frame) == size + 4
    got, position = decode_request_header(memoryview(frame)[4:])
    assert got == header
    assert decode(ProduceRequest, version, memoryview(frame)[4:], position) == request(version)


@pytest.mark.mission("PRD-2")
@pytest.mark.parametrize("version", range(7))
def test_response_frames_0_to_6(version: int) -> None:
    text = next(text for versions, text in RESPONSES.items() if version in versions)
    size = {0: 43, 1: 47, 2: 63, 5: 79}[max(v for v in (0, 1, 2, 5) if v <= version)]
    frame = golden(text.format(size=f"{size:08x}"))
    assert encode_response(7, response(version), version) == frame
    assert decode_response(ProduceResponse, version, frame[4:]) == (7, response(version))


def test_records_are_views_into_the_frame() -> None:
    frame = bytearray(encode(request(9), 9))
    decoded = decode(ProduceRequest, 9, memoryview(frame))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    frame[frame.index(b"xyz")] = ord("X")
    assert bytes(records) == b"Xyz"


FLEXIBLE_REQUEST = """
    0000002e 0000 0009 00000007 0003 'cli' 00   # the header ends with its tagged fields
    00                                          # transactional id: null
    0001 00007530                               # acks, timeout
    02 02 'a' 03                                # topics + 1, name + 1, partitions + 1
      00000000 04 'xyz' 00                      # index, records + 1, tagged fields
      00000001 00 01 07 02 'zz'                 # index, null, one unknown tagged field (7)
      00                                        # tagged fields of the topic
    00                                          # tagged fields of the request
"""
FLEXIBLE_RESPONSE = """
    00000054 00000007 00                        # size, correlation id, tagged fields
    02 02 'a' 02                                # topics + 1, name + 1, partitions + 1
      00000001 0006 ffffffffffffffff            # index, error, base offset
      ffffffffffffffff ffffffffffffffff         # log append time, log start
      02 00000002 02 '!' 00                     # record errors: index, message
      03 'no'                                   # error message
      01 00 09 00000002 00000003 00             # one tagged field: 0, 9 bytes: leader, epoch
      00
    0000000a                                    # throttle time
    01 00 0e                                    # one tagged field: 0, 14 bytes
      02 00000002 02 'h' 00002384 02 'r' 00     # endpoints + 1: node, host, port, rack
"""


def test_flexible_request_with_an_unknown_tagged_field() -> None:
    frame = memoryview(golden(FLEXIBLE_REQUEST))
    assert len(frame) == 0x2E + 4
    header, position = decode_request_header(frame[4:])
    assert header == RequestHeader(0, 9, 7, "cli")
    decoded = decode(ProduceRequest, 9, frame[4:], position)
    assert decoded == ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="a",
                partition_data=[
                    PartitionProduceData(index=0, records=b"xyz"),
                    PartitionProduceData(index=1, records=None),
                ],
            )
        ],
    )
    without = FLEXIBLE_REQUEST.replace("01 07 02 'zz'", "00").replace("0000002e", "0000002a")
    assert encode_request(header, decoded) == golden(without)


def test_flexible_response_with_tagged_leader() -> None:
    message = ProduceResponse(
        throttle_time_ms=10,
        responses=[
            TopicProduceResponse(
                name="a",
                partition_responses=[
                    PartitionProduceResponse(
                        index=1,
                        error_code=6,
                        base_offset=-1,
                        record_errors=[
                            BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="!")
                        ],
                        error_message="no",
                        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
                    )
                ],
            )
        ],
        node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9092, rack="r")],
    )
    frame = golden(FLEXIBLE_RESPONSE)
    assert encode_response(7, message, 10) == frame
    assert decode_response(ProduceResponse, 10, frame[4:]) == (7, message)
    with pytest.raises(DecodeError, match="not as long as it says"):
        decode_response(ProduceResponse, 10, frame[4:].replace(b"\x01\x00\x09", b"\x01\x00\x0a"))
