"""Request and response headers, and frames (a header followed by a message)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, TypeVar

from minikafka.protocol.api_keys import NEVER, ApiKey
from minikafka.protocol.buffer import Buffer, DecodeError, EncodeError, read_uvarint
from minikafka.protocol.codec import append_message, decode
from minikafka.protocol.schema import Message

M = TypeVar("M", bound=Message)

_FIRST_FLEXIBLE = {int(key): key.first_flexible for key in ApiKey}
_MAX_TAGS = 1_000  # of a header; Kafka defines none for requests or responses yet
_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)

_read_header_v0 = struct.Struct(">hhi").unpack_from
_read_header = struct.Struct(">hhih").unpack_from
_read_correlation_id = struct.Struct(">i").unpack_from
_pack_request = struct.Struct(">ihhi").pack
_pack_length = struct.Struct(">h").pack
_pack_response = struct.Struct(">ii").pack
_pack_flexible_response = struct.Struct(">iiB").pack


@dataclass(slots=True)
class RequestHeader:
    """The header of a request. ``api_key`` may be unknown; ``client_id`` is None if it is null or
    the header version has none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Decode the header of a frame without its size. Return it with the position of the body.

    An unknown API key is assumed to have header version 1, so that the key can be logged when the
    connection is closed. Raises DecodeError.
    """
    try:
        api_key, api_version, correlation_id, length = _read_header(frame)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None), 8
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise DecodeError(
                    f"the client id ends at byte {position} of a frame of {len(frame)} bytes"
                )
            client_id = frame[10:position].tobytes().decode()
        if api_version >= _FIRST_FLEXIBLE.get(api_key, NEVER):
            position = _skip_tags(frame, position) if frame[position] else position + 1
    except (DecodeError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request(header: RequestHeader, message: Message) -> bytes:
    """Encode a request as a frame, including its int32 size. Raises EncodeError."""
    spec = message.SPEC
    version = header.api_version
    if spec.api_key != header.api_key:
        raise EncodeError(f"{type(message).__name__} is not a request of API {header.api_key}")
    client_id = b""
    if not (header.api_key == _CONTROLLED_SHUTDOWN and version == 0):
        encoded = None if header.client_id is None else header.client_id.encode()
        client_id = b"\xff\xff" if encoded is None else _pack_length(len(encoded)) + encoded
    if version >= spec.first_flexible_header:
        client_id += b"\0"
    parts: list[Buffer] = [b"", client_id]
    append_message(message, version, parts)
    parts[0] = _pack_request(
        sum(map(len, parts)) + 8, header.api_key, version, header.correlation_id
    )
    return b"".join(parts)


def encode_response(correlation_id: int, message: Message, version: int) -> bytes:
    """Encode a response as a frame, including its int32 size. Raises EncodeError."""
    return b"".join(encode_response_parts(correlation_id, message, version))


def encode_response_parts(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    """Encode a response as the parts of a frame. Record batches are among the parts without a
    copy. Raises EncodeError."""
    parts: list[Buffer] = [b""]
    append_message(message, version, parts)
    size = sum(map(len, parts)) + 4
    parts[0] = _response_header(correlation_id, message, version, size)
    return parts


def _response_header(correlation_id: int, message: Message, version: int, size: int) -> bytes:
    """``size`` is that of the frame without tagged fields of the header."""
    if version >= message.SPEC.first_flexible_header:
        return _pack_flexible_response(size + 1, correlation_id, 0)
    return _pack_response(size, correlation_id)


_JOINED_AT_ONCE = 20_000  # parts


def encode_large_response(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    """As ``encode_response_parts``, for a worker that must not stop the event loop.

    A large response has millions of parts. They are joined, and freed, some thousands at a time:
    one call for all of them would not give up the interpreter lock before its end."""
    parts: list[Any] = []
    append_message(message, version, parts)
    size = 4
    joined: list[Buffer] = [b""]
    for start in range(0, len(parts), _JOINED_AT_ONCE):
        some = parts[start : start + _JOINED_AT_ONCE]
        parts[start : start + _JOINED_AT_ONCE] = [None] * len(some)
        joined.append(b"".join(some))
        size += len(joined[-1])
    joined[0] = _response_header(correlation_id, message, version, size)
    return joined


def decode_response(response_cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Decode a response frame without its size prefix. Return the correlation id and the message.
    Raises DecodeError."""
    try:
        (correlation_id,) = _read_correlation_id(frame)
        position = 4
        if version >= response_cls.SPEC.first_flexible_header:
            position = _skip_tags(frame, 4)
    except (DecodeError, struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    return correlation_id, decode(response_cls, version, frame, position)


def _skip_tags(frame: Buffer, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count > _MAX_TAGS:
        raise DecodeError(f"{count} tagged fields are too many")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    if position > len(frame):
        raise DecodeError(
            f"a tagged field ends at byte {position} of a frame of {len(frame)} bytes"
        )
    return position
