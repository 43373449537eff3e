"""Conversion between record batches and the message sets of magic 0 and 1.

Up-conversion turns the message set that an old producer sends into one record batch (Kafka:
``LogValidator``). Down-conversion turns stored batches into the message sets that old consumers
read (Kafka: ``RecordsUtil.downConvert``, ``LazyDownConversionRecords``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import (
    MAX_TIMESTAMP,
    RecordProblem,
    record_problem,
    refuse,
    too_large,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
    iterate_batches,
    parse_batch,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import (
    LegacyMessage,
    encode_message_set,
    inner_messages,
    iterate_messages,
)
from minikafka.protocol.records.record import Record
from minikafka.protocol.records.record_layout import Want, compile_walk

# -- up-conversion


def batch_of_message_set(records: Buffer, config: LogConfig, now_ms: int) -> RecordBatch:
    """Convert the messages in ``records`` to one batch, without a producer id.

    The batch has the topic's ``compression.type``, or the codec of the messages if that is
    ``producer``. An incomplete message at the end is left out.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE for a message or for the batch; INVALID_RECORD, for example if there are no
    messages, messages of both formats, or others beside a compressed one.
    """
    messages = list(iterate_messages(records))
    if not messages:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an append must have at least one message")
    for message in messages:
        if message.size_bytes > config.max_message_bytes:
            raise too_large(message.size_bytes, config)
        _check_crc(message)
    first = messages[0]
    source = max(messages, key=_codec).compression
    if source is not Compression.NONE:
        if len(messages) > 1:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a compressed message must be the only one in its set"
            )
        messages = inner_messages(first)
        for message in messages:
            _check_crc(message)
    refuse(
        _problem(index, message, first, config, now_ms) for index, message in enumerate(messages)
    )
    target = config.target_compression(source)
    data = build_batch(
        [(message.timestamp, message.key, message.value, ()) for message in messages],
        compression=target,
        compression_level=config.compression_level(target),
    )
    if len(data) > config.max_message_bytes:
        raise too_large(len(data), config)
    return parse_batch(data, 0)


def _codec(message: LegacyMessage) -> int:
    return message.attributes & COMPRESSION_MASK


def _check_crc(message: LegacyMessage) -> None:
    if not message.crc_is_valid:
        raise CorruptRecordError(f"a message of {message.size_bytes} bytes has a wrong CRC")


def _problem(
    index: int, message: LegacyMessage, first: LegacyMessage, config: LogConfig, now_ms: int
) -> RecordProblem | None:
    """Return why a message is refused, None if it is accepted. ``first`` is the first message of
    the set: for compressed messages, the one that contains them."""
    if message.magic != first.magic:
        why = f"a message of magic {message.magic} among those of magic {first.magic}"
        return index, ErrorCode.INVALID_RECORD, why
    if first.timestamp_type_log_append or message.timestamp_type_log_append:
        why = "a producer may not set the timestamp type LogAppendTime"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    if not NO_TIMESTAMP <= message.timestamp < MAX_TIMESTAMP:
        why = f"{message.timestamp} is not a valid timestamp"
        return index, ErrorCode.INVALID_TIMESTAMP, why
    return record_problem(index, message.key, message.timestamp, config, now_ms)


# -- down-conversion


def message_set_of_batches(records: Buffer, magic: int, first_offset: int, max_bytes: int) -> bytes:
    """Convert whole batches to messages of ``magic`` 0 or 1, for a Fetch response.

    Stop before ``max_bytes`` are exceeded, but convert at least one batch with records. The old
    formats cannot carry headers, producer ids and transaction markers, nor timestamps in magic 0;
    these are lost. From an uncompressed batch, records below ``first_offset`` (the fetch offset)
    are left out, because some versions of librdkafka do not skip them.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE if the first batch with records is compressed
    with zstd (KIP-110), CORRUPT_MESSAGE for a batch that cannot be converted, MESSAGE_TOO_LARGE for
    one that is larger than ``LARGEST_DECOMPRESSED_BYTES`` when decompressed or converted. A later
    zstd batch ends the result, and the client's next fetch starts with it.
    """
    parts: list[bytes] = []
    size = 0
    for batch in iterate_batches(records):
        if batch.is_control:
            continue
        if parts and batch.compression is Compression.ZSTD:
            break
        part = _message_set(batch, magic, first_offset)
        if parts and size + len(part) > max_bytes:
            break
        size += len(part)
        if part:
            parts.append(part)
    return b"".join(parts)


# Headers are lost in old formats, and not parsed: one record may have millions.
_find_records: Callable[[bytes, int], Iterator[tuple[int, int, bytes | None, bytes | None]]] = (
    compile_walk(
        "find_contents",
        "data, count",
        {
            "timestamp_delta": Want.SIGNED,
            "offset_delta": Want.SIGNED,
            "key": Want.CONTENT,
            "value": Want.CONTENT,
        },
        each="yield offset_delta, timestamp_delta, key, value",
    )
)


def _records(batch: RecordBatch, first_offset: int) -> Iterator[Record]:
    """Yield the records of ``batch`` from ``first_offset`` on, without headers. Raises
    KafkaError."""
    append_time = batch.max_timestamp if batch.timestamp_type_log_append else None
    for delta, timestamp_delta, key, value in _find_records(
        batch.plain_records(), batch.record_count
    ):
        offset = batch.base_offset + delta
        if offset >= first_offset:
            timestamp = batch.base_timestamp + timestamp_delta
            if append_time is not None:
                timestamp = append_time
            yield Record(offset, timestamp, key, value, [])


def _message_set(batch: RecordBatch, magic: int, first_offset: int) -> bytes:
    codec = batch.compression
    records = _records(batch, first_offset if codec is Compression.NONE else batch.base_offset)
    try:
        return encode_message_set(records, magic, codec, batch.timestamp_type_log_append)
    except struct.error as error:
        raise CorruptRecordError(f"batch at offset {batch.base_offset}: {error}") from error
