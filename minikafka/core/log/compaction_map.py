"""The latest offset of each key of a log's dirty part, in a bounded number of bytes.

Kafka: ``SkimpyOffsetMap``. As there, an entry is the MD5 of a key and an offset: 24 bytes, in one
flat table with open addressing. A dict would take six times that for each key, so the same buffer
would see a sixth of the keys in one pass, and every pass reads the whole clean part again; and the
time it saves is small beside that of finding the key in its record. Of two keys with one MD5 the
older record would be lost; by chance this does not happen.
"""

from __future__ import annotations

from hashlib import md5
from struct import Struct
from typing import Final

ENTRY_BYTES: Final = 24
_halves = Struct("=QQ").unpack


def slots_for(memory_bytes: int, records: int, load_factor: float) -> int:
    """Return how many slots a map needs for that many keys, within its memory; at least one."""
    wanted = int(records / load_factor) + 2
    return max(min(memory_bytes // ENTRY_BYTES, wanted), 1)


class OffsetMap:
    """Takes ``capacity`` keys: ``load_factor`` of its slots.

    ``latest_offset``: how far the log has been looked at. The table has a prime number of slots, so
    that steps of any length reach them all.
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
        """``offset`` is above all before; the map must not be full."""
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
        """The latest offset of ``key``; -1 when it is not there."""
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
    """The largest prime that is not above ``number``; 1 below 2."""
    while number > 2 and not _is_prime(number):
        number -= 1
    return max(number, 1)


def _is_prime(number: int) -> bool:
    return number % 2 == 1 and all(number % d for d in range(3, int(number**0.5) + 1, 2))
