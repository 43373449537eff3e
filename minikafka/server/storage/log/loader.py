"""Creates logs, and loads and recovers logs from their files. Kafka: ``LogLoader``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

from minikafka.core.log.config import LogConfig
from minikafka.core.log.leader_epochs import LeaderEpochCache
from minikafka.core.log.names import (
    APART_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
    offsets_of,
)
from minikafka.core.log.producer_state import ProducerStates
from minikafka.core.log.recovery import (
    first_to_recover,
    has_hole,
    recovery_point_after_load,
)
from minikafka.core.log.small_files import (
    PARTITION_METADATA,
    PartitionMetadataError,
    decode_partition_metadata,
    encode_partition_metadata,
)
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Files
from minikafka.kernel.slices import Slices
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.segment_swap import SWAP_SUFFIX, finish_swaps
from minikafka.server.storage.log.unified_log import CUT_UNFLUSHED, LogHome, UnifiedLog
from minikafka.server.storage.strays import put_directories_apart

_OF_SWAPS: Final = (SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)


def create_log(
    files: Files,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: UUID | None,
    config: LogConfig,
    home: LogHome | None = None,
) -> UnifiedLog:
    """Create an empty log in a new directory. Raises OSError."""
    files.make_directories(directory)
    log = UnifiedLog(files, directory, topic_partition, config, home)
    if topic_id is not None:
        assign_topic_id(files, log, topic_id)
    return log


def assign_topic_id(files: Files, log: UnifiedLog, topic_id: UUID) -> None:
    """Write the id into the log's ``partition.metadata``. Raises OSError."""
    data = encode_partition_metadata(topic_id)
    files.replace_unsynced(f"{log.directory}/{PARTITION_METADATA}", data)
    log.topic_id = topic_id


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The entries for one log in the checkpoint files of its log directory."""

    clean: bool  # whether the last broker process shut down cleanly
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int | None = None


class LogLoader:
    """Loads the files of one log into a ``UnifiedLog`` that has just been constructed.

    ``discarded`` is True if records or files were removed, now or shortly before the broker died,
    that a power loss could bring back. Such a log must be flushed before it accepts appends.
    """

    def __init__(
        self, files: Files, log: UnifiedLog, found: Checkpointed, events: EventLog
    ) -> None:
        self._files = files
        self.log = log
        self._found = found
        self._unbound_events = events
        self._first_recovered: int | None = None
        self._states: ProducerStates | None = None  # after the last recovered segment
        self._snapshots: list[int] = []  # the offsets of the snapshot files found
        self.discarded = False
        self.bytes_read = 0  # the size of the recovered segments

    @property
    def _events(self) -> EventLog:
        """Bound lazily, because most logs write no event while they are loaded."""
        return self._unbound_events.bind(log=self.log.directory)

    async def load(self) -> None:
        """Open the segments, recover those that may be incomplete, and load leader epochs and
        producers. Yields to other tasks regularly.

        Raises OSError, and KafkaError(CORRUPT_MESSAGE)."""
        log, found = self.log, self._found
        log.cleaned_offset = found.cleaned_offset
        put_directories_apart(self._files, log.directory, self._events)
        self._read_topic_id()
        bases = self._tidy()
        epochs_known = log.epochs.load()
        await self._add_segments(bases, self._recover_from(bases, epochs_known))
        active = log.segments.active
        if active is None:
            log.log_start_offset = log.log_end_offset = found.log_start_offset
        else:
            log.log_end_offset = await self._activate(active)
            log.log_start_offset = max(found.log_start_offset, log.segments.base_offsets[0])
            if log.log_end_offset < log.log_start_offset:
                self._discard("log_reset_to_start", end=log.log_end_offset)
                log.truncate_fully_and_start_at(log.log_start_offset)
                self._states = None
        log.epochs.truncate_from_end(log.log_end_offset)
        log.epochs.truncate_from_start(log.log_start_offset)
        await self._complete_epochs()
        await self._take_up_producers()
        if self.discarded:
            log.unflushed_names = True
            log.hold_appends()
        log.recovery_point = recovery_point_after_load(
            found.clean, found.recovery_point, log.log_end_offset, self._first_recovered
        )
        log.recovery_point_lowered = log.recovery_point < found.recovery_point

    def _discard(self, event: str, **facts: object) -> None:
        self.discarded = True
        self._events.warning(event, **facts)

    def _read_topic_id(self) -> None:
        try:
            data = self._files.read_all(f"{self.log.directory}/{PARTITION_METADATA}")
            self.log.topic_id = decode_partition_metadata(data)
        except FileNotFoundError:
            return  # the log is older than topic ids
        except PartitionMetadataError as error:
            # A power loss truncated the file. The controller sends the id again.
            self._events.warning("partition_metadata_malformed", error=str(error))

    def _tidy(self) -> list[int]:
        """Remove temporary files and indexes without a segment, and finish interrupted swaps.
        Return the base offsets of the segments."""
        directory = self.log.directory
        names = self._files.list(directory)
        if any(name.endswith(_OF_SWAPS) for name in names):
            self.log.unflushed_names |= finish_swaps(self._files, directory)
            names = self._files.list(directory)
        self.discarded |= CUT_UNFLUSHED in names
        bases = offsets_of(names, LOG_SUFFIX)
        known = set(bases)
        for name in names:
            orphan = any(
                (offset := offset_of(name, suffix)) is not None and offset not in known
                for suffix in INDEX_SUFFIXES
            )
            if orphan or name.endswith(".tmp"):
                self._files.remove(f"{directory}/{name}")
        self._snapshots = offsets_of(names, SNAPSHOT_SUFFIX)
        return bases

    def _recover_from(self, bases: list[int], epochs_known: bool) -> int:
        """Return the index of the first segment to recover. If the leader epochs could not be
        loaded, this is the first segment, because the epochs are found in the batches."""
        if self._found.clean:
            return len(bases)
        return first_to_recover(bases, self._found.recovery_point) if epochs_known else 0

    async def _add_segments(self, bases: list[int], recover_from: int) -> None:
        log = self.log
        compacted = log.config.compacts
        cleaned_offset = self._found.cleaned_offset or 0  # gaps below come from compaction
        for index, base_offset in enumerate(bases):
            before = log.segments.active
            if before is not None:
                known = compacted or base_offset <= cleaned_offset
                if index > recover_from and has_hole(log.log_end_offset, base_offset, known):
                    self._put_apart(bases[index:])
                    return
                before.deactivate()
            segment = LogSegment(
                self._files, log.directory, base_offset, log.config, log.open_segments
            )
            segment.open()
            size = segment.size_bytes
            if index >= recover_from or not segment.attach_indexes():
                log.log_end_offset = await self._recover(segment)
            else:
                self._states = None
            log.segments.add(segment)
            if index >= recover_from and segment.size_bytes < size:
                self._remove_segments(bases[index + 1 :])
                return

    async def _recover(self, segment: LogSegment) -> int:
        """Recover a segment, and return the offset after the last batch kept."""
        if self._first_recovered is None:
            self._first_recovered = segment.base_offset
        size = segment.size_bytes
        epochs = self.log.epochs
        states = await self._states_before(segment)
        end_offset = segment.base_offset
        settled = NO_EPOCH  # the latest epoch after its first batch; later batches change nothing

        def take(batch: RecordBatch) -> None:
            nonlocal end_offset, settled
            if batch.producer_id >= 0:
                aborted = states.update(batch, batch.base_offset, batch.max_timestamp)
                if aborted is not None:
                    segment.add_aborted(aborted)
            end_offset = batch.base_offset + batch.last_offset_delta + 1
            epoch = batch.partition_leader_epoch
            if epoch != settled and epoch > NO_EPOCH:
                epochs.agree(epoch, batch.base_offset)
                settled = epoch if epoch == epochs.cache.latest_epoch else NO_EPOCH

        await segment.recover(take)
        self.log.unflushed_names = True  # recovery has created new index files
        self.bytes_read += size
        self.discarded |= segment.size_bytes < size
        self._events.info(
            "segment_recovered",
            base_offset=segment.base_offset,
            end_offset=end_offset,
            bytes_kept=segment.size_bytes,
            bytes_dropped=size - segment.size_bytes,
        )
        return end_offset

    async def _states_before(self, segment: LogSegment) -> ProducerStates:
        """Return the producers as they were before ``segment``.

        Recovery rebuilds the transaction index with them, and updates them batch by batch. Before
        the second and each later recovered segment it also writes them to a snapshot."""
        log, base_offset = self.log, segment.base_offset
        if self._states is None:
            start = self._found.log_start_offset
            if log.segments.first is not None:
                start = max(start, log.segments.first.base_offset)
            self._states = await self._states_at(base_offset, start, base_offset)
        else:
            log.producers.replace_snapshot(self._states, base_offset)
        return self._states

    async def _states_at(
        self, offset: int, log_start_offset: int, below: int | None = None
    ) -> ProducerStates:
        """Return the producers as they were when the log ended at ``offset``: load the newest valid
        snapshot and replay the batches after it, in segments that start below ``below``."""
        log = self.log
        states, reached = log.producers.known_at(offset, log_start_offset, self._snapshots)
        if reached >= offset:
            return states
        for segment in log.segments.since(reached):
            if below is not None and segment.base_offset >= below:
                break
            position = segment.offset_index.lookup(reached).position
            async for batch in self._sound_batches(segment, position):
                if batch.producer_id >= 0 and batch.last_offset >= reached:
                    states.update(batch, batch.base_offset, batch.max_timestamp)
        return states

    async def _sound_batches(
        self, segment: LogSegment, start: int = 0
    ) -> AsyncIterator[RecordBatch]:
        """Yield the batches (headers only) of a segment from position ``start`` on.

        At a corrupt batch below the recovery point, skip the rest of the segment. The batch fails
        when it is read. A Kafka broker does not start with such a segment."""
        try:
            slices = Slices()
            for found in segment.batches(start):
                if slices.ended():
                    await slices.pause()
                yield found.batch
        except CorruptRecordError as error:
            self._events.error("segment_corruption_found", path=segment.path, error=str(error))

    async def _complete_epochs(self) -> None:
        """Find the leader epochs between the log start and the first known epoch in the batches.

        They are missing if the file was damaged, or if an older log start offset was loaded than
        the one for which epochs were removed. A Kafka broker does not start with a damaged file."""
        log = self.log
        known = log.epochs.cache.entries
        bound = known[0].start_offset if known else log.log_end_offset
        if bound <= log.log_start_offset:
            return
        found = LeaderEpochCache()
        for segment in log.segments.since(log.log_start_offset):
            if segment.base_offset >= bound:
                break
            async for batch in self._sound_batches(segment):
                offset, epoch = batch.base_offset, batch.partition_leader_epoch
                if epoch >= 0 and log.log_start_offset <= offset < bound:
                    found.assign(epoch, offset)
        latest = -1 if found.latest_epoch is None else found.latest_epoch
        log.epochs.take_over([*found.entries, *(e for e in known if e.epoch > latest)])

    async def _take_up_producers(self) -> None:
        """Set the producers at the log end. If recovery has read up to there, it has them already;
        otherwise load a snapshot and replay the batches after it."""
        log, states = self.log, self._states
        start, end = log.log_start_offset, log.log_end_offset
        if states is None:
            states = await self._states_at(end, start)
        producers = log.producers
        snapshots = producers.snapshots() if self._first_recovered is not None else self._snapshots
        self.discarded |= producers.remove_strays(log.segments.base_offsets, snapshots)
        self.discarded |= producers.take_over(states, start, end, snapshots)

    async def _activate(self, segment: LogSegment) -> int:
        try:
            return segment.activate()
        except KafkaError as error:
            self._events.warning("segment_corruption_found", path=segment.path, error=str(error))
            await self._recover(segment)
            return segment.activate()

    def _put_apart(self, bases: list[int]) -> None:
        """Rename the segments after a hole in the log; they are neither loaded nor deleted.

        A Kafka follower of a compacted topic leaves such holes, too. They look like those of a
        power loss, so an operator has to decide."""
        for base_offset in bases:
            path = f"{self.log.directory}/{file_name(base_offset, LOG_SUFFIX)}"
            self._files.rename(path, path + APART_SUFFIX)
            self._events.error("segment_set_aside", path=path + APART_SUFFIX)
        self._remove_segments(bases)

    def _remove_segments(self, bases: list[int]) -> None:
        """Delete the segments after a segment that recovery has truncated: a log must not have a
        hole."""
        for base_offset in bases:
            self._discard("segment_dropped", base_offset=base_offset)
            for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
                self._files.remove(f"{self.log.directory}/{file_name(base_offset, suffix)}")
