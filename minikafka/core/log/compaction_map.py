"""A hash table of fixed size with the latest offset of each key in a log's dirty part.

Kafka: ``SkimpyOffsetMap``. An entry is the MD5 of a key and an offset, 24 bytes, in a flat table
with open addressing. A dict takes six times as much memory for a key, so a cleaning would cover a
sixth of the keys, and each cleaning reads the whole clean part of the log again. A dict is faster,
but most of the time is spent parsing records. If two keys had the same MD5, the older one's record
would be lost; the probability is negligible.
"""

from __future__ import annotations

from hashlib import md5
from struct import Struct
from typing import Final

ENTRY_BYTES: Final = 24
_halves = Struct("=QQ").unpack


def slots_for(memory_bytes: int, records: int, load_factor: float) -> int:
    """Return the number of slots for ``records`` keys, limited by the memory; at least one."""
    needed = int(records / load_factor) + 2
    return max(min(memory_bytes // ENTRY_BYTES, needed), 1)


class OffsetMap:
    """A map of at most ``capacity`` keys, which is ``load_factor`` times its slots.

    ``latest_offset`` is the highest offset that the map covers: the caller raises it beyond records
    that it does not put in. The number of slots is prime, so that probing with any step length
    reaches all slots.
    """

    def __init__(self, slots: int, load_factor: float) -> None:
        self.slots = _prime_up_to(slots)
        self.capacity = max(int(self.slots * load_factor), 1)
        self.size = 0
        self.latest_offset = -1
        self._table = memoryview(bytearray(self.slots * ENTRY_BYTES)).cast("Q")

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    @property
    def is_full(self) -> bool:
        return self.size >= self.capacity

    def put(self, key: bytes | memoryview, offset: int) -> None:
        """Set the offset of ``key``, which must be above all offsets before. The map must not be
        full."""
        first, second = _halves(md5(key, usedforsecurity=False).digest())
        table, slots = self._table, self.slots
        slot = first % slots
        step = 0
        while True:
            at = slot * 3
            low, high = table[at], table[at + 1]
            if low == first and high == second:
                break
            if not low and not high:
                assert self.size < slots, "the offset map is full"
                table[at] = first
                table[at + 1] = second
                self.size += 1
                break
            if not step:
                step = 1 + second % (slots - 1) if slots > 1 else 1
            slot = (slot + step) % slots
        table[at + 2] = offset
        self.latest_offset = offset

    def get(self, key: bytes | memoryview) -> int:
        """Return the latest offset of ``key``, -1 if the map does not have it."""
        first, second = _halves(md5(key, usedforsecurity=False).digest())
        table, slots = self._table, self.slots
        slot = first % slots
        step = 0
        for _ in range(slots):
            at = slot * 3
            low, high = table[at], table[at + 1]
            if low == first and high == second:
                offset: int = table[at + 2]
                return offset
            if not low and not high:
                return -1
            if not step:
                step = 1 + second % (slots - 1) if slots > 1 else 1
            slot = (slot + step) % slots
        return -1


def _prime_up_to(number: int) -> int:
    """Return the largest prime up to ``number``, or 1 if ``number`` is below 2."""
    while number > 2 and not _is_prime(number):
        number -= 1
    return max(number, 1)


def _is_prime(number: int) -> bool:
    return number % 2 == 1 and all(number % d for d in range(3, int(number**0.5) + 1, 2))
