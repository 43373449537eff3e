"""The start offset of each leader epoch of a log. Kafka: ``LeaderEpochFileCache``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """A leader epoch, and the first offset that was or will be written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """Leader epochs and their start offsets. Both increase from entry to entry."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        for entry in sorted(entries):
            assert not self._epochs or entry.epoch > self._epochs[-1], (
                "an epoch has two start offsets"
            )
            assert not self._offsets or entry.start_offset >= self._offsets[-1], (
                "the start offset of an epoch is below that of an earlier epoch"
            )
            self._epochs.append(entry.epoch)
            self._offsets.append(entry.start_offset)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._offsets, strict=True)]

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Set the start offset of ``epoch``. Returns True if the entries changed.

        If ``epoch`` is the latest one, its start offset is only lowered, never raised. Entries with
        the same or a later epoch, or with the same or a later start offset, are removed.
        """
        assert epoch >= 0
        assert start_offset >= 0
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._offsets[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._offsets[-1] >= start_offset):
            self._epochs.pop()
            self._offsets.pop()
        self._epochs.append(epoch)
        self._offsets.append(start_offset)
        return True

    def agree(self, epoch: int, offset: int) -> bool:
        """Note that the log has a batch of ``epoch`` at ``offset``.

        Adds the epoch if it is unknown and removes entries that contradict the batch. Returns True
        if the entries changed."""
        if self.epoch_for_offset(offset) == epoch:
            return False
        entries = self.entries
        before = [e for e in entries if e.start_offset < offset and e.epoch <= epoch]
        after = [e for e in entries if e.start_offset > offset and e.epoch > epoch]
        if not before or before[-1].epoch < epoch:
            before.append(EpochEntry(epoch, offset))
        self._epochs = [entry.epoch for entry in before + after]
        self._offsets = [entry.start_offset for entry in before + after]
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest known epoch up to ``epoch`` and its end offset, (-1, -1) if unknown.

        A. The latest epoch ends at the log end offset.
        B. An epoch above the latest, or -1, is unknown.
        C. For an epoch below the first known one, the result is that epoch itself, ending where the
           first known one starts, because earlier records have been deleted.
        D. Otherwise the result is the epoch before the next higher one, ending where that starts.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:  # B
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self._epochs[-1]:  # A
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if higher == 0:  # C
            return EpochEntry(epoch, self._offsets[0])
        return EpochEntry(self._epochs[higher - 1], self._offsets[higher])  # D

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which ``offset`` was written, None if it is below all entries."""
        index = bisect_right(self._offsets, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove epochs that start at or after ``end_offset``. Returns True if there were any."""
        keep = bisect_left(self._offsets, end_offset)
        changed = keep < len(self._offsets)
        del self._epochs[keep:], self._offsets[keep:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove epochs that end at or before ``start_offset``, and let the epoch of the record at
        ``start_offset`` start there. Returns True if this changed the entries."""
        drop = bisect_right(self._offsets, start_offset) - 1
        if drop < 0 or self._offsets[0] == start_offset:
            return False
        del self._epochs[:drop], self._offsets[:drop]
        self._offsets[0] = start_offset
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._offsets.clear()
