"""Validation of the records in a producer's batch, and rewriting of the batch if it is needed.

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


def opened_batch(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch:
    """Validate the records of a batch whose header and CRC are right. Return the batch to store.

    The stored batch has the topic's ``compression.type``, consecutive offsets, and the largest
    timestamp of its records in the header. It is ``batch`` itself if all of this holds already.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    INVALID_RECORD. INVALID_RECORD also stands for records that cannot be decoded or that contradict
    the header: since the CRC is right, the producer wrote them so.
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
    # The offsets of a producer's batch are dense: there both are the same.
    assert stored.last_offset_delta in (batch.last_offset_delta, stored.record_count - 1)
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
    """Return whether the timestamps from ``first`` to ``last`` (ms) are within the topic's limits.
    There are no limits with LogAppendTime, which replaces the producer's timestamps."""
    return config.message_timestamp_type == LOG_APPEND_TIME or (
        now_ms - first <= config.message_timestamp_before_max_ms
        and last - now_ms <= config.message_timestamp_after_max_ms
    )


def _renumbered(batch: RecordBatch, target: Compression, level: int | None) -> bytes:
    """Return the batch with consecutive offsets. Kafka assigns them, too, and does not refuse the
    batch."""
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
