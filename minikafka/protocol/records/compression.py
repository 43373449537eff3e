"""The compression codecs of record batches, in the framings that Kafka's Java client reads."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_module import LazyModule
from minikafka.protocol.buffer import Buffer

if TYPE_CHECKING:
    import cramjam
else:
    cramjam = LazyModule("cramjam")


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2  # version, compatible version
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_LENGTH: Final = Struct(">i")

# The frame header of LZ4 as Java writes it: magic, version 1 with independent blocks (Java's
# reader refuses linked ones, which is what the codec library writes), 64 KB blocks, no checksums,
# and the header's own checksum byte, which is a constant for these flags.
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_UNCOMPRESSED: Final = 0x80000000
_LZ4_END: Final = b"\x00\x00\x00\x00"
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08

# What comes out of one batch at most: as much as a request may bring uncompressed, by the default
# of ``socket.request.max.bytes``. A few kilobytes of zstd can claim to be gigabytes.
LARGEST_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_FIRST_GUESS_BYTES: Final = 64 * 1024
_NO_ROOM: Final = "failed to write whole buffer"  # the codec library, of an output that is full
# Blow-up that the format itself allows. Where that is not more than some megabytes, no limit is
# needed.
_LZ4_MAX_RATIO: Final = 255
_GZIP_MAX_RATIO: Final = 1032
_AT_ONCE_BYTES: Final = 4 * 1024 * 1024


class Compression(IntEnum):
    """The codec's number is what bits 0-2 of the batch attributes hold."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Kafka's defaults for ``compression.<codec>.level`` (KIP-390). For lz4 it stands for the fast
# compressor, every other level for the high-compression one.
DEFAULT_LEVELS: Final = {Compression.GZIP: 6, Compression.LZ4: 9, Compression.ZSTD: 3}


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """``data`` in the framing of ``codec``. Levels as in Kafka, None for its default; -1 is gzip's
    own default too."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if level is None or (level < 0 and codec is Compression.GZIP):
        level = DEFAULT_LEVELS[codec]
    if codec is Compression.LZ4:
        return _compress_lz4(data, level)
    library = cramjam.gzip if codec is Compression.GZIP else cramjam.zstd
    if len(data) > _CHUNK_BYTES:
        return _compress_in_chunks(library.Compressor(level=level), data)
    return bytes(library.compress(_contiguous(data), level=level))


class DecompressedTooLarge(KafkaError):
    """Compressed data holds more than the limit. MESSAGE_TOO_LARGE makes Java's producer split the
    batch."""

    def __init__(self, codec: Compression, limit: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{codec.name.lower()}: more than {limit} bytes when decompressed",
        )


def decompress(
    codec: Compression,
    data: Buffer,
    limit: int = LARGEST_DECOMPRESSED_BYTES,
    check_start: Callable[[Buffer], None] | None = None,
) -> bytes:
    """The inverse of ``compress``; snappy may also be raw.

    ``check_start`` gets the first bytes of what may be large, and raises KafkaError if the rest is
    not worth the work: no other thread runs during a call of the codec library.

    Raises KafkaError(CORRUPT_MESSAGE), and DecompressedTooLarge for more than ``limit`` bytes, of
    which no more are produced."""
    try:
        if codec is Compression.NONE:
            return bytes(data)
        if codec is Compression.GZIP:
            return _decompress(cramjam.gzip, codec, data, _GZIP_MAX_RATIO, limit, check_start)
        if codec is Compression.SNAPPY:
            return _decompress_snappy(data, limit, check_start)
        if codec is Compression.LZ4:
            return _decompress(cramjam.lz4, codec, data, _LZ4_MAX_RATIO, limit, check_start)
        return _decompress(cramjam.zstd, codec, data, None, limit, check_start)
    except cramjam.DecompressionError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"cannot decompress {codec.name.lower()}: {error}"
        ) from error


def with_kafka_lz4_checksum(frame: bytes) -> bytes:
    """An LZ4 frame as magic 0 has it: clients of that age took the header's checksum over the
    frame's magic number too, which no other reader of LZ4 does (KAFKA-3160)."""
    end = _lz4_checksum_position(frame)
    return frame[:end] + bytes([_xxhash32(frame[:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def with_right_lz4_checksum(frame: bytes) -> bytes:
    """An LZ4 frame whose header's checksum is ignored, as Kafka does for magic 0."""
    end = _lz4_checksum_position(frame)
    checksum = _xxhash32(frame[len(_LZ4_MAGIC) : end]) >> 8 & 0xFF
    return frame[:end] + bytes([checksum]) + frame[end + 1 :]


def _contiguous(data: Buffer) -> Any:
    """A buffer for the codec library: views are copied, bytes and bytearrays are not."""
    return bytes(data) if isinstance(data, memoryview) else data


def _decompress(
    library: Any,
    codec: Compression,
    data: Buffer,
    max_ratio: int | None,
    limit: int,
    check_start: Callable[[Buffer], None] | None,
) -> bytes:
    """Within the limit: where ``data`` may hold more, into a buffer that grows up to it."""
    size = len(data)
    if max_ratio is not None and size * max_ratio <= min(limit, _AT_ONCE_BYTES):
        return bytes(library.decompress(_contiguous(data)))
    compressed = bytes(data)
    room = min(max(_FIRST_GUESS_BYTES, 8 * size), limit)
    while True:
        plain = bytearray(room)
        try:
            length = library.decompress_into(compressed, plain)
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
            if check_start is not None:
                check_start(plain)
                check_start = None
            if room == limit:
                raise DecompressedTooLarge(codec, limit) from None
            room = min(4 * room, limit)
        else:
            return bytes(memoryview(plain)[:length])


def _compress_in_chunks(compressor: Any, data: Buffer) -> bytes:
    """Compress in pieces, since no other thread runs during a call of the codec library."""
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK_BYTES):
        compressor.compress(bytes(view[start : start + _CHUNK_BYTES]))
    return bytes(compressor.finish())


def _compress_snappy(data: Buffer) -> bytes:
    """Xerial framing, as Java's SnappyOutputStream writes: a header, then length and block."""
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(
    data: Buffer, limit: int, check_start: Callable[[Buffer], None] | None
) -> bytes:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        _check_snappy_size(raw, 0, limit)
        return bytes(cramjam.snappy.decompress_raw(raw))
    parts = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < len(raw):
        start = position + _XERIAL_LENGTH.size
        if start > len(raw):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "snappy: a block length is cut off")
        (length,) = _XERIAL_LENGTH.unpack_from(raw, position)
        if length < 0 or start + length > len(raw):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"snappy: a block of {length} bytes")
        block = raw[start : start + length]
        total = _check_snappy_size(block, total, limit)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        if check_start is not None and total >= _FIRST_GUESS_BYTES:
            check_start(parts[0])
            check_start = None
        position = start + length
    return b"".join(parts)


def _check_snappy_size(block: bytes, so_far: int, limit: int) -> int:
    """``so_far`` and what ``block`` says it holds. Raises DecompressedTooLarge."""
    total = so_far + int(cramjam.snappy.decompress_raw_len(block))
    if total > limit:
        raise DecompressedTooLarge(Compression.SNAPPY, limit)
    return total


def _compress_lz4(data: Buffer, level: int) -> bytes:
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = bytes(view[start : start + _LZ4_BLOCK_BYTES])
        if level == DEFAULT_LEVELS[Compression.LZ4]:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = _compress_lz4_block_high(plain, level)
        if len(block) < len(plain):
            parts.append(_LZ4_LENGTH.pack(len(block)))
            parts.append(block)
        else:
            parts.append(_LZ4_LENGTH.pack(len(plain) | _LZ4_UNCOMPRESSED))
            parts.append(plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _compress_lz4_block_high(plain: bytes, level: int) -> bytes:
    """The codec library heeds levels in frames alone: the one block of a frame."""
    compressor = cramjam.lz4.Compressor(level=level, block_linked=False)
    compressor.compress(plain)
    frame = bytes(compressor.finish())
    start = len(_LZ4_HEADER) + _LZ4_LENGTH.size
    (length,) = _LZ4_LENGTH.unpack_from(frame, len(_LZ4_HEADER))
    if length & _LZ4_UNCOMPRESSED:
        return plain
    return frame[start : start + length]


def _lz4_checksum_position(frame: bytes) -> int:
    """Raises KafkaError(CORRUPT_MESSAGE) for what is no frame."""
    if len(frame) < len(_LZ4_HEADER) or not frame.startswith(_LZ4_MAGIC):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "lz4: no frame header")
    position = 14 if frame[4] & _LZ4_CONTENT_SIZE_FLAG else 6
    if position >= len(frame):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "lz4: a frame header that is cut off")
    return position


def _xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0, for fewer than 16 bytes, as an LZ4 frame header has."""
    assert len(data) < 16
    value = 374761393 + len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        value += int.from_bytes(data[position : position + 4], "little") * 3266489917
        value = _rotate(value, 17) * 668265263
    for byte in data[whole:]:
        value += byte * 374761393
        value = _rotate(value, 11) * 2654435761
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * 2246822519 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 3266489917 & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
