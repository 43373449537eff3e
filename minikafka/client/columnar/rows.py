"""Chunks of the rows of Arrow tables, and their division by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from minikafka.client.columnar.varints import Ints

if TYPE_CHECKING:
    import pyarrow as pa

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
