"""Decoding of fetched record batches to Arrow, with numpy over all records of many batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.columns import binary_column, headers_column, number_column
from minikafka.client.columnar.varints import Bytes, Ints, decode_varints
from minikafka.core.client.consumer.fetched import AbortedTransactions
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    iterate_batches,
)
from minikafka.protocol.records.record_layout import RECORD, FieldKind

if TYPE_CHECKING:
    import pyarrow as pa

# The most decompressed bytes that become one Arrow batch, unless a single Kafka batch is larger.
# Arrow's offsets into a column are 32 bits wide.
CHUNK_BYTES: Final = 16 * 1024 * 1024
CHUNK_BATCHES: Final = 4096
# The largest absolute value of a timestamp whose microseconds fit into Arrow's and Spark's 64 bits.
_MOST_MS: Final = ((1 << 63) - 1) // 1000
_LARGEST_SHORT = 0x7F
_SHORTEST_RUN = 8


@dataclass(frozen=True)
class Slice:
    """The offsets ``start <= offset < end`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Records:
    """The records of some batches, as arrays with one entry for each record.

    Keys, values and headers are given by their positions in ``data``. The size of null is -1."""

    data: Bytes
    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: Ints
    key_starts: Ints
    key_sizes: Ints
    value_starts: Ints
    value_sizes: Ints
    header_counts: Ints
    header_starts: Ints

    def select(self, rows: Any) -> Records:
        return Records(self.data, *(getattr(self, name)[rows] for name in _PER_RECORD))


_PER_RECORD = tuple(Records.__dataclass_fields__)[1:]


def record_schema() -> pa.Schema:
    """Return all columns of a record, with the names and types of Spark's Kafka connector."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(header)),
        ]
    )


def visible_batches(
    buffer: Buffer, span: Slice, aborted: Iterable[tuple[int, int]], check_crcs: bool = True
) -> Iterator[RecordBatch]:
    """Yield the complete batches in ``buffer`` that have offsets of a slice.

    Control batches are left out, and so are batches of aborted transactions, which ``aborted``
    lists by (producer id, first offset). Raises CorruptRecordError for a wrong CRC or a malformed
    batch, and KafkaError for a batch of an older format.
    """
    hidden = AbortedTransactions(aborted)
    for batch in iterate_batches(buffer):
        if batch.base_offset >= span.end:
            return
        if check_crcs and not crc_is_valid(batch):
            raise CorruptRecordError(
                f"{span.topic}-{span.partition}: the batch at offset {batch.base_offset} "
                "fails its CRC"
            )
        if not hidden.hides(batch) and batch.last_offset >= span.start and batch.record_count:
            yield batch


def next_offset(buffer: Buffer, position: int) -> int:
    """Return the next offset to fetch: the one after the complete batches in ``buffer``.

    It is ``position``, the last fetch offset, if there is no complete batch."""
    for batch in iterate_batches(buffer):
        position = max(position, batch.next_offset)
    return position


def decode_to_arrow(
    buffer: Buffer,
    span: Slice,
    schema: pa.Schema,
    aborted: Iterable[tuple[int, int]] = (),
    check_crcs: bool = True,
    overflow_is_null: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode the records of ``span`` in ``buffer`` into the columns of ``schema`` (some of those
    of the Kafka connector, in any order).

    With ``overflow_is_null`` a timestamp beyond the range of Arrow's microseconds is null. Raises
    CorruptRecordError, KafkaError; INVALID_TIMESTAMP for such a timestamp otherwise."""
    group: list[RecordBatch] = []
    size = 0
    for batch in visible_batches(buffer, span, aborted, check_crcs):
        if group and (size + batch.length > CHUNK_BYTES or len(group) == CHUNK_BATCHES):
            yield from batches_to_arrow(group, span, schema, overflow_is_null)
            group, size = [], 0
        group.append(batch)
        size += batch.length
        if batch.attributes & COMPRESSION_MASK:
            size += 3 * batch.length  # a guess of what comes out
    if group:
        yield from batches_to_arrow(group, span, schema, overflow_is_null)


def batches_to_arrow(
    batches: Sequence[RecordBatch], span: Slice, schema: pa.Schema, overflow_is_null: bool = False
) -> Iterator[pa.RecordBatch]:
    """Decode the records of ``span`` in ``batches``, all of which are visible to the consumer.
    ``overflow_is_null`` and the errors are those of ``decode_to_arrow``."""
    import pyarrow as pa

    for records in decode_batches(batches):
        offsets = records.offsets
        if offsets.min() < span.start or offsets.max() >= span.end:
            records = records.select((offsets >= span.start) & (offsets < span.end))
        if len(records.offsets):
            columns = [_column(name, records, span, overflow_is_null) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(name: str, records: Records, span: Slice, overflow_is_null: bool) -> pa.Array:
    import pyarrow as pa

    match name:
        case "key":
            return binary_column(records.data, records.key_starts, records.key_sizes)
        case "value":
            return binary_column(records.data, records.value_starts, records.value_sizes)
        case "topic":
            topic = span.topic.encode()
            bounds = np.arange(len(records.offsets) + 1, dtype=np.int32) * np.int32(len(topic))
            texts = pa.py_buffer(topic * len(records.offsets))
            return pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), texts)
        case "partition":
            same = np.full(len(records.offsets), span.partition, np.int32)
            return number_column(same, pa.int32())
        case "offset":
            return number_column(records.offsets, pa.int64())
        case "timestamp":
            return _timestamps(records, span, overflow_is_null)
        case "timestampType":
            return number_column(records.timestamp_types.astype(np.int32), pa.int32())
        case "headers":
            return headers_column(records.data, records.header_counts, records.header_starts)
    raise ValueError(f"no column {name}")


def _timestamps(records: Records, span: Slice, overflow_is_null: bool) -> pa.Array:
    """Return the column ``timestamp``. Raises KafkaError INVALID_TIMESTAMP."""
    import pyarrow as pa

    times = records.timestamps_ms
    kind = pa.timestamp("us", tz="UTC")
    if times.min() >= -_MOST_MS and times.max() <= _MOST_MS:
        return number_column(times * 1000, kind)
    beyond = (times < -_MOST_MS) | (times > _MOST_MS)
    if not overflow_is_null:
        row = int(np.argmax(beyond))
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"{span.topic}-{span.partition} at offset {records.offsets[row]}: the timestamp "
            f"{times[row]} ms since 1970 is beyond the range of timestamps in microseconds",
        )
    return number_column(np.where(beyond, 0, times) * 1000, kind, beyond)


def decode_batches(batches: Sequence[RecordBatch]) -> Iterator[Records]:
    """Decode the records of ``batches``, in several parts if they take many bytes decompressed."""
    part: list[RecordBatch] = []
    plain: list[Buffer] = []
    size = 0
    for batch in batches:
        data = _payload(batch)
        if part and size + len(data) > 2 * CHUNK_BYTES:
            yield _decode(part, plain)
            part, plain, size = [], [], 0
        part.append(batch)
        plain.append(data)
        size += len(data)
    yield _decode(part, plain)


def _payload(batch: RecordBatch) -> Buffer:
    if batch.attributes & COMPRESSION_MASK:
        return batch.plain_records()
    return batch.payload()


def _decode(batches: Sequence[RecordBatch], plain: Sequence[Buffer]) -> Records:
    raw = bytes(plain[0]) if len(plain) == 1 else b"".join(plain)
    data = np.frombuffer(raw, np.uint8)
    counts = np.array([batch.record_count for batch in batches], np.int64)
    ends = np.cumsum([len(each) for each in plain])
    begins = np.concatenate(([0], ends[:-1]))
    try:
        if counts.min() > 0 and counts.max() <= len(batches):
            starts = _starts_side_by_side(data, begins, ends, counts)
        else:
            spans = zip(begins.tolist(), ends.tolist(), batches, strict=True)
            starts = np.concatenate([_record_starts(raw, *span) for span in spans])
        return _decode_fields(data, starts, batches, counts)
    except IndexError:
        raise CorruptRecordError(f"a record near offset {batches[0].base_offset} is cut off") from (
            None
        )


def _decode_fields(
    data: Bytes, starts: Ints, batches: Sequence[RecordBatch], counts: Ints
) -> Records:
    def of_batch(values: Iterable[int]) -> Ints:
        return np.repeat(np.fromiter(values, np.int64, len(batches)), counts)

    # Of each field the varints, and the positions after them; ``at`` moves from field to field.
    found: dict[str, tuple[Ints, Ints]] = {}
    at = record_ends = starts
    for field in RECORD:
        if field.kind is FieldKind.BYTE:
            at = at + 1
            continue
        values, at = found[field.name] = decode_varints(data, at)
        if field.kind is FieldKind.LENGTH:
            record_ends = at + values
        elif field.kind is FieldKind.BYTES:
            at = at + np.maximum(values, 0)
            if (values < -1).any() or (at >= record_ends).any():
                raise CorruptRecordError(f"malformed records near offset {batches[0].base_offset}")
    header_counts, header_starts = found["headers"]
    bare = header_counts == 0
    if (header_counts < 0).any() or (header_starts[bare] != record_ends[bare]).any():
        raise CorruptRecordError(f"malformed headers near offset {batches[0].base_offset}")
    offsets, timestamps = found["offset_delta"][0], found["timestamp_delta"][0]
    key_sizes, key_starts = found["key"]
    value_sizes, value_starts = found["value"]
    timestamps += of_batch(batch.base_timestamp for batch in batches)
    append_time = of_batch(batch.timestamp_type_log_append for batch in batches)
    if append_time.any():
        largest = of_batch(batch.max_timestamp for batch in batches)
        timestamps = np.where(append_time, largest, timestamps)
    offsets += of_batch(batch.base_offset for batch in batches)
    return Records(
        data, offsets, timestamps, append_time, key_starts, key_sizes, value_starts, value_sizes,
        header_counts, header_starts,
    )  # fmt: skip


def _starts_side_by_side(data: Bytes, begins: Ints, ends: Ints, counts: Ints) -> Ints:
    """Return where the records of all batches begin, the batches being ``data[begin:end]`` each.

    A step finds one record of each batch that has more, which pays if there are more batches than
    records in a batch, as with the batches of 16 KiB of Kafka's producer. Raises IndexError for
    records that do not fill their batch.
    """
    order = np.argsort(-counts, kind="stable")  # those that have more are always at the front
    at, left = begins[order], counts[order]
    places = (np.cumsum(counts) - counts)[order]
    starts = np.empty(int(counts.sum()), np.int64)
    going_on = np.searchsorted(-left, -np.arange(left[0])).tolist()
    for step, number in enumerate(going_on):
        here = at[:number]
        starts[places[:number] + step] = here
        at[:number] = _ends_of(data, here)
    if (at != ends[order]).any():
        raise IndexError
    return starts


def _ends_of(data: Bytes, starts: Ints) -> Ints:
    """Return where the records at ``starts`` end. Raises IndexError for an invalid length.

    Lengths of up to two bytes are decoded in less steps than ``decode_varints`` takes."""
    first, second = data[starts], data[starts + 1]
    long = first > _LARGEST_SHORT
    if (second[long] > _LARGEST_SHORT).any():
        sizes, after = decode_varints(data, starts)
        if (sizes.view(np.uint64) > len(data)).any():  # or negative
            raise IndexError
        return after + sizes
    if (first & 1).any():
        raise IndexError
    sizes = (first & _LARGEST_SHORT) | np.where(long, second, 0).astype(np.int64) << 7
    return starts + (sizes >> 1) + 1 + long


def _record_starts(data: bytes, position: int, end: int, batch: RecordBatch) -> Ints:
    """Return where the records of a batch begin in ``data[position:end]``.

    Each begins with its length, so this walks. It is written by hand, not compiled from ``RECORD``:
    it reads nothing but that first field, and takes runs of records of one size, as fixed-size
    values make them, in one step of numpy. Raises CorruptRecordError.
    """
    count = batch.record_count
    parts: list[Ints] = []
    walked: list[int] = []
    found = 0
    try:
        while found < count:
            run = _run_of_equals(data, position, end, count - found)
            if len(run) >= _SHORTEST_RUN:
                parts.append(np.array(walked, np.int64))
                parts.append(run)
                walked = []
                found += len(run)
                position = _after(data, int(run[-1]))
                continue
            before = len(walked)
            position = _walk(data, position, end, min(count - found, 64), walked)
            found += len(walked) - before
            if len(walked) >= 64 and not parts:  # sizes differ: runs do not pay
                before = len(walked)
                position = _walk(data, position, end, count - found, walked)
                found += len(walked) - before
    except IndexError:
        position = -1
    if position != end:
        raise CorruptRecordError(
            f"the records of the batch at offset {batch.base_offset} do not fill it"
        )
    parts.append(np.array(walked, np.int64))
    return np.concatenate(parts)


def _run_of_equals(data: bytes, position: int, end: int, limit: int) -> Ints:
    """Return the positions of the records from ``position`` on that have the size of the first."""
    after = _after(data, position)
    stride = after - position
    limit = min(limit, (end - position) // stride)
    if limit < _SHORTEST_RUN or data[after] != data[position]:
        return np.empty(0, np.int64)
    size = 1
    while data[position + size - 1] > _LARGEST_SHORT:
        size += 1
    table = np.frombuffer(data, np.uint8, limit * stride, position).reshape(limit, stride)
    same = (table[:, :size] == table[0, :size]).all(axis=1)
    run = limit if same.all() else int(np.argmin(same))
    return position + stride * np.arange(run, dtype=np.int64)


def _walk(data: bytes, position: int, end: int, count: int, starts: list[int]) -> int:
    """Append the next ``count`` starts; return where the record after them begins."""
    append = starts.append
    for _ in range(count):
        if position >= end:
            raise IndexError
        append(position)
        byte = data[position]
        if byte < 0x80:
            size = byte
            position += 1
        else:
            second = data[position + 1]
            if second < 0x80:
                size = byte & 0x7F | second << 7
                position += 2
            else:
                position = _after(data, position)
                continue
        if size & 1:
            raise IndexError
        position += size >> 1
    return position


def _after(data: bytes, position: int) -> int:
    """Return where the record at ``position`` ends. Raises IndexError for an invalid length."""
    size = shift = 0
    while True:
        byte = data[position]
        size |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise IndexError
    if size & 1:
        raise IndexError
    return position + (size >> 1)
