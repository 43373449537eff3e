"""The record formats of the versions of Produce and Fetch.

Logs contain only record batches (magic 2). The log converts the messages of older Produce versions
into batches. This module converts batches into messages for older Fetch versions (down-conversion).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from minikafka.core.log.config import LogConfig
from minikafka.core.log.format_conversion import message_set_of_batches
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer, Workers
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    FLAGS_OFFSET,
    MAGIC_OFFSET,
    MAGIC_V2,
    iterate_batches,
)
from minikafka.protocol.records.compression import Compression, DecompressedTooLarge
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, ReadResult

T = TypeVar("T")

# The bytes that one response may convert, apart from its first batch, which is always converted.
CONVERTED_BYTES: Final = 512 * 1024
# What is converted on the event loop, at about 5 us per record; workers convert more.
ON_LOOP_BYTES: Final = CONVERTED_BYTES
ON_LOOP_RECORDS: Final = 1000


class ProduceFormat(NamedTuple):
    """The record formats that a version of Produce may carry.

    With ``batches_only`` it carries one batch of magic 2. Versions without it may carry any format:
    clients did so, and Kafka accepts it. ``zstd`` is whether zstd compression is allowed."""

    batches_only: bool
    zstd: bool


class FetchFormat(NamedTuple):
    """The record format that a version of Fetch can carry, and its rule for large batches.

    With ``each_partition_progresses`` the first batch of every partition is returned whole. These
    versions have no limit for the whole response, and their clients do not rotate the order of
    partitions (KIP-74)."""

    magic: int
    zstd: bool
    each_partition_progresses: bool

    @property
    def is_converted(self) -> bool:
        return self.magic < MAGIC_V2

    @property
    def is_any(self) -> bool:
        """Whether all records of a log can be sent without conversion."""
        return self.zstd and not self.is_converted


_NO_TABLE_END: Final = 100


def _by_version(*rows: tuple[int, T]) -> tuple[T, ...]:
    """Return the value for each version. A row is (first version, value from that version on);
    rows are sorted."""
    ends = [first for first, _ in rows[1:]] + [_NO_TABLE_END]
    return tuple(
        value for (first, value), end in zip(rows, ends, strict=True) for _ in range(first, end)
    )


PRODUCE_FORMATS: Final = _by_version(
    (0, ProduceFormat(batches_only=False, zstd=True)),
    (3, ProduceFormat(batches_only=True, zstd=False)),
    (7, ProduceFormat(batches_only=True, zstd=True)),
)
FETCH_FORMATS: Final = _by_version(
    (0, FetchFormat(0, zstd=False, each_partition_progresses=True)),
    (2, FetchFormat(1, zstd=False, each_partition_progresses=True)),
    (3, FetchFormat(1, zstd=False, each_partition_progresses=False)),
    (4, FetchFormat(MAGIC_V2, zstd=False, each_partition_progresses=False)),
    (10, FetchFormat(MAGIC_V2, zstd=True, each_partition_progresses=False)),
)


def refusal_of(records: Buffer | None, version: int) -> KafkaError | None:
    """Return the error of records that this version of Produce must not carry, or None. The log
    performs the checks that do not depend on the version."""
    if records is None or len(records) <= FLAGS_OFFSET:
        return KafkaError(ErrorCode.INVALID_RECORD, "an append must have a record batch")
    magic = records[MAGIC_OFFSET]
    if magic != MAGIC_V2:
        if magic > MAGIC_V2 or not PRODUCE_FORMATS[version].batches_only:
            return None
        return KafkaError(ErrorCode.INVALID_RECORD, f"messages of magic {magic} need version 2")
    attributes = records[FLAGS_OFFSET]
    if attributes & COMPRESSION_MASK == Compression.ZSTD and not PRODUCE_FORMATS[version].zstd:
        return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7")
    return None


def limited(
    params: FetchParams, entries: Sequence[FetchEntry], record_format: FetchFormat
) -> tuple[FetchParams, list[FetchEntry]]:
    """Limit a fetch whose records will be converted to ``CONVERTED_BYTES``."""
    share = max(1, CONVERTED_BYTES // len(entries))
    min_bytes = min(params.min_bytes, share)
    if record_format.each_partition_progresses:
        params = params._replace(min_bytes=min_bytes, each_partition_progresses=True)
    else:
        max_bytes = min(params.max_bytes, CONVERTED_BYTES)
        params = params._replace(min_bytes=min_bytes, max_bytes=max_bytes)
    return params, [e.changed(e.topic_partition, min(e.max_bytes, share)) for e in entries]


def in_format(
    result: ReadResult,
    entry: FetchEntry,
    record_format: FetchFormat,
    config: LogConfig,
    follower: bool,
) -> ReadResult:
    """Convert the records of ``result`` to the format of the request's version.

    The result has the error UNSUPPORTED_COMPRESSION_TYPE if the topic's ``compression.type`` is
    zstd and the version has no zstd, and UNSUPPORTED_VERSION if the topic does not allow
    conversion (``message.downconversion.enable``) and the client is not a follower."""
    try:
        if config.compression_type == "zstd" and not record_format.zstd:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if not record_format.is_converted:
            return result
        if not config.message_downconversion_enable and not follower:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        records = message_set_of_batches(
            result.records, record_format.magic, entry.fetch_offset, entry.max_bytes
        )
    except KafkaError as error:
        return ReadResult(result.topic_partition, error.code)
    return result.with_records(records)


class FormatConversion:
    """Converts the results of fetches to the record formats of old versions, by workers if there is
    much to convert: a few kilobytes may hold millions of records."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def convert(
        self,
        results: Sequence[ReadResult],
        convert: Callable[[ReadResult, int], ReadResult],
        done: Callable[[Sequence[ReadResult]], None],
    ) -> None:
        """Call ``convert`` with each result and its index, and then ``done`` with all that it has
        returned. ``convert`` must be a pure function."""

        def convert_all() -> list[ReadResult]:
            return [convert(result, index) for index, result in enumerate(results)]

        async def convert_with_worker() -> None:
            done(await self._workers.run(convert_all))

        if is_long_conversion(results):
            assert self._tasks is not None, "requests are served after start"
            self._tasks.create_task(convert_with_worker(), name="down-conversion")
        else:
            done(convert_all())


def num_records(records: Buffer) -> int:
    """Return how many records the batches claim to have, up to the first one that is invalid."""
    count = 0
    try:
        for batch in iterate_batches(records):
            count += max(batch.record_count, 0)
    except KafkaError:
        pass  # the conversion reports the error
    return count


def is_long_conversion(results: Sequence[ReadResult]) -> bool:
    """Return whether the conversion of all records takes longer than the event loop may stand
    still."""
    bytes_left, records_left = ON_LOOP_BYTES, ON_LOOP_RECORDS
    for result in results:
        try:
            for batch in iterate_batches(result.records):
                bytes_left -= len(batch.plain_records(bytes_left))
                records_left -= max(batch.record_count, 0)
                if bytes_left < 0 or records_left < 0:
                    return True
        except DecompressedTooLarge:
            return True
        except KafkaError:
            continue  # the conversion of this result reports the error
    return False
