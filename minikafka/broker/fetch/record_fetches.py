"""Fetches: reading, the response or the parking, and reads by a thread outside the page cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final

from minikafka.broker.fetch.delayed_fetch import (
    Contain,
    DelayedFetch,
    FetchReply,
    HighWatermarkAnnouncer,
    ParkedFetches,
    Watched,
)
from minikafka.broker.fetch.follower_sessions import FollowerFetch
from minikafka.broker.fetch.reader import (
    FetchEntry,
    FetchParams,
    FetchReader,
    FetchReading,
    ReadResult,
    end_of,
)
from minikafka.broker.purgatories import ReplicaPurgatories
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.topic_metrics import TopicMetrics
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.network.memory_budget import MemoryBudget

# A consumer that waits for more bytes is parked without a read if there are too few.
UNREAD_MIN_BYTES: Final = 64 * 1024
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


def without_errors(
    entries: Sequence[FetchEntry], errors: Sequence[ReadResult | None], reply: FetchReply
) -> tuple[list[FetchEntry], FetchReply]:
    """Return the entries without an error, and the reply function to read them with: it takes their
    results and passes the results and errors of all entries to ``reply``."""

    def reply_to_all(results: Sequence[ReadResult]) -> None:
        read = iter(results)
        reply([next(read) if error is None else error for error in errors])

    rest = [entry for entry, error in zip(entries, errors, strict=True) if error is None]
    return rest, reply_to_all


class RecordFetches:
    """Serves the fetches of consumers and followers (Kafka's ``ReplicaManager.fetchMessages``)."""

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
        self._topics = topic_metrics
        self._parked = ParkedFetches(memory, metrics)
        self._announcer = HighWatermarkAnnouncer(
            clock, hosted, purgatories.fetch.check_all_and_complete
        )
        self._cold_reads = ColdReads(hosted)
        self._tasks: asyncio.TaskGroup | None = None
        self._slicing: set[asyncio.Task[None]] = set()
        self._expired_of_followers = metrics.counter(
            "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=follower"
        )
        self._expired_of_consumers = metrics.counter(
            "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer"
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

    def fetch(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None = None,
        following: FollowerFetch | None = None,
    ) -> None:
        """Read the entries, and call ``reply`` with one result per entry.

        ``reply`` is called before this returns if there are ``min_bytes`` of records, an urgent
        result or no time to wait, and all records are in the page cache. Otherwise it is called
        after a read from disk, or when a ``DelayedFetch`` completes. The partitions of a very large
        fetch are read in slices; then it is always called later. A follower's session may add
        entries to ``following`` while it is parked, and so results.

        As in Kafka, a consumer's fetch waits even if some of its partitions are unknown: otherwise
        a consumer of a deleted topic would fetch in a busy loop. A follower's fetch does not wait:
        the follower backs off, and usually this broker is about to lead the unknown partition.

        The fetch offsets of a follower acknowledge the records below them. If that moves a high
        watermark, the delayed operations that wait for it complete synchronously."""
        if len(entries) > ENTRIES_AT_ONCE:
            self._start_slices(params, entries, reply, contain, following)
            return
        if self._may_park_unread(params):
            errors = self._reader.unknown(entries)
            known, reply_to_all = without_errors(entries, errors, reply)
            if self._lacks_bytes(params, known):
                self._watch(self._delayed(params, known, reply_to_all, contain, following), known)
                return
        reading = self._reader.read_cached(params, entries, self._clock.monotonic_ms())
        if reading.cold:
            self._report_progress(reading)
            proceed = partial(self._fetch_from_disk, params, entries, reply, contain, following)
            self._cold_reads.then(params, reading.cold, proceed)
        else:
            self._respond_or_park(params, entries, reading, reply, contain, following)

    def _fetch_from_disk(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
    ) -> None:
        reading = self._reader.read_all(params, entries, self._clock.monotonic_ms())
        self._respond_or_park(params, entries, reading, reply, contain, following)

    def _start_slices(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
    ) -> None:
        assert self._tasks is not None, "fetches come after start"
        task = self._tasks.create_task(
            self._fetch_in_slices(params, entries, reply, contain, following), name="large-fetch"
        )
        self._slicing.add(task)
        task.add_done_callback(self._slicing.discard)

    async def _fetch_in_slices(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
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
            proceed = partial(self._fetch_from_disk, params, entries, reply, contain, following)
            self._cold_reads.then(params, reading.cold, proceed)
        elif any(
            self._hosted.get(entry.topic_partition) is None
            for entry, result in zip(entries, reading.results, strict=True)
            if not result.error
        ):
            size = sum(len(result.records) for result in reading.results)
            self._respond(params, reading, size, reply)  # a replica has gone meanwhile
        else:
            self._respond_or_park(params, entries, reading, reply, contain, following)

    def _respond_or_park(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reading: FetchReading,
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
    ) -> None:
        size, unknown, is_urgent = 0, 0, params.max_wait_ms <= 0
        for result in reading.changed:
            size += len(result.records)
            if result.is_urgent:
                if result.is_unknown and not params.is_from_follower:
                    unknown += 1
                else:
                    is_urgent = True
        nothing = len(entries) == unknown and (following is None or following.is_empty)
        if is_urgent or nothing or size >= params.min_bytes:
            self._report_progress(reading)
            self._respond(params, reading, size, reply)
            return
        if unknown:
            errors = [result if result.is_unknown else None for result in reading.results]
            entries, reply = without_errors(entries, errors, reply)
        # Made before other requests complete: their reads may take a partition offline, and then
        # this operation, which knows the partitions as they were, completes with that error.
        operation = self._delayed(params, entries, reply, contain, following)
        self._report_progress(reading)
        if reading.unsent:
            self._announcer.add(reading.unsent)
        self._watch(operation, entries, following)

    def _may_park_unread(self, params: FetchParams) -> bool:
        """Whether this is a consumer's fetch that waits for more than ``UNREAD_MIN_BYTES``."""
        return (
            params.min_bytes > UNREAD_MIN_BYTES
            and not params.is_from_follower
            and not params.rack
            and params.max_wait_ms > 0
        )

    def _lacks_bytes(self, params: FetchParams, entries: Sequence[FetchEntry]) -> bool:
        """Whether the partitions have records, but fewer than ``min_bytes``. If these were read, a
        client could make the broker read megabytes with each request and receive none."""
        try:
            return 0 < self._reader.available_bytes(params, entries) < params.min_bytes
        except (KafkaError, OSError):
            return False  # the read reports it

    def _delayed(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
    ) -> DelayedFetch:
        watched = [
            (partition, partition.state.leader_epoch, entry)
            for entry in entries
            for partition in (self._hosted.require(entry.topic_partition),)
        ]
        return self._made(params, watched, reply, contain, following)

    def _made(
        self,
        params: FetchParams,
        watched: list[Watched],
        reply: FetchReply,
        contain: Contain | None,
        following: FollowerFetch | None,
    ) -> DelayedFetch:
        operation = DelayedFetch(
            params,
            watched,
            self._reader,
            self._counted(params, reply),
            self._count_expired,
            self._parked,
            contain,
            None if following is None else following.before_read,
        )
        if following is not None:
            following.park(operation, self._purgatories.fetch.purgatory.watch_also)
        return operation

    def _watch(
        self,
        operation: DelayedFetch,
        entries: Sequence[FetchEntry],
        following: FollowerFetch | None = None,
    ) -> None:
        """Park a fetch that has found too little, unless it can complete now."""
        keys: list[Hashable] = [entry.topic_partition for entry in entries]
        if following is not None and not keys:
            keys.append(following.key)
        self._purgatories.fetch.watch_and_try(operation, keys)
        if not operation.is_completed:
            self._parked.add(operation)

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
        if reading.advanced:
            self._purgatories.partitions_changed(reading.advanced)
            self._announcer.add(reading.advanced)
        if reading.lowered:
            self._purgatories.low_watermarks_changed(reading.lowered)

    # ------------------------------------------------------------------------------------ metrics

    def _counted(self, params: FetchParams, reply: FetchReply) -> FetchReply:
        def counted(results: Sequence[ReadResult]) -> None:
            self._count(params, results, sum(len(result.records) for result in results))
            reply(results)

        return counted

    def _count(self, params: FetchParams, results: Sequence[ReadResult], size: int) -> None:
        is_from_follower, topics = params.is_from_follower, self._topics
        for result in results:
            if result.error is ErrorCode.NONE:
                sent = 0 if is_from_follower else len(result.records)
                topics.fetched(result.topic_partition.topic, sent)
            elif self._hosted.get(result.topic_partition) is not None:
                topics.fetch_failed(result.topic_partition.topic)
        if not is_from_follower:
            return
        topics.replicated_out.mark(size)
        throttle = self._reader.throttle
        if throttle.quota.limited:
            for result in results:
                throttle.record(result.topic_partition, len(result.records))

    def _count_expired(self, params: FetchParams) -> None:
        if params.is_from_follower:
            self._expired_of_followers.mark()
        else:
            self._expired_of_consumers.mark()
