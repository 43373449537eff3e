"""Fetches of records: the read, the response or the parked ``DelayedFetch``.

Records outside the page cache are read by a thread first (``ColdReads``). High watermarks are
announced to parked fetches of followers (``HighWatermarkAnnouncer``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from minikafka.broker.fetch.reader import (
    FetchEntry,
    FetchParams,
    FetchReader,
    FetchReading,
    Isolation,
    ReadResult,
    end_of,
)
from minikafka.broker.purgatories import ReplicaPurgatories
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, TimerHandle

FetchReply: TypeAlias = Callable[[Sequence[ReadResult]], None]


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
    """

    __slots__ = ("_on_expired", "_params", "_reader", "_reply", "_watched")

    def __init__(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        hosted: HostedPartitions,
        reader: FetchReader,
        reply: FetchReply,
        on_expired: Callable[[FetchParams], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._reader = reader
        self._reply = reply
        self._on_expired = on_expired
        self._watched = [
            (partition, partition.state.leader_epoch, entry)
            for entry in entries
            for partition in (hosted.require(entry.topic_partition),)
        ]

    def try_complete(self) -> bool:
        return self._has_reason() and self.force_complete()

    def _has_reason(self) -> bool:
        """Whether one of the cases A to I holds. Called at every append to one of the partitions,
        which may be thousands, so that a partition without new records must be cheap."""
        replica_id, isolation = self._params.replica_id, self._params.isolation
        min_bytes, throttle = self._params.min_bytes, self._reader.throttle
        to_log_end = isolation is Isolation.LOG_END
        available = 0
        for partition, leader_epoch, entry in self._watched:
            if partition.state.leader_epoch != leader_epoch:
                if replica_id >= 0 and partition.state.leader_epoch > leader_epoch:
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
            if available >= min_bytes:
                return True  # G
        return False

    def on_complete(self) -> None:
        reply, entries = self._reply, [entry for _, _, entry in self._watched]
        # A completed operation may stay in watch lists until the next purge; its records must not.
        del self._reply
        self._watched = []
        reply(self._reader.read_parked(self._params, entries))

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (entry.topic_partition for _, _, entry in self._watched)

    def on_expiration(self) -> None:
        self._on_expired(self._params)


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


ENTRIES_AT_ONCE: Final = 2_000  # of one fetch, before other connections are served


class ColdReads:
    """Reads records into the page cache by threads, so that a read from disk does not block the
    event loop. Only the requesting client waits."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self._hosted = hosted
        self._tasks: asyncio.TaskGroup | None = None
        self._reading: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def then(
        self, params: FetchParams, entries: Sequence[FetchEntry], proceed: Callable[[], None]
    ) -> None:
        """Read the records of ``entries`` in a thread, then call ``proceed`` on the event loop."""
        assert self._tasks is not None, "fetches come after start"
        task = self._tasks.create_task(self._warm(params, entries, proceed), name="cold-read")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def stop(self) -> None:
        """Cancel all reads and wait for them. Their fetches get no response. Afterwards no read
        uses a log."""
        reading = list(self._reading)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    async def _warm(
        self, params: FetchParams, entries: Sequence[FetchEntry], proceed: Callable[[], None]
    ) -> None:
        left = params.max_bytes
        for entry in entries:
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
        proceed()


class RecordFetches:
    """Serves the fetches of consumers and followers (Kafka's ``ReplicaManager.fetchMessages``)."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        reader: FetchReader,
        metrics: Metrics,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._reader = reader
        self._announcer = HighWatermarkAnnouncer(
            clock, hosted, purgatories.fetch.check_all_and_complete
        )
        self._cold_reads = ColdReads(hosted)
        self._tasks: asyncio.TaskGroup | None = None
        self._slicing: set[asyncio.Task[None]] = set()
        self._bytes_out = metrics.counter("kafka.server:BytesOutPerSec")
        self._replicated_out = metrics.counter("kafka.server:ReplicationBytesOutPerSec")
        self._expired_of_followers = metrics.counter(
            "kafka.server:DelayedFetchFollowerExpiresPerSec"
        )
        self._expired_of_consumers = metrics.counter(
            "kafka.server:DelayedFetchConsumerExpiresPerSec"
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._cold_reads.start(tasks)

    async def stop(self) -> None:
        slicing = list(self._slicing)
        for task in slicing:
            task.cancel()
        await asyncio.gather(*slicing, return_exceptions=True)
        await self._cold_reads.stop()
        self._announcer.close()

    def fetch(self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply) -> None:
        """Read the entries, and call ``reply`` with one result per entry.

        ``reply`` is called before this returns if there are ``min_bytes`` of records, an urgent
        result or no time to wait, and all records are in the page cache. Otherwise it is called
        after a read from disk, or when a ``DelayedFetch`` completes. The partitions of a very large
        fetch are read in slices; then it is always called later.

        The fetch offsets of a follower acknowledge the records below them. If that moves a high
        watermark, the delayed operations that wait for it complete synchronously."""
        if len(entries) > ENTRIES_AT_ONCE:
            self._start_slices(params, entries, reply)
            return
        reading = self._reader.read_cached(params, entries, self._clock.monotonic_ms())
        if reading.cold:
            self._report_progress(reading)
            proceed = partial(self._fetch_from_disk, params, entries, reply)
            self._cold_reads.then(params, reading.cold, proceed)
        else:
            self._respond_or_park(params, entries, reading, reply)

    def _fetch_from_disk(
        self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply
    ) -> None:
        reading = self._reader.read_all(params, entries, self._clock.monotonic_ms())
        self._respond_or_park(params, entries, reading, reply)

    def _start_slices(
        self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply
    ) -> None:
        assert self._tasks is not None, "fetches come after start"
        task = self._tasks.create_task(
            self._fetch_in_slices(params, entries, reply), name="large-fetch"
        )
        self._slicing.add(task)
        task.add_done_callback(self._slicing.discard)

    async def _fetch_in_slices(
        self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply
    ) -> None:
        """As ``fetch``, but other connections are served after each slice. The delayed operations
        that wait for a slice's progress complete with the slice."""
        slices = self._reader.slices(params, may_wait=False)
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            some = entries[start : start + ENTRIES_AT_ONCE]
            slices.read(some, self._clock.monotonic_ms())
            self._report_progress(slices.reading)
            await asyncio.sleep(0)
        reading = slices.reading._replace(advanced=[], lowered=[])
        if reading.cold:
            proceed = partial(self._fetch_from_disk, params, entries, reply)
            self._cold_reads.then(params, reading.cold, proceed)
        elif any(self._hosted.get(entry.topic_partition) is None for entry in entries):
            size = sum(len(result.records) for result in reading.results)
            self._respond(params, reading, size, reply)  # a replica has gone meanwhile
        else:
            self._respond_or_park(params, entries, reading, reply)

    def _respond_or_park(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reading: FetchReading,
        reply: FetchReply,
    ) -> None:
        size, is_urgent = 0, params.max_wait_ms <= 0 or not entries
        for result in reading.changed:
            size += len(result.records)
            if result.is_urgent:
                is_urgent = True
        if is_urgent or size >= params.min_bytes:
            self._report_progress(reading)
            self._respond(params, reading, size, reply)
            return
        # Made before other requests complete: their reads may take a partition offline, and then
        # this operation, which knows the partitions as they were, completes with that error.
        operation = DelayedFetch(
            params,
            entries,
            self._hosted,
            self._reader,
            self._counted(params, reply),
            self._count_expired,
        )
        self._report_progress(reading)
        if reading.unsent:
            self._announcer.add(reading.unsent)
        self._purgatories.fetch.try_complete_else_watch(
            operation, [entry.topic_partition for entry in entries]
        )

    def _respond(
        self, params: FetchParams, reading: FetchReading, size: int, reply: FetchReply
    ) -> None:
        self._count(params, reading.results, size)
        for topic_partition in reading.unsent:
            partition = self._hosted.get(topic_partition)
            if partition is not None:
                partition.responses.high_watermarks[params.replica_id] = partition.high_watermark
        reply(reading.results)

    def _report_progress(self, reading: FetchReading) -> None:
        """Complete the delayed operations that waited for this follower's progress.

        For log starts only the DeleteRecords purgatory is checked, since nothing else waits for
        them. The first fetch of a follower reports the log start of every partition, and a parked
        fetch may watch thousands of partitions."""
        for topic_partition in reading.advanced:
            self._purgatories.partition_changed(topic_partition)
        if reading.advanced:
            self._announcer.add(reading.advanced)
        for topic_partition in reading.lowered:
            self._purgatories.low_watermark_changed(topic_partition)

    # ------------------------------------------------------------------------------------ metrics

    def _counted(self, params: FetchParams, reply: FetchReply) -> FetchReply:
        def counted(results: Sequence[ReadResult]) -> None:
            self._count(params, results, sum(len(result.records) for result in results))
            reply(results)

        return counted

    def _count(self, params: FetchParams, results: Sequence[ReadResult], size: int) -> None:
        if not params.is_from_follower:
            self._bytes_out.mark(size)
            return
        self._replicated_out.mark(size)
        throttle = self._reader.throttle
        if throttle.quota.limited:
            for result in results:
                throttle.record(result.topic_partition, len(result.records))

    def _count_expired(self, params: FetchParams) -> None:
        if params.is_from_follower:
            self._expired_of_followers.mark()
        else:
            self._expired_of_consumers.mark()
