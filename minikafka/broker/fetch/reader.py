"""Reads the partitions of one Fetch request, and records the positions of followers.

The partitions of one request are read up to three times:

- ``read_cached`` when the request arrives. It records the follower's positions, which may move high
  watermarks and add members to ISRs. It does not wait for a disk.
- ``read_all`` after a thread has read the missing records into the page cache.
- ``read_parked`` when the parked fetch completes. The response contains whatever it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from minikafka.broker.fetch.preferred_replicas import NO_PREFERENCE, PreferredReplicas
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import NO_RESPONSE, Partition
from minikafka.broker.replication.throttles import LeaderThrottle
from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.replication.follower import EpochEnd, diverges
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.network.memory_budget import RESPONSE_BYTES_ANYWAY, MemoryBudget
from minikafka.storage.log.reader import LogRead, NotInPageCache
from minikafka.storage.log.unified_log import UnifiedLog


class Isolation(Enum):
    """The offset up to which a fetch may read. Followers always read up to the log end."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class FetchParams(NamedTuple):
    """The parameters of one fetch, common to all of its partitions.

    ``replica_id`` is -1 for consumers. ``leader_only`` is False if a follower may serve the fetch
    (KIP-392). With ``each_partition_progresses`` (version < 3) the first batch of every partition
    is read whole, otherwise only that of the first partition with records. ``rack`` is the
    consumer's rack, or empty; ``listener`` is the name of the listener that received the
    request."""

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
    """The request for one partition. Epochs are -1 and ``topic_id`` is None if not sent."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1


_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class ReadResult(NamedTuple):
    """The result for one partition: complete batches, an error, the epoch at which the follower's
    log diverges, or the replica to fetch from instead (``preferred_read_replica``).

    ``aborted`` has the aborted transactions in the batches, for read_committed consumers."""

    topic_partition: TopicPartition
    error: ErrorCode
    records: Buffer = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
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
        """Whether a fetch session includes this result even if it is unchanged. Such a result also
        ends the wait of a fetch, unless it ``is_unknown`` and the fetch is a consumer's."""
        return (
            self.error is not ErrorCode.NONE
            or self.diverging is not None
            or self.preferred_read_replica >= 0
        )

    @property
    def is_unknown(self) -> bool:
        """Whether this broker does not know the partition or the topic id."""
        return self.error in _UNKNOWN


class FetchReading(NamedTuple):
    """The results of a fetch in the order of its entries, and the effects of reading it.

    ``changed`` are the results that differ from the follower's last response. ``cold`` are the
    entries whose records are not in the page cache; their results are empty. The other lists are
    partitions: those whose high watermark this fetch moved (``advanced``), whose low watermark it
    may have moved (``lowered``), and whose high watermark was not sent to this follower yet
    (``unsent``)."""

    results: list[ReadResult]
    changed: list[ReadResult]
    cold: list[FetchEntry]
    advanced: list[TopicPartition]
    lowered: list[TopicPartition]
    unsent: list[TopicPartition]


def end_of(partition: Partition, isolation: Isolation) -> int:
    """Return the offset at which a fetch of this isolation ends (exclusive)."""
    if isolation is Isolation.HIGH_WATERMARK:
        return partition.high_watermark
    if isolation is Isolation.LOG_END:
        return partition.log.log_end_offset
    return partition.last_stable_offset


def divergence(log: UnifiedLog, entry: FetchEntry) -> EpochEnd | None:
    """Return the epoch at which the follower's log diverges from ``log`` (KIP-595). None if it does
    not diverge, or if the request has no epoch.

    Raises KafkaError(OFFSET_OUT_OF_RANGE) if the logs have no epoch in common, or if the fetch
    offset is below the log start."""
    epoch, offset = entry.last_fetched_epoch, entry.fetch_offset
    if epoch < 0:
        return None
    if epoch == log.latest_epoch and log.log_start_offset <= offset <= log.log_end_offset:
        return None  # the most frequent case: that epoch ends where the log ends
    end = EpochEnd(*log.end_offset_for_epoch(epoch))
    if end.is_undefined or offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return end if diverges(epoch, offset, end) else None


def repeated_response(
    partition: Partition, replica_id: int, entry: FetchEntry
) -> ReadResult | None:
    """Return the last response to this follower if neither its request nor the partition has
    changed since, otherwise None. Most partitions of most Fetch requests are unchanged."""
    responses = partition.responses
    request, response = responses.without_records.get(replica_id, NO_RESPONSE)
    if request is not entry or not partition.is_leader:
        return None
    log, high_watermark = partition.log, partition.high_watermark
    if (
        entry.fetch_offset != log.log_end_offset
        or response.high_watermark != high_watermark
        or response.log_start_offset != log.log_start_offset
        or responses.high_watermarks.get(replica_id) != high_watermark
    ):
        return None
    result: ReadResult = response
    return result


# The parameters of a read: offset, bytes, upper bound, whether the first batch is always whole,
# whether to find aborted transactions. Then the log start and number of truncations at that time.
_ReadKey: TypeAlias = tuple[int, int, int, bool, bool, int, int]


# Reading as much from the page cache takes the event loop some tens of milliseconds.
READ_AT_ONCE_BYTES = 32 * 1024 * 1024


class SharedReads:
    """Shares one read of a log between all fetches of the same records in one turn of the event
    loop, such as those of several followers. The last read is kept until the turn ends.
    ``read_bytes`` counts the bytes that were read in this turn."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self._log: UnifiedLog | None = None
        self._key: _ReadKey | None = None
        self._read: LogRead | None = None

    def read(
        self,
        log: UnifiedLog,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        first_always: bool,
        committed: bool,
        may_wait: bool,
    ) -> LogRead:
        """Return the last read if its parameters are the same, or call ``UnifiedLog.read``."""
        start, cuts = log.log_start_offset, log.cuts
        key = (offset, max_bytes, upper_bound, first_always, committed, start, cuts)
        known = self._read
        if known is not None and self._log is log and self._key == key:
            return known
        read = log.read(offset, max_bytes, upper_bound, first_always, committed, may_wait)
        if read.records:
            if known is None:
                asyncio.get_running_loop().call_soon(self._forget)
            self._log, self._key, self._read = log, key, read
            self.read_bytes += len(read.records)
        return read

    def _forget(self) -> None:
        self.read_bytes = 0
        self._log = self._key = self._read = None


class _Budget:
    """The bytes that a fetch may still read. The first batch found is returned whole even if it is
    larger, so that every client makes progress (KIP-74)."""

    __slots__ = ("_each_progresses", "first_always", "left")

    def __init__(self, params: FetchParams, room: int) -> None:
        self.left = min(params.max_bytes, room)
        self.first_always = True
        self._each_progresses = params.each_partition_progresses

    def spend(self, size: int) -> None:
        """Subtract ``size`` bytes that were read (more than 0)."""
        self.left = max(0, self.left - size)
        self.first_always = self._each_progresses and self.left > 0


class _Found(NamedTuple):
    """The successful outcome of reading one entry."""

    log: UnifiedLog
    records: Buffer = b""
    aborted: tuple[AbortedTxn, ...] = ()
    diverging: EpochEnd | None = None
    preferred: int = NO_PREFERENCE


class HalfChanged(Exception):
    """An unexpected exception while a disk error was being handled, which changes state in several
    steps. It ends the node."""


class FetchReader:
    """Reads the partitions of a fetch in their order, within its limit for all partitions and the
    limit for each.

    ``on_disk_error`` is called when a read raises OSError. ``throttle`` decides which followers
    currently receive no records (KIP-73). A response is cut to what ``memory`` has room for, and
    to ``RESPONSE_BYTES_ANYWAY`` once ``READ_AT_ONCE_BYTES`` were read in this turn of the loop, as
    when many fetches complete together."""

    def __init__(
        self,
        hosted: HostedPartitions,
        preferred: PreferredReplicas,
        on_disk_error: Callable[[TopicPartition, OSError], object],
        throttle: LeaderThrottle,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.throttle = throttle
        self._memory = memory or MemoryBudget()
        self._hosted = hosted
        self._preferred = preferred
        self._on_disk_error = on_disk_error
        self._shared = SharedReads()

    def read_cached(
        self, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int
    ) -> FetchReading:
        """Read records in the page cache, and record the follower's positions as of ``now_ms``."""
        return self._read_request(params, entries, now_ms, may_wait=False)

    def read_all(
        self, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int
    ) -> FetchReading:
        """As ``read_cached``, but block on the disk for records outside the page cache."""
        return self._read_request(params, entries, now_ms, may_wait=True)

    def slices(self, params: FetchParams, may_wait: bool) -> FetchSlices:
        """Begin to read a fetch of thousands of partitions, a slice at a time."""
        return FetchSlices(self, params, may_wait)

    def unknown(self, entries: Sequence[FetchEntry]) -> list[ReadResult | None]:
        """Return for each entry the error if its partition is not known, else None."""
        return [
            self._failed(entry, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if self._hosted.is_unknown(entry.topic_partition)
            else None
            for entry in entries
        ]

    def available_bytes(self, params: FetchParams, entries: Sequence[FetchEntry]) -> int:
        """Return how many bytes of records a consumer could get at most, without a read. The first
        batch of a partition comes whole even if it is larger than ``max_bytes``.

        Raises KafkaError or OSError if one of the entries would get an error, or an epoch at which
        the logs diverge."""
        available = 0
        for entry in entries:
            partition = self._hosted.require(entry.topic_partition)
            log = _readable(params, entry, partition)
            if divergence(log, entry) is not None:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            end = end_of(partition, params.isolation)
            most = max(entry.max_bytes, log.config.max_message_bytes)
            available += min(log.available_bytes(entry.fetch_offset, end), most)
        return available

    def read_parked(self, params: FetchParams, entries: Sequence[FetchEntry]) -> list[ReadResult]:
        """Read the response of a parked fetch. The follower's positions were recorded when the
        request arrived."""
        replica_id, budget = params.replica_id, self.budget_of(params)
        results: list[ReadResult] = []
        for entry in entries:
            try:
                partition = self._hosted.require(entry.topic_partition)
                if replica_id >= 0:
                    repeated = repeated_response(partition, replica_id, entry)
                    if repeated is not None:
                        results.append(repeated)
                        continue
                found = self._find(params, entry, partition, budget, NO_PREFERENCE, may_wait=True)
                if replica_id >= 0:
                    partition.responses.high_watermarks[replica_id] = partition.high_watermark
                result = _result(params, entry, partition, found)
            except (KafkaError, OSError) as error:
                result = self._failed(entry, error)
            if result.records:
                budget.spend(len(result.records))
            results.append(result)
        return results

    def _read_request(
        self, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int, may_wait: bool
    ) -> FetchReading:
        reading = FetchReading([], [], [], [], [], [])
        self.read_into(reading, params, entries, now_ms, may_wait, self.budget_of(params))
        return reading

    def budget_of(self, params: FetchParams) -> _Budget:
        """Return the bytes that a fetch may read now."""
        return _Budget(params, self._room(params.replica_id >= 0))

    def _room(self, to_follower: bool) -> int:
        if self._shared.read_bytes >= READ_AT_ONCE_BYTES:
            return RESPONSE_BYTES_ANYWAY
        return self._memory.response_room(to_follower)

    def read_into(
        self,
        reading: FetchReading,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        now_ms: int,
        may_wait: bool,
        budget: _Budget,
    ) -> None:
        """Read the entries and add their results to ``reading``."""
        replica_id = params.replica_id
        for entry in entries:
            topic_partition = entry.topic_partition
            try:
                partition = self._hosted.require(topic_partition)
                preferred = NO_PREFERENCE
                if replica_id >= 0:
                    repeated = repeated_response(partition, replica_id, entry)
                    if repeated is not None and partition.still_caught_up(
                        replica_id, entry.fetch_offset, now_ms
                    ):
                        reading.results.append(repeated)
                        continue
                elif params.rack:
                    preferred = self._preferred_replica(params, entry, partition, now_ms)
                found = self._find(params, entry, partition, budget, preferred, may_wait)
                if replica_id >= 0:
                    if found.diverging is None:
                        start = entry.log_start_offset
                        if start != partition.followers[replica_id].log_start_offset:
                            reading.lowered.append(topic_partition)
                        if partition.record_follower_fetch(
                            replica_id, entry.fetch_offset, start, now_ms
                        ):
                            reading.advanced.append(topic_partition)
                    if partition.responses.lacks(replica_id, partition.high_watermark):
                        reading.unsent.append(topic_partition)
                result = _result(params, entry, partition, found)
            except NotInPageCache:
                reading.cold.append(entry)
                result = ReadResult(topic_partition, ErrorCode.NONE)
            except (KafkaError, OSError) as error:
                result = self._failed(entry, error)
            if result.records:
                budget.spend(len(result.records))
            reading.results.append(result)
            reading.changed.append(result)

    def _preferred_replica(
        self, params: FetchParams, entry: FetchEntry, partition: Partition, now_ms: int
    ) -> int:
        """Return the replica that this consumer should fetch from. Raises as ``_readable``."""
        _readable(params, entry, partition)
        return self._preferred.for_consumer(
            partition, params.rack, params.listener, entry.fetch_offset, now_ms
        )

    def _find(
        self,
        params: FetchParams,
        entry: FetchEntry,
        partition: Partition,
        budget: _Budget,
        preferred: int,
        may_wait: bool,
    ) -> _Found:
        """Check the entry and read its records; none if the logs diverge, or if the consumer is
        sent to its ``preferred`` replica. Raises KafkaError, OSError, and NotInPageCache unless
        ``may_wait``."""
        log = _readable(params, entry, partition)
        replica_id = params.replica_id
        if replica_id >= 0:
            partition.check_follower(replica_id, entry.current_leader_epoch)
        diverging = divergence(log, entry)
        if diverging is not None or preferred != NO_PREFERENCE:
            return _Found(log, diverging=diverging, preferred=preferred)
        max_bytes, first_always = min(entry.max_bytes, budget.left), budget.first_always
        if self.throttle.quota.limited and self.throttle.holds_back(partition, replica_id):
            max_bytes, first_always = 0, False  # the fetch offset is checked nevertheless
        read = self._shared.read(
            log,
            entry.fetch_offset,
            max_bytes,
            end_of(partition, params.isolation),
            first_always,
            params.isolation is Isolation.TXN_COMMITTED,
            may_wait,
        )
        return _Found(log, read.records, read.aborted)

    def _failed(self, entry: FetchEntry, error: KafkaError | OSError) -> ReadResult:
        if isinstance(error, OSError):
            try:
                self._on_disk_error(entry.topic_partition, error)
            except Exception as bug:
                raise HalfChanged from bug
            return ReadResult(entry.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if not entry.topic_partition.topic and entry.topic_id is not None:
            return ReadResult(entry.topic_partition, ErrorCode.UNKNOWN_TOPIC_ID)
        return ReadResult(entry.topic_partition, error.code)


class FetchSlices:
    """The reading of one fetch, a slice of its entries at a time.

    The slices share the fetch's limit of bytes. ``reading`` has all results so far; its
    ``advanced`` and ``lowered`` are those of the last slice."""

    def __init__(self, reader: FetchReader, params: FetchParams, may_wait: bool) -> None:
        self._reader = reader
        self._params = params
        self._may_wait = may_wait
        self._budget = reader.budget_of(params)
        self.reading = FetchReading([], [], [], [], [], [])

    def read(self, entries: Sequence[FetchEntry], now_ms: int) -> None:
        """Read the next entries."""
        self.reading = self.reading._replace(advanced=[], lowered=[])
        self._reader.read_into(
            self.reading, self._params, entries, now_ms, self._may_wait, self._budget
        )


def _readable(params: FetchParams, entry: FetchEntry, partition: Partition) -> UnifiedLog:
    """Return the log of the entry. Raises KafkaError(INCONSISTENT_TOPIC_ID), and as
    ``Partition.readable_log``."""
    if not partition.accepts_topic_id(entry.topic_id):
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    return partition.readable_log(entry.current_leader_epoch, params.leader_only)


def _result(
    params: FetchParams, entry: FetchEntry, partition: Partition, found: _Found
) -> ReadResult:
    high_watermark, stable_offset = partition.checked_high_watermark(), partition.last_stable_offset
    assert stable_offset <= high_watermark, (
        f"{entry.topic_partition}: last stable offset {stable_offset} above the high watermark "
        f"{high_watermark}"
    )
    result = ReadResult(
        entry.topic_partition,
        ErrorCode.NONE,
        found.records,
        high_watermark,
        stable_offset,
        found.log.log_start_offset,
        found.diverging,
        found.aborted,
        found.preferred,
    )
    if params.replica_id >= 0 and found.diverging is None and not found.records:
        partition.responses.without_records[params.replica_id] = entry, result
    return result
