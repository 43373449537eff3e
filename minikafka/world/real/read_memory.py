"""Memory of large reads, which is used again when nothing refers to what was read into it.

The first touch of fresh memory is a page fault for every 4 KB, and takes longer than the copy from
the page cache into memory that was used before.
"""

from __future__ import annotations

from typing import Final

LEAST_BYTES: Final = 32 * 1024  # smaller reads find memory that the allocator keeps
MOST_BYTES: Final = 2 * 1024 * 1024
KEPT_BYTES: Final = 4 * 1024 * 1024


class ReadMemory:
    """Buffers of reads between ``LEAST_BYTES`` and ``MOST_BYTES``. At most ``KEPT_BYTES`` of them
    are kept; what is needed beyond is freed with the result of its read. It is for one thread.

    A buffer of which there is a view is in use: Python refuses to resize such a ``bytearray``."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []  # the smallest first
        self.kept_bytes = 0

    def take(self, size: int) -> memoryview:
        """Return ``size`` bytes to read into."""
        for buffer in self._buffers:
            if len(buffer) >= size and not _is_viewed(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(max(LEAST_BYTES, 1 << (size - 1).bit_length()))
        if self.kept_bytes + len(buffer) > KEPT_BYTES:
            self._keep([kept for kept in self._buffers if _is_viewed(kept)])
        if self.kept_bytes + len(buffer) <= KEPT_BYTES:
            self._keep(sorted([*self._buffers, buffer], key=len))
        return memoryview(buffer)[:size]

    def _keep(self, buffers: list[bytearray]) -> None:
        self._buffers = buffers
        self.kept_bytes = sum(map(len, buffers))


def _is_viewed(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False
