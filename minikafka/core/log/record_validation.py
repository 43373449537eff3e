"""Validation of the records in a producer's batch, and rewriting of the batch if it is needed.

Kafka: ``LogValidator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeAlias

from minikafka.core.log.append import RecordValidationError
from minikafka.core.log.config import LOG_APPEND_TIME, LogConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
    parse_batch,
    payload_of,
)
from minikafka.protocol.records.builder import with_payload
from minikafka.protocol.records.compression import (
    LARGEST_DECOMPRESSED_BYTES,
    compress,
)
from minikafka.protocol.records.record import decode_batch
from minikafka.protocol.records.record_layout import Want, compile_walk
from minikafka.protocol.records.record_loop import renumber_records, summarize_records

MAX_TIMESTAMP: Final = 2**63 - 1
# A batch may be so many times as large as ``max.message.bytes`` when it is decompressed: a few
# kilobytes can claim to be gigabytes.
LARGEST_RATIO: Final = 32
RENUMBERED_AT_ONCE: Final = 10_000  # between two slices other threads may run
LEAST_LIMIT_BYTES: Final = 1024 * 1024
# To copy records that are larger than this takes longer than the compiled loop saves.
COPIED_BYTES: Final = 64 * 1024

# (index in the batch, error, reason)
RecordProblem: TypeAlias = tuple[int, ErrorCode, str]


def too_large(size_bytes: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch size is {size_bytes} bytes, which exceeds the maximum configured value "
        f"of {config.max_message_bytes}",
    )


def record_problem(
    index: int, key: bytes | None, timestamp: int, config: LogConfig, now_ms: int
) -> RecordProblem | None:
    """Return why a log with this ``config`` refuses the record, None if it accepts it."""
    if key is None and config.compacts:
        return index, ErrorCode.INVALID_RECORD, "a compacted topic accepts no message without key"
    if timestamp != NO_TIMESTAMP and not _in_time(timestamp, timestamp, config, now_ms):
        oldest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        why = f"timestamp {timestamp} is outside of [{oldest}, {latest}]"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    return None


def refuse(problems: Iterable[RecordProblem | None]) -> None:
    """Raise RecordValidationError if there is a problem. Its code is INVALID_TIMESTAMP if any of
    the problems has this code, otherwise INVALID_RECORD."""
    found = [problem for problem in problems if problem is not None]
    if found:
        codes = {code for _, code, _ in found}
        code = ErrorCode.INVALID_TIMESTAMP
        if code not in codes:
            code = ErrorCode.INVALID_RECORD
        raise RecordValidationError(code, [(index, why) for index, _, why in found])


def has_plain_records(batch: RecordBatch) -> bool:
    """Return whether an uncompressed batch can be stored as it is in a log without limits on times
    and keys: its records are well-formed and have consecutive offsets, and its header has their
    largest timestamp."""
    return are_plain_records(
        payload_of(batch), batch.record_count, batch.base_timestamp, batch.max_timestamp
    )


def are_plain_records(
    data: memoryview, record_count: int, base_timestamp: int, max_timestamp: int
) -> bool:
    """Return whether uncompressed records are consecutive, well formed, and within the timestamps
    of their header. ``data`` has the records without the header."""
    try:
        if record_count * COPIED_BYTES < len(data):
            consecutive, least, largest = _of_large_records(data, record_count)
        else:
            consecutive, least, largest, _ = summarize_records(data.tobytes(), record_count)
    except KafkaError:
        return False
    first, last = base_timestamp + least, base_timestamp + largest
    return (
        consecutive
        and last == max_timestamp
        and first >= -MAX_TIMESTAMP
        and last - first <= MAX_TIMESTAMP
    )


def _of_large_records(data: memoryview, count: int) -> tuple[bool, int, int]:
    """Return whether the records are consecutive, and their least and largest timestamp deltas,
    without copying their values. Raises CorruptRecordError."""
    with suppress(CorruptRecordError):  # or records with headers
        return _read_in_place(data, count)
    return summarize_records(data.tobytes(), count)[:3]


_read_in_place: Final[Callable[[memoryview, int], tuple[bool, int, int]]] = compile_walk(
    "read_in_place",
    "data, count",
    {"timestamp_delta": Want.SIGNED, "offset_delta": Want.RAW, "headers": Want.ABSENT},
    before="times, consecutive, following = [], True, 0",
    each="""
        times.append(timestamp_delta)
        consecutive = consecutive and offset_delta == following
        following += 2
    """,
    result="(consecutive, min(times), max(times))",
)


class OpeningBudget:
    """The bytes that batches may still have when they are decompressed. It is shared by the batches
    of one request, and each takes what it needs."""

    __slots__ = ("left",)

    def __init__(self, left: int = LARGEST_DECOMPRESSED_BYTES) -> None:
        self.left = left

    def open(self, batch: RecordBatch, config: LogConfig) -> bytes:
        """Return the records of ``batch``, decompressed. Raises DecompressedTooLarge, and
        KafkaError as ``RecordBatch.plain_records``."""
        largest = max(LEAST_LIMIT_BYTES, LARGEST_RATIO * config.max_message_bytes)
        data = batch.plain_records(min(self.left, largest, LARGEST_DECOMPRESSED_BYTES))
        self.left -= len(data)
        return data


def opened_batch(
    batch: RecordBatch, config: LogConfig, now_ms: int, budget: OpeningBudget
) -> RecordBatch:
    """Validate the records of a batch whose header and CRC are right. Return the batch to store.

    The stored batch has the topic's ``compression.type``, consecutive offsets, and the largest
    timestamp of its records in the header. It is ``batch`` itself if all of this holds already.

    Raises DecompressedTooLarge, and KafkaError: UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE, INVALID_RECORD. INVALID_RECORD also stands for records that cannot be decoded
    or that contradict the header: since the CRC is right, the producer wrote them so.
    """
    source = batch.compression
    if batch.is_control:
        return batch
    try:
        data = budget.open(batch, config)
        consecutive, least, largest, all_have_keys = summarize_records(data, batch.record_count)
        max_timestamp = batch.base_timestamp + largest
        first = batch.base_timestamp + least
        _check_times(first, max_timestamp)
        keys_are_there = all_have_keys or not config.compacts
        if not (keys_are_there and _in_time(first, max_timestamp, config, now_ms)):
            refuse(
                record_problem(index, record.key, record.timestamp, config, now_ms)
                for index, record in enumerate(decode_batch(batch))
            )
        target = config.target_compression(source)
        level = config.compression_level(target)
        payload: Buffer
        if not consecutive:
            payload = compress(target, _renumbered(data, batch.record_count), level)
        elif target is not source:
            payload = compress(target, data, level)
        elif max_timestamp != batch.max_timestamp:
            payload = batch.payload()
        else:
            return batch
        attributes = batch.attributes & ~COMPRESSION_MASK | target
        header = batch._replace(attributes=attributes, max_timestamp=max_timestamp)
        changed = with_payload(header, payload)
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
    if len(changed) > config.max_message_bytes:
        raise too_large(len(changed), config)
    stored = parse_batch(changed, 0)
    # The offsets of a producer's batch are dense: there both are the same.
    assert stored.last_offset_delta in (batch.last_offset_delta, stored.record_count - 1)
    return stored


def _check_times(first: int, last: int) -> None:
    if first < -MAX_TIMESTAMP or max(last, last - first) > MAX_TIMESTAMP:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"timestamps from {first} to {last}")


def _in_time(first: int, last: int, config: LogConfig, now_ms: int) -> bool:
    """Return whether the timestamps from ``first`` to ``last`` (ms) are within the topic's limits.
    There are no limits with LogAppendTime, which replaces the producer's timestamps."""
    return config.message_timestamp_type == LOG_APPEND_TIME or (
        now_ms - first <= config.message_timestamp_before_max_ms
        and last - now_ms <= config.message_timestamp_after_max_ms
    )


def _renumbered(data: bytes, count: int) -> bytes:
    """Return the records with consecutive offsets. Kafka does so with compressed records, and
    stores others as they are: consumers then see these offsets, and compaction gives up."""
    parts: list[bytes] = []
    position = 0
    for first in range(0, count, RENUMBERED_AT_ONCE):
        pieces, position = renumber_records(
            data, position, first, min(RENUMBERED_AT_ONCE, count - first)
        )
        parts.append(b"".join(pieces))
    return b"".join(parts)
