"""Which records a log accepts, and what becomes of a batch that had to be opened for them.

Kafka: ``LogValidator``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from minikafka.core.log.append import RecordValidationError
from minikafka.core.log.config import LOG_APPEND_TIME, LogConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    NO_TIMESTAMP,
    RecordBatch,
    parse_batch,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import decode_batch
from minikafka.protocol.records.record_summary import RecordSummary, summarize_records

MAX_TIMESTAMP: Final = 2**63 - 1

# (place in the batch, error, why)
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
    """Why a log with this ``config`` does not accept the record; None if it does."""
    if key is None and config.compacts:
        return index, ErrorCode.INVALID_RECORD, "a compacted topic accepts no message without key"
    if timestamp != NO_TIMESTAMP and not _in_time(timestamp, timestamp, config, now_ms):
        oldest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        why = f"timestamp {timestamp} is outside of [{oldest}, {latest}]"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    return None


def refuse(problems: Iterable[RecordProblem | None]) -> None:
    """Raise RecordValidationError if there are any problems: INVALID_TIMESTAMP if one of them is,
    INVALID_RECORD otherwise."""
    found = [problem for problem in problems if problem is not None]
    if found:
        codes = {code for _, code, _ in found}
        code = ErrorCode.INVALID_TIMESTAMP
        if code not in codes:
            code = ErrorCode.INVALID_RECORD
        raise RecordValidationError(code, [(index, why) for index, _, why in found])


def opened_batch(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch:
    """``batch``, whose header and CRC are right, as it may be stored: in the codec that the topic
    wants, its offsets one after the other, its latest time in the header.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD (also for a payload that is not
    what the header says: the CRC vouches that the producer meant it), INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE.
    """
    source = batch.compression
    if batch.is_control:
        return batch
    try:
        data = batch.plain_records()
        summary = summarize_records(data, batch.record_count)
        _check_records(batch, summary, config, now_ms)
        target = config.target_compression(source)
        level = config.compression_level(target)
        max_timestamp = batch.base_timestamp + summary.largest_timestamp_delta
        if not summary.consecutive and (source or target):
            changed = _renumbered(batch, target, level)
        elif target is not source:
            changed = _with_payload(batch, compress(target, data, level), target, max_timestamp)
        elif max_timestamp != batch.max_timestamp:
            changed = _with_payload(batch, bytes(batch.payload()), target, max_timestamp)
        else:
            return batch
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
    if len(changed) > config.max_message_bytes:
        raise too_large(len(changed), config)
    stored = parse_batch(changed, 0)
    assert stored.last_offset_delta == stored.record_count - 1, "offsets are not dense"
    return stored


def _check_records(
    batch: RecordBatch, summary: RecordSummary, config: LogConfig, now_ms: int
) -> None:
    base = batch.base_timestamp
    first, last = base + summary.least_timestamp_delta, base + summary.largest_timestamp_delta
    if first < -MAX_TIMESTAMP or max(last, last - first) > MAX_TIMESTAMP:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"timestamps from {first} to {last}")
    if (summary.all_have_keys or not config.compacts) and _in_time(first, last, config, now_ms):
        return
    refuse(
        record_problem(index, record.key, record.timestamp, config, now_ms)
        for index, record in enumerate(decode_batch(batch))
    )


def _in_time(first: int, last: int, config: LogConfig, now_ms: int) -> bool:
    """The topic's own clock stamps, or both are within the limits."""
    return config.message_timestamp_type == LOG_APPEND_TIME or (
        now_ms - first <= config.message_timestamp_before_max_ms
        and last - now_ms <= config.message_timestamp_after_max_ms
    )


def _renumbered(batch: RecordBatch, target: Compression, level: int | None) -> bytes:
    """Kafka gives the records the offsets that they should have rather than refuse them."""
    return build_batch(
        [(r.timestamp, r.key, r.value, r.headers) for r in decode_batch(batch)],
        compression=target,
        compression_level=level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )


def _with_payload(
    batch: RecordBatch, payload: bytes, codec: Compression, max_timestamp: int
) -> bytes:
    return assemble_batch(
        payload,
        base_offset=batch.base_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes & ~COMPRESSION_MASK | codec,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
