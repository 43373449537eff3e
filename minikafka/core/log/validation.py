"""Validation of the batches that a producer sends or that a follower fetches.

Every record of every batch that a client sends is parsed, as in Kafka: a right CRC shows only that
the batch was not damaged on its way. Batches that a coordinator of this broker has built are
read only if a setting of the topic needs it.
Kafka: ``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``, ``ProduceRequest``.
"""

from __future__ import annotations

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.config import (
    KEEP_PRODUCER_COMPRESSION,
    NO_LIMIT,
    UNCOMPRESSED,
    LogConfig,
)
from minikafka.core.log.format_conversion import batch_of_message_set
from minikafka.core.log.record_validation import (
    OpeningBudget,
    has_plain_records,
    opened_batch,
    too_large,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    next_batch,
    parse_batch,
    parse_batches,
)
from minikafka.protocol.records.compression import Compression, DecompressedTooLarge

MAX_OFFSET = 2**62  # beyond any real log; sums with a batch's size still fit 63 bits
# Beyond these sizes validation is done by a worker. Each takes some milliseconds.
LONG_CONVERSION_BYTES = 16 * 1024
LONG_COMPRESSION_BYTES = 64 * 1024
LONG_RECORD_COUNT = 20_000
_unpack_header = HEADER.unpack_from
_NO_RECOMPRESSION = (KEEP_PRODUCER_COMPRESSION, UNCOMPRESSED)


class PreparedBatch:
    """The outcome of validating a client's records before their append: the ``batch`` to append, or
    the ``refusal``. The other one is None."""

    __slots__ = ("batch", "refusal")

    def __init__(self, batch: RecordBatch | None, refusal: KafkaError | None = None) -> None:
        self.batch = batch
        self.refusal = refusal

    def accepted(self) -> RecordBatch:
        """Return the batch. Raises the refusal."""
        if self.batch is None:
            assert self.refusal is not None
            raise self.refusal
        return self.batch

    def in_copy(self, records: Buffer, copy: bytes) -> PreparedBatch:
        """Return the same outcome for a ``copy`` of the ``records`` that were validated."""
        if self.batch is None or self.batch.buffer is not records:  # refused, or rewritten
            return self
        return PreparedBatch(self.batch._replace(buffer=copy))


def prepare_batch(
    records: Buffer, config: LogConfig, now_ms: int, budget: OpeningBudget
) -> PreparedBatch:
    """Validate a client's records for an append that comes later. Raises DecompressedTooLarge if
    the ``budget`` does not suffice; the caller may try again with another one."""
    try:
        return PreparedBatch(leader_batch(records, config, AppendOrigin.CLIENT, now_ms, budget))
    except DecompressedTooLarge:
        raise
    except KafkaError as error:
        return PreparedBatch(None, error)


def is_long_work(records: Buffer, config: LogConfig) -> bool:
    """Return whether the header of a client's batch shows that its validation takes longer than the
    event loop may stand still."""
    if len(records) < BATCH_OVERHEAD or records[MAGIC_OFFSET] != MAGIC_V2:
        return len(records) > LONG_CONVERSION_BYTES
    batch = parse_batch(records, 0)
    codec = batch.attributes & COMPRESSION_MASK
    return batch.record_count > LONG_RECORD_COUNT or (
        len(records) > LONG_COMPRESSION_BYTES
        and codec <= Compression.ZSTD
        and config.target_compression(Compression(codec)) != codec
    )


def leader_batch(
    records: Buffer,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    budget: OpeningBudget | None = None,
) -> RecordBatch:
    """Validate what a producer sends for one partition, and return the batch to append.

    ``records`` must have exactly one batch, or a message set of an older format, which is converted
    to one batch. An incomplete batch after the first one is ignored. The batch is at the start of
    its buffer. Without a ``budget`` the batch gets a separate one.

    Raises DecompressedTooLarge, and KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD,
    INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE. If only some records are invalid, it is a
    RecordValidationError, which names them.
    """
    batch = _only_batch(records)
    if batch is None:
        return batch_of_message_set(records, config, now_ms)
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
            raise _bad_client_header(batch, config)
    elif batch.last_offset_delta < 0:
        raise CorruptRecordError(f"a batch with last offset delta {batch.last_offset_delta}")
    if batch.length + LOG_OVERHEAD > config.max_message_bytes:
        raise too_large(batch.size_bytes, config)
    _check_crc(batch)
    if attributes & COMPRESSION_MASK or not takes_plain_batches(config):
        return opened_batch(batch, config, now_ms, budget or OpeningBudget())
    if origin is AppendOrigin.CLIENT and not has_plain_records(batch):
        # It raises, or returns a corrected batch.
        return opened_batch(batch, config, now_ms, budget or OpeningBudget())
    return batch


def takes_plain_batches(config: LogConfig) -> bool:
    """Return whether a log with this ``config`` stores well-formed batches without compression as
    they are, but for their offsets and a LogAppendTime."""
    return (
        config.message_timestamp_before_max_ms == NO_LIMIT
        and config.message_timestamp_after_max_ms == NO_LIMIT
        and config.cleanup_policy == "delete"
        and config.compression_type in _NO_RECOMPRESSION
    )


def follower_batches(records: Buffer) -> list[RecordBatch]:
    """Validate the batches that a follower has fetched, and return them.

    An incomplete batch at the end is left out. Raises KafkaError: CORRUPT_MESSAGE for a wrong CRC,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for an older format, UNKNOWN_SERVER_ERROR if the offsets do not
    increase.
    """
    batches = parse_batches(records)
    last_offset = -1
    for batch in batches:
        base_offset, delta = batch.base_offset, batch.last_offset_delta
        if not crc_is_valid(batch):
            raise _wrong_crc(batch)
        if base_offset <= last_offset or delta < 0 or base_offset > MAX_OFFSET:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"offsets out of order in an append: {base_offset} after {last_offset}",
            )
        last_offset = base_offset + delta
    return batches


def _only_batch(records: Buffer) -> RecordBatch | None:
    """Return the only batch in ``records``, None if they start with a message of an older format.

    Raises KafkaError: INVALID_RECORD if there is no batch, or another one."""
    end = len(records)
    try:
        batch = next_batch(records, 0, end)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            return None
        raise
    if batch is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have at least one record batch")
    size = batch.length + LOG_OVERHEAD
    if size != end and _more_follows(records, size):
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have exactly one record batch")
    return batch


def _more_follows(records: Buffer, position: int) -> bool:
    try:
        return next_batch(records, position, len(records)) is not None
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            return True
        raise


def _check_crc(batch: RecordBatch) -> None:
    if not crc_is_valid(batch):
        raise _wrong_crc(batch)


def _wrong_crc(batch: RecordBatch) -> CorruptRecordError:
    return CorruptRecordError(
        f"record batch of {batch.size_bytes} bytes at offset {batch.base_offset} is corrupt "
        f"(stored crc = {batch.crc})"
    )


def _bad_client_header(batch: RecordBatch, config: LogConfig) -> KafkaError:
    """Return the error for a producer's batch whose header is invalid.

    Size and CRC are checked before the fields that the CRC covers, so that a damaged batch is
    reported as CORRUPT_MESSAGE. If the topic uses CreateTime, Kafka accepts a batch with the type
    LogAppendTime and changes the type; here it is refused for all topics."""
    if batch.base_offset != 0:
        return KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the base offset of an appended batch should be 0, but it is {batch.base_offset}",
        )
    if batch.size_bytes > config.max_message_bytes:
        return too_large(batch.size_bytes, config)
    _check_crc(batch)
    count = batch.record_count
    if count <= 0 or batch.last_offset_delta != count - 1:
        why = f"a batch with last offset delta {batch.last_offset_delta} and {count} records"
    elif batch.is_control:
        why = "clients may not write control records"
    elif batch.timestamp_type_log_append:
        return KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type LogAppendTime"
        )
    else:
        why = f"sequence number {batch.base_sequence} with producer id {batch.producer_id}"
    return KafkaError(ErrorCode.INVALID_RECORD, why)
