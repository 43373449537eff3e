"""Varints, tagged fields, UUIDs and errors: what codecs, headers and record batches share."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID, SafeUUID

from minikafka.kernel.cluster import ZERO_UUID

Buffer: TypeAlias = bytes | bytearray | memoryview

_ZERO_UUID_BYTES = bytes(16)
_MAX_UVARINT_BYTES = 5
_MAX_UVARLONG_BYTES = 10


class DecodeError(ValueError):
    """Received bytes cannot be decoded."""


class EncodeError(ValueError):
    """A message has a value that the requested version cannot carry."""


class FieldOverflow(EncodeError):
    """A string has more than 32,767 bytes, and the version is not flexible. Such strings may be
    stored in ZooKeeper."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode the unsigned 32-bit varint at ``position`` -> (value, position after it).

    Raises DecodeError for more than 5 bytes or 32 bits, IndexError when the data ends.
    """
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value = shift = 0
    for at in range(position, position + _MAX_UVARINT_BYTES):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at + 1
        shift += 7
    raise DecodeError(f"varint at byte {position} is longer than 32 bits")


def read_uvarlong(data: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 64 bits: return it, and the position behind it. Raises
    DecodeError."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value = shift = 0
    for at in range(position, position + _MAX_UVARLONG_BYTES):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFFFFFFFFFF:
                break
            return value, at + 1
        shift += 7
    raise DecodeError(f"varlong at byte {position} is longer than 64 bits")


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Decode the signed (zigzag) 64-bit varint at ``position`` -> (value, position after it)."""
    value, position = read_uvarlong(data, position)
    return (value >> 1) ^ -(value & 1), position


def write_uvarint(value: int) -> bytes:
    """``value`` must be in 0..2**64-1; callers know which width they write."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_varint(value: int) -> bytes:
    """Encode a signed 32-bit value as a zigzag varint."""
    return write_uvarint((value << 1) ^ (value >> 31))


def write_varlong(value: int) -> bytes:
    """Encode a signed 64-bit value as a zigzag varint."""
    return write_uvarint((value << 1) ^ (value >> 63))


def skip_tags(data: Buffer, position: int, most: int) -> tuple[int, int]:
    """Skip the tagged fields at ``position``, none of which is known and of which there may be
    ``most``. Return the position after them, and how many more may follow elsewhere.

    Raises DecodeError, and IndexError when the data ends."""
    count, position = read_uvarint(data, position)
    if count > most:
        raise DecodeError(f"{count} tagged fields are too many")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
    if position > len(data):
        raise DecodeError(f"a tagged field ends at byte {position} of {len(data)} bytes")
    return position, most - count


def append_tags(parts: list[Buffer], tags: list[tuple[int, list[Buffer]]]) -> None:
    """Append tagged fields, given by their tags and the parts of their values."""
    parts.append(write_uvarint(len(tags)))
    for tag, value in tags:
        parts.append(write_uvarint(tag) + write_uvarint(sum(map(len, value))))
        parts += value


def uuid_from_bytes(raw: bytes) -> UUID:
    """A UUID of 16 bytes. The constructor of UUID takes 1 µs; this way a third of that."""
    if raw == _ZERO_UUID_BYTES:
        return ZERO_UUID
    uuid = object.__new__(UUID)
    object.__setattr__(uuid, "int", int.from_bytes(raw, "big"))
    object.__setattr__(uuid, "is_safe", SafeUUID.unknown)
    return uuid
