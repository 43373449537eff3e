"""The leader epochs of one log, kept in step with its ``leader-epoch-checkpoint`` file."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.log.leader_epochs import EpochEntry, LeaderEpochCache
from minikafka.kernel.ports import Files
from minikafka.storage.checkpoints import (
    LEADER_EPOCH,
    CheckpointError,
    decode_epochs,
    encode_epochs,
)
from minikafka.storage.durable import flush_path


class LeaderEpochStore:
    """Raises OSError wherever it writes; what could not be written is written the next time.

    A changed file is replaced at once, safe against a killed process, and made safe against a
    power loss by ``flush``. What a power loss takes is found again in the batches themselves.
    Until ``start_writing`` (the log has no files yet) everything stays in memory.
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

    @property
    def latest_epoch(self) -> int | None:
        return self.cache.latest_epoch

    def load(self) -> bool:
        """Read the file; False when it is missing or damaged, and the epochs are not known."""
        self._writing = True
        try:
            entries = decode_epochs(self._files.read_all(self._path))
        except (FileNotFoundError, CheckpointError):
            return False
        self.cache = LeaderEpochCache(entries)
        return bool(entries)

    def start_writing(self) -> None:
        """Write to the file from now on: the log has segments."""
        if not self._writing:
            self._writing = True
            self._changed(bool(len(self.cache)))

    def begin(self, epoch: int, start_offset: int) -> None:
        """``assign``, but written only with what comes next: an epoch that nothing was appended in
        is forgotten when the log is loaded, so there is nothing to lose."""
        self._unwritten |= self.cache.assign(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        self._changed(self.cache.assign(epoch, start_offset))

    def agree(self, epoch: int, offset: int) -> None:
        """As ``LeaderEpochCache.agree``, while a log is recovered."""
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
        """Return when the file as it is now would survive a power loss."""
        if not self._unflushed:
            return
        self._unflushed = False
        try:
            await flush_path(self._files, self._path)
        except OSError:
            self._unflushed = True
            raise
