"""Headers of requests and responses as kio, an independent codec, writes and reads them."""

from __future__ import annotations

import io
import struct

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES

SHARED = [
    (key, version)
    for key in sorted(REQUESTS)
    if key in api_key_map
    for version in range(key.max_version + 1)
    if version in schema_name_map[api_key_map[key]]
]


def test_kio_knows_all_but_the_controllers_requests() -> None:
    assert set(REQUESTS) - {key for key, _ in SHARED} == {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    }


@pytest.mark.mission("PRO-2")
@pytest.mark.parametrize(("key", "version"), SHARED, ids=str)
def test_request_headers(key: ApiKey, version: int) -> None:
    for client_id in ("", "me", "é" * 100, None):
        check_request_header(key, version, client_id)


def check_request_header(key: ApiKey, version: int, client_id: str | None) -> None:
    schema = load_request_schema(int(key), version).__header_schema__
    theirs = schema(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(-7),
        client_id=client_id,
    )
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, theirs)
    written = buffer.getvalue()

    header = RequestHeader(int(key), version, -7, client_id)
    assert decode_request_header(memoryview(written + b"body")) == (header, len(written))
    frame = encode_request(header, REQUESTS[key]())
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert frame[4:].startswith(written)
    assert entity_reader(schema)(frame[4:], 0) == (theirs, len(written))


@pytest.mark.mission("PRO-2", "PRO-3")
@pytest.mark.parametrize(("key", "version"), SHARED, ids=str)
def test_response_headers(key: ApiKey, version: int) -> None:
    schema = load_response_schema(int(key), version).__header_schema__
    theirs = schema(correlation_id=i32(-7))
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, theirs)
    written = buffer.getvalue()

    frame = encode_response(-7, RESPONSES[key](), version)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert frame[4:].startswith(written)
    assert entity_reader(schema)(frame[4:], 0) == (theirs, len(written))
    correlation_id, _ = decode_response(RESPONSES[key], version, frame[4:])
    assert correlation_id == -7
