"""Fetches: reading, the response or the parking, and reads by a thread outside the page cache."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from minikafka.kernel.errors import KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.server.broker.fetch.delayed_fetch import (
    FetchMetrics,
    FetchOperation,
    HighWatermarkAnnouncer,
    ParkedFetches,
)
from minikafka.server.broker.fetch.reader import FetchEntry, FetchReader, FetchReading, end_of
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.topic_metrics import TopicMetrics
from minikafka.server.listeners.memory_budget import MemoryBudget

# A consumer that waits for more bytes is parked without a read if there are too few.
UNREAD_MIN_BYTES: Final = 64 * 1024
ENTRIES_AT_ONCE: Final = 2_000  # of one fetch, before other connections are served


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
