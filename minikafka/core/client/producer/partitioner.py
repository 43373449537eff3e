"""The partition of a record: Kafka's hash of its key; sticky or round robin without a key."""

from __future__ import annotations

from collections.abc import Sequence

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash, as a signed Java int (``Utils.murmur2``)."""
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
    """Clear the sign bit, as Kafka's ``Utils.toPositive`` does. This is not the absolute value."""
    return number & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key.

    Partitions without a leader count too: a key must not move while a leader is missing.
    """
    return to_positive(murmur2(key)) % partition_count


class StickyPartitions:
    """The sticky partitioner: records without a key share a partition until its batch is full.

    Kafka: ``StickyPartitionCache`` (KIP-480). The caller supplies randomness: ``draw`` is any
    integer >= 0.
    """

    def __init__(self) -> None:
        self._partition_by_topic: dict[str, int] = {}

    def current(self, topic: str, partition_count: int) -> int | None:
        """Return the topic's sticky partition.

        None before the first ``next``, and if the partition no longer exists because the topic
        was created again with fewer partitions.
        """
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
        """Choose a new sticky partition for a topic whose batch in ``previous`` (-1: none) is
        full.

        If another caller has already moved the topic away from ``previous``, that choice is
        returned.

        The new partition is one of ``available``, the partitions with a leader, and not the old
        one if there are others. If none is available, it is any partition.
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
    """The round-robin partitioner: records without a key take turns, as before Kafka 2.4.

    Kafka: the former ``DefaultPartitioner``.
    """

    def __init__(self) -> None:
        self._counter_by_topic: dict[str, int] = {}

    def next(self, topic: str, partition_count: int, available: Sequence[int], draw: int) -> int:
        """Return the next available partition of a topic, or any if none is available.

        ``draw`` is the start of a new topic's counter.
        """
        counter = self._counter_by_topic.get(topic, draw)
        self._counter_by_topic[topic] = counter + 1
        if available:
            return available[to_positive(counter) % len(available)]
        return to_positive(counter) % partition_count
