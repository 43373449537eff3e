"""From stored batches to the message sets that old consumers read.

Kafka: ``RecordsUtil.downConvert``, ``LazyDownConversionRecords``.
"""

from __future__ import annotations

import struct

from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    iterate_batches,
)
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import encode_message_set
from minikafka.protocol.records.record import decode_batch


def message_set_of_batches(records: Buffer, magic: int, first_offset: int, max_bytes: int) -> bytes:
    """Convert whole batches to messages of ``magic`` 0 or 1, for a Fetch response.

    Stop before ``max_bytes`` are exceeded, but convert at least one batch with records. The old
    formats cannot carry headers, producer ids and transaction markers, nor timestamps in magic 0;
    these are lost. From an uncompressed batch, records below ``first_offset`` (the fetch offset)
    are left out, because some versions of librdkafka do not skip them.

    Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) if the first batch with records is compressed
    with zstd (KIP-110), CORRUPT_MESSAGE for a batch that cannot be converted. A later zstd batch
    ends the result, and the client's next fetch starts with it.
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


def _message_set(batch: RecordBatch, magic: int, first_offset: int) -> bytes:
    records = list(decode_batch(batch))
    codec = batch.compression
    if codec is Compression.NONE:
        records = [record for record in records if record.offset >= first_offset]
    if not records:
        return b""
    try:
        return encode_message_set(records, magic, codec, batch.timestamp_type_log_append)
    except struct.error as error:
        raise CorruptRecordError(f"batch at offset {batch.base_offset}: {error}") from error
