"""A batch of records of one partition, encoded record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from minikafka.core.client.producer.sequences import Stamp
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.buffer import write_uvarint, write_varlong
from minikafka.protocol.records.batch import NO_LEADER_EPOCH, parse_batches
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import Header, Record, decode_batch, encode_record

Token = TypeVar("Token")

# timestamp in ms, key, value, headers
PendingRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 21  # upper bound: five varints, attributes, delta of a long
HEADER_OVERHEAD_BYTES: Final = 10

# Varints of numbers 0..: looked up, because most records need six of them.
_TABLE_SIZE: Final = 4096
_ZIGZAG: Final = tuple(write_uvarint(number << 1) for number in range(_TABLE_SIZE))
_NULL: Final = b"\x01"


def record_size_bytes(record: PendingRecord) -> int:
    """Return an upper bound of a record's uncompressed size in a batch, in bytes."""
    _, key, value, headers = record
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size


class ProducerBatch(Generic[Token]):
    """A batch of records for one partition, encoded as records are appended.

    ``tokens`` holds the caller's token of each record, in order. ``size_bytes`` is an upper
    bound of the uncompressed size.

    ``stamp`` is the producer id, epoch and sequence with which the batch was last sent.
    ``in_doubt`` means that a broker may have appended it under that stamp although no response
    says so.
    """

    __slots__ = (
        "attempts",
        "body",
        "created_ms",
        "in_doubt",
        "max_timestamp",
        "not_before_ms",
        "record_count",
        "serial",
        "size_bytes",
        "stamp",
        "timestamps",
        "tokens",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: int) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.not_before_ms = created_ms  # a retry's backoff moves it on
        self.attempts = 0
        self.serial = 0  # the order of the batches of an accumulator
        self.in_doubt = False
        self.stamp: Stamp | None = None
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.body = bytearray()
        self.record_count = 0
        self.max_timestamp = -(1 << 63)
        self.timestamps: list[int] = []
        self.tokens: list[Token] = []

    def append(self, record: PendingRecord, token: Token, size_bytes: int) -> None:
        timestamp, key, value, headers = record
        timestamps = self.timestamps
        count = self.record_count
        delta = timestamp - timestamps[0] if timestamps else 0
        if headers or delta < 0 or delta >= _TABLE_SIZE or count >= _TABLE_SIZE:
            self.body += encode_record(count, delta, key, value, headers)
        else:
            self.body += _plain_record(_ZIGZAG[count], _ZIGZAG[delta], key, value)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.record_count = count + 1
        timestamps.append(timestamp)
        self.tokens.append(token)
        self.size_bytes += size_bytes

    def build(
        self, compression: Compression, level: int | None = None, transactional: bool = False
    ) -> bytes:
        """Encode the batch with its stamp, if any."""
        stamp = self.stamp or Stamp()
        return assemble_batch(
            compress(compression, self.body, level),
            base_offset=0,
            leader_epoch=NO_LEADER_EPOCH,
            attributes=int(compression) | (0x10 if transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.timestamps[0],
            max_timestamp=self.max_timestamp,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=stamp.sequence,
            record_count=self.record_count,
        )

    def records(self) -> list[Record]:
        """Decode the records from the encoded body, to split the batch."""
        (batch,) = parse_batches(self.build(Compression.NONE))
        return list(decode_batch(batch))


def _plain_record(offset: bytes, timestamp: bytes, key: bytes | None, value: bytes | None) -> bytes:
    """Encode a record without headers; ``offset`` and ``timestamp`` are deltas encoded as
    varints."""
    if key is None:
        key_part = _NULL
    else:
        length = len(key)
        key_part = (_ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)) + key
    if value is None:
        rest = b"".join((b"\0", timestamp, offset, key_part, b"\x01\0"))
    else:
        length = len(value)
        size = _ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)
        rest = b"".join((b"\0", timestamp, offset, key_part, size, value, b"\0"))
    length = len(rest)
    return (_ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)) + rest
