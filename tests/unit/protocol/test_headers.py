"""Headers: three versions for requests, two for responses, and the two exceptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError, EncodeError
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_large_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from tests.support.protocol.golden import golden


def head(text: str) -> tuple[RequestHeader, int]:
    return decode_request_header(memoryview(golden(text)))


@pytest.mark.mission("PRO-2")
def test_header_version_1() -> None:
    assert head("0003 0008 00000007 0002 'me' ff") == (RequestHeader(3, 8, 7, "me"), 12)
    assert head("0003 0008 00000007 0000 ff") == (RequestHeader(3, 8, 7, ""), 10)
    assert head("0003 0008 00000007 ffff ff") == (RequestHeader(3, 8, 7, None), 10)


@pytest.mark.mission("PRO-2")
def test_header_version_2_keeps_the_old_client_id_and_skips_tagged_fields() -> None:
    assert head("0003 0009 00000007 0002 'me' 00 ff") == (RequestHeader(3, 9, 7, "me"), 13)
    assert head("0003 0009 00000007 ffff 00 ff") == (RequestHeader(3, 9, 7, None), 11)
    tagged = "0003 0009 00000007 0002 'me' 02 00 01 aa 07 02 bbcc ff"
    assert head(tagged) == (RequestHeader(3, 9, 7, "me"), 20)


@pytest.mark.mission("PRO-2")
def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    frame = golden("0000000c 0007 0000 00000009 00000002")
    message = ControlledShutdownRequest(broker_id=2)
    assert encode_request(RequestHeader(7, 0, 9, None), message) == frame
    assert decode_request_header(memoryview(frame)[4:]) == (RequestHeader(7, 0, 9, None), 8)
    answer = encode_response(9, ControlledShutdownResponse(), 0)
    assert answer == golden("0000000a 00000009 0000 00000000")


@pytest.mark.mission("PRO-2")
def test_the_response_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    message = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    assert encode_response(5, message, 3) == golden("""
        00000013 00000005                       # size, correlation id, and no tagged fields
        0000 02 0012 0000 0004 00 00000000 00
    """)
    for version in range(5):
        frame = encode_response(5, message, version)
        assert decode_response(ApiVersionsResponse, version, frame[4:]) == (5, message)
    # The request is as flexible as any other.
    request = encode_request(RequestHeader(18, 3, 5, None), ApiVersionsRequest())
    assert request == golden("0000000e 0012 0003 00000005 ffff 00 01 01 00")


def test_an_unknown_key_or_a_version_too_new_can_still_be_named() -> None:
    assert head("0457 0001 00000007 0002 'me'") == (RequestHeader(0x457, 1, 7, "me"), 12)
    assert head("fffe 0001 00000007 0002 'me'")[0].api_key == -2
    assert head("0012 0063 00000007 0002 'me' 00")[0] == RequestHeader(18, 99, 7, "me")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0003 0008 000000",
        "0003 0008 00000007",
        "0003 0008 00000007 0003 'me'",
        "0003 0008 00000007 0002 fffe",
        "0003 0009 00000007 0002 'me'",
        "0003 0009 00000007 0002 'me' 01",
        "0003 0009 00000007 0002 'me' 01 00 05 aa",
        "0003 0009 00000007 0002 'me' ffffffffffff",
        "0007 0000 000000",
    ],
)
def test_malformed_request_headers(text: str) -> None:
    with pytest.raises(DecodeError, match="header"):
        head(text)


@pytest.mark.parametrize("text", ["", "000000", "00000001", "00000001 01 00 7f"])
def test_malformed_response_headers(text: str) -> None:
    with pytest.raises(DecodeError, match="header"):
        decode_response(MetadataResponse, 9, golden(text))


def test_a_response_header_with_tagged_fields_is_read() -> None:
    frame = encode_response(7, MetadataResponse(), 9)[4:]
    tagged = frame[:4] + golden("01 05 02 aabb") + frame[5:]
    assert decode_response(MetadataResponse, 9, tagged) == (7, MetadataResponse())


def test_a_request_under_the_wrong_key_is_refused() -> None:
    with pytest.raises(EncodeError, match="not a request of API 0"):
        encode_request(RequestHeader(0, 1, 1, None), MetadataRequest())


@given(
    key=st.sampled_from(sorted(REQUESTS)),
    correlation_id=st.integers(-(1 << 31), (1 << 31) - 1),
    client_id=st.none() | st.text(max_size=20),
    data=st.data(),
)
def test_frames_round_trip(
    key: ApiKey, correlation_id: int, client_id: str | None, data: st.DataObject
) -> None:
    version = data.draw(st.integers(key.first_version, key.max_version))
    header = RequestHeader(key, version, correlation_id, client_id)
    frame = encode_request(header, REQUESTS[key]())
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    got, _ = decode_request_header(memoryview(frame)[4:])
    if key is ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        client_id = None
    assert got == RequestHeader(key, version, correlation_id, client_id)

    answer = encode_response(correlation_id, RESPONSES[key](), version)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert decode_response(RESPONSES[key], version, answer[4:])[0] == correlation_id


def test_parts_of_a_response_hold_the_records_themselves() -> None:
    records = memoryview(bytes(1 << 20))
    message = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])]
    )
    parts = encode_response_parts(1, message, 12)
    assert isinstance(parts, list)
    assert any(part is records for part in parts)
    assert b"".join(parts) == encode_response(1, message, 12)


@pytest.mark.mission("SAFE-31")
@pytest.mark.parametrize("version", [0, 9])
@pytest.mark.parametrize("topics", [0, 1, 30_000])
def test_a_large_response_has_the_same_bytes(version: int, topics: int) -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(name=f"t{n}") for n in range(topics)])
    parts = encode_large_response(7, response, version)
    assert b"".join(parts) == encode_response(7, response, version)
    assert len(parts) <= 2 + topics // 1_000
    # One call that joins all parts would keep the interpreter lock for too long.
    assert len(parts) > topics // 10_000


def test_every_api_key_is_one_row() -> None:
    assert len(ApiKey) == 80
    assert [key for key in ApiKey if key.max_version_2_0 is not None] == list(range(43))
    assert sum(key.max_version_2_8 is not None for key in ApiKey) == 56
    assert ApiKey.LEADER_AND_ISR.api_name == "LeaderAndIsr"
    assert ApiKey.OFFSET_FOR_LEADER_EPOCH.api_name == "OffsetForLeaderEpoch"
    never = {key for key in ApiKey if not key.is_flexible(key.max_version)}
    assert never == {ApiKey.SASL_HANDSHAKE, ApiKey.OFFSET_DELETE}
    for key in ApiKey:
        older = [key.max_version_2_0, key.max_version_2_8, key.max_version_3_9]
        known = [*older, key.max_version]
        assert known == sorted(known, key=lambda v: -1 if v is None else v)
