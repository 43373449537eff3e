"""Type checks of keys, values, headers and timestamps that applications pass to a producer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.protocol.records.record import Header

LAST_TIMESTAMP_MS: Final = (1 << 63) - 1


def as_bytes(content: object) -> bytes | None:
    """Return bytes-like content as bytes, and None as None. Raises TypeError for anything else."""
    if content is None:
        return None
    if not isinstance(content, bytes | bytearray | memoryview):
        kind = type(content).__name__
        raise TypeError(f"keys, values and header values must be bytes or None, not {kind}")
    return bytes(content)


def as_headers(headers: Sequence[Header]) -> list[Header]:
    """Return headers as pairs of str and bytes. Raises TypeError for a dict or other types."""
    if isinstance(headers, dict):
        raise TypeError("headers must be pairs of name and value, not a dict")
    return [
        (name, content) if type(content) is bytes and type(name) is str else _header(name, content)
        for name, content in headers
    ]


def _header(name: str, content: bytes | None) -> Header:
    if not isinstance(name, str):
        raise TypeError("header names must be str")
    return name, as_bytes(content)


def check_timestamp(timestamp_ms: int) -> None:
    """Check a timestamp in milliseconds since 1970.

    Raises TypeError unless it is an int, ValueError if it is negative or exceeds 64 bits.
    """
    if not isinstance(timestamp_ms, int):
        raise TypeError("timestamp_ms must be an int, in milliseconds")
    if not 0 <= timestamp_ms <= LAST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms {timestamp_ms}: negative, or beyond 64 bits")
