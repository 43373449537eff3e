"""Arrow columns made of byte ranges in a buffer of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from minikafka.client.columnar.varints import Bytes, Ints, decode_varints
from minikafka.protocol.records.batch import CorruptRecordError

if TYPE_CHECKING:
    import pyarrow as pa


def number_column(numbers: npt.NDArray[Any], kind: pa.DataType, nulls: Any = None) -> pa.Array:
    """Return a column of numbers of the size of ``kind``, null where ``nulls`` is true.

    ``pa.array`` would import pandas to look at a numpy array, for 0.3 s."""
    import pyarrow as pa

    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [valid, data])


def binary_column(data: Bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """Return a binary column with ``data[start : start + size]`` in each row, null if size is -1.

    The ranges must be in increasing order and must not overlap. An Arrow array over the whole
    buffer has the rows as its even entries and the gaps between them as its odd ones. ``take`` then
    copies the even entries, without a loop in Python.
    """
    import pyarrow as pa

    count = len(starts)
    nulls = sizes < 0
    some_null = bool(nulls.any())
    if some_null and bool(nulls.all()):
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(sizes, 0)
    bounds[-1] = bounds[-2] if count else 0
    everything = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    return everything.take(number_column(even, pa.int32(), nulls if some_null else None))


def headers_column(data: Bytes, counts: Ints, starts: Ints) -> pa.Array:
    """Return a column ``array<struct<key string, value binary>>``, null for a record without
    headers.

    ``counts`` are the numbers of headers, ``starts`` the positions of the first headers. Raises
    CorruptRecordError.
    """
    import pyarrow as pa

    rows, key_starts, key_sizes, value_starts, value_sizes = _headers(data, counts, starts)
    keys = _as_text(binary_column(data, key_starts, key_sizes))
    values = binary_column(data, value_starts, value_sizes)
    fields = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
    structs = pa.StructArray.from_arrays([keys, values], fields=fields)
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(counts)), out=bounds[1:])
    bits = pa.py_buffer(np.packbits(counts == 0, bitorder="little"))
    mask = pa.Array.from_buffers(pa.bool_(), len(counts), [None, bits])
    return pa.ListArray.from_arrays(number_column(bounds, pa.int32()), structs, mask=mask)


def _headers(data: Bytes, counts: Ints, starts: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return the row, key start, key size, value start and value size of every header, in the
    order of the buffer.

    The first headers of all records are decoded in one step, then all second headers, and so on."""
    rows = np.flatnonzero(counts > 0)
    at, left = starts[rows], counts[rows]
    found: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 5]
    try:
        while rows.size:
            key_sizes, key_starts = decode_varints(data, at)
            if (key_sizes < 0).any():
                raise CorruptRecordError("a header without a name")
            value_sizes, value_starts = decode_varints(data, key_starts + key_sizes)
            found.append((rows, key_starts, key_sizes, value_starts, value_sizes))
            at = value_starts + np.maximum(value_sizes, 0)
            going_on = left > 1
            rows, at, left = rows[going_on], at[going_on], left[going_on] - 1
    except IndexError:
        raise CorruptRecordError("a header reaches past its record") from None
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    first, second, third, fourth, fifth = (column[order] for column in columns)
    if (fourth + np.maximum(fifth, 0) > len(data)).any():
        raise CorruptRecordError("a header reaches past its record")
    return first, second, third, fourth, fifth


def _as_text(names: pa.Array) -> pa.Array:
    """Decode names as UTF-8; malformed bytes become U+FFFD, as in Java."""
    import pyarrow as pa

    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [name.decode(errors="replace") for name in names.to_pylist()]
        return pa.array(texts, pa.string())
