"""The producers of one log, and the ``.snapshot`` files from which they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from minikafka.core.log.names import SNAPSHOT_SUFFIX, file_name, offsets_of
from minikafka.core.log.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from minikafka.core.log.producer_state import ProducerStates
from minikafka.core.log.recovery import choose_snapshots, stray_snapshots
from minikafka.kernel.ports import Files
from minikafka.protocol.records.batch import RecordBatch


class KnownProducers(NamedTuple):
    """The producers as the batches below ``offset`` left them."""

    states: ProducerStates
    offset: int


class ProducerStore:
    """``states`` are the producers at the log end. All methods that use files may raise OSError.

    Snapshots are written without a flush. Each has a CRC; if a power loss has damaged one, it is
    deleted, and an older snapshot is loaded and more batches are replayed.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self.states = ProducerStates()
        self._files = files
        self._directory = directory
        self._snapshot_offset = -1  # of the newest snapshot

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def snapshots(self) -> list[int]:
        """Return the offsets of the snapshot files in increasing order."""
        offsets = offsets_of(self._files.list(self._directory), SNAPSHOT_SUFFIX)
        return [o for o in offsets if not self._files.is_directory(self._path(o))]

    def take_snapshot(self, offset: int) -> None:
        """Write a snapshot of the producers at the log end ``offset``, unless there is one."""
        if offset > self._snapshot_offset:
            data = encode_snapshot(self.states.entries)
            self._files.replace_unsynced(self._path(offset), data)
            self._snapshot_offset = offset

    def remove_snapshot(self, offset: int) -> None:
        """Delete the snapshot that was taken at ``offset``, if there is one."""
        path = self._path(offset)
        if self._files.exists(path):
            self._files.remove(path)

    def remove_strays(self, base_offsets: Iterable[int], snapshots: Sequence[int]) -> bool:
        """Delete those of ``snapshots`` that are at no segment's base offset. Return True if there
        were any."""
        strays = stray_snapshots(snapshots, list(base_offsets))
        for offset in strays:
            self._files.remove(self._path(offset))
        return bool(strays)

    def reload(
        self,
        log_start_offset: int,
        log_end_offset: int,
        batches_from: Callable[[int], Iterator[RecordBatch]],
    ) -> None:
        """Load the newest snapshot within the log, and replay the batches after it.

        ``batches_from(offset)`` yields the batches that end at or after ``offset``, up to the log
        end. Snapshots outside of the log and corrupt ones are deleted.
        """
        snapshots = self.snapshots()
        known = self.known_at(log_end_offset, log_start_offset, snapshots)
        if known.offset < log_end_offset:
            for batch in batches_from(known.offset):
                if batch.producer_id >= 0:
                    known.states.update(batch, batch.base_offset, batch.max_timestamp)
        self.take_over(known.states, log_start_offset, log_end_offset, snapshots)

    def known_at(
        self, end_offset: int, log_start_offset: int, snapshots: Sequence[int]
    ) -> KnownProducers:
        """Return the producers in the newest snapshot up to ``end_offset``, and its offset; no
        producers and the log start offset if there is none. Corrupt snapshots are deleted."""
        states = ProducerStates()
        for offset in choose_snapshots(snapshots, log_start_offset, end_offset).use:
            try:
                states.load(decode_snapshot(self._files.read_all(self._path(offset))))
            except CorruptSnapshotError:
                self.remove_snapshot(offset)
            except FileNotFoundError:
                continue
            else:
                return KnownProducers(states, offset)
        return KnownProducers(states, log_start_offset)

    def take_over(
        self,
        states: ProducerStates,
        log_start_offset: int,
        log_end_offset: int,
        snapshots: Sequence[int],
    ) -> bool:
        """Use ``states`` as the producers at the log end. Delete those of ``snapshots`` that are
        outside of the log, and return True if there were any."""
        self.states.take_over(states)
        choice = choose_snapshots(snapshots, log_start_offset, log_end_offset)
        for offset in choice.drop:
            self._files.remove(self._path(offset))
        self._snapshot_offset = max(choice.use, default=log_start_offset)
        return bool(choice.drop)

    def replace_snapshot(self, states: ProducerStates, offset: int) -> None:
        """Write ``states`` as the snapshot at ``offset``, and replace an existing one."""
        self._files.replace_unsynced(self._path(offset), encode_snapshot(states.entries))

    def clear(self, offset: int) -> None:
        """Remove all producers and snapshots, because the log continues empty at ``offset``."""
        for snapshot in self.snapshots():
            self._files.remove(self._path(snapshot))
        self.states.clear()
        self._snapshot_offset = offset
