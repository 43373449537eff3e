"""The compression codecs of record batches, in the framings that Kafka's Java client reads."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, Final, TypeAlias

import cramjam

from minikafka.kernel.errors import ErrorCode, KafkaError

Buffer: TypeAlias = bytes | bytearray | memoryview

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2  # version, compatible version
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_LENGTH: Final = Struct(">i")

# The frame header of LZ4 as Java writes it: magic, version 1 with independent blocks (Java's
# reader refuses linked ones, which is what the codec library writes), 64 KB blocks, no checksums,
# and the header's own checksum byte, which is a constant for these flags.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_UNCOMPRESSED: Final = 0x80000000
_LZ4_END: Final = b"\x00\x00\x00\x00"


class Compression(IntEnum):
    """The codec's number is what bits 0-2 of the batch attributes hold."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer) -> bytes:
    """``data`` in the framing of ``codec``."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(_contiguous(data)))
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return _compress_lz4(data)
    return bytes(cramjam.zstd.compress(_contiguous(data)))


def decompress(codec: Compression, data: Buffer) -> bytes:
    """The inverse of ``compress``; snappy may also be raw. Raises KafkaError(CORRUPT_MESSAGE)."""
    try:
        if codec is Compression.NONE:
            return bytes(data)
        if codec is Compression.GZIP:
            return bytes(cramjam.gzip.decompress(_contiguous(data)))
        if codec is Compression.SNAPPY:
            return _decompress_snappy(data)
        if codec is Compression.LZ4:
            return bytes(cramjam.lz4.decompress(_contiguous(data)))
        return bytes(cramjam.zstd.decompress(_contiguous(data)))
    except cramjam.DecompressionError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"cannot decompress {codec.name.lower()}: {error}"
        ) from error


def _contiguous(data: Buffer) -> Any:
    """What the codec library takes: bytes and bytearrays as they are, views as a copy."""
    return bytes(data) if isinstance(data, memoryview) else data


def _compress_snappy(data: Buffer) -> bytes:
    """Xerial framing, as Java's SnappyOutputStream writes: a header, then length and block."""
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer) -> bytes:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(raw))
    parts = []
    position = len(_XERIAL_HEADER)
    while position < len(raw):
        start = position + _XERIAL_LENGTH.size
        if start > len(raw):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "snappy: a block length is cut off")
        (length,) = _XERIAL_LENGTH.unpack_from(raw, position)
        if length < 0 or start + length > len(raw):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"snappy: a block of {length} bytes")
        parts.append(bytes(cramjam.snappy.decompress_raw(raw[start : start + length])))
        position = start + length
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = bytes(view[start : start + _LZ4_BLOCK_BYTES])
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts.append(_LZ4_LENGTH.pack(len(block)))
            parts.append(block)
        else:
            parts.append(_LZ4_LENGTH.pack(len(plain) | _LZ4_UNCOMPRESSED))
            parts.append(plain)
    parts.append(_LZ4_END)
    return b"".join(parts)
