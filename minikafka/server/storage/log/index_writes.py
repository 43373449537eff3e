"""Which index files lack entries, over all logs of a broker, and their writes a few at a time.

An index keeps the entries of an active segment in memory until the segment is rolled or flushed. A
broker writes them regularly for tools that read its directories. A segment reports that its indexes
have changed, so that a broker at rest looks at none of its logs.
"""

from __future__ import annotations

from typing import Final, Protocol

from minikafka.kernel.slices import in_slices

WRITES_PER_ROUND: Final = 50  # segments: opening two files takes 30 to 600 us


class IndexedSegment(Protocol):
    """An open segment, as it matters here (``LogSegment``)."""

    @property
    def indexes_written(self) -> bool: ...

    def write_indexes(self) -> None:
        """Raises OSError."""
        ...


class IndexWrites:
    """The open segments whose index files may lack entries, from the one that changed first."""

    def __init__(self) -> None:
        self._changed: dict[IndexedSegment, None] = {}

    def changed(self, segment: IndexedSegment) -> None:
        """Note that the indexes of an open segment have changed."""
        self._changed[segment] = None

    def forget(self, segment: IndexedSegment) -> None:
        """No longer write the indexes of a segment, which is being closed."""
        self._changed.pop(segment, None)

    async def write_some(self) -> None:
        """Write the indexes of ``WRITES_PER_ROUND`` segments at most; the next round continues.

        An error is reported by the roll, flush or close that has to write the entries; the segment
        comes last in the next rounds."""
        left = WRITES_PER_ROUND
        async for segment in in_slices(list(self._changed), look_every=1):
            if segment not in self._changed:
                continue  # it was closed meanwhile
            if segment.indexes_written:
                del self._changed[segment]
                continue
            if not left:
                return
            left -= 1
            self._write(segment)

    def _write(self, segment: IndexedSegment) -> None:
        del self._changed[segment]
        try:
            segment.write_indexes()
        except OSError:
            self._changed[segment] = None
