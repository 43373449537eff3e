"""Making a new log, and bringing one back from the files that a broker left behind."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from minikafka.core.log.config import LogConfig
from minikafka.core.log.producer_state import ProducerStates
from minikafka.core.log.recovery import (
    first_to_recover,
    has_hole,
    recovery_point_after_load,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Files
from minikafka.storage.names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    file_name,
    offset_of,
    offsets_of,
)
from minikafka.storage.partition_metadata import (
    PARTITION_METADATA,
    PartitionMetadataError,
    decode_partition_metadata,
    encode_partition_metadata,
)
from minikafka.storage.segment import LogSegment
from minikafka.storage.segment_swap import finish_swaps
from minikafka.storage.unified_log import UnifiedLog


def create_log(
    files: Files,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: UUID | None,
    config: LogConfig,
) -> UnifiedLog:
    """An empty log in a new directory. Raises OSError."""
    files.make_directories(directory)
    log = UnifiedLog(files, directory, topic_partition, config)
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
    """What the checkpoint files of the log directory say of one log."""

    clean: bool  # the broker that wrote the log shut down in order
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int | None = None


class LogLoader:
    """Loads one log that has just been constructed. Raises OSError.

    ``discarded`` tells whether something was thrown away that a power loss could bring back, to
    be taken for a part of what is appended next: then flush the log before that.
    """

    def __init__(
        self, files: Files, log: UnifiedLog, found: Checkpointed, events: EventLog
    ) -> None:
        self._files = files
        self._log = log
        self._found = found
        self._events = events.bind(log=log.directory)
        self._first_recovered: int | None = None
        self._states: ProducerStates | None = None  # at the end of the segment recovered last
        self.discarded = False

    def load(self) -> None:
        """Open the segments, recover those that need it, take up epochs and producers."""
        log, found = self._log, self._found
        log.cleaned_offset = found.cleaned_offset
        self._read_topic_id()
        bases = self._tidy()
        epochs_known = log.epochs.load()
        self._add_segments(bases, self._recover_from(bases, epochs_known))
        active = log.segments.active
        if active is None:
            log.log_start_offset = log.log_end_offset = found.log_start_offset
        else:
            log.log_end_offset = self._activate(active)
            log.log_start_offset = max(found.log_start_offset, log.segments.base_offsets[0])
            if log.log_end_offset < log.log_start_offset:
                self.discarded = True
                self._events.warning("log_ends_before_its_start", end=log.log_end_offset)
                log.truncate_fully_and_start_at(log.log_start_offset)
        log.epochs.truncate_from_end(log.log_end_offset)
        log.epochs.truncate_from_start(log.log_start_offset)
        self.discarded |= log.producers.remove_strays(log.segments.base_offsets)
        self.discarded |= log.reload_producers()
        log.unflushed_names |= self.discarded
        log.recovery_point = recovery_point_after_load(
            found.clean, found.recovery_point, log.log_end_offset, self._first_recovered
        )
        log.recovery_point_lowered = log.recovery_point < found.recovery_point

    def _read_topic_id(self) -> None:
        try:
            data = self._files.read_all(f"{self._log.directory}/{PARTITION_METADATA}")
            self._log.topic_id = decode_partition_metadata(data)
        except FileNotFoundError:
            return  # a log from before there were topic ids
        except PartitionMetadataError as error:
            # Written just before a power loss. The controller will tell the id again.
            self._events.warning("partition_metadata_unreadable", error=str(error))

    def _tidy(self) -> list[int]:
        """Remove temporary files and orphaned indexes; returns the base offsets of segments."""
        directory = self._log.directory
        if finish_swaps(self._files, directory):
            self._log.unflushed_names = True
        names = self._files.list(directory)
        bases = offsets_of(names, LOG_SUFFIX)
        for name in names:
            offsets = (offset_of(name, suffix) for suffix in INDEX_SUFFIXES)
            orphan = any(offset is not None and offset not in bases for offset in offsets)
            if orphan or name.endswith(".tmp"):
                self._files.remove(f"{directory}/{name}")
        return bases

    def _recover_from(self, bases: list[int], epochs_known: bool) -> int:
        """Index of the first segment to recover. Without the epochs of the past, all have to be
        read."""
        if self._found.clean:
            return len(bases)
        return first_to_recover(bases, self._found.recovery_point) if epochs_known else 0

    def _add_segments(self, bases: list[int], recover_from: int) -> None:
        log = self._log
        compacted = log.config.compacts
        cleaned_offset = self._found.cleaned_offset or 0  # holes below are from compaction
        for index, base_offset in enumerate(bases):
            before = log.segments.active
            if before is not None:
                known = compacted or base_offset <= cleaned_offset
                if index > recover_from and has_hole(log.log_end_offset, base_offset, known):
                    self._remove_segments(bases[index:])
                    return
                before.deactivate()
            segment = LogSegment(self._files, log.directory, base_offset, log.config)
            segment.open()
            size = segment.size_bytes
            if index >= recover_from or not segment.attach_indexes():
                log.log_end_offset = self._recover(segment)
            else:
                self._states = None
            log.segments.add(segment)
            if index >= recover_from and segment.size_bytes < size:
                self._remove_segments(bases[index + 1 :])
                return

    def _recover(self, segment: LogSegment) -> int:
        """Returns the offset after the last batch kept."""
        if self._first_recovered is None:
            self._first_recovered = segment.base_offset
        size = segment.size_bytes
        end_offset = segment.base_offset
        states = self._states_before(segment)
        for batch in segment.recover():
            end_offset = batch.next_offset
            if batch.producer_id >= 0:
                aborted = states.update(batch, batch.base_offset, batch.max_timestamp)
                if aborted is not None:
                    segment.add_aborted(aborted)
            epoch = batch.partition_leader_epoch
            latest = self._log.epochs.latest_epoch
            if epoch >= 0 and (latest is None or epoch > latest):
                self._log.epochs.assign(epoch, batch.base_offset)
        self._log.unflushed_names = True  # its indexes are new files
        self.discarded |= segment.size_bytes < size
        self._events.info(
            "segment_recovered",
            base_offset=segment.base_offset,
            end_offset=end_offset,
            bytes_kept=segment.size_bytes,
            bytes_dropped=size - segment.size_bytes,
        )
        return end_offset

    def _states_before(self, segment: LogSegment) -> ProducerStates:
        """The producers at the start of a segment whose transaction index is to be rebuilt. As
        recovery goes on from segment to segment, they go with it."""
        if self._states is None:
            log, base_offset = self._log, segment.base_offset
            start = self._found.log_start_offset
            if log.segments.first is not None:
                start = max(start, log.segments.first.base_offset)
            self._states = log.producers.states_at(base_offset, start, log.batches_from)
        return self._states

    def _activate(self, segment: LogSegment) -> int:
        try:
            return segment.activate()
        except KafkaError as error:
            self._events.warning("segment_corrupt", path=segment.path, error=str(error))
            self._recover(segment)
            return segment.activate()

    def _remove_segments(self, bases: list[int]) -> None:
        """Segments that follow a cut or a hole: no prefix of what was appended reaches to them."""
        for base_offset in bases:
            self.discarded = True
            self._events.warning("segment_dropped", base_offset=base_offset)
            for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
                self._files.remove(f"{self._log.directory}/{file_name(base_offset, suffix)}")
