"""Frames: an int32 size, a request or response header, and a message.

``FrameReader`` cuts a byte stream into frames. The functions below it make and read whole frames.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from minikafka.protocol.api_keys import NEVER, ApiKey
from minikafka.protocol.buffer import Buffer, DecodeError, EncodeError, read_uvarint
from minikafka.protocol.codec import append_message, decode
from minikafka.protocol.schema import Message

BUFFER_BYTES = 64 * 1024
# A frame that does not fit the buffer gets separate memory: at first this many bytes at most,
# whatever length it claims. Unless configured otherwise, no more is kept for the next big frame.
BIG_BYTES = 2 * 1024 * 1024
GROWTH = 4
# Where frames are reused, those of middle size get a wider buffer instead, kept for as long as they
# come: with room for several of them, a read brings more than one, and nothing is copied together.
WIDE_BYTES = 4 * 1024 * 1024
WIDE_FRAMES = 4

_read_size = struct.Struct(">i").unpack_from


class FrameError(ValueError):
    """The size of a frame is invalid. ``frames`` are the complete frames before it."""

    def __init__(self, text: str, frames: Sequence[memoryview] = ()) -> None:
        super().__init__(text)
        self.frames = frames


class FrameReader:
    """A buffer for ``asyncio.BufferedProtocol`` to fill, and the frames found in it.

    With ``reuse`` a frame is a view into the buffer, valid until the next ``get_buffer``; otherwise
    each frame has separate memory. The memory of a large frame is kept for the next one if it has
    at most ``kept_bytes``. The reader cannot be used after FrameError.
    """

    def __init__(self, max_frame_bytes: int, reuse: bool, kept_bytes: int = BIG_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._reuse = reuse
        self._kept_bytes = kept_bytes
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._start = 0  # of what was filled but not handed out
        self._end = 0
        # The big frame under way, if ``_big_size``.
        self._big: memoryview | None = None
        self._big_size = 0
        self._big_filled = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the next frame that have arrived, including its size."""
        return self._big_filled + 4 if self._big_size else self._end - self._start

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes, which is never empty."""
        if self._big_size:
            return self._big_buffer()
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            return self._view
        left = end - start
        if left >= 4:
            size: int = _read_size(self._view, start)[0]
            if size + 4 > len(self._view):
                if not self._reuse or 2 * (size + 4) > WIDE_BYTES:
                    return self._begin_big(size, self._view[start + 4 : end])
                return self._widen(size + 4)
        if start:
            self._view[:left] = self._view[start:end]
            self._start, self._end = 0, left
        return self._view[left:]

    def buffer_updated(self, nbytes: int) -> list[memoryview]:
        """Return the frames, without their sizes, that ``nbytes`` more bytes complete. Raises
        FrameError."""
        if self._big_size:
            self._big_filled += nbytes
            return [self._finish_big()] if self._big_filled == self._big_size else []
        frames: list[memoryview] = []
        view, start = self._view, self._start
        self._end = end = self._end + nbytes
        while end - start >= 4:
            size: int = _read_size(view, start)[0]
            if size < 0 or size > self._max_frame_bytes:
                self._start = start
                raise FrameError(f"frame of {size} bytes, {self._max_frame_bytes} allowed", frames)
            stop = start + 4 + size
            if stop > end:
                break
            frame = view[start + 4 : stop]
            frames.append(frame if self._reuse else memoryview(frame.tobytes()))
            start = stop
        self._start = start
        if self._big is not None and frames and len(self._big) > BIG_BYTES:
            self._big = None  # no more big ones, it seems
        return frames

    def release(self) -> None:
        """Free the memory of large frames, unless one is being received."""
        if not self.buffered_bytes:
            self._big = None
            if len(self._view) > BUFFER_BYTES:
                self._view = memoryview(bytearray(BUFFER_BYTES))
                self._start = self._end = 0

    def _widen(self, frame_bytes: int) -> memoryview:
        left = self._end - self._start
        wide = memoryview(bytearray(min(WIDE_FRAMES * frame_bytes, WIDE_BYTES)))
        wide[:left] = self._view[self._start : self._end]
        self._view, self._start, self._end = wide, 0, left
        return wide[left:]

    def _begin_big(self, size: int, head: memoryview) -> memoryview:
        capacity = min(size, BIG_BYTES)
        if self._big is None or len(self._big) < capacity:
            self._big = memoryview(bytearray(capacity))
        self._big[: len(head)] = head
        self._big_size, self._big_filled = size, len(head)
        self._start = self._end = 0
        return self._big_buffer()

    def _big_buffer(self) -> memoryview:
        assert self._big is not None
        filled = self._big_filled
        if filled == len(self._big):
            larger = memoryview(bytearray(min(self._big_size, filled * GROWTH)))
            larger[:filled] = self._big
            self._big = larger
        return self._big[filled : self._big_size]

    def _finish_big(self) -> memoryview:
        assert self._big is not None
        frame = self._big[: self._big_size]
        self._big_size = self._big_filled = 0
        if not self._reuse or len(self._big) > self._kept_bytes:
            self._big = None
        return frame


M = TypeVar("M", bound=Message)

_FIRST_FLEXIBLE = {int(key): key.first_flexible for key in ApiKey}
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
    """``api_key`` may be one we do not know; ``client_id`` is None where none was sent."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """(header, position where the body starts) of a frame without its size.

    An unknown key is read with a header of version 1, so that it can be named when the connection
    is closed. Raises DecodeError.
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
                raise DecodeError("the client id goes beyond the frame")
            client_id = frame[10:position].tobytes().decode()
        if api_version >= _FIRST_FLEXIBLE.get(api_key, NEVER):
            position = _skip_tags(frame, position) if frame[position] else position + 1
    except (DecodeError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request(header: RequestHeader, message: Message) -> bytes:
    """The whole frame, its int32 size included. Raises EncodeError."""
    spec = message.SPEC
    version = header.api_version
    if spec.api_key != header.api_key:
        raise EncodeError(f"{type(message).__name__} is no request of API {header.api_key}")
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
    """The whole frame, its int32 size included. Raises EncodeError."""
    return b"".join(encode_response_parts(correlation_id, message, version))


def encode_response_parts(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    """As ``encode_response``, not joined: record batches are in the list as they were given."""
    parts: list[Buffer] = [b""]
    append_message(message, version, parts)
    size = sum(map(len, parts)) + 4
    if version >= message.SPEC.first_flexible_header:
        parts[0] = _pack_flexible_response(size + 1, correlation_id, 0)
    else:
        parts[0] = _pack_response(size, correlation_id)
    return parts


def decode_response(response_cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """(correlation id, message) of a frame without its size. Raises DecodeError."""
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
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    if position > len(frame):
        raise DecodeError("a tagged field goes beyond the frame")
    return position
