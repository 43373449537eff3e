"""Which partition a record goes to: Kafka's hash for keys, sticky or round robin without one."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 as Java's signed int (``Utils.murmur2``)."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def to_positive(number: int) -> int:
    """Clear the sign bit, as ``Utils.toPositive``; not the absolute value."""
    return number & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Where a key lives, among all partitions, also those without a leader: it must not move."""
    return to_positive(murmur2(key)) % partition_count


class StickyPartitions:
    """The partition that records without a key go to until its batch is full (KIP-480).

    Kafka's ``StickyPartitionCache``. The caller supplies randomness: ``draw`` is any number >= 0.
    """

    def __init__(self) -> None:
        self._partition_by_topic: dict[str, int] = {}

    def current(self, topic: str, partition_count: int) -> int | None:
        """The topic's partition; None before the first ``next``, and when the partition no longer
        exists because the topic was created again with fewer."""
        partition = self._partition_by_topic.get(topic)
        return partition if partition is not None and partition < partition_count else None

    def next(
        self,
        topic: str,
        partition_count: int,
        available: Sequence[int],
        previous: int,
        draw: int,
    ) -> int:
        """Move the topic on from ``previous`` (-1 when there is none) and return its new partition.
        When another caller has moved it already, return that caller's choice.

        ``available`` are the partitions with a leader. With none of them, choose among all
        partitions; with one, take it; with more, choose any but the old one.
        """
        old = self.current(topic, partition_count)
        if old is not None and old != previous:
            return old
        if not available:
            new = draw % partition_count
        elif len(available) == 1:
            new = available[0]
        else:
            others = [partition for partition in available if partition != old]
            new = others[draw % len(others)]
        self._partition_by_topic[topic] = new
        return new


class RoundRobinPartitions:
    """Records without key take turns, as before Kafka 2.4 (``DefaultPartitioner``)."""

    def __init__(self) -> None:
        self._counter_by_topic: dict[str, int] = {}

    def next(self, topic: str, partition_count: int, available: Sequence[int], draw: int) -> int:
        """The next available partition, or any when none is. ``draw`` sets where a topic starts."""
        counter = self._counter_by_topic.get(topic, draw)
        self._counter_by_topic[topic] = counter + 1
        if available:
            return available[to_positive(counter) % len(available)]
        return to_positive(counter) % partition_count
