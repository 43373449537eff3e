"""Checks of what applications pass to a producer as a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.protocol.records.record import Header

LAST_TIMESTAMP_MS: Final = (1 << 63) - 1


def as_bytes(content: object) -> bytes | None:
    """Return bytes-like content as bytes. Raises TypeError."""
    if content is None:
        return None
    if not isinstance(content, bytes | bytearray | memoryview):
        kind = type(content).__name__
        raise TypeError(f"keys, values and header values are bytes or None, not {kind}")
    return bytes(content)


def as_headers(headers: Sequence[Header]) -> list[Header]:
    """Raises TypeError."""
    if isinstance(headers, dict):
        raise TypeError("headers are pairs: there may be several of a name")
    return [
        (name, content) if type(content) is bytes and type(name) is str else _header(name, content)
        for name, content in headers
    ]


def _header(name: str, content: bytes | None) -> Header:
    if not isinstance(name, str):
        raise TypeError("names of headers are str")
    return name, as_bytes(content)


def check_timestamp(timestamp_ms: int) -> None:
    """Raises TypeError, ValueError."""
    if not isinstance(timestamp_ms, int):
        raise TypeError("timestamp_ms is an int, of milliseconds")
    if not 0 <= timestamp_ms <= LAST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms {timestamp_ms}: negative, or beyond 64 bits")
