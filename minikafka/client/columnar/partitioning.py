"""Kafka's default partitioner for a column of keys (murmur2 hashes, computed in numpy), and the
rows of Arrow tables in chunks and by partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from minikafka.client.columnar.varints import Bytes, Ints

if TYPE_CHECKING:
    import pyarrow as pa


_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)


def buffers_of(column: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of a binary or string column, and the position of each row in them,
    followed by that of the end."""
    _, bounds, data = column.buffers()
    if len(column) == 0 or data is None:
        return np.empty(0, np.uint8), np.zeros(len(column) + 1, np.int64)
    rows = np.frombuffer(bounds, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8), rows.astype(np.int64)


def murmur2(data: Bytes, starts: Ints, sizes: Ints) -> npt.NDArray[np.uint32]:
    """Hash ``data[start : start + size]`` of each row, as ``producer.partitioner.murmur2`` does."""
    hashes = _SEED ^ sizes.astype(np.uint32)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    rows, at, left = np.arange(len(sizes)), starts, sizes
    while True:
        going_on = left >= 4
        if not going_on.all():
            rows, at, left = rows[going_on], at[going_on], left[going_on]
        if not rows.size:
            break
        k = _word(padded, at) * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        hashes[rows] = (hashes[rows] * _M) ^ k
        at, left = at + 4, left - 4
    tails = sizes & 3
    rows = np.flatnonzero(tails)
    if rows.size:
        tail = _word(padded, starts[rows] + sizes[rows] - tails[rows])
        tail &= (np.uint32(1) << (tails[rows] * 8).astype(np.uint32)) - np.uint32(1)
        hashes[rows] = (hashes[rows] ^ tail) * _M
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))


def _word(data: Bytes, at: Ints) -> npt.NDArray[np.uint32]:
    word = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def partitions_of_keys(keys: pa.Array, partition_count: int) -> Ints:
    """Return the partition for each key of a binary or string column. It is undefined for null."""
    data, bounds = buffers_of(keys)
    hashes = murmur2(data, bounds[:-1], np.diff(bounds))
    return (hashes & _POSITIVE).astype(np.int64) % partition_count


CHUNK_ROWS: Final = 65_536
CHUNK_BYTES: Final = 8 * 1024 * 1024


def rows_by_partition(where: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each partition in ``where``, which has that of each row, with its rows in order."""
    order = np.argsort(where, kind="stable")
    found, firsts = np.unique(where[order], return_index=True)
    for partition, rows in zip(found, np.split(order, firsts[1:]), strict=True):
        yield int(partition), rows


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, pa.Array]]:
    """Join small Arrow batches into larger chunks and yield the columns of each chunk.

    The rows of a chunk are encoded together, so that record batches do not become small."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield _together(held)
            held, rows, size = [], 0, 0
    if held:
        yield _together(held)


def _together(batches: list[pa.RecordBatch]) -> dict[str, pa.Array]:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).combine_chunks()
    columns = {name: _one(table.column(name)) for name in table.schema.names}
    for name in ("key", "value"):
        if name in columns:
            columns[name] = columns[name].cast(pa.binary())
    return columns


def _one(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
