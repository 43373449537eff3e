"""Encoding of Arrow columns to record batches, with Arrow and numpy over many batches at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from minikafka.client.columnar.partitioning import buffers_of
from minikafka.client.columnar.varints import Ints, put_varints, varint_sizes, zigzag
from minikafka.core.client.producer.producer_batch import RECORD_OVERHEAD_BYTES, EncodedRun
from minikafka.core.client.producer.sequences import Stamp
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    increment_sequence,
)
from minikafka.protocol.records.compression import Compression

if TYPE_CHECKING:
    import pyarrow as pa

# The size of a batch before compression. Brokers accept 1,048,588 bytes by default.
BATCH_BYTES: Final = 512 * 1024
# The most bytes that are encoded at once, unless one batch is larger. Arrow's offsets are 32 bits
# wide.
GROUP_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class ProducerStamp:
    """The producer id and epoch in the header of a batch, and whether it is transactional."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    transactional: bool = False


class EncodedBatch(NamedTuple):
    """The bytes of one record batch, with base offset 0.

    ``next_sequence`` is the base sequence of the next batch, -1 without a producer id."""

    data: bytes
    record_count: int
    next_sequence: int


def encode_batches(
    columns: Mapping[str, pa.Array],
    timestamp_ms: int,
    stamp: ProducerStamp = ProducerStamp(),
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[EncodedBatch]:
    """Encode the rows of the columns ``value`` and, if present, ``key`` and ``headers``.

    Yields batches in the order of the rows. A batch has at most ``batch_bytes`` before compression,
    unless a single record is larger. All records get the timestamp ``timestamp_ms``. Raises
    ValueError for a header without a key."""
    sequence = base_sequence
    for run in encode_runs(columns, timestamp_ms, batch_bytes - BATCH_OVERHEAD):
        of_batch = Stamp(stamp.producer_id, stamp.producer_epoch, sequence)
        data = run.build(compression, of_batch, transactional=stamp.transactional)
        if sequence != NO_SEQUENCE:
            sequence = increment_sequence(sequence, run.record_count)
        yield EncodedBatch(data, run.record_count, sequence)


def encode_runs(
    columns: Mapping[str, pa.Array], timestamps_ms: int | Ints, most_bytes: int
) -> Iterator[EncodedRun]:
    """Encode the columns value, and optionally key and headers, in order.

    A run has at most ``most_bytes``, or one record. ``timestamps_ms`` is the time of all records,
    or has one for each. Raises ValueError for a header without a key."""
    import pyarrow as pa

    value = columns["value"].cast(pa.binary())
    if not len(value):
        return
    key = columns.get("key")
    key = pa.nulls(len(value), pa.binary()) if key is None else key.cast(pa.binary())
    headers = header_blobs(columns.get("headers"), len(value))
    firsts, group_ends = _cut(_row_sizes(key, value, headers) + RECORD_OVERHEAD_BYTES, most_bytes)
    for begin, end in group_ends:
        bounds = [*firsts[begin:end], firsts[end]]
        rows = slice(bounds[0], bounds[-1])
        counts = np.diff(bounds)
        deltas = np.arange(rows.start, rows.stop) - np.repeat(bounds[:-1], counts)
        times = np.zeros(len(deltas), np.int64)
        if not isinstance(timestamps_ms, int):
            times = timestamps_ms[rows] - np.repeat(timestamps_ms[bounds[:-1]], counts)
        payload, starts = _payload(key[rows], value[rows], headers[rows], deltas, times)
        for first, last in pairwise(bounds):
            body = payload[starts[first - rows.start] : starts[last - rows.start]]
            base = latest = timestamps_ms
            if not isinstance(timestamps_ms, int):
                base, latest = timestamps_ms[first], timestamps_ms[first:last].max()
            yield EncodedRun(body, last - first, int(base), int(latest))


def _cut(sizes: Ints, limit: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Divide rows into batches of at most ``limit`` bytes, and batches into groups.

    Returns the first row of each batch, followed by the number of rows; and for each group, which
    is encoded at once, the index of its first batch and the index after its last one."""
    ends = np.cumsum(sizes)
    firsts, groups = [0], []
    group, group_begin = 0, 0
    while firsts[-1] < len(ends):
        first = firsts[-1]
        begun = int(ends[first - 1]) if first else 0
        if begun - group_begin > GROUP_BYTES:
            groups.append((group, len(firsts) - 1))
            group, group_begin = len(firsts) - 1, begun
        firsts.append(max(int(np.searchsorted(ends, begun + limit, "right")), first + 1))
    groups.append((group, len(firsts) - 1))
    return firsts, groups


def varint_column(*columns: Ints) -> pa.Array:
    """Return a binary column that has, in each row, the numbers of this row in all columns as
    unsigned varints."""
    import pyarrow as pa

    sizes = [varint_sizes(column) for column in columns]
    bounds = np.zeros(len(columns[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=bounds[1:])
    out = np.empty(int(bounds[-1]), np.uint8)
    at = bounds[:-1]
    for column, column_sizes in zip(columns, sizes, strict=True):
        put_varints(out, at, column, column_sizes)
        at = at + column_sizes
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        len(columns[0]),
        [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(out)],
    )


def _join(*columns: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*columns, b"", null_handling="replace", null_replacement=b"")


def _lengths(column: pa.Array) -> Ints:
    """Return the sizes of the rows, -1 for null, zigzag-encoded."""
    sizes = np.diff(buffers_of(column)[1])
    if column.null_count:
        sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return zigzag(sizes)


def _row_sizes(*columns: pa.Array) -> Ints:
    """Return the number of bytes of each row over all columns. Null has none."""
    total = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        total += np.diff(buffers_of(column)[1])
    return total


def _payload(
    key: pa.Array, value: pa.Array, headers: pa.Array, deltas: Ints, times: Ints
) -> tuple[memoryview, Ints]:
    """Return all records in one buffer, and the position of each, followed by that of the end."""
    nothing = np.zeros(len(deltas), np.int64)
    # attributes 0 | timestamp delta | offset delta | key size
    prefix = varint_column(nothing, zigzag(times), zigzag(deltas), _lengths(key))
    middle = varint_column(_lengths(value))
    parts = (prefix, key, middle, value, headers)
    records = _join(varint_column(zigzag(_row_sizes(*parts))), *parts)
    data, bounds = buffers_of(records)
    return memoryview(data.data), bounds


def header_blobs(column: pa.Array | None, count: int) -> pa.Array:
    """Return the encoded headers of each record, preceded by their number.

    Raises ValueError for a header without a key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None or column.null_count == count:
        return pa.repeat(pa.scalar(b"\0", pa.binary()), count)
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    pairs = column.flatten()
    names, contents = (pairs.field(number).cast(pa.binary()) for number in (0, 1))
    if pairs.null_count or names.null_count:
        raise ValueError("a header without a key")
    encoded = _join(varint_column(_lengths(names)), names, varint_column(_lengths(contents)),
                    contents)  # fmt: skip
    data, pair_bounds = buffers_of(encoded)
    bounds = pair_bounds[np.concatenate([[0], np.cumsum(counts)])].astype(np.int32)
    blobs = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return _join(varint_column(zigzag(counts)), blobs)
