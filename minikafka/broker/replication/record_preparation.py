"""Validation of compressed and of old records before their append, by a worker if it takes long.

A compressed batch is validated as soon as it arrives, within a small budget. If the budget does
not suffice, or if the header shows that there is much to do, a worker repeats the validation with a
large budget, and the request waits for it. So a few kilobytes that hold millions of records do not
stop the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.record_appends import Entries
from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import OpeningBudget
from minikafka.core.log.validation import LONG_RECORD_COUNT, PreparedRecords, is_long_work, prepared
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Buffer, Clock, Workers
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    FLAGS_OFFSET,
    MAGIC_OFFSET,
    MAGIC_V2,
    RecordBatch,
    record_count_of,
)
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.protocol.records.record_check import LEAST_RECORD_BYTES

# What the batches of one request may have when they are decompressed: by the event loop, in all.
ON_LOOP_BYTES: Final = 1024 * 1024
REQUEST_BYTES: Final = 256 * 1024 * 1024
_LONG_BYTES: Final = LONG_RECORD_COUNT * LEAST_RECORD_BYTES

# Records, and the config of the log that they are for; None if this broker does not lead it.
_Work: TypeAlias = list[tuple[TopicPartition, bytes, LogConfig | None]]


def needs_preparation(records: Buffer) -> bool:
    """Return whether the records cannot be validated in no time: they are compressed, of an old
    format, or very many. A header that claims more records than its batch has room for is refused
    in no time."""
    return (
        records[FLAGS_OFFSET] & COMPRESSION_MASK != 0
        or records[MAGIC_OFFSET] != MAGIC_V2
        or (len(records) > _LONG_BYTES and record_count_of(records) > LONG_RECORD_COUNT)
    )


class LongAppend:
    """The entries of a request whose validation takes long. ``prepare`` is called once; then
    ``entries`` are replaced by prepared ones, and ``done`` is called."""

    __slots__ = ("_preparation", "_work", "entries")

    def __init__(self, preparation: RecordPreparation, work: _Work) -> None:
        self.entries: Entries = [(topic_partition, records) for topic_partition, records, _ in work]
        self._preparation = preparation
        self._work = work

    def prepare(self, done: Callable[[], None]) -> None:
        def finish(entries: Entries) -> None:
            self.entries = entries
            done()

        self._preparation.run(self._work, finish)


def entries_of(entries: Entries | LongAppend) -> Entries:
    return entries.entries if isinstance(entries, LongAppend) else entries


class RecordPreparation:
    """Validates the records of requests for which ``needs_preparation`` is true. ``converted`` is
    called with a topic and the number of messages of an old format that became a batch."""

    def __init__(
        self,
        workers: Workers,
        clock: Clock,
        hosted: HostedPartitions,
        converted: Callable[[str, int], None] = lambda topic, messages: None,
    ) -> None:
        self._converted = converted
        self._workers = workers
        self._clock = clock
        self._hosted = hosted
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def prepare(self, entries: Entries) -> Entries | LongAppend:
        """Return the entries with prepared records, or a LongAppend if that takes long."""
        configs = [self._config(topic_partition) for topic_partition, _ in entries]
        if not any(
            config is not None and is_long_work(records, config)
            for (_, records), config in zip(entries, configs, strict=True)
        ):
            now_ms, budget = self._clock.wall_ms(), OpeningBudget(ON_LOOP_BYTES)
            try:
                done = [
                    (topic_partition, _prepared(records, config, now_ms, budget))
                    for (topic_partition, records), config in zip(entries, configs, strict=True)
                ]
                self._count(entries, done)
                return done
            except DecompressedTooLarge:
                pass
        return LongAppend(
            self,
            [
                (topic_partition, bytes(records), config)
                for (topic_partition, records), config in zip(entries, configs, strict=True)
            ],
        )

    def _config(self, topic_partition: TopicPartition) -> LogConfig | None:
        partition = self._hosted.get(topic_partition)
        if partition is None or not (partition.is_leader and partition.has_log):
            return None
        return partition.log.config

    def run(self, work: _Work, done: Callable[[Entries], None]) -> None:
        """Let a worker prepare the records, then call ``done`` with the entries."""

        async def prepare() -> None:
            entries = await self._workers.run(_prepare_all, work, self._clock.wall_ms())
            before = [(topic_partition, records) for topic_partition, records, _ in work]
            self._count(before, entries)
            done(entries)

        assert self._tasks is not None, "requests are served after start"
        self._tasks.create_task(prepare(), name="record-preparation")

    def _count(self, before: Entries, after: Entries) -> None:
        """Count the messages that were converted. What is refused has no batch."""
        for (topic_partition, records), (_, done) in zip(before, after, strict=True):
            outcome = done.outcome if isinstance(done, PreparedRecords) else None
            if records[MAGIC_OFFSET] != MAGIC_V2 and isinstance(outcome, RecordBatch):
                self._converted(topic_partition.topic, outcome.record_count)


def _prepared(
    records: Buffer, config: LogConfig | None, now_ms: int, budget: OpeningBudget
) -> Buffer:
    """Without a config the records are left alone: their append will be refused."""
    return records if config is None else prepared(records, config, now_ms, budget)


def _prepare_all(work: _Work, now_ms: int) -> Sequence[tuple[TopicPartition, Buffer]]:
    budget = OpeningBudget(REQUEST_BYTES)
    entries: list[tuple[TopicPartition, Buffer]] = []
    for topic_partition, records, config in work:
        try:
            entries.append((topic_partition, _prepared(records, config, now_ms, budget)))
        except DecompressedTooLarge as error:
            refused = PreparedRecords(records)
            refused.outcome = error
            entries.append((topic_partition, refused))
    return entries
