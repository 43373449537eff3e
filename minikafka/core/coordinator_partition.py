"""The partition of an internal topic that holds a group or a transactional id."""

from __future__ import annotations

from struct import iter_unpack


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id, as Kafka chooses it.

    It is the absolute value of Java's string hash, modulo the number of partitions. The smallest
    32-bit hash has no absolute value in Java and counts as 0.
    """
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def java_string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: over UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
            value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
