"""Reads the partitions of one Fetch request, and records the positions of followers.

The partitions of one request are read up to three times:

- ``read`` when the request arrives. It records the follower's positions, which may move high
  watermarks and add members to ISRs. It does not wait for a disk.
- ``read`` with ``may_wait`` after a thread has read the missing records into the page cache.
- ``read_parked`` when the parked fetch completes. The response contains whatever it returns.

A consumer may be sent to another replica, which is nearer (KIP-392).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.core.replication.follower import EpochEnd, diverges
from minikafka.core.replication.replica_selector import SELECTORS, ReplicaView
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import NO_RESPONSE, Partition
from minikafka.server.broker.replication.throttles import LeaderThrottle
from minikafka.server.listeners.memory_budget import RESPONSE_BYTES_ANYWAY, MemoryBudget
from minikafka.server.storage.log.reader import LogRead, NotInPageCache
from minikafka.server.storage.log.unified_log import UnifiedLog

NO_PREFERENCE = -1


class PreferredReplicas:
    """Chooses the replica for a consumer by ``replica.selector.class``. Without a selector (None)
    consumers fetch from the leader."""

    def __init__(self, cluster: MetadataCache, selector_class: str | None) -> None:
        self._cluster = cluster
        self._select = SELECTORS[selector_class] if selector_class else None

    def for_consumer(
        self, partition: Partition, rack: str, listener: str, fetch_offset: int, now_ms: int
    ) -> int:
        """Return the broker to fetch from instead of this leader, or ``NO_PREFERENCE``.

        Only replicas whose log contains the fetch offset are considered: the others would send the
        consumer back to the leader."""
        if self._select is None or not partition.is_leader:
            return NO_PREFERENCE
        isr = partition.state.isr.committed
        leader = ReplicaView(
            partition.broker_id,
            self._rack(partition.broker_id),
            partition.log.log_end_offset,
            0,
        )
        others = [
            ReplicaView(
                replica,
                self._rack(replica),
                state.log_end_offset,
                now_ms - partition.last_caught_up_ms(replica),
            )
            for replica, state in partition.followers.items()
            if replica in isr
            and state.log_start_offset <= fetch_offset <= state.log_end_offset
            and self._is_reachable(replica, listener)
        ]
        chosen = self._select(rack, leader, others)
        return NO_PREFERENCE if chosen is leader else chosen.broker_id

    def _rack(self, broker_id: int) -> str | None:
        broker = self._cluster.broker(broker_id)
        return None if broker is None else broker.rack

    def _is_reachable(self, broker_id: int, listener: str) -> bool:
        broker = self._cluster.broker(broker_id)
        return broker is not None and broker.endpoint(listener) is not None


class Isolation(Enum):
    """The offset up to which a fetch may read. Followers always read up to the log end."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


TXN_COMMITTED: Final = Isolation.TXN_COMMITTED


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


class FetchEntry:
    """The request for one partition. Epochs are -1 and ``topic_id`` is None if not sent. An entry
    does not change; the same object again is the same request."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        log_start_offset: int = -1,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset

    def changed(self, topic_partition: TopicPartition, max_bytes: int) -> FetchEntry:
        """Return a copy with this name of the topic, and this limit."""
        return FetchEntry(
            topic_partition,
            self.topic_id,
            self.fetch_offset,
            max_bytes,
            self.current_leader_epoch,
            self.last_fetched_epoch,
            self.log_start_offset,
        )


_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class ReadResult:
    """The result for one partition: complete batches, an error, the epoch at which the follower's
    log diverges, or the replica to fetch from instead (``preferred_read_replica``). A result does
    not change; the same object again is the same response.

    ``aborted`` has the aborted transactions in the batches, for read_committed consumers. A fetch
    session includes an ``is_urgent`` result even if it is unchanged. Such a result also ends the
    wait of a fetch, unless it ``is_unknown`` and the fetch is a consumer's."""

    __slots__ = (
        "aborted",
        "diverging",
        "error",
        "high_watermark",
        "is_urgent",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "size",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode,
        records: Buffer = b"",
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging: EpochEnd | None = None,
        aborted: tuple[AbortedTxn, ...] = (),
        preferred_read_replica: int = NO_PREFERENCE,
    ) -> None:
        self.topic_partition = topic_partition
        self.error = error
        self.records = records
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging = diverging
        self.aborted = aborted
        self.preferred_read_replica = preferred_read_replica
        self.size = len(records)
        self.is_urgent = (
            error is not ErrorCode.NONE or diverging is not None or preferred_read_replica >= 0
        )

    def with_records(self, records: Buffer) -> ReadResult:
        """Return the result with its records in another format."""
        return ReadResult(
            self.topic_partition,
            self.error,
            records,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            self.diverging,
            self.aborted,
            self.preferred_read_replica,
        )

    @property
    def is_error(self) -> bool:
        return self.error is not ErrorCode.NONE

    @property
    def is_unknown(self) -> bool:
        """Whether this broker does not know the partition or the topic id."""
        return self.error in _UNKNOWN


class FetchReading:
    """One read of a fetch, at once or in slices: its limit of bytes, its results in the order of
    the entries, and its effects.

    Of all results it counts the bytes of records (``size``), the ``unknown`` partitions of a
    consumer, and whether another one ``is_urgent``. ``cold`` are the entries whose records are not
    in the page cache; their results are empty. The other lists are partitions: those whose high
    watermark this fetch moved (``advanced``), whose low watermark it may have moved (``lowered``),
    and whose high watermark was not sent to this follower yet (``unsent``).

    The first batch found is returned whole even if it is larger than the limit, so that every
    client makes progress (KIP-74)."""

    __slots__ = (
        "advanced",
        "cold",
        "first_always",
        "is_urgent",
        "left",
        "lowered",
        "may_wait",
        "params",
        "results",
        "size",
        "unknown",
        "unsent",
    )

    def __init__(self, params: FetchParams, room: int, may_wait: bool) -> None:
        self.params = params
        self.may_wait = may_wait
        self.left = min(params.max_bytes, room)
        self.first_always = True
        self.results: list[ReadResult] = []
        self.size = 0
        self.unknown = 0
        self.is_urgent = False
        self.cold: list[FetchEntry] = []
        self.advanced: list[TopicPartition] = []
        self.lowered: list[TopicPartition] = []
        self.unsent: list[TopicPartition] = []

    def add(self, result: ReadResult) -> None:
        """Add the result of the next entry, and subtract its bytes from the limit."""
        self.results.append(result)
        size = result.size
        if size:
            self.size += size
            self.left = max(0, self.left - size)
            self.first_always = self.params.each_partition_progresses and self.left > 0
        if result.is_urgent:
            if result.is_unknown and self.params.replica_id < 0:
                self.unknown += 1
            else:
                self.is_urgent = True


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
# The bytes of fewer are counted until the turn in which they become more.
COUNTED_BYTES: Final = 1024 * 1024


class SharedReads:
    """Shares one read of a log between all fetches of the same records in one turn of the event
    loop, such as those of several followers. The last read that is ``shared`` is kept until the
    turn ends. ``read_bytes`` counts the bytes that were read in this turn, about."""

    __slots__ = ("_ends_turn", "_key", "_log", "_read", "read_bytes")

    def __init__(self) -> None:
        self.read_bytes = 0
        self._ends_turn = False  # whether ``_forget`` will be called
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
        """Return the last read if its parameters are the same, or call ``UnifiedLog.read`` and
        share the read."""
        start, cuts = log.log_start_offset, log.cuts
        key = (offset, max_bytes, upper_bound, first_always, committed, start, cuts)
        known = self._read
        if known is not None and self._log is log and self._key == key:
            return known
        read = log.read(offset, max_bytes, upper_bound, first_always, committed, may_wait)
        if read.records:
            self._log, self._key, self._read = log, key, read
            self.count(len(read.records), ends_turn=True)
        return read

    def count(self, size: int, ends_turn: bool = False) -> None:
        """Count ``size`` bytes that were read, and forget them after this turn if they are many:
        that takes the loop another turn."""
        self.read_bytes += size
        if (ends_turn or self.read_bytes >= COUNTED_BYTES) and not self._ends_turn:
            self._ends_turn = True
            asyncio.get_running_loop().call_soon(self._forget)

    def _forget(self) -> None:
        self._ends_turn = False
        self.read_bytes = 0
        self._log = self._key = self._read = None


NOTHING_READ: Final = LogRead(b"", 0, 0)


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

    def begin(self, params: FetchParams, may_wait: bool = False) -> FetchReading:
        """Begin to read a fetch. Without ``may_wait`` only records in the page cache are read."""
        return FetchReading(params, self._room(params.replica_id >= 0), may_wait)

    def read(self, reading: FetchReading, entries: Sequence[FetchEntry], now_ms: int) -> None:
        """Read the next entries, and record the follower's positions as of ``now_ms``."""
        params = reading.params
        replica_id = params.replica_id
        for entry in entries:
            topic_partition = entry.topic_partition
            try:
                partition = self._hosted.require(topic_partition)
                if replica_id >= 0:
                    repeated = repeated_response(partition, replica_id, entry)
                    if repeated is not None and partition.still_caught_up(
                        replica_id, entry.fetch_offset, now_ms
                    ):
                        reading.results.append(repeated)
                        continue
                preferred = NO_PREFERENCE
                log = _readable(params, entry, partition)
                if params.rack and replica_id < 0:
                    preferred = self._preferred.for_consumer(
                        partition, params.rack, params.listener, entry.fetch_offset, now_ms
                    )
                diverging = divergence(log, entry)
                read = NOTHING_READ
                if diverging is None and preferred == NO_PREFERENCE:
                    read = self._read(reading, entry, partition, log, is_shared=replica_id >= 0)
                if replica_id >= 0:
                    if diverging is None:
                        self._record(reading, entry, partition, now_ms)
                    if partition.responses.lacks(replica_id, partition.high_watermark):
                        reading.unsent.append(topic_partition)
                result = _result(params, entry, partition, log, read, diverging, preferred)
            except NotInPageCache:
                reading.cold.append(entry)
                result = ReadResult(topic_partition, ErrorCode.NONE)
            except (KafkaError, OSError) as error:
                result = self._failed(entry, error)
            reading.add(result)

    def read_parked(self, params: FetchParams, entries: Sequence[FetchEntry]) -> FetchReading:
        """Read the response of a parked fetch. The follower's positions were recorded when the
        request arrived."""
        reading = self.begin(params, may_wait=True)
        replica_id = params.replica_id
        for entry in entries:
            try:
                partition = self._hosted.require(entry.topic_partition)
                if replica_id >= 0:
                    repeated = repeated_response(partition, replica_id, entry)
                    if repeated is not None:
                        reading.results.append(repeated)
                        continue
                log = _readable(params, entry, partition)
                diverging = divergence(log, entry)
                read = NOTHING_READ
                if diverging is None:
                    read = self._read(reading, entry, partition, log, is_shared=True)
                if replica_id >= 0:
                    partition.responses.high_watermarks[replica_id] = partition.high_watermark
                result = _result(params, entry, partition, log, read, diverging, NO_PREFERENCE)
            except (KafkaError, OSError) as error:
                result = self._failed(entry, error)
            reading.add(result)
        return reading

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

    def _room(self, to_follower: bool) -> int:
        if self._shared.read_bytes >= READ_AT_ONCE_BYTES:
            return RESPONSE_BYTES_ANYWAY
        return self._memory.response_room(to_follower)

    def _record(
        self, reading: FetchReading, entry: FetchEntry, partition: Partition, now_ms: int
    ) -> None:
        """Record the position of the follower, whose log does not diverge."""
        replica_id, start = reading.params.replica_id, entry.log_start_offset
        if start != partition.followers[replica_id].log_start_offset:
            reading.lowered.append(entry.topic_partition)
        if partition.record_follower_fetch(replica_id, entry.fetch_offset, start, now_ms):
            reading.advanced.append(entry.topic_partition)

    def _read(
        self,
        reading: FetchReading,
        entry: FetchEntry,
        partition: Partition,
        log: UnifiedLog,
        is_shared: bool,
    ) -> LogRead:
        """Read the records of an entry. Raises KafkaError, OSError, and NotInPageCache unless the
        reading may wait. The first read of a consumer is not shared: it is alone, mostly."""
        params = reading.params
        max_bytes, first_always = min(entry.max_bytes, reading.left), reading.first_always
        if self.throttle.quota.limited and self.throttle.holds_back(partition, params.replica_id):
            max_bytes, first_always = 0, False  # the fetch offset is checked nevertheless
        end, committed = end_of(partition, params.isolation), params.isolation is TXN_COMMITTED
        offset, may_wait = entry.fetch_offset, reading.may_wait
        if is_shared:
            return self._shared.read(log, offset, max_bytes, end, first_always, committed, may_wait)
        read = log.read(offset, max_bytes, end, first_always, committed, may_wait)
        self._shared.count(len(read.records))
        return read

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


def _readable(params: FetchParams, entry: FetchEntry, partition: Partition) -> UnifiedLog:
    """Return the log of the entry. Raises KafkaError(INCONSISTENT_TOPIC_ID), and as
    ``Partition.readable_log`` and ``Partition.check_follower``."""
    if not partition.accepts_topic_id(entry.topic_id):
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    epoch = entry.current_leader_epoch
    log = partition.readable_log(epoch, params.leader_only)
    if params.replica_id >= 0:
        partition.check_follower(params.replica_id, epoch)
    return log


def _result(
    params: FetchParams,
    entry: FetchEntry,
    partition: Partition,
    log: UnifiedLog,
    read: LogRead,
    diverging: EpochEnd | None,
    preferred: int,
) -> ReadResult:
    high_watermark, stable_offset = partition.checked_high_watermark(), partition.last_stable_offset
    assert stable_offset <= high_watermark, (
        f"{entry.topic_partition}: last stable offset {stable_offset} above the high watermark "
        f"{high_watermark}"
    )
    result = ReadResult(
        entry.topic_partition,
        ErrorCode.NONE,
        read.records,
        high_watermark,
        stable_offset,
        log.log_start_offset,
        diverging,
        read.aborted,
        preferred,
    )
    if params.replica_id >= 0 and diverging is None and not result.size:
        partition.responses.without_records[params.replica_id] = entry, result
    return result
