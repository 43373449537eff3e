"""The header of a record batch (magic 2): parsing it, checking its CRC, stamping it in place.

    baseOffset i64 | batchLength i32 | partitionLeaderEpoch i32 | magic i8 | crc u32 |
    attributes i16 | lastOffsetDelta i32 | baseTimestamp i64 | maxTimestamp i64 |
    producerId i64 | producerEpoch i16 | baseSequence i32 | recordCount i32 | records ...

The CRC-32C covers everything from ``attributes`` on, so a broker may set the base offset and the
leader epoch without computing it again. Kafka: ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_module import LazyModule
from minikafka.protocol.buffer import Buffer, DecodeError, read_varlong
from minikafka.protocol.records.compression import (
    LARGEST_DECOMPRESSED_BYTES,
    Compression,
    DecompressedTooLarge,
    decompress,
)

crc32c: Any = LazyModule("crc32c")


LOG_OVERHEAD: Final = 12  # base offset and batch length, which the length does not count
BATCH_OVERHEAD: Final = 61  # the whole header
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
LAST_DELTA_OFFSET: Final = 23  # of lastOffsetDelta
MAGIC_V2: Final = 2
SMALLEST_LENGTH: Final = 14  # of a magic 0 message: what Kafka accepts as a length at all

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 0x7FFFFFFF

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_FIELDS: Final = 13  # the first fields of a RecordBatch
_PREFIX: Final = Struct(">qi")  # base offset, length
_STAMP: Final = Struct(">qii")  # base offset, length, leader epoch
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_OFFSET: Final = 35
_PRODUCER_OFFSET: Final = 43
FLAGS_OFFSET: Final = ATTRIBUTES_OFFSET + 1  # the byte of the attributes that has flags
# Sets the base offset, the length and the leader epoch of the batch at a position.
stamp_at: Final = _STAMP.pack_into
_unpack_header = HEADER.unpack_from
_unpack_count = Struct(">i").unpack_from
_unpack_producer = Struct(">qhi").unpack_from  # id, epoch, base sequence
_new_batch = tuple.__new__


class CorruptRecordError(KafkaError):
    """Bytes are not a valid record batch, or their CRC is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class RecordBatch(NamedTuple):
    """The parsed header of a record batch, and the batch's position in ``buffer``, without a copy.

    Times are milliseconds since 1970, or -1. The first ``HEADER_FIELDS`` fields are those
    of the header.
    """

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int
    buffer: Buffer

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and records."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record (wraps after 2**31 - 1), or -1 without a producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for a codec that does not exist."""
        return compression_of(self.attributes)

    @property
    def timestamp_type_log_append(self) -> bool:
        """True when ``max_timestamp`` is the broker's time and holds for every record."""
        return bool(self.attributes & TIMESTAMP_TYPE_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether ``base_timestamp`` is the delete horizon: the time after which compaction may
        remove the batch's tombstones (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    def view(self) -> memoryview:
        """The bytes of the whole batch."""
        return memoryview(self.buffer)[self.position : self.position + self.size_bytes]

    def payload(self) -> memoryview:
        """The records, still compressed if they are."""
        return payload_of(self)

    def plain_records(self, limit: int = LARGEST_DECOMPRESSED_BYTES) -> bytes:
        """A copy of the records, decompressed. Raises CorruptRecordError, DecompressedTooLarge, and
        KafkaError as ``compression``."""
        codec = self.compression
        payload = self.payload()
        if codec is Compression.NONE:
            return bytes(payload)

        check = partial(_check_first_record, codec=codec, limit=limit)
        return decompress(codec, payload, limit, check)


def _check_first_record(start: Buffer, codec: Compression, limit: int) -> None:
    """Refuse records of which the first one has no bytes, as where all bytes are 0, or more than
    ``limit``."""
    try:
        length, _ = read_varlong(start, 0)
    except DecodeError as error:
        raise CorruptRecordError(f"the length of the first record: {error}") from error
    if length <= 0:
        raise CorruptRecordError(f"a record of {length} bytes")
    if length > limit:
        raise DecompressedTooLarge(codec, limit)


def compression_of(attributes: int) -> Compression:
    """Return the codec that the attributes of a batch or message name. Raises
    KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for one that does not exist."""
    codec = attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type id {codec}"
        )
    return Compression(codec)


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequences run over 0..2**31 - 1 and start again at 0."""
    if sequence > MAX_SEQUENCE - increment:
        return increment - (MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def record_count_of(buffer: Buffer) -> int:
    """Return the number of records that the header at the start of ``buffer`` has."""
    count: int = _unpack_count(buffer, BATCH_OVERHEAD - 4)[0]
    return count


def is_transactional(buffer: Buffer) -> bool:
    """Return whether the batch at the start of ``buffer`` belongs to a transaction. False if the
    buffer is shorter than a header, or starts with a message of an older format."""
    return (
        len(buffer) >= BATCH_OVERHEAD
        and buffer[FLAGS_OFFSET] & TRANSACTIONAL_FLAG != 0
        and buffer[MAGIC_OFFSET] == MAGIC_V2
    )


def producer_of(buffer: Buffer) -> tuple[ProducerIdAndEpoch, int]:
    """Return the producer and the base sequence of the batch at the start of ``buffer``."""
    producer_id, epoch, sequence = _unpack_producer(buffer, _PRODUCER_OFFSET)
    return ProducerIdAndEpoch(producer_id, epoch), sequence


def parse_batch(buffer: Buffer, position: int) -> RecordBatch:
    """Parse the header at ``position``. The caller has checked that 61 bytes are there."""
    fields = _unpack_header(buffer, position) + (position, buffer)  # noqa: RUF005 - faster
    return _new_batch(RecordBatch, fields)


def next_batch(buffer: Buffer, position: int, end: int) -> RecordBatch | None:
    """Return the batch at ``position``, None if ``buffer[position:end]`` has no complete batch.

    Raises CorruptRecordError for a length or magic that no batch can have, and
    KafkaError(UNSUPPORTED_FOR_MESSAGE_FORMAT) for the message sets of magic 0 and 1.
    """
    remaining = end - position
    if remaining >= BATCH_OVERHEAD:
        batch = parse_batch(buffer, position)
        if batch.magic == MAGIC_V2 and batch.length >= BATCH_OVERHEAD - LOG_OVERHEAD:
            return batch if batch.length + LOG_OVERHEAD <= remaining else None
    if remaining <= MAGIC_OFFSET:
        if remaining >= LOG_OVERHEAD:
            _check_length(_PREFIX.unpack_from(buffer, position)[1])
        return None
    length = _PREFIX.unpack_from(buffer, position)[1]
    _check_length(length)
    magic = buffer[position + MAGIC_OFFSET]
    if magic > MAGIC_V2:
        raise CorruptRecordError(f"invalid magic found in record: {magic}")
    if length + LOG_OVERHEAD > remaining:
        return None
    if magic < MAGIC_V2:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic} is not supported"
        )
    raise CorruptRecordError(
        f"record batch is corrupted (the size {length + LOG_OVERHEAD} is smaller than the "
        f"minimum allowed overhead {BATCH_OVERHEAD})"
    )


def _check_length(length: int) -> None:
    if length < SMALLEST_LENGTH:
        raise CorruptRecordError(
            f"record size {length} is less than the minimum record overhead ({SMALLEST_LENGTH})"
        )


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Yield the complete batches in ``buffer``. Raises the errors of ``next_batch``."""
    end = len(buffer)
    while (batch := next_batch(buffer, position, end)) is not None:
        yield batch
        position += batch.length + LOG_OVERHEAD


def parse_batches(buffer: Buffer) -> list[RecordBatch]:
    """Return the complete batches in ``buffer``. An incomplete batch at the end is left out. Raises
    the errors of ``next_batch``."""
    batches, position, end = [], 0, len(buffer)
    while (batch := next_batch(buffer, position, end)) is not None:
        batches.append(batch)
        position += batch.length + LOG_OVERHEAD
    return batches


def crc_of(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC-32C of the batch of ``size_bytes`` at ``position``."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    crc: int = crc32c.crc32c(view[position + ATTRIBUTES_OFFSET : position + size_bytes])
    return crc


def payload_of(batch: RecordBatch) -> memoryview:
    """Return the ``payload`` of a batch. Compiled code calls functions faster than such methods."""
    buffer, position = batch.buffer, batch.position
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return view[position + BATCH_OVERHEAD : position + batch.length + LOG_OVERHEAD]


def crc_is_valid(batch: RecordBatch) -> bool:
    return crc_of(batch.buffer, batch.position, batch.length + LOG_OVERHEAD) == batch.crc


def stamp_log_append_time(
    buffer: bytearray | memoryview, batch: RecordBatch, timestamp_ms: int
) -> None:
    """Mark a batch with the broker's time: attribute bit 3, the max timestamp, and a new CRC."""
    position = batch.position
    _ATTRIBUTES.pack_into(
        buffer, position + ATTRIBUTES_OFFSET, batch.attributes | TIMESTAMP_TYPE_FLAG
    )
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_OFFSET, timestamp_ms)
    _CRC.pack_into(buffer, position + CRC_OFFSET, crc_of(buffer, position, batch.size_bytes))
