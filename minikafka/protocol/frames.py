"""Frames: an int32 size, a request or response header, and a message.

``FrameReader`` cuts a byte stream into frames. The functions below it make and read whole frames.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from minikafka.protocol.api_keys import NEVER, ApiKey
from minikafka.protocol.buffer import Buffer, DecodeError, EncodeError, skip_tags
from minikafka.protocol.codec import append_message, decode, encode
from minikafka.protocol.schema import Message

JOINED_BYTES: Final = 64 * 1024  # a smaller frame is written in one piece, with a copy
BUFFER_BYTES = 128 * 1024  # a read brings five frames of 16 KB, which a producer has in flight
# A large frame gets separate memory. It starts with FIRST_BIG_BYTES, whatever length the frame
# claims, and is multiplied by GROWTH when it is full. A peer that has sent a frame as large before
# gets up to BIG_BYTES at once. Unless configured otherwise, no more is kept for the next one.
FIRST_BIG_BYTES = 2 * BUFFER_BYTES
BIG_BYTES = 2 * 1024 * 1024
GROWTH = 2
# Where frames are reused, those of middle size get a wider buffer instead, kept for as long as they
# come: with room for several of them, a read brings more than one, and nothing is copied together.
WIDE_BYTES = 4 * 1024 * 1024
WIDE_FRAMES = 4
# After so many reads that brought small frames alone, the memory of larger ones is freed. A
# producer that was held up once sends a second's records in one frame, and small ones afterwards.
SMALL_READS = 64

# Buffers that readers have given back for the next ones. More are rarely needed at once.
SPARE_BUFFERS = 16
_NO_BUFFER = memoryview(b"")

_read_size = struct.Struct(">i").unpack_from


class FrameError(ValueError):
    """The size of a frame is invalid: negative, or above ``limit``. ``frames`` are the complete
    frames before it."""

    def __init__(self, text: str, limit: int, frames: Sequence[memoryview] = ()) -> None:
        super().__init__(text)
        self.limit = limit
        self.frames = frames


class FrameReader:
    """A buffer for ``asyncio.BufferedProtocol`` to fill, and the frames found in it.

    With ``reuse`` a frame is a view into the buffer, valid until the next ``get_buffer``; otherwise
    each frame has separate memory. The memory of a large frame is kept for the next one if it has
    at most ``kept_bytes``. After FrameError the reader cannot be used, except that
    ``buffer_updated(0)`` parses the same bytes again when ``max_frame_bytes`` has been raised.

    The reader takes its buffer from ``spare``, which the readers of an event loop share, and gives
    it back in ``rest``. Between two reads a connection mostly waits for a request, and no byte of
    one has arrived: ten thousand idle connections then need one buffer.
    """

    __slots__ = (
        "_big",
        "_big_filled",
        "_big_size",
        "_end",
        "_kept_bytes",
        "_received_frame",
        "_reuse",
        "_small_reads",
        "_spare",
        "_start",
        "_view",
        "_wide_bytes",
        "large_bytes",
        "max_frame_bytes",
    )

    def __init__(
        self,
        max_frame_bytes: int,
        reuse: bool,
        kept_bytes: int = BIG_BYTES,
        spare: list[memoryview] | None = None,
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._reuse = reuse
        self._kept_bytes = kept_bytes
        self._spare: list[memoryview] = [] if spare is None else spare  # bound: SPARE_BUFFERS
        self._view = _NO_BUFFER
        self._start = 0  # of what was filled but not handed out
        self._end = 0
        # The largest frame received since ``release``, if larger than BUFFER_BYTES; and the size of
        # the buffer that several such frames need, 0 if they get separate memory.
        self._received_frame = 0
        self._wide_bytes = 0
        self._small_reads = 0  # into a wider buffer, in a row, without a frame that needs it
        # The big frame under way, if ``_big_size``.
        self._big: memoryview | None = None
        self._big_size = 0
        self._big_filled = 0
        # Bytes of the buffers beyond the BUFFER_BYTES that every reader has.
        self.large_bytes = 0

    @property
    def growth(self) -> int:
        """How many bytes more the next ``get_buffer`` takes for the frame under way; 0 if there is
        room."""
        if self._big_size:
            assert self._big is not None
            filled = self._big_filled
            return min(self._big_size, filled * GROWTH) - filled if filled == len(self._big) else 0
        left = self._end - self._start
        if left < 4:
            return 0
        size: int = _read_size(self._view, self._start)[0]
        if size + 4 <= len(self._view):
            return 0
        if self._is_big(size):
            known = 0 if self._big is None else len(self._big)
            return max(0, self._big_capacity(size, left - 4) - known)
        return min(size + 4, left * GROWTH) - left if left == len(self._view) else 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the next frame that have arrived, including its size."""
        return self._big_filled + 4 if self._big_size else self._end - self._start

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes, which is never empty."""
        if self._big_size:
            return self._big_buffer()
        if not self._view:
            spare = self._spare
            self._view = spare.pop() if spare else memoryview(bytearray(BUFFER_BYTES))
            if not self._wide_bytes:
                return self._view
        start, end = self._start, self._end
        if self._wide_bytes > len(self._view):
            return self._widen(self._wide_bytes)
        if start == end:
            self._start = self._end = 0
            return self._view
        left = end - start
        if left >= 4:
            size: int = _read_size(self._view, start)[0]
            if size + 4 > len(self._view):
                if self._is_big(size):
                    return self._begin_big(size, self._view[start + 4 : end])
                if left == len(self._view):
                    return self._widen(min(size + 4, left * GROWTH))
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
        view, start = self._view, self._start
        self._end = end = self._end + nbytes
        limit, reuse = self.max_frame_bytes, self._reuse
        if end == nbytes and reuse and self._big is None and len(view) == BUFFER_BYTES:
            (size,) = _read_size(view, 0)
            if size + 4 == nbytes and 0 <= size <= limit:  # mostly one frame arrives, whole
                self._start = end
                return [view[4:end]]
        frames: list[memoryview] = []
        while (begin := start + 4) <= end:
            (size,) = _read_size(view, start)
            if not 0 <= size <= limit:
                self._start = start
                raise FrameError(f"frame of {size} bytes, {limit} allowed", limit, frames)
            stop = begin + size
            if stop > end:
                break
            frame = view[begin:stop]
            frames.append(frame if reuse else memoryview(frame.tobytes()))
            start = stop
        self._start = start
        if not frames:
            return frames
        if self._big is not None and len(self._big) > BIG_BYTES:
            self._keep_big(None)  # no more big ones, it seems
        if len(view) > BUFFER_BYTES:
            largest = max(map(len, frames))
            self._small_reads = self._small_reads + 1 if largest + 4 <= BUFFER_BYTES else 0
            self._note_received(largest)
        return frames

    def release(self) -> None:
        """Free the memory of large frames, unless one is being received."""
        if not self.buffered_bytes:
            self._big = None
            self._received_frame = self._wide_bytes = self.large_bytes = self._small_reads = 0
            if len(self._view) > BUFFER_BYTES:
                self._view = _NO_BUFFER
                self._start = self._end = 0

    def rest(self) -> None:
        """Give the buffer back until the next ``get_buffer``, unless it has bytes of the next frame
        or is a large one that is still of use. The frames that were found are not valid any more.
        """
        if self._start == self._end and len(self._view) == BUFFER_BYTES:
            if len(self._spare) < SPARE_BUFFERS:
                self._spare.append(self._view)
            self._view = _NO_BUFFER
            self._start = self._end = 0
        elif self._small_reads >= SMALL_READS:
            self.release()

    def _note_received(self, size: int) -> None:
        if size > self._received_frame and size > BUFFER_BYTES:
            self._received_frame = size
            if self._reuse and 2 * (size + 4) <= WIDE_BYTES:
                self._wide_bytes = min(WIDE_FRAMES * (size + 4), WIDE_BYTES)

    def _widen(self, size: int) -> memoryview:
        left = self._end - self._start
        wide = memoryview(bytearray(size))
        wide[:left] = self._view[self._start : self._end]
        self.large_bytes += size - len(self._view)
        self._view, self._start, self._end = wide, 0, left
        return wide[left:]

    def _keep_big(self, big: memoryview | None) -> None:
        self.large_bytes += (0 if big is None else len(big)) - (
            0 if self._big is None else len(self._big)
        )
        self._big = big

    def _is_big(self, size: int) -> bool:
        """Whether a frame that does not fit into the buffer gets separate memory."""
        return not self._reuse or 2 * (size + 4) > WIDE_BYTES

    def _big_capacity(self, size: int, received: int) -> int:
        known = min(self._received_frame, BIG_BYTES)
        return min(size, max(FIRST_BIG_BYTES, known, GROWTH * received))

    def _begin_big(self, size: int, head: memoryview) -> memoryview:
        capacity = self._big_capacity(size, len(head))
        if self._big is None or len(self._big) < capacity:
            self._keep_big(memoryview(bytearray(capacity)))
        assert self._big is not None
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
            self._keep_big(larger)
            return larger[filled:]
        return self._big[filled : self._big_size]

    def _finish_big(self) -> memoryview:
        assert self._big is not None
        frame = self._big[: self._big_size]
        self._note_received(self._big_size)
        self._big_size = self._big_filled = 0
        if not self._reuse or len(self._big) > self._kept_bytes:
            self._keep_big(None)
        return frame


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


class RequestHeader:
    """The header of a request. ``api_key`` may be unknown; ``client_id`` is None if it is null or
    the header version has none."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None = None
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def _fields(self) -> tuple[int, int, int, str | None]:
        return self.api_key, self.api_version, self.correlation_id, self.client_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestHeader) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RequestHeader{self._fields()!r}"


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
            none = frame[position] == 0  # nearly always
            position = position + 1 if none else skip_tags(frame, position, _MAX_TAGS)[0]
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
    body = encode(message, version)
    return _response_header(correlation_id, message, version, len(body) + 4) + body


def encode_response_parts(
    correlation_id: int, message: Message, version: int
) -> bytes | list[Buffer]:
    """Encode a response as a frame, or as its parts if it is large: record batches are among them
    without a copy. Raises EncodeError."""
    parts: list[Buffer] = [b""]
    append_message(message, version, parts)
    size = 4
    for part in parts:
        size += len(part)
    parts[0] = _response_header(correlation_id, message, version, size)
    return b"".join(parts) if size <= JOINED_BYTES else parts


def _response_header(correlation_id: int, message: Message, version: int, size: int) -> bytes:
    """``size`` is that of the frame without tagged fields of the header."""
    if version >= message.SPEC.first_flexible_header:
        return _pack_flexible_response(size + 1, correlation_id, 0)
    return _pack_response(size, correlation_id)


_JOINED_AT_ONCE = 20_000  # parts


def encode_large_response(correlation_id: int, message: Message, version: int) -> list[Buffer]:
    """Encode a large response with its frame, by a worker that must not stop the event loop.

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
            position, _ = skip_tags(frame, 4, _MAX_TAGS)
    except (DecodeError, struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    return correlation_id, decode(response_cls, version, frame, position)
