"""A batch of records of one partition, encoded record by record or before.

The types of keys, values, headers and timestamps are checked before. Many keys and values at once
are encoded by loops of C, without a step of the interpreter for a record. In a run of thousands of
records of one size a record takes 0.54 µs, where ``encode_record`` takes 0.88. That is why their
layout is written here a second time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise, repeat
from operator import add
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from minikafka.core.client.producer.sequences import Stamp
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.buffer import Buffer, write_uvarint, write_varlong
from minikafka.protocol.records.batch import BATCH_OVERHEAD, TRANSACTIONAL_FLAG, parse_batches
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import Header, decode_batch, encode_record

Token = TypeVar("Token")

# timestamp in ms, key, value, headers
PendingRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]

BATCH_OVERHEAD_BYTES: Final = BATCH_OVERHEAD
RECORD_OVERHEAD_BYTES: Final = 21  # upper bound: five varints, attributes, delta of a long
HEADER_OVERHEAD_BYTES: Final = 10


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

    ``leader_epoch`` is that of the leader to which the batch was last sent, and ``attempts_there``
    counts the attempts at that leader.

    ``stamp`` is the producer id, epoch and sequence with which the batch was last sent.
    ``in_doubt`` means that a broker may have appended it under that stamp although no response
    says so.
    """

    __slots__ = (
        "attempts",
        "attempts_there",
        "body",
        "created_ms",
        "in_doubt",
        "leader_epoch",
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
        self.attempts_there = 0
        self.leader_epoch = NO_EPOCH
        self.serial = 0  # the order of the batches of an accumulator
        self.in_doubt = False
        self.stamp: Stamp | None = None
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.body: Any = bytearray()  # any buffer in a RunBatch
        self.record_count = 0
        self.max_timestamp = -(1 << 63)
        self.timestamps: list[int] = []
        self.tokens: list[Token] = []

    def append(self, record: PendingRecord, token: Token, size_bytes: int) -> None:
        timestamp, key, value, headers = record
        timestamps = self.timestamps
        count = self.record_count
        delta = timestamp - timestamps[0] if timestamps else 0
        self.body += encode_record(count, delta, key, value, headers)
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
        first, latest = self.timestamps[0], self.max_timestamp
        run = EncodedRun(self.body, self.record_count, first, latest)
        return run.build(compression, self.stamp or Stamp(), level, transactional)

    def sent_to(self, leader_epoch: int) -> None:
        """Note that the next attempt goes to the leader with this epoch."""
        if leader_epoch != self.leader_epoch:
            self.leader_epoch, self.attempts_there = leader_epoch, 0

    @property
    def is_complete(self) -> bool:
        """Whether the batch is sent without waiting for more records."""
        return self.attempts > 0

    def halves(self) -> list[ProducerBatch[Token]]:
        """Return two batches that hold the records of this one and take its place in the order."""
        middle, records = self.record_count // 2, self.records()
        return [self._half(records, slice(0, middle)), self._half(records, slice(middle, None))]

    def _half(self, records: list[PendingRecord], rows: slice) -> ProducerBatch[Token]:
        half: ProducerBatch[Token] = ProducerBatch(self.topic_partition, self.created_ms)
        for record, token in zip(records[rows], self.tokens[rows], strict=True):
            half.append(record, token, record_size_bytes(record))
        half.attempts = self.attempts  # closes the batch for appends
        half.serial = self.serial
        return half

    def records(self) -> list[PendingRecord]:
        """Decode the records from the encoded body."""
        (batch,) = parse_batches(self.build(Compression.NONE))
        return [record[1:] for record in decode_batch(batch)]


class EncodedRun(NamedTuple):
    """The encoded records of a whole batch, with offset deltas from 0 on. Times are in ms."""

    body: Buffer
    record_count: int
    base_timestamp: int
    max_timestamp: int

    @property
    def size_bytes(self) -> int:
        return len(self.body)

    def build(
        self,
        compression: Compression,
        stamp: Stamp,
        level: int | None = None,
        transactional: bool = False,
    ) -> bytes:
        """Return the batch, with base offset 0."""
        plain = compression is Compression.NONE
        return assemble_batch(
            self.body if plain else compress(compression, self.body, level),
            attributes=int(compression) | (TRANSACTIONAL_FLAG if transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=stamp.sequence,
            record_count=self.record_count,
        )


class RunOutcome(Protocol):
    """Receives the outcome of records that were appended together, perhaps in several parts."""

    def delivered(
        self, topic_partition: TopicPartition, base_offset: int, record_count: int
    ) -> None: ...

    def failed(self, record_count: int, error: KafkaError) -> None: ...

    def silence(self) -> None: ...


class RunBatch(ProducerBatch[Token]):
    """A batch of records that came together, encoded before. It takes no more records, and has an
    ``outcome`` instead of tokens."""

    __slots__ = ("outcome",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        created_ms: int,
        run: EncodedRun,
        outcome: RunOutcome,
    ) -> None:
        super().__init__(topic_partition, created_ms)
        self.body = run.body
        self.record_count = run.record_count
        self.timestamps = [run.base_timestamp]
        self.max_timestamp = run.max_timestamp
        self.size_bytes += run.size_bytes
        self.outcome = outcome

    @property
    def is_complete(self) -> bool:
        return True

    def _half(self, records: list[PendingRecord], rows: slice) -> ProducerBatch[Token]:
        plain: ProducerBatch[None] = ProducerBatch(self.topic_partition, self.created_ms)
        for record in records[rows]:
            plain.append(record, None, 0)
        run = EncodedRun(plain.body, plain.record_count, plain.timestamps[0], plain.max_timestamp)
        half: RunBatch[Token] = RunBatch(self.topic_partition, self.created_ms, run, self.outcome)
        half.attempts = self.attempts
        half.serial = self.serial
        return half


LAST_TIMESTAMP_MS: Final = (1 << 63) - 1


def as_bytes(content: object) -> bytes | None:
    """Return bytes-like content as bytes, and None as None. Raises TypeError for anything else."""
    if content is None:
        return None
    if not isinstance(content, bytes | bytearray | memoryview):
        kind = type(content).__name__
        raise TypeError(f"keys, values and header values must be bytes or None, not {kind}")
    return bytes(content)


def as_headers(headers: Sequence[Header]) -> list[Header]:
    """Return headers as pairs of str and bytes. Raises TypeError for a dict or other types."""
    if isinstance(headers, dict):
        raise TypeError("headers must be pairs of name and value, not a dict")
    return [
        (name, content) if type(content) is bytes and type(name) is str else _header(name, content)
        for name, content in headers
    ]


def _header(name: str, content: bytes | None) -> Header:
    if not isinstance(name, str):
        raise TypeError("header names must be str")
    return name, as_bytes(content)


def check_timestamp(timestamp_ms: int) -> None:
    """Check a timestamp in milliseconds since 1970.

    Raises TypeError unless it is an int, ValueError if it is negative or exceeds 64 bits.
    """
    if not isinstance(timestamp_ms, int):
        raise TypeError("timestamp_ms must be an int, in milliseconds")
    if not 0 <= timestamp_ms <= LAST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms {timestamp_ms}: negative, or beyond 64 bits")


# Offset deltas below these numbers take one, two and three bytes.
_OFFSET_BOUNDS: Final = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27)
# The 64 lowest deltas, zigzag-coded: alone, and as the first byte of a longer number.
_SHORT: Final = [bytes([2 * delta]) for delta in range(64)]
_LOW: Final = [bytes([0x80 | 2 * delta]) for delta in range(64)]
_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\0"


def encode_runs(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    timestamp_ms: int,
    most_bytes: int,
) -> Iterator[EncodedRun]:
    """Encode records in order, in runs of at most ``most_bytes`` or one record."""
    for begin, end in _cut(record_sizes(values, keys), most_bytes):
        some = values[begin:end]
        of_keys = None if keys is None else keys[begin:end]
        yield EncodedRun(_encode(some, of_keys), end - begin, timestamp_ms, timestamp_ms)


def record_sizes(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> list[int]:
    """Return an upper bound of each record's encoded size, in bytes."""
    sizes = map(add, _lengths(values), repeat(RECORD_OVERHEAD_BYTES))
    return list(sizes if keys is None else map(add, sizes, _lengths(keys)))


def _lengths(contents: Sequence[bytes | None]) -> Iterable[int]:
    if None in contents:
        return [len(content or b"") for content in contents]
    return map(len, contents)  # type: ignore[arg-type]


def _cut(sizes: Sequence[int], most_bytes: int) -> Iterator[tuple[int, int]]:
    ends = list(accumulate(sizes))
    begin = begun_bytes = 0
    while begin < len(ends):
        end = max(begin + 1, bisect_right(ends, begun_bytes + most_bytes))
        yield begin, end
        begin, begun_bytes = end, ends[end - 1]


def _encode(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> bytes:
    if None in values or (keys is not None and None in keys):
        of_keys = keys or repeat(None)
        rows = enumerate(zip(values, of_keys, strict=False))
        return b"".join(encode_record(at, 0, key, value, ()) for at, (value, key) in rows)
    pieces: list[bytes] = []
    deltas = _offset_deltas(len(values))
    for width, (begin, end) in enumerate(pairwise(_OFFSET_BOUNDS), 1):
        if begin >= len(values):
            break
        some, offsets = values[begin:end], deltas[begin:end]
        sizes = list(map(len, some))  # type: ignore[arg-type]
        if keys is None:
            heads = map(_Heads(width).__getitem__, zip(repeat(-1), sizes, strict=False))
            rest = map(_ValueSizes(_NULL).__getitem__, sizes)
            parts = zip(heads, offsets, rest, some, repeat(_NO_HEADERS), strict=False)
        else:
            of_keys = keys[begin:end]
            key_sizes = list(map(len, of_keys))  # type: ignore[arg-type]
            heads = map(_Heads(width).__getitem__, zip(key_sizes, sizes, strict=True))
            before = map(_ValueSizes().__getitem__, key_sizes)
            rest = map(_ValueSizes().__getitem__, sizes)
            parts = zip(
                heads, offsets, before, of_keys, rest, some, repeat(_NO_HEADERS), strict=False
            )
        pieces.append(b"".join(chain.from_iterable(parts)))  # type: ignore[arg-type]
    return b"".join(pieces)


def _offset_deltas(count: int) -> list[bytes]:
    """Encode the numbers from 0 to ``count`` and a few more, zigzag-coded."""
    highs = map(write_uvarint, range(1, (count + 63) >> 6))
    return _SHORT + [low + high for high in highs for low in _LOW]


class _Heads(dict[tuple[int, int], bytes]):
    """The first bytes of records by the sizes of key and value: length, attributes 0, timestamp
    delta 0. ``width`` is the size of the offset delta that follows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def __missing__(self, sizes: tuple[int, int]) -> bytes:
        contents = sum(len(write_varlong(size)) + max(0, size) for size in sizes)
        head = self[sizes] = write_varlong(3 + self._width + contents) + b"\0\0"
        return head


class _ValueSizes(dict[int, bytes]):
    """Encoded sizes, after bytes that are the same for all records."""

    def __init__(self, before: bytes = b"") -> None:
        super().__init__()
        self._before = before

    def __missing__(self, size: int) -> bytes:
        encoded = self[size] = self._before + write_varlong(size)
        return encoded
