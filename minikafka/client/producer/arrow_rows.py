"""The rows of ``Producer.send_arrow``, by partition and encoded; imported with its first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.client.columnar.columns import number_column
from minikafka.client.columnar.decode import record_schema
from minikafka.client.columnar.encode import encode_runs
from minikafka.client.columnar.partitioning import (
    CHUNK_ROWS,
    chunks_of,
    partitions_of_keys,
    rows_by_partition,
)
from minikafka.client.columnar.varints import Ints
from minikafka.core.client.producer.producer_batch import RECORD_OVERHEAD_BYTES, EncodedRun

ANY_PARTITION: Final = -1
_CONTENT: Final = ("key", "value", "headers")


class ArrowRows:
    """The rows of a table. Raises ValueError for columns that cannot be sent."""

    def __init__(self, table: pa.Table | pa.RecordBatch, now_ms: int) -> None:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        names = table.schema.names
        if "value" not in names:
            raise ValueError(f"no column value among {', '.join(names) or 'none'}")
        types = {name: record_schema().field(name).type for name in (*_CONTENT, "partition")}
        types["timestamp"] = pa.timestamp("ms")
        columns = {
            name: _cast(name, table.column(name), kind)
            for name, kind in types.items()
            if name in names
        }
        self._table = pa.table(columns)
        self._now_ms = now_ms
        self.last_partition: int | None = None
        if "partition" in columns:
            self.last_partition = pc.max(columns["partition"]).as_py()
            if (least := pc.min(columns["partition"]).as_py()) is not None and least < 0:
                raise ValueError(f"partition {least} does not exist")

    def largest(self) -> list[int]:
        """Return an upper bound of the largest record's size in bytes, without headers."""
        sizes = pc.fill_null(pc.binary_length(self._table["value"]), 0)
        if "key" in self._table.schema.names:
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(self._table["key"]), 0))
        return [pc.max(sizes).as_py() + RECORD_OVERHEAD_BYTES] if len(sizes) else []

    def runs(
        self,
        partition_count: int,
        most_bytes: int,
        choose: Callable[[bytes | None, bytes | None], int] | None,
    ) -> Iterator[tuple[int, EncodedRun]]:
        """Yield the rows of each partition encoded, in order.

        Rows that may go to any partition come with ``ANY_PARTITION``, unless ``choose`` is there to
        choose for each row that names none.
        """
        for columns in chunks_of(self._table.to_batches(max_chunksize=CHUNK_ROWS)):
            where = _partitions(columns, partition_count, choose)
            times = self._times(columns.get("timestamp"))
            content: dict[str, pa.Array] = {
                name: columns[name] for name in _CONTENT if name in columns
            }
            for partition, rows in rows_by_partition(where):
                chosen, chosen_times = content, times
                if len(rows) < len(where):
                    picked = number_column(rows, pa.int64())
                    chosen = {name: column.take(picked) for name, column in content.items()}
                    chosen_times = times if isinstance(times, int) else times[rows]
                for run in encode_runs(chosen, chosen_times, most_bytes):
                    yield partition, run

    def _times(self, column: pa.Array | None) -> int | Ints:
        if column is None or column.null_count == len(column):
            return self._now_ms
        times: Ints = column.cast(pa.int64()).fill_null(self._now_ms).to_numpy()
        if (times < 0).any():
            raise ValueError("a timestamp before 1970")
        return times


def _cast(name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    # Finer times lose their fractions. Seconds may be too many for milliseconds of 64 bits.
    is_seconds = pa.types.is_timestamp(column.type) and column.type.unit == "s"
    try:
        return column.cast(kind, safe=name != "timestamp" or is_seconds)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name} must be {kind}, not {column.type}: {error}") from error


def _partitions(
    columns: Mapping[str, pa.Array],
    count: int,
    choose: Callable[[bytes | None, bytes | None], int] | None,
) -> Ints:
    value, key, given = (columns.get(name) for name in ("value", "key", "partition"))
    assert value is not None
    where = np.full(len(value), ANY_PARTITION, np.int64)
    named = np.zeros(len(value), bool) if given is None else np.asarray(given.is_valid())
    if choose is not None:
        for row in np.flatnonzero(~named):
            where[row] = choose(None if key is None else key[row].as_py(), value[row].as_py())
    elif key is not None and key.null_count < len(key) and not named.all():
        keyed = np.asarray(key.is_valid())
        where[keyed] = partitions_of_keys(key, count)[keyed]
    if given is not None:
        where[named] = given.fill_null(0).to_numpy()[named]
    return where
