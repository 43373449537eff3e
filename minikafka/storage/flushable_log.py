"""What of a log is on disk: flushes, the recovery point, a clean end, segments that go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Files
from minikafka.storage.epoch_store import LeaderEpochStore
from minikafka.storage.producer_store import ProducerStore
from minikafka.storage.readable_log import ReadableLog
from minikafka.storage.segment import LogSegment
from minikafka.storage.segments import LogSegments

CUT_UNFLUSHED: Final = "cut-unflushed"  # a file that tells the next process, should this one die


class FlushableLog(ReadableLog):
    """Everything before ``recovery_point`` is on disk. What the owner of the log binds is called
    back: None where nobody has."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
    ) -> None:
        super().__init__(topic_partition, LogSegments(), LeaderEpochStore(files, directory))
        self.directory = directory
        self.config = config
        self.topic_id = topic_id
        self.recovery_point = 0
        self.last_flush_ms = 0  # monotonic; of the last flush of everything
        self.closed = False
        self.producers = ProducerStore(files, directory)
        self.transactions = self.producers.states.transactions
        # When the recovery point has been lowered since it was last written down, it is written
        # before a segment is added (else recovery would skip segments that were never flushed),
        # and made to survive a power loss by the next flush. The same goes for the log start: else
        # what is appended below the old one would be hidden.
        self.recovery_point_lowered = False
        self.write_recovery_point: Callable[[], None] | None = None
        self.flush_recovery_point: Callable[[], Awaitable[None]] | None = None
        self.start_moved: Callable[[], None] | None = None  # told whenever ``log_start_offset`` is
        self.put_aside: Callable[[LogSegment], None] | None = None  # removes it later
        self.unflushed_names = False  # files have been made or removed since the last flush
        self._files = files
        self._lowering_unflushed = False
        self._unflushed_cut = 0  # the last of ``cuts`` that dropped anything, or 0

    def remove_dead_segment(self) -> bool:
        """Delete the first segment if all of it lies below the log start, which has to be on disk;
        True if so. Its files go when ``put_aside`` removes them: readers may still hold it. Raises
        OSError, and whatever is left then goes at the next start."""
        if not self.segments.first_ends_below(self.log_start_offset):
            return False
        dead = self.segments.first
        assert dead is not None
        dead.put_aside()
        self.segments.pop_first()
        self._forget_places()
        self.unflushed_names = True
        if self.put_aside is None:
            dead.remove()
        else:
            self.put_aside(dead)
        self.producers.remove_snapshot(dead.base_offset)
        return True

    def moved_to(self, directory: str) -> None:
        """The directory has been renamed; what is open stays so."""
        self.directory = directory
        self.epochs.moved_to(directory)
        self.producers.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    @property
    def flush_due(self) -> bool:
        """Whether ``flush.messages`` wants a flush before what was appended is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def cut_unflushed(self) -> bool:
        """Whether a power loss may bring back what was dropped: nothing is appended till then."""
        return self._unflushed_cut > 0

    def hold_appends(self) -> None:
        """Something was thrown away: refuse appends until a flush has made that last."""
        self.cuts += 1
        self._unflushed_cut = self.cuts

    async def flush(self, before_offset: int | None = None) -> None:
        """Return when all that was appended before the call is on disk; raises the recovery point.

        With ``before_offset``, only segments that start before it. Raises OSError.
        """
        end = self.log_end_offset if before_offset is None else before_offset
        truncations, cut = self._truncations, self._unflushed_cut
        for segment in self.segments.since(self.recovery_point):
            if before_offset is None or segment.base_offset < before_offset:
                await segment.flush()
        await self.epochs.flush()
        if self.unflushed_names and not self.closed:
            self.unflushed_names = False
            await self._flush_names()
        if truncations == self._truncations and not self.closed:
            self.recovery_point = max(self.recovery_point, end)
        if self._lowering_unflushed and self.flush_recovery_point is not None:
            await self.flush_recovery_point()
            self._lowering_unflushed = truncations != self._truncations
        if cut and before_offset is None and cut == self._unflushed_cut and not self.closed:
            self._files.remove(f"{self.directory}/{CUT_UNFLUSHED}")
            self._unflushed_cut = 0

    async def _flush_names(self) -> None:
        try:
            await self._files.flush_directory(self.directory)
            await self._files.flush_directory(self.directory.rpartition("/")[0])
        except OSError:
            self.unflushed_names = True
            raise

    def persist(self) -> None:
        """Bring what is in memory into the files, as a clean shutdown does. Raises OSError."""
        active = self.segments.active
        if active is not None:
            active.persist()
            self.producers.take_snapshot(self.log_end_offset)
            self.unflushed_names = True

    def close(self) -> None:
        """Close the files; writes nothing. The log cannot be used any more."""
        self.closed = True
        self._forget_places()
        while self.segments.active is not None:
            self.segments.pop().close()
