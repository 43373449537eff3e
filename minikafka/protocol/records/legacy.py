"""Message sets: the record formats of magic 0 and 1, from before record batches.

    offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | timestamp i64 (magic 1 only) |
    key length i32 | key | value length i32 | value

The CRC-32 covers everything from ``magic`` on. A compressed set is the value of one message, the
wrapper, which has the offset of its last inner message; inner offsets are absolute in magic 0 and
relative in magic 1. Kafka: ``LegacyRecord``, ``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    SMALLEST_LENGTH,
    TIMESTAMP_TYPE_FLAG,
    CorruptRecordError,
    compression_of,
)
from minikafka.protocol.records.compression import (
    LARGEST_DECOMPRESSED_BYTES,
    Compression,
    compress,
    decompress,
    with_kafka_lz4_checksum,
    with_right_lz4_checksum,
)
from minikafka.protocol.records.record import Record

MAGIC_V0: Final = 0
MAGIC_V1: Final = 1

_PREFIX: Final = Struct(">qi")  # offset, size
_V0: Final = Struct(">bb")  # magic, attributes
_V1: Final = Struct(">bbq")  # magic, attributes, timestamp
_CRC: Final = Struct(">I")
_LENGTH: Final = Struct(">i")
_TIMESTAMP: Final = Struct(">q")
_CRC_BYTES: Final = 4
_V0_HEADER_BYTES: Final = _CRC_BYTES + _V0.size
_V1_HEADER_BYTES: Final = _CRC_BYTES + _V1.size
_NULL: Final = _LENGTH.pack(-1)


class LegacyMessage(NamedTuple):
    """One message: a record, or the wrapper of compressed ones. ``timestamp`` is milliseconds
    since 1970, -1 in magic 0. ``data`` are its bytes from ``crc`` on."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    data: bytes

    @property
    def size_bytes(self) -> int:
        """The bytes of the message in its set, with offset and size."""
        return len(self.data) + LOG_OVERHEAD

    @property
    def crc_is_valid(self) -> bool:
        data = self.data
        return int.from_bytes(data[:_CRC_BYTES], "big") == crc32(data[_CRC_BYTES:])

    @property
    def compression(self) -> Compression:
        """Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for a codec that does not exist."""
        return compression_of(self.attributes)

    @property
    def timestamp_type_log_append(self) -> bool:
        return self.magic > MAGIC_V0 and bool(self.attributes & TIMESTAMP_TYPE_FLAG)


# ---- reading


def iterate_messages(buffer: Buffer) -> Iterator[LegacyMessage]:
    """Yield the messages of a set. A compressed message is yielded as it is.

    An incomplete message at the end is left out. CRCs are not checked. Raises CorruptRecordError,
    and KafkaError(INVALID_RECORD) for a record batch among the messages."""
    data = bytes(buffer)
    position, end = 0, len(data)
    while end - position >= LOG_OVERHEAD:
        offset, size = _PREFIX.unpack_from(data, position)
        if size < SMALLEST_LENGTH:
            raise CorruptRecordError(
                f"message size {size} is less than the minimum overhead ({SMALLEST_LENGTH})"
            )
        if size > end - position - LOG_OVERHEAD:
            return
        start = position + LOG_OVERHEAD
        yield _parse_message(offset, data[start : start + size])
        position = start + size


def _parse_message(offset: int, data: bytes) -> LegacyMessage:
    magic = data[_CRC_BYTES]
    timestamp = NO_TIMESTAMP
    try:
        if magic == MAGIC_V1:
            (timestamp,) = _TIMESTAMP.unpack_from(data, _V0_HEADER_BYTES)
            position = _V1_HEADER_BYTES
        elif magic == MAGIC_V0:
            position = _V0_HEADER_BYTES
        else:
            code = ErrorCode.INVALID_RECORD if magic == MAGIC_V2 else ErrorCode.CORRUPT_MESSAGE
            raise KafkaError(code, f"a message of magic {magic} in an old message set")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        key = None
        if length >= 0:
            key = data[position : position + length]
            position += length
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
    except StructError as error:
        raise CorruptRecordError(f"a message of {len(data)} bytes is cut off") from error
    value = None
    if length >= 0:
        value = data[position : position + length]
        if len(value) < length:
            raise CorruptRecordError(f"a value of {length} bytes reaches past its message")
    return LegacyMessage(offset, magic, data[_CRC_BYTES + 1], timestamp, key, value, data)


def inner_messages(wrapper: LegacyMessage) -> list[LegacyMessage]:
    """Decompress the messages in a compressed one (the wrapper), with absolute offsets.

    If the wrapper has the type LogAppendTime, they get its timestamp. Their CRCs and magic bytes
    are not checked.

    Raises CorruptRecordError, and KafkaError(INVALID_RECORD) for a wrapper without messages, whose
    offset cannot be, or with compressed messages in it.
    """
    codec = wrapper.compression
    if codec is Compression.ZSTD or wrapper.value is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"a message of magic {wrapper.magic} wraps no {codec.name}"
        )
    value = wrapper.value
    if codec is Compression.LZ4 and wrapper.magic == MAGIC_V0:
        value = with_right_lz4_checksum(value)
    messages = list(iterate_messages(decompress(codec, value)))
    if not messages:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a compressed message set without messages")
    if any(message.attributes & COMPRESSION_MASK for message in messages):
        raise KafkaError(ErrorCode.INVALID_RECORD, "inner messages must not be compressed")
    if wrapper.magic == MAGIC_V0:
        return messages
    base = _base_offset(wrapper.offset, messages[-1].offset)
    append_time = wrapper.timestamp if wrapper.timestamp_type_log_append else None
    return [
        message._replace(
            offset=base + message.offset,
            timestamp=message.timestamp if append_time is None else append_time,
        )
        for message in messages
    ]


def _base_offset(wrapper_offset: int, last_inner_offset: int) -> int:
    """Return the offset that inner offsets are relative to.

    Some versions of librdkafka produce wrappers with the offset 0."""
    if wrapper_offset == 0:
        return 0
    if wrapper_offset < last_inner_offset:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"wrapper offset {wrapper_offset} is below the last inner offset {last_inner_offset}",
        )
    return wrapper_offset - last_inner_offset


# ---- building


def encode_message(
    offset: int,
    magic: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    attributes: int = 0,
) -> bytes:
    """One message with its CRC. Magic 0 has no room for ``timestamp``."""
    if magic == MAGIC_V0:
        parts: list[Buffer] = [_V0.pack(magic, attributes)]
    else:
        parts = [_V1.pack(magic, attributes, timestamp)]
    for content in (key, value):
        if content is None:
            parts.append(_NULL)
        else:
            parts.append(_LENGTH.pack(len(content)))
            parts.append(content)
    body = b"".join(parts)
    return _PREFIX.pack(offset, len(body) + _CRC_BYTES) + _CRC.pack(crc32(body)) + body


def encode_message_set(
    records: Iterable[Record],
    magic: int,
    compression: Compression = Compression.NONE,
    log_append_time: bool = False,
) -> bytes:
    """Return ``records`` as messages, or as one wrapper around them. Headers are lost. Without
    records the result is empty.

    With ``log_append_time`` all records have the broker's time. Raises KafkaError:
    UNSUPPORTED_COMPRESSION_TYPE for zstd, MESSAGE_TOO_LARGE for more than
    ``LARGEST_DECOMPRESSED_BYTES`` of messages.
    """
    if compression is Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd does not go into magic {magic}"
        )
    attributes = TIMESTAMP_TYPE_FLAG if log_append_time and magic > MAGIC_V0 else 0
    relative = magic > MAGIC_V0 and compression is not Compression.NONE
    messages = bytearray()
    base = last_offset = 0
    latest: int | None = None
    for record in records:
        last_offset, timestamp = record.offset, record.timestamp
        if latest is None and relative:
            base = last_offset
        if latest is None or timestamp > latest:
            latest = timestamp
        messages += encode_message(
            last_offset - base, magic, timestamp, record.key, record.value, attributes
        )
        if len(messages) > LARGEST_DECOMPRESSED_BYTES:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"more than {LARGEST_DECOMPRESSED_BYTES} bytes as messages of magic {magic}",
            )
    if compression is Compression.NONE or latest is None:
        return bytes(messages)
    wrapped = compress(compression, messages)
    if compression is Compression.LZ4 and magic == MAGIC_V0:
        wrapped = with_kafka_lz4_checksum(wrapped)
    return encode_message(last_offset, magic, latest, None, wrapped, attributes | compression)
