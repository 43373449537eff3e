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

from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import OpeningBudget
from minikafka.core.log.validation import (
    LONG_RECORD_COUNT,
    PreparedBatch,
    is_long_work,
    prepare_batch,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Buffer, Clock, Workers
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    FLAGS_OFFSET,
    MAGIC_OFFSET,
    MAGIC_V2,
    record_count_of,
)
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.protocol.records.record_loop import LEAST_RECORD_BYTES
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.record_appends import AppendEntry, Entries

# What the batches of one request may have when they are decompressed: by the event loop, in all.
ON_LOOP_BYTES: Final = 1024 * 1024
REQUEST_BYTES: Final = 256 * 1024 * 1024
_LONG_BYTES: Final = LONG_RECORD_COUNT * LEAST_RECORD_BYTES

# Records, and the config of the log that they are for.
_Work: TypeAlias = tuple[Buffer, LogConfig]


def needs_preparation(records: Buffer) -> bool:
    """Return whether the records cannot be validated in no time: they are compressed, of an old
    format, or very many. A header that claims more records than its batch has room for is refused
    in no time."""
    return (
        records[FLAGS_OFFSET] & COMPRESSION_MASK != 0
        or records[MAGIC_OFFSET] != MAGIC_V2
        or (len(records) > _LONG_BYTES and record_count_of(records) > LONG_RECORD_COUNT)
    )


class RecordPreparation:
    """Validates the records for which ``needs_preparation`` is true, and sets ``prepared`` in their
    entries. Records for a partition that this broker does not lead are left alone: their append
    will be refused. ``converted`` is called with a topic and the number of messages of an old
    format that became a batch."""

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

    def prepare(self, entries: Entries) -> bool:
        """Prepare the entries that need it. Return False if it takes long, and a worker has to
        prepare the rest, see ``prepare_by_worker``."""
        for entry in entries:
            if needs_preparation(entry.records):
                return self._prepare_on_loop(entries)
        return True

    def _prepare_on_loop(self, entries: Entries) -> bool:
        now_ms, budget = self._clock.wall_ms(), OpeningBudget(ON_LOOP_BYTES)
        for entry, config in self._unprepared(entries):
            if is_long_work(entry.records, config):
                return False
            try:
                prepared = prepare_batch(entry.records, config, now_ms, budget)
            except DecompressedTooLarge:
                return False
            self._set(entry, prepared)
        return True

    def prepare_by_worker(self, entries: Entries, done: Callable[[], None]) -> None:
        """Let a worker prepare what ``prepare`` has left, then call ``done``. The records must not
        lie in a receive buffer."""
        unprepared = self._unprepared(entries)
        work = [(entry.records, config) for entry, config in unprepared]

        async def prepare() -> None:
            outcomes = await self._workers.run(_prepare_all, work, self._clock.wall_ms())
            for (entry, _), outcome in zip(unprepared, outcomes, strict=True):
                self._set(entry, outcome)
            done()

        assert self._tasks is not None, "requests are served after start"
        self._tasks.create_task(prepare(), name="record-preparation")

    def _unprepared(self, entries: Entries) -> list[tuple[AppendEntry, LogConfig]]:
        """Return the entries that are not prepared yet, with the config of their logs."""
        found: list[tuple[AppendEntry, LogConfig]] = []
        for entry in entries:
            if entry.prepared is None and needs_preparation(entry.records):
                config = self._config(entry.topic_partition)
                if config is not None:
                    found.append((entry, config))
        return found

    def _config(self, topic_partition: TopicPartition) -> LogConfig | None:
        partition = self._hosted.get(topic_partition)
        if partition is None or not (partition.is_leader and partition.has_log):
            return None
        return partition.log.config

    def _set(self, entry: AppendEntry, prepared: PreparedBatch) -> None:
        """Set the outcome, and count the messages that were converted."""
        entry.prepared = prepared
        if prepared.batch is not None and entry.records[MAGIC_OFFSET] != MAGIC_V2:
            self._converted(entry.topic_partition.topic, prepared.batch.record_count)


def _prepare_all(work: Sequence[_Work], now_ms: int) -> list[PreparedBatch]:
    budget = OpeningBudget(REQUEST_BYTES)
    return [_prepared(records, config, now_ms, budget) for records, config in work]


def _prepared(
    records: Buffer, config: LogConfig, now_ms: int, budget: OpeningBudget
) -> PreparedBatch:
    try:
        return prepare_batch(records, config, now_ms, budget)
    except DecompressedTooLarge as error:
        return PreparedBatch(None, error)
