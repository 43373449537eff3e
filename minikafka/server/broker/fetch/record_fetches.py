"""The way of a Fetch from its read to its response: at once, or after it was parked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.server.broker.fetch.follower_sessions import FollowerFetch
from minikafka.server.broker.fetch.reader import (
    FetchEntry,
    FetchParams,
    FetchReader,
    FetchReading,
    HalfChanged,
    Isolation,
    ReadResult,
    end_of,
)
from minikafka.server.broker.purgatories import Reaper, ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.topic_metrics import TopicMetrics
from minikafka.server.listeners.memory_budget import MemoryBudget

# A consumer that waits for more bytes is parked without a read if there are too few.
UNREAD_MIN_BYTES: Final = 64 * 1024
ENTRIES_AT_ONCE: Final = 2_000  # of one fetch, before other connections are served
# A partition, its leader epoch when the fetch was parked, and what is fetched.
Watched: TypeAlias = tuple[Partition, int, FetchEntry]

# What a parked fetch takes, about, and what each of its partitions does.
PARKED_FETCH_BYTES: Final = 2_000
PARKED_PARTITION_BYTES: Final = 400
# Smaller fetches do not complete early: a connection has one at most.
LARGE_FETCH_BYTES: Final = 64 * 1024

FetchReply: TypeAlias = Callable[[Sequence[ReadResult]], None]
# Called with the unexpected exception of a parked fetch: closes the connection of that fetch.
Contain: TypeAlias = Callable[[Exception], None]


class FetchOperation:
    """A Fetch is in one of these states. ``RecordFetches`` performs the steps between them.

    ========  ===================================================================  ==============
    reading   its partitions are read: at once, in slices (of thousands), or by a  parked or
              thread before (where records are not in the page cache)              responded
    parked    a ``DelayedFetch`` watches its partitions; then they are read again  responded
    responded ``respond`` was called, exactly once
    ========  ===================================================================  ==============

    ``entries`` are the partitions to read. Those that were ``set_aside`` get an error without a
    read. A follower's session may add entries to ``follower`` while the fetch is parked: its list
    is the same as ``entries``. ``contain`` is called with an unexpected exception after the fetch
    was parked; None if such an exception ends the node."""

    __slots__ = ("_errors", "_reply", "contain", "entries", "follower", "params")

    def __init__(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None = None,
        follower: FollowerFetch | None = None,
    ) -> None:
        self.params = params
        self.entries = entries
        self.contain = contain
        self.follower = follower
        self._reply = reply
        self._errors: list[ReadResult | None] = []  # of all entries, once some were set aside

    @property
    def cannot_grow(self) -> bool:
        """Whether no partition can join ``entries`` while the fetch is parked."""
        return self.follower is None or self.follower.is_empty

    def set_aside(self, errors: Sequence[ReadResult | None]) -> None:
        """Respond with ``errors``, one for each entry. Only entries whose error is None are read
        from now on."""
        if not any(errors):
            return
        pairs = zip(self.entries, errors, strict=True)
        self.entries = [entry for entry, error in pairs if error is None]
        rest = iter(errors)
        before = self._errors or [None] * len(errors)
        self._errors = [next(rest) if error is None else error for error in before]

    def respond(self, results: Sequence[ReadResult]) -> None:
        """Respond with the results of ``entries``, and with the errors of the others."""
        if self._errors:
            rest = iter(results)
            results = [next(rest) if error is None else error for error in self._errors]
        self._reply(results)


class RecordFetches:
    """Serves the fetches of consumers and followers (Kafka's ``ReplicaManager.fetchMessages``).

    Its methods are the steps between the states of a ``FetchOperation``."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        reader: FetchReader,
        metrics: Metrics,
        memory: MemoryBudget,
        topic_metrics: TopicMetrics,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._reader = reader
        self._metrics = FetchMetrics(hosted, reader, topic_metrics)
        self._parked = ParkedFetches(
            purgatories.fetch, hosted, reader, self._metrics, memory, metrics
        )
        self._announcer = HighWatermarkAnnouncer(
            clock, hosted, purgatories.fetch.check_all_and_complete
        )
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # large fetches, and reads from disk

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._group = tasks

    async def stop(self) -> None:
        """Cancel the fetches that are being read, and wait for them. They get no response.
        Afterwards no read uses a log."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._announcer.close()

    def fetch(self, operation: FetchOperation) -> None:
        """Read the entries, and respond with one result per entry.

        The response is sent before this returns if there are ``min_bytes`` of records, an urgent
        result or no time to wait, and all records are in the page cache. Otherwise it is sent after
        a read from disk, or when a ``DelayedFetch`` completes. The partitions of a very large fetch
        are read in slices; then it is always sent later.

        As in Kafka, a consumer's fetch waits even if some of its partitions are unknown: otherwise
        a consumer of a deleted topic would fetch in a busy loop. A follower's fetch does not wait:
        the follower backs off, and usually this broker is about to lead the unknown partition.

        The fetch offsets of a follower acknowledge the records below them. If that moves a high
        watermark, the delayed operations that wait for it complete synchronously."""
        params, entries = operation.params, operation.entries
        if len(entries) > ENTRIES_AT_ONCE:
            self._start(self._read_in_slices(operation), "large-fetch")
            return
        if params.min_bytes > UNREAD_MIN_BYTES and self._parked_unread(operation):
            return
        reading = self._reader.begin(params)
        self._reader.read(reading, entries, self._clock.monotonic_ms())
        self._go_on(operation, reading)

    def _go_on(self, operation: FetchOperation, reading: FetchReading) -> None:
        """Read the records that are not in the page cache, or respond or park."""
        if reading.cold:
            self._report_progress(reading)
            self._start(self._read_from_disk(operation, reading.cold), "cold-read")
        else:
            self._respond_or_park(operation, reading)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._group is not None, "fetches come after start"
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------------------------------------------------------------------- reading, outside memory

    async def _read_from_disk(self, operation: FetchOperation, cold: Sequence[FetchEntry]) -> None:
        """Read the records of ``cold`` into the page cache by threads, so that a read from disk
        does not block the event loop. Then read the whole fetch."""
        params = operation.params
        left = params.max_bytes
        for entry in cold:
            try:
                partition = self._hosted.require(entry.topic_partition)
                bound = end_of(partition, params.isolation)
                limit = min(left, entry.max_bytes)
                found = await partition.log.read_cold(entry.fetch_offset, limit, bound, True)
            except (KafkaError, OSError):
                continue  # the read that follows reports the error
            left -= len(found.records)
            if left <= 0:
                break
        reading = self._reader.begin(params, may_wait=True)
        self._reader.read(reading, operation.entries, self._clock.monotonic_ms())
        self._respond_or_park(operation, reading)

    async def _read_in_slices(self, operation: FetchOperation) -> None:
        """Read a fetch of thousands of partitions; other connections are served after each slice.
        The delayed operations that wait for a slice's progress complete with the slice."""
        entries = operation.entries
        reading = self._reader.begin(operation.params)
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            some = entries[start : start + ENTRIES_AT_ONCE]
            self._reader.read(reading, some, self._clock.monotonic_ms())
            self._report_progress(reading)
            await asyncio.sleep(0)
        if not reading.cold and any(
            self._hosted.get(entry.topic_partition) is None
            for entry, result in zip(entries, reading.results, strict=True)
            if not result.error
        ):
            self._respond(operation, reading)  # a replica has gone meanwhile
        else:
            self._go_on(operation, reading)

    # -------------------------------------------------------------------------- respond, or park

    def _respond_or_park(self, operation: FetchOperation, reading: FetchReading) -> None:
        params, unknown = operation.params, reading.unknown
        if (
            reading.size >= params.min_bytes
            or reading.is_urgent
            or params.max_wait_ms <= 0
            or (len(operation.entries) == unknown and operation.cannot_grow)
        ):
            self._report_progress(reading)
            self._respond(operation, reading)
            return
        if unknown:
            operation.set_aside([r if r.is_unknown else None for r in reading.results])
        # Made before other requests complete: their reads may take a partition offline, and then
        # this operation, which knows the partitions as they were, completes with that error.
        delayed = self._parked.delay(operation)
        self._report_progress(reading)
        if reading.unsent:
            self._announcer.add(reading.unsent)
        self._parked.park(delayed, operation)

    def _parked_unread(self, operation: FetchOperation) -> bool:
        """Park a consumer's fetch that waits for more bytes than there are. If these were read, a
        client could make the broker read megabytes with each request and receive none. False,
        without a change, if there are enough bytes or none, or if an error ends the wait."""
        params, entries = operation.params, operation.entries
        if params.is_from_follower or params.rack or params.max_wait_ms <= 0:
            return False
        errors = self._reader.unknown(entries)
        known = [e for e, error in zip(entries, errors, strict=True) if error is None]
        try:
            if not 0 < self._reader.available_bytes(params, known) < params.min_bytes:
                return False
        except (KafkaError, OSError):
            return False  # the read reports it
        operation.set_aside(errors)
        self._parked.park(self._parked.delay(operation), operation)
        return True

    def _respond(self, operation: FetchOperation, reading: FetchReading) -> None:
        params = operation.params
        self._metrics.count(params.is_from_follower, reading.results, reading.size)
        for topic_partition in reading.unsent:
            partition = self._hosted.get(topic_partition)
            if partition is not None:
                partition.responses.high_watermarks[params.replica_id] = partition.high_watermark
        operation.respond(reading.results)

    def _report_progress(self, reading: FetchReading) -> None:
        """Complete the delayed operations that waited for this follower's progress.

        For log starts only the DeleteRecords purgatory is checked, since nothing else waits for
        them. The first fetch of a follower reports the log start of every partition, and a parked
        fetch may watch thousands of partitions."""
        if reading.advanced:
            advanced, reading.advanced = reading.advanced, []
            self._purgatories.partitions_changed(advanced)
            self._announcer.add(advanced)
        if reading.lowered:
            lowered, reading.lowered = reading.lowered, []
            self._purgatories.low_watermarks_changed(lowered)


class DelayedFetch(DelayedOperation):
    """A parked Fetch, which waits for ``min_bytes`` of records. It completes in any of these cases
    (A to H are Kafka's):

    A. This broker no longer leads one of the partitions.
    B. The replica is no longer here.
    C. This broker does not know one of the partitions.
    D. The disk of one of the partitions failed.
    E. The leader epoch in the request is fenced by now.
    F. The fetch offset is above the log end after a truncation, or below the log start after a
       deletion of records. (Kafka also completes a fetch from an older segment, since it cannot
       measure bytes across segments. And it completes a fetch between high watermark and log end
       at once, without records and repeatedly; here such a fetch waits.)
    G. The bytes that can be read reach ``min_bytes``. Those of throttled replicas do not count
       (KIP-73).
    H. The follower's log diverges. The leader's log was truncated before, so E or F holds too.
    I. The high watermark is announced to the follower (see ``HighWatermarkAnnouncer``). Kafka 2.4
       and 2.5 did so at every move; later releases do not.

    Cases A to E are detected by a leader epoch that differs from the one at parking; a closed
    partition has none. A newer epoch does not complete a follower's fetch (in Kafka it does): the
    follower receives it from the controller too, and then closes this connection. In every case,
    and after the time-out, the logs are read again for the response.

    All of this only reads: ``FetchOperation.contain`` is called with an unexpected exception, which
    would else be raised in the request that completes the fetch, such as a Produce of another
    client. It is raised where ``contain`` is None, where a disk error was being handled
    (``HalfChanged``), and if it is a failed assertion: then the state is wrong already.
    """

    __slots__ = (
        "_bug",
        "_operation",
        "_parked",
        "_watched",
        "is_counted",
        "is_from_follower",
        "memory_bytes",
    )

    def __init__(
        self, operation: FetchOperation, watched: list[Watched], parked: ParkedFetches
    ) -> None:
        super().__init__(operation.params.max_wait_ms)
        self.memory_bytes = PARKED_FETCH_BYTES + PARKED_PARTITION_BYTES * len(watched)
        self.is_from_follower = operation.params.is_from_follower
        self.is_counted = False  # written by ``parked`` alone
        self._parked = parked
        # None once it is completed: this object may stay in watch lists until the next purge.
        self._operation: FetchOperation | None = operation
        self._bug: Exception | None = None
        self._watched = watched

    def also_wait_for(self, partition: Partition, entry: FetchEntry) -> None:
        """Wait for one more partition, whose result is the last one."""
        self._watched.append((partition, partition.state.leader_epoch, entry))
        if not self.is_completed:
            self._parked.watch_also(self, partition.topic_partition)

    def try_complete(self) -> bool:
        try:
            return self._has_reason() and self.force_complete()
        except AssertionError:
            raise
        except Exception as bug:
            operation = self._operation
            if operation is None or operation.contain is None:
                raise
            self._bug = bug
            return self.force_complete()

    def _has_reason(self) -> bool:
        """Whether one of the cases A to I holds. Called at every append to one of the partitions,
        which may be thousands, so that a partition without new records must be cheap."""
        operation = self._operation
        assert operation is not None, "a completed fetch is not tried"
        params = operation.params
        replica_id, isolation = params.replica_id, params.isolation
        to_log_end = isolation is Isolation.LOG_END
        throttle = self._parked.reader.throttle
        available = 0
        for partition, leader_epoch, entry in self._watched:
            epoch = partition.state.leader_epoch
            if epoch != leader_epoch:
                if replica_id >= 0 and epoch > leader_epoch:
                    continue
                return True  # A, B, C, D, E
            end = partition.log.log_end_offset if to_log_end else end_of(partition, isolation)
            if entry.fetch_offset == end:
                responses = partition.responses
                if responses.announcing and responses.is_announced_to(
                    replica_id, partition.high_watermark
                ):
                    return True  # I
                continue
            if entry.fetch_offset > end:
                if entry.fetch_offset > partition.log.log_end_offset:
                    return True  # F
                continue  # not committed, or its transaction is open
            if throttle.quota.limited and throttle.holds_back(partition, replica_id):
                continue
            try:
                size = partition.log.available_bytes(entry.fetch_offset, end)
            except (KafkaError, OSError):
                return True  # F, or an error that the final read reports
            available += min(size, entry.max_bytes)
            if available >= params.min_bytes:
                return True  # G
        return False

    def on_complete(self) -> None:
        operation = self._operation
        assert operation is not None
        if operation.follower is not None:
            operation.follower.before_read()  # it may call ``also_wait_for``
        self._operation = None
        self._watched = []
        self._parked.remove(self)
        contain = operation.contain
        if contain is None:
            self._parked.read_again(operation)
            return
        try:
            if self._bug is not None:
                raise self._bug
            self._parked.read_again(operation)
        except (HalfChanged, AssertionError):
            raise
        except Exception as bug:
            contain(bug)

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (entry.topic_partition for _, _, entry in self._watched)

    def on_expiration(self) -> None:
        self._parked.count_expired(self.is_from_follower)


class ParkedFetches:
    """Parks fetches in the purgatory of Fetch. It counts them in the memory of clients, and
    completes the largest ones when it is used up, as if their ``max_wait_ms`` were over.

    Fetches of consumers come first. Those of followers complete early only if parked fetches
    themselves have a large part in it: a follower whose every fetch completes early polls."""

    def __init__(
        self,
        purgatory: Reaper[DelayedOperation],
        hosted: HostedPartitions,
        reader: FetchReader,
        responses: FetchMetrics,
        memory: MemoryBudget,
        metrics: Metrics,
    ) -> None:
        self.reader = reader
        self._purgatory = purgatory
        self._hosted = hosted
        self._responses = responses
        self._memory = memory
        self._large: dict[DelayedFetch, None] = {}  # of consumers; used as an ordered set
        self._large_of_followers: dict[DelayedFetch, None] = {}
        self._completed_early = metrics.counter(
            "minikafka.server:type=DelayedFetchMetrics,name=CompletedEarlyPerSec"
        )
        self._expired_of_followers = metrics.counter(
            "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=follower"
        )
        self._expired_of_consumers = metrics.counter(
            "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer"
        )

    def delay(self, operation: FetchOperation) -> DelayedFetch:
        """Make the delayed operation of a fetch, with the partitions as they are now."""
        watched = [
            (partition, partition.state.leader_epoch, entry)
            for entry in operation.entries
            for partition in (self._hosted.require(entry.topic_partition),)
        ]
        delayed = DelayedFetch(operation, watched, self)
        if operation.follower is not None:
            operation.follower.park(delayed)
        return delayed

    def park(self, delayed: DelayedFetch, operation: FetchOperation) -> None:
        """Park a fetch that has found too little, unless it can complete now. That may complete it
        or others."""
        keys: list[Hashable] = [entry.topic_partition for entry in operation.entries]
        if operation.follower is not None and not keys:
            keys.append(operation.follower.key)
        self._purgatory.watch_and_try(delayed, keys)
        if not delayed.is_completed:
            self._add(delayed)

    def watch_also(self, delayed: DelayedFetch, topic_partition: TopicPartition) -> None:
        self._purgatory.purgatory.watch_also(delayed, topic_partition)

    def read_again(self, operation: FetchOperation) -> None:
        """Read a fetch whose wait is over, and respond."""
        reading = self.reader.read_parked(operation.params, operation.entries)
        is_from_follower = operation.params.is_from_follower
        self._responses.count(is_from_follower, reading.results, reading.size)
        operation.respond(reading.results)

    def count_expired(self, is_from_follower: bool) -> None:
        if is_from_follower:
            self._expired_of_followers.mark()
        else:
            self._expired_of_consumers.mark()

    def _add(self, fetch: DelayedFetch) -> None:
        fetch.is_counted = True
        if fetch.memory_bytes > LARGE_FETCH_BYTES:
            large = self._large_of_followers if fetch.is_from_follower else self._large
            large[fetch] = None
        memory = self._memory
        memory.add_parked_fetches(fetch.memory_bytes)
        while self._large and memory.is_exceeded:
            self._complete_largest(self._large)
        while self._large_of_followers and memory.is_exceeded_by_parked:
            self._complete_largest(self._large_of_followers)

    def remove(self, fetch: DelayedFetch) -> None:
        """Forget a fetch that is completed, if it was counted."""
        if fetch.is_counted:
            fetch.is_counted = False
            self._large.pop(fetch, None)
            self._large_of_followers.pop(fetch, None)
            self._memory.add_parked_fetches(-fetch.memory_bytes)

    def _complete_largest(self, fetches: Iterable[DelayedFetch]) -> None:
        self._completed_early.mark()
        max(fetches, key=lambda fetch: fetch.memory_bytes).force_complete()


class FetchMetrics:
    """Counts the responses of fetches by topic, and the bytes to throttled followers."""

    def __init__(
        self, hosted: HostedPartitions, reader: FetchReader, topic_metrics: TopicMetrics
    ) -> None:
        self._hosted = hosted
        self._throttle = reader.throttle
        self._topics = topic_metrics

    def count(self, is_from_follower: bool, results: Sequence[ReadResult], size: int) -> None:
        """Count a response with these results, which have ``size`` bytes of records."""
        topics = self._topics
        for result in results:
            if result.error is ErrorCode.NONE:
                topics.fetched(result.topic_partition.topic, 0 if is_from_follower else result.size)
            elif self._hosted.get(result.topic_partition) is not None:
                topics.fetch_failed(result.topic_partition.topic)
        if is_from_follower:
            topics.replicated_out.mark(size)
            if self._throttle.quota.limited:
                for result in results:
                    self._throttle.record(result.topic_partition, result.size)


ANNOUNCE_AFTER_MS = 50
# An announcement completes a fetch of all partitions that a follower follows. The next announcement
# waits one more millisecond for each so many partitions of the last.
ANNOUNCED_PER_MS = 10


class HighWatermarkAnnouncer:
    """Completes followers' parked fetches ``ANNOUNCE_AFTER_MS`` after a high watermark moved.

    Under load the response with the next records carries the high watermark within that time.
    Without load a follower's high watermark would lag by up to ``replica.fetch.wait.max.ms``, and
    with it consumers that read from the follower, and the follower itself if it becomes leader.
    ``complete`` tries the parked fetches that watch the given partitions, each fetch once."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        complete: Callable[[Sequence[TopicPartition]], object],
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._complete = complete
        self._due: dict[TopicPartition, None] = {}  # used as an ordered set
        self._timer: TimerHandle | None = None
        self._not_before_ms = 0

    def add(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Announce the high watermarks of these partitions, together with others that are due."""
        for topic_partition in topic_partitions:
            self._due[topic_partition] = None
        if self._due and self._timer is None:
            wait_ms = self._not_before_ms - self._clock.monotonic_ms()
            self._timer = self._clock.call_later(max(ANNOUNCE_AFTER_MS, wait_ms), self._announce)

    def close(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _announce(self) -> None:
        due, self._due = self._due, {}
        self._timer = None
        self._not_before_ms = self._clock.monotonic_ms() + len(due) // ANNOUNCED_PER_MS
        led = [p for p in map(self._hosted.get, due) if p is not None and p.is_leader]
        for partition in led:
            partition.responses.begin_announcement()
        self._complete([partition.topic_partition for partition in led])
        for partition in led:
            partition.responses.end_announcement()
