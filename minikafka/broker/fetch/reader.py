"""Reading partitions for one Fetch request, and telling leaders where their followers stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from minikafka.broker.fetch.follower_answers import NEVER_ASKED
from minikafka.broker.fetch.read_replicas import NO_PREFERENCE, PreferredReplicas
from minikafka.broker.fetch.shared_reads import SharedReads
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.broker.replication.throttles import LeaderThrottle
from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.replication.follower import EpochEndOffset, diverges
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.storage.log.reader import NotInPageCache
from minikafka.storage.log.unified_log import UnifiedLog


class Isolation(Enum):
    """Up to where a fetch may read. Followers always read to the end of the log."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class FetchParams(NamedTuple):
    """One fetch. ``replica_id`` is -1 for consumers. ``leader_only``: False lets a follower answer
    (KIP-392). ``each_partition_progresses``: the first batch of every partition is read whole, and
    not of the first one only (version < 3). ``rack``: where a consumer is, if it says so, and
    ``listener`` by which listener it came."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    leader_only: bool = True
    each_partition_progresses: bool = False
    rack: str = ""
    listener: str = ""

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


class FetchEntry(NamedTuple):
    """What to read of one partition. Epochs are -1 and ``topic_id`` is None where not given."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1


class ReadResult(NamedTuple):
    """What was read of one partition: whole batches, or an error, or where the logs part, or who
    should be asked instead (``preferred_read_replica``).

    ``aborted``, for those that read committed: the aborted transactions that the batches touch."""

    topic_partition: TopicPartition
    error: ErrorCode
    records: Buffer = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: EpochEndOffset | None = None
    aborted: tuple[AbortedTxn, ...] = ()
    preferred_read_replica: int = NO_PREFERENCE

    @property
    def size(self) -> int:
        return len(self.records)

    @property
    def is_error(self) -> bool:
        return self.error is not ErrorCode.NONE

    @property
    def is_urgent(self) -> bool:
        """To be told at once, and every time."""
        return (
            self.error is not ErrorCode.NONE
            or self.diverging is not None
            or self.preferred_read_replica >= 0
        )


class Reading(NamedTuple):
    """What each partition has, and of that what is not as it was; the partitions whose high
    watermark moved by the asking, those whose low one may have, and those of which the asking
    follower has not been told the high one yet."""

    results: list[ReadResult]
    news: list[ReadResult]
    advanced: list[TopicPartition]
    lowered: list[TopicPartition]
    untold: list[TopicPartition]


def end_of(partition: Partition, isolation: Isolation) -> int:
    """The offset before which a fetch of this isolation has to stop."""
    if isolation is Isolation.HIGH_WATERMARK:
        return partition.high_watermark
    if isolation is Isolation.LOG_END:
        return partition.log.log_end_offset
    return partition.last_stable_offset


def divergence(log: UnifiedLog, entry: FetchEntry) -> EpochEndOffset | None:
    """Where the asker's log parts from ``log``; None when it does not, or gave no epoch.

    Raises KafkaError(OFFSET_OUT_OF_RANGE) when there is no common ground to tell of."""
    epoch, offset = entry.last_fetched_epoch, entry.fetch_offset
    if epoch < 0:
        return None
    if epoch == log.latest_epoch and log.log_start_offset <= offset <= log.log_end_offset:
        return None  # mostly: that epoch ends where the log ends
    end = EpochEndOffset(*log.end_offset_for_epoch(epoch))
    if end.is_undefined or offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return end if diverges(epoch, offset, end) else None


def nothing_new(
    partition: Partition, replica_id: int, entry: FetchEntry, now_ms: int | None
) -> ReadResult | None:
    """What this follower was answered last, if all is as it was then: most partitions of most of
    its fetches are like that. ``now_ms`` as in ``FetchReader.read``."""
    asked, known = partition.answers.last.get(replica_id, NEVER_ASKED)
    if asked is not entry or not partition.is_leader:
        return None
    log, high_watermark = partition.log, partition.high_watermark
    end, answers = log.log_end_offset, partition.answers
    if (
        entry.fetch_offset != end
        or known.high_watermark != high_watermark
        or known.log_start_offset != log.log_start_offset
        or answers.told.get(replica_id) != high_watermark
    ):
        return None
    if now_ms is not None and not partition.still_caught_up(replica_id, end, now_ms):
        return None
    result: ReadResult = known
    return result


class FetchReader:
    """Reads in request order under one limit for all, and one for each partition.

    ``on_disk_error`` is told of a partition whose disk failed under a read. ``throttle`` says which
    followers are sent nothing for now."""

    def __init__(
        self,
        hosted: HostedPartitions,
        preferred: PreferredReplicas,
        on_disk_error: Callable[[TopicPartition, OSError], object],
        throttle: LeaderThrottle,
    ) -> None:
        self.throttle = throttle
        self._hosted = hosted
        self._preferred = preferred
        self._on_disk_error = on_disk_error
        self._shared = SharedReads()

    def read(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        now_ms: int | None,
        cold: list[FetchEntry] | None = None,
    ) -> Reading:
        """``now_ms`` is the time of the asking; None at the second read of a parked fetch, which is
        answered whatever it finds. The first batch read is returned whole however large, so that
        everybody gets on (KIP-74).

        With a list for ``cold`` the disk is not waited for: what is not in the page cache is put
        there instead of being read.
        """
        may_wait, from_follower = cold is None, params.replica_id >= 0
        reading = Reading([], [], [], [], [])
        left = params.max_bytes
        first_always = True
        for entry in entries:
            try:
                partition = self._hosted.require(entry.topic_partition)
                if from_follower:
                    known = nothing_new(partition, params.replica_id, entry, now_ms)
                    if known is not None:
                        reading.results.append(known)
                        continue
                limit = min(entry.max_bytes, left)
                result = self._read_one(
                    params, entry, partition, limit, first_always, may_wait, now_ms, reading
                )
            except NotInPageCache:
                assert cold is not None
                cold.append(entry)
                result = ReadResult(entry.topic_partition, ErrorCode.NONE)
            except KafkaError as error:
                result = ReadResult(entry.topic_partition, _error_for(entry, error))
            except OSError as error:
                self._on_disk_error(entry.topic_partition, error)
                result = ReadResult(entry.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)
            if result.records:
                left = max(0, left - len(result.records))
                first_always = params.each_partition_progresses and left > 0
            reading.results.append(result)
            reading.news.append(result)
        return reading

    def _read_one(
        self,
        params: FetchParams,
        entry: FetchEntry,
        partition: Partition,
        max_bytes: int,
        first_always: bool,
        may_wait: bool,
        now_ms: int | None,
        reading: Reading,
    ) -> ReadResult:
        """Raises KafkaError, OSError and NotInPageCache."""
        if not partition.accepts_topic_id(entry.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        log = partition.readable_log(entry.current_leader_epoch, params.leader_only)
        replica_id = params.replica_id
        preferred = NO_PREFERENCE
        if replica_id >= 0:
            partition.check_follower(replica_id, entry.current_leader_epoch)
        elif params.rack and now_ms is not None:
            preferred = self._preferred.for_consumer(
                partition, params.rack, params.listener, entry.fetch_offset, now_ms
            )
        diverging = divergence(log, entry)
        records: Buffer = b""
        aborted: tuple[AbortedTxn, ...] = ()
        if diverging is None and preferred == NO_PREFERENCE:
            upper_bound = end_of(partition, params.isolation)
            throttle = self.throttle
            if throttle.quota.limited and throttle.holds_back(partition, replica_id):
                max_bytes, first_always = 0, False  # what it asks for is checked all the same
            committed = params.isolation is Isolation.TXN_COMMITTED
            read = self._shared.read(
                log, entry.fetch_offset, max_bytes, upper_bound, first_always, committed, may_wait
            )
            records, aborted = read.records, read.aborted
        if replica_id >= 0:
            if diverging is None and now_ms is not None:
                if entry.log_start_offset != partition.followers[replica_id].log_start_offset:
                    reading.lowered.append(entry.topic_partition)
                if partition.record_follower_fetch(
                    replica_id, entry.fetch_offset, entry.log_start_offset, now_ms
                ):
                    reading.advanced.append(entry.topic_partition)
            if now_ms is None:
                partition.answers.told[replica_id] = partition.high_watermark
            elif partition.answers.is_news(replica_id, partition.high_watermark):
                reading.untold.append(entry.topic_partition)
        result = ReadResult(
            entry.topic_partition,
            ErrorCode.NONE,
            records,
            partition.high_watermark,
            partition.last_stable_offset,
            log.log_start_offset,
            diverging,
            aborted,
            preferred,
        )
        if replica_id >= 0 and diverging is None and not records:
            partition.answers.last[replica_id] = entry, result
        return result


def _error_for(entry: FetchEntry, error: KafkaError) -> ErrorCode:
    """A topic id that nobody knows a name of is refused as that."""
    if not entry.topic_partition.topic and entry.topic_id is not None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return error.code
