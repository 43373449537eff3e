"""Reads records from the brokers in steps: on from some positions, or the newest of all partitions.

A step is bounded in records, bytes and time, and the loop goes on every few milliseconds, whatever
has to be decoded.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.client.consumer.consumer import Consumer
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.context import HttpError, ShownCluster
from minikafka.page.dashboard.records.decoder import Decoder
from minikafka.page.dashboard.records.matching import Matching
from minikafka.page.dashboard.records.newest import Newest
from minikafka.page.dashboard.records.places import (
    LogBounds,
    SearchProgress,
    first_offsets,
    positions,
    progress,
    share,
    upper_bounds,
)
from minikafka.page.dashboard.records.query import OPEN, ReadQuery

T = TypeVar("T")

WITHIN_MS: Final = 5_000  # to find the topic and its offsets, to read, to write
SEARCH_MS: Final = 700  # after which a search says how far it is
MOST_LOOKED_AT: Final = 100_000  # records of one request, which `next` continues
MOST_READ_BYTES: Final = 64 * 1024 * 1024  # of their keys and values
MOST_KEPT_BYTES: Final = 32 * 1024 * 1024  # of those that match
MOST_WINDOWS: Final = 20_000  # records of the ends of all partitions
MOST_AT_ONCE: Final = 500  # records of one poll
SEARCH_AHEAD: Final = 2_000  # records that a search looks at more in one partition than in another
SHORT_POLL_MS: Final = 20
SLICE_MS: Final = 5  # between two turns of the loop
HEAVY_BYTES: Final = 16 * 1024  # of a record that another thread decodes


async def described_topic(cluster: ShownCluster, name: str) -> TopicView:
    """Raises HttpError, KafkaError."""
    found = (await cluster.admin.describe_topics([name], timeout_ms=WITHIN_MS))[name]
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise HttpError(404, f"There is no topic {name}.")
        raise found
    return found


def check_partition(topic: TopicView, number: int) -> None:
    """Raises HttpError for a partition that does not exist or has no leader."""
    if number not in topic.partitions:
        raise HttpError(404, f"There is no partition {number} of {topic.name}.")
    if number not in topic.available:
        raise HttpError(503, f"Partition {number} of {topic.name} has no leader.")


class FoundLogs(NamedTuple):
    """``unread`` are the partitions of a query that cannot be read, since they have no leader;
    ``held`` counts the offsets that readers of committed records do not see yet."""

    bounds: dict[int, LogBounds]
    unread: list[int]
    held: int = 0


async def find_logs(cluster: ShownCluster, query: ReadQuery) -> FoundLogs:
    """Return the offsets of the partitions to read. Raises HttpError, KafkaError."""
    topic = await described_topic(cluster, query.topic)
    numbers = topic.available
    unread = sorted(topic.partitions.keys() - set(numbers))
    if query.partition is not None:
        check_partition(topic, query.partition)
        numbers, unread = [query.partition], []
    partitions = [TopicPartition(query.topic, number) for number in numbers]

    async def at(timestamp: int, committed: bool = not query.uncommitted) -> dict[int, int]:
        found = await cluster.admin.list_offsets(
            dict.fromkeys(partitions, timestamp), read_committed=committed, timeout_ms=WITHIN_MS
        )
        return {tp.partition: row.offset for tp, row in found.items()}

    # Before the last stable offsets: what is written meanwhile is not held back.
    sees_all = query.uncommitted or query.until is not None
    written = {} if sees_all else await at(LATEST_TIMESTAMP, committed=False)
    begins, ends = await at(EARLIEST_TIMESTAMP), await at(LATEST_TIMESTAMP)
    held = sum(max(0, end - ends[number]) for number, end in written.items())
    if query.transaction is not None:
        stable = await at(LATEST_TIMESTAMP, committed=True)
        if query.transaction == OPEN:
            begins = {number: max(begin, stable[number]) for number, begin in begins.items()}
        else:
            ends = {number: min(end, stable[number]) for number, end in ends.items()}
    by_time = await at(query.number) if query.start == "time" else {}
    if query.until is not None:
        until = await at(query.until)
        ends = {n: end if until[n] < 0 else min(end, until[n]) for n, end in ends.items()}
    bounds = {
        number: LogBounds(
            begins[number], max(begins[number], ends[number]), _found(by_time.get(number, -1))
        )
        for number in numbers
    }
    return FoundLogs(bounds, unread, held)


def _found(offset: int) -> int | None:
    return None if offset < 0 else offset


class Turns:
    """Lets the loop go on when ``SLICE_MS`` are over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + SLICE_MS

    async def take(self) -> None:
        if self._clock.monotonic_ms() >= self._until_ms:
            await asyncio.sleep(0)
            self._until_ms = self._clock.monotonic_ms() + SLICE_MS

    async def call(self, record: ConsumerRecord, work: Callable[[ConsumerRecord], T]) -> T:
        """Call ``work`` with a record, in another thread if that is large."""
        if size_of(record) > HEAVY_BYTES:
            return await asyncio.to_thread(work, record)
        await self.take()
        return work(record)


def size_of(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


async def rendered(
    clock: Clock, records: Iterable[ConsumerRecord], row: Callable[[ConsumerRecord], T]
) -> list[T]:
    turns = Turns(clock)
    return [await turns.call(record, row) for record in records]


class Ranges:
    """Reads partitions of a topic by a consumer, each up to an offset of its own."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._reading: set[int] = set()
        self.next: dict[int, int] = {}

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._reading = set(offsets)
        self._consumer.assign([self._at(number) for number in sorted(offsets)])
        self._consumer.resume(*map(self._at, offsets))
        self.seek(offsets)

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Go on from these offsets in partitions that have begun."""
        self.next |= offsets
        for number, offset in offsets.items():
            self._consumer.seek(self._at(number), offset)

    def unread(self, records: Iterable[ConsumerRecord]) -> None:
        """Return these records, the last ones that were polled, once more."""
        firsts: dict[int, int] = {}
        for record in records:
            firsts.setdefault(record.partition, record.offset)
        self.seek(firsts)

    def _at(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number)

    def only(self, numbers: Iterable[int]) -> None:
        """Read only these of the partitions that have begun; what has been fetched of others is
        kept."""
        wanted = set(numbers)
        if wanted == self._reading:
            return
        self._consumer.resume(*map(self._at, wanted - self._reading))
        self._consumer.pause(*map(self._at, self._reading - wanted))
        self._reading = wanted

    async def poll(self, timeout_ms: int, most: int) -> list[ConsumerRecord]:
        """Return some of the next records."""
        records = await self._consumer.poll(timeout_ms, most)
        for record in records:
            self.next[record.partition] = record.offset + 1
        if not records:  # markers of transactions and aborted records give no record
            for number in self._reading:
                position = await self._consumer.position(self._at(number))
                self.next[number] = max(self.next[number], position)
        return records


class Aborted:
    """Finds records of aborted transactions, as those that a consumer of committed ones skips."""

    def __init__(
        self, clock: Clock, consumer: Consumer, topic: str, numbers: Iterable[int]
    ) -> None:
        self._clock = clock
        self._ranges = Ranges(consumer, topic)
        self._ranges.begin(dict.fromkeys(numbers, 0))
        self._from: dict[int, int] = {}  # from where on ``_seen`` has all up to the position
        self._seen: defaultdict[int, set[int]] = defaultdict(set)

    async def among(self, records: Sequence[ConsumerRecord]) -> set[tuple[int, int]]:
        """Return partitions and offsets of those that were aborted. They are before the last stable
        offset, and in order. Raises KafkaError if that takes too long."""
        firsts: dict[int, int] = {}
        lasts: dict[int, int] = {}
        for record in records:
            firsts.setdefault(record.partition, record.offset)
            lasts[record.partition] = record.offset
        for number, first in firsts.items():
            if not self._from.get(number, first + 1) <= first <= self._ranges.next[number]:
                self._ranges.seek({number: first})
                self._seen[number].clear()
        deadline_ms = self._clock.monotonic_ms() + WITHIN_MS
        while behind := [each for each, last in lasts.items() if self._ranges.next[each] <= last]:
            if self._clock.monotonic_ms() >= deadline_ms:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "records of aborted transactions")
            self._ranges.only(behind)
            for record in await self._ranges.poll(SHORT_POLL_MS, MOST_AT_ONCE):
                self._seen[record.partition].add(record.offset)
        found = {
            (record.partition, record.offset)
            for record in records
            if record.offset not in self._seen[record.partition]
        }
        for number, last in lasts.items():
            self._from[number] = last + 1
            self._seen[number] = {offset for offset in self._seen[number] if offset > last}
        return found


class Source(NamedTuple):
    """What readings read. ``aborted`` if only records of aborted transactions are wanted."""

    clock: Clock
    consumer: Consumer
    logs: Mapping[int, LogBounds]
    decoder: Decoder
    unread: Sequence[int] = ()  # partitions without a leader
    held: int = 0  # offsets behind the last stable ones
    aborted: Aborted | None = None


class Choice:
    """Tells which of the records that were read are wanted."""

    def __init__(self, source: Source, query: ReadQuery) -> None:
        self._decoder = source.decoder
        self._aborted = source.aborted
        self._matching = Matching(query.wanted, source.decoder)
        self._chosen: set[tuple[int, int]] = set()
        self._turns = Turns(source.clock)

    async def prepare(self, records: Sequence[ConsumerRecord]) -> None:
        """Call this with all of some records before ``has``."""
        await self._decoder.prepare(records)
        if self._aborted is not None:
            self._chosen = await self._aborted.among(records)

    async def has(self, record: ConsumerRecord) -> bool:
        if self._aborted is not None and (record.partition, record.offset) not in self._chosen:
            return False
        return await self._turns.call(record, self._matching.matches)


class ForwardReading:
    """Reads from the positions of a query on."""

    def __init__(self, source: Source, query: ReadQuery) -> None:
        logs = source.logs
        self._clock = source.clock
        self._query = query
        self._logs = logs
        self._choice = Choice(source, query)
        self._first = first_offsets(query, logs)
        self._taken: Counter[int] = Counter()
        self._ranges = Ranges(source.consumer, query.topic)
        self._ranges.next = positions(query, logs, self._first)
        self._has_begun = False
        self.looked_at = 0

    @property
    def more(self) -> bool:
        """Whether there are records before the ends that were looked up."""
        return bool(self._open())

    @property
    def progress(self) -> SearchProgress:
        return progress(self._first, self._ranges.next, self._logs)

    def facts(self) -> dict[str, Any]:
        now = self._ranges.next
        return {
            **place_facts(now, self.more, self.looked_at),
            "progress": self.progress._asdict(),
            "order": "oldest",
            "older": None,
        }

    def _open(self) -> list[int]:
        logs = self._logs
        return [number for number, at in self._ranges.next.items() if at < logs[number].end]

    async def read(self, limit: int, wait_ms: int = 0) -> list[ConsumerRecord]:
        """Return at most ``limit`` records that match.

        It ends at the ends that were looked up, or with ``wait_ms`` after the first records, or
        when that time is over. A search ends after ``SEARCH_MS``.
        """
        begun_ms = self._clock.monotonic_ms()
        deadline_ms = begun_ms + (wait_ms or WITHIN_MS)
        found: list[ConsumerRecord] = []
        looked_at = read_bytes = kept_bytes = 0
        while len(found) < limit and looked_at < MOST_LOOKED_AT and read_bytes < MOST_READ_BYTES:
            open_ones, now_ms = self._open(), self._clock.monotonic_ms()
            if not open_ones and (not wait_ms or found):
                break
            left_ms = deadline_ms - now_ms
            is_late = looked_at and self._query.is_search and now_ms - begun_ms >= SEARCH_MS
            if left_ms <= 0 or is_late or kept_bytes >= MOST_KEPT_BYTES:
                break
            room = self._choose(open_ones, limit, limit - len(found))
            records = await self._ranges.poll(min(left_ms, 200 if open_ones else left_ms), room)
            if not wait_ms:
                records = self._up_to_ends(records)
            await self._choice.prepare(records)
            for number, record in enumerate(records):
                if len(found) >= limit:
                    self._ranges.unread(records[number:])
                    break
                looked_at += 1
                self._taken[record.partition] += 1
                read_bytes += size_of(record)
                if await self._choice.has(record):
                    found.append(record)
                    kept_bytes += size_of(record)
        self.looked_at += looked_at
        return found

    def _up_to_ends(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """Leave out records after the ends, which a poll may return, too."""
        logs, now = self._logs, self._ranges.next
        for number in {record.partition for record in records}:
            now[number] = min(now[number], logs[number].end)
        return [record for record in records if record.offset < logs[record.partition].end]

    def _choose(self, open_ones: Sequence[int], limit: int, left: int) -> int:
        """Choose the partitions to read from next; return how many records to read."""
        if not self._has_begun:
            self._ranges.begin(self._ranges.next)
            self._has_begun = True
        if self._query.is_search:
            self._ranges.only(share(SEARCH_AHEAD, self._taken, open_ones) or self._ranges.next)
            return MOST_AT_ONCE
        fair = max(1, limit // max(1, len(open_ones)))
        wanted = share(fair, self._taken, open_ones) or list(self._ranges.next)
        self._ranges.only(wanted)
        return min(left, max(1, limit // len(wanted)), MOST_AT_ONCE)


class NewestReading:
    """Reads the newest records of all partitions that match, newest first."""

    def __init__(self, source: Source, query: ReadQuery) -> None:
        self._clock = source.clock
        self._query = query
        self._logs = source.logs
        self._choice = Choice(source, query)
        self._ranges = Ranges(source.consumer, query.topic)
        self._before = upper_bounds(query, source.logs)
        self.looked_at = 0

    @property
    def more(self) -> bool:
        """Whether there are older records."""
        return any(at > self._logs[number].begin for number, at in self._before.items())

    @property
    def progress(self) -> SearchProgress:
        logs = self._logs
        return SearchProgress(
            sum(logs[number].end - at for number, at in self._before.items()),
            sum(log.end - log.begin for log in logs.values()),
        )

    def facts(self) -> dict[str, Any]:
        ends = {number: log.end for number, log in self._logs.items()}
        return {
            **place_facts(ends, self.more, self.looked_at),
            "progress": self.progress._asdict(),
            "order": "newest",
            "older": _texts(self._before) if self.more else None,
        }

    async def read(self, limit: int, row: Callable[[ConsumerRecord], T]) -> list[T]:
        """Return ``row`` of at most ``limit`` records, newest first."""
        begun_ms = self._clock.monotonic_ms()
        begins = {number: log.begin for number, log in self._logs.items()}
        newest: Newest[T] = Newest(begins, self._before, limit, MOST_WINDOWS)
        looked_at = 0
        while looked_at < MOST_LOOKED_AT and (wanted := newest.wanted()):
            async for records in self._windows(wanted, newest, begun_ms + WITHIN_MS):
                await self._add(records, newest, row)
                looked_at += len(records)
            if self._clock.monotonic_ms() - begun_ms >= SEARCH_MS:
                break
        rows, self._before = newest.passed()
        self.looked_at += looked_at
        return rows

    async def _windows(
        self, wanted: Mapping[int, tuple[int, int]], newest: Newest[T], deadline_ms: int
    ) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield the records of some offsets, and say when a partition has been read."""
        ranges, ends = self._ranges, {number: high for number, (_, high) in wanted.items()}
        ranges.begin({number: low for number, (low, _) in wanted.items()})
        while ends:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return
            ranges.only(ends)
            records = await ranges.poll(min(left_ms, 200), MOST_AT_ONCE)
            yield [one for one in records if one.offset < wanted[one.partition][1]]
            for number in [each for each, end in ends.items() if ranges.next[each] >= end]:
                newest.read(number)
                del ends[number]

    async def _add(
        self,
        records: Sequence[ConsumerRecord],
        newest: Newest[T],
        row: Callable[[ConsumerRecord], T],
    ) -> None:
        turns = Turns(self._clock)
        await self._choice.prepare(records)
        most = self._query.most_bytes
        for record in records:
            shown: T | None = None
            if record.timestamp >= newest.threshold and await self._choice.has(record):
                shown = await turns.call(record, row)
            size = 0
            if shown is not None:  # as it is, and decoded
                size = 2 * sum(min(len(part or b""), most) for part in (record.key, record.value))
            newest.add(record.partition, record.offset, record.timestamp, shown, size)


def place_facts(now: Mapping[int, int], more: bool, looked_at: int) -> dict[str, Any]:
    return {"next": _texts(now), "more": more, "looked_at": looked_at}


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(offsets.items())}
