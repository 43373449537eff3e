"""Which batches a log accepts, from a producer and from a leader.

No record is looked at unless a setting asks for it (a limit on old timestamps, a compacted topic):
the header says how many there are and how late they may be, and the CRC vouches for the rest.
Kafka: ``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``, ``ProduceRequest``.
"""

from __future__ import annotations

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.config import (
    KEEP_PRODUCER_COMPRESSION,
    LOG_APPEND_TIME,
    NO_LIMIT,
    LogConfig,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Buffer,
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    next_batch,
    parse_batches,
)
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import Compression, compress, decompress
from minikafka.protocol.records.record import decode_batch

_UNCOMPRESSED = "uncompressed"


def leader_batch(
    records: Buffer, config: LogConfig, origin: AppendOrigin, now_ms: int
) -> RecordBatch:
    """The one batch that a producer may send for a partition, checked.

    Bytes after it that are no whole batch are ignored. Raises KafkaError: CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE.
    """
    batch = _only_batch(records)
    size = batch.length + LOG_OVERHEAD
    attributes = batch.attributes
    if origin is AppendOrigin.CLIENT:
        count = batch.record_count
        if (
            batch.base_offset != 0
            or count <= 0
            or batch.last_offset_delta != count - 1
            or attributes & (CONTROL_FLAG | TIMESTAMP_TYPE_FLAG)
            or (batch.producer_id >= 0 and batch.base_sequence < 0)
        ):
            _check_crc(batch)  # a damaged header is that before it is anything else
            raise _bad_client_header(batch)
    if size > config.max_message_bytes:
        raise _too_large(batch, config)
    _check_crc(batch)
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        _ = batch.compression  # raises
    if config.message_timestamp_type != LOG_APPEND_TIME and (
        config.message_timestamp_before_max_ms != NO_LIMIT
        or batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    ):
        _check_timestamps(batch, config, now_ms)
    if config.cleanup_policy != "delete":
        _check_keys(batch, config)
    if config.compression_type != KEEP_PRODUCER_COMPRESSION:
        return _recompressed(batch, config)
    return batch


def follower_batches(records: Buffer) -> list[RecordBatch]:
    """A leader's batches, checked: CRCs right, offsets rising. Torn bytes at the end are left out.

    Raises KafkaError: CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNKNOWN_SERVER_ERROR for
    offsets out of order.
    """
    batches = parse_batches(records)
    last_offset = -1
    for batch in batches:
        _check_crc(batch)
        if batch.base_offset <= last_offset or batch.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"offsets out of order in an append: {batch.base_offset} after {last_offset}",
            )
        last_offset = batch.last_offset
    return batches


def _only_batch(records: Buffer) -> RecordBatch:
    end = len(records)
    try:
        batch = next_batch(records, 0, end)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "only record batches with magic version 2 are allowed"
            ) from error
        raise
    if batch is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have at least one record batch")
    size = batch.length + LOG_OVERHEAD
    if size != end and next_batch(records, size, end) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have exactly one record batch")
    return batch


def _too_large(batch: RecordBatch, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch size is {batch.size_bytes} bytes, which exceeds the maximum "
        f"configured value of {config.max_message_bytes}",
    )


def _check_crc(batch: RecordBatch) -> None:
    if not crc_is_valid(batch):
        raise CorruptRecordError(
            f"record batch of {batch.size_bytes} bytes at offset {batch.base_offset} is corrupt "
            f"(stored crc = {batch.crc})"
        )


def _bad_client_header(batch: RecordBatch) -> KafkaError:
    """Why a producer may not send a batch with this header."""
    code = ErrorCode.INVALID_RECORD
    count = batch.record_count
    if batch.base_offset != 0:
        why = f"the base offset of an appended batch should be 0, but it is {batch.base_offset}"
    elif count <= 0 or batch.last_offset_delta != count - 1:
        why = f"a batch with last offset delta {batch.last_offset_delta} and {count} records"
    elif batch.is_control:
        why = "clients may not write control records"
    elif batch.timestamp_type_log_append:
        code = ErrorCode.INVALID_TIMESTAMP
        why = "a producer may not set the timestamp type LogAppendTime"
    else:
        why = f"sequence number {batch.base_sequence} with producer id {batch.producer_id}"
    return KafkaError(code, why)


def _check_timestamps(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    if batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        raise _bad_timestamp(batch.max_timestamp, config, now_ms)
    if config.message_timestamp_before_max_ms != NO_LIMIT:
        oldest = now_ms - config.message_timestamp_before_max_ms
        for record in decode_batch(batch):
            if record.timestamp < oldest and record.timestamp != NO_TIMESTAMP:
                raise _bad_timestamp(record.timestamp, config, now_ms)


def _bad_timestamp(timestamp: int, config: LogConfig, now_ms: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is out of range: it should be within "
        f"[{now_ms - config.message_timestamp_before_max_ms}, "
        f"{now_ms + config.message_timestamp_after_max_ms}]",
    )


def _check_keys(batch: RecordBatch, config: LogConfig) -> None:
    if "compact" not in config.cleanup_policy or batch.is_control:
        return
    for record in decode_batch(batch):
        if record.key is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"a compacted topic cannot accept a message without key (record {record.offset})",
            )


def _recompressed(batch: RecordBatch, config: LogConfig) -> RecordBatch:
    """``batch`` in the codec that the topic wants; control batches stay as they are."""
    name = config.compression_type
    target = Compression.NONE if name == _UNCOMPRESSED else Compression[name.upper()]
    source = batch.compression
    if target is source or batch.is_control:
        return batch
    data = assemble_batch(
        compress(target, decompress(source, batch.payload())),
        base_offset=batch.base_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes & ~COMPRESSION_MASK | target,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
    (again,) = parse_batches(data)
    if again.size_bytes > config.max_message_bytes:
        raise _too_large(again, config)
    return again
