"""Messages that carry their own version in front, as an int16: records of internal topics."""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from minikafka.protocol.buffer import Buffer, DecodeError
from minikafka.protocol.codec import append_message, decode
from minikafka.protocol.schema import Message

_VERSION: Final = Struct(">h")
VERSION_BYTES: Final = _VERSION.size

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a message after its version (int16). Raises EncodeError as ``codec.encode``."""
    parts: list[Buffer] = [_VERSION.pack(version)]
    append_message(message, version, parts)
    return b"".join(parts)


def version_of(data: Buffer) -> int:
    """Raises DecodeError."""
    if len(data) < VERSION_BYTES:
        raise DecodeError(f"{len(data)} bytes hold no version")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def decode_versioned(cls: type[M], data: Buffer, newest: int | None = None) -> tuple[M, int]:
    """Decode a message with its version in front. Returns the message and the version.

    A version above ``newest``, if given, is decoded as ``newest``. Raises DecodeError."""
    version = version_of(data)
    if newest is not None:
        version = min(version, newest)
    return decode(cls, version, data, _VERSION.size), version
