"""Which partition of an internal topic a group or a transactional id belongs to."""

from __future__ import annotations

from struct import iter_unpack


def partition_for(key: str, partition_count: int) -> int:
    """As Kafka: the absolute value of the hash that Java's String has (0 for the smallest)."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def java_string_hash(text: str) -> int:
    """Of its UTF-16 code units, in 32 bits with a sign."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
            value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
