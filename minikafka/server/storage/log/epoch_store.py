"""The leader epochs of one log, and their ``leader-epoch-checkpoint`` file."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.log.leader_epochs import EpochEntry, LeaderEpochCache
from minikafka.core.log.small_files import (
    LEADER_EPOCH,
    CheckpointError,
    decode_epochs,
    encode_epochs,
)
from minikafka.kernel.ports import Files
from minikafka.server.storage.durable import flush_path


class LeaderEpochStore:
    """Writes the file with each change of the leader epochs.

    A written file survives a killed process; after ``flush`` it survives a power loss. Epochs that
    a power loss removes are found again in the batches. Until ``start_writing`` nothing is written,
    since a log without records has no files. All methods that write may raise OSError; then the
    next change writes the whole file.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self.cache = LeaderEpochCache()
        self._files = files
        self._path = f"{directory}/{LEADER_EPOCH}"
        self._writing = False
        self._unwritten = False
        self._unflushed = False

    def moved_to(self, directory: str) -> None:
        self._path = f"{directory}/{LEADER_EPOCH}"

    def take_over(self, entries: Iterable[EpochEntry]) -> None:
        """Use the epochs of another log with the same records, including epochs without records."""
        self.cache = LeaderEpochCache(entries)
        self._changed(True)

    def load(self) -> bool:
        """Read the file. Return False if it is missing, damaged or empty."""
        self._writing = True
        try:
            entries = decode_epochs(self._files.read_all(self._path))
        except (FileNotFoundError, CheckpointError):
            return False
        self.cache = LeaderEpochCache(entries)
        return bool(entries)

    def start_writing(self) -> None:
        """Write the file now and with each later change, since the log has segments."""
        if not self._writing:
            self._writing = True
            self._changed(bool(len(self.cache)))

    def begin(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch begins, and leave the write to the next change: when a log is loaded,
        an epoch without records is removed anyway."""
        self._unwritten |= self.cache.assign(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch begins at ``start_offset``, and write the file if that is new."""
        self._changed(self.cache.assign(epoch, start_offset))

    def agree(self, epoch: int, offset: int) -> None:
        """Note the epoch of a batch that recovery has found at ``offset``."""
        self._changed(self.cache.agree(epoch, offset))

    def truncate_from_end(self, end_offset: int) -> None:
        self._changed(self.cache.truncate_from_end(end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        self._changed(self.cache.truncate_from_start(start_offset))

    def clear(self) -> None:
        self.cache.clear()
        self._changed(True)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        return self.cache.end_offset_for(epoch, log_end_offset)

    def _changed(self, changed: bool) -> None:
        self._unwritten |= changed
        if self._unwritten and self._writing:
            self._files.replace_unsynced(self._path, encode_epochs(self.cache.entries))
            self._unwritten = False
            self._unflushed = True

    async def flush(self) -> None:
        """Flush the file if it has changed since the last flush. Raises OSError."""
        if not self._unflushed:
            return
        self._unflushed = False
        try:
            await flush_path(self._files, self._path)
        except OSError:
            self._unflushed = True
            raise
