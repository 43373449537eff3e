"""CRC-32C with a table of 256 rows, as the package ``crc32c`` computes it in C."""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78  # Castagnoli's, with its bits reversed


def _row(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE: Final = tuple(map(_row, range(256)))


def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return the checksum of ``data`` after bytes whose checksum is ``value``."""
    table, crc = _TABLE, value ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
