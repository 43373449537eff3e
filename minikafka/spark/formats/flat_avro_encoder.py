"""Avro records of plain fields, encoded for all rows at once: the reverse of ``flat_avro``.

The sizes of all fields say where each begins; then one step writes a field of all rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.varints import Bytes, Ints, put_varints, varint_sizes, zigzag
from minikafka.spark.formats.flat_avro import MILLIS, flat_fields
from minikafka.spark.formats.wire import HEADER_BYTES, NotAtOnce, header

if TYPE_CHECKING:
    import pyarrow as pa

_FIXED: Final = {"float": "<f4", "double": "<f8"}
_MOST_VARINT: Final = 1 << 62  # what the varints of numpy's signed numbers hold


class FlatEncoder:
    """Encodes structs with the fields of a record, each with the header of the schema."""

    def __init__(self, record: Mapping[str, Any], kind: pa.DataType, schema_id: int) -> None:
        """Raises NotAtOnce if the record has other than plain fields."""
        fields = flat_fields(record)
        if fields is None:
            raise NotAtOnce
        self._fields = fields
        self._kind = kind
        self._header = np.frombuffer(header(schema_id), np.uint8)

    def encode(self, column: pa.Array) -> pa.Array:
        """Raises NotAtOnce if a row does not fit, or lacks a field."""
        import pyarrow as pa

        there = column.drop_null() if column.null_count else column
        columns = dict(zip((each.name for each in there.type), there.flatten(), strict=True))
        try:
            parts = [
                _part(columns[name].cast(field.type), of, logical, null_at)
                for field, (name, of, logical, null_at) in zip(
                    self._kind, self._fields, strict=True
                )
            ]
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise NotAtOnce from None
        sizes = np.full(len(there), HEADER_BYTES, np.int64)
        for part in parts:
            sizes += part.sizes
        bounds = np.zeros(len(there) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        if bounds[-1] >= 2**31:
            raise NotAtOnce
        out = np.empty(bounds[-1], np.uint8)
        at = bounds[:-1].copy()
        out[at[:, None] + np.arange(HEADER_BYTES)] = self._header
        at += HEADER_BYTES
        for part in parts:
            part.put(out, at)
            at += part.sizes
        buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(out)]
        encoded = pa.BinaryArray.from_buffers(pa.binary(), len(there), buffers)
        if len(there) == len(column):
            return encoded
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        return encoded.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


class _Part(ABC):
    """A field of all rows: the size that it takes in each, and how it is written. ``rows`` are
    those with a value; None if all have one."""

    def __init__(self, count: int, rows: Ints | None, null_at: int | None) -> None:
        self._null_at = null_at
        self._rows = rows
        self.sizes = np.zeros(count, np.int64)

    def _set_sizes(self, sizes: Ints | int) -> None:
        if self._rows is None:
            self.sizes += sizes
        else:
            self.sizes[self._rows] = sizes
        if self._null_at is not None:
            self.sizes += 1  # the number of the union's branch

    def put(self, out: Bytes, at: Ints) -> None:
        """Write the field, which begins at ``at`` in each row."""
        if self._null_at is not None:
            branches = np.full(len(at), 2 * self._null_at, np.uint8)
            branches[slice(None) if self._rows is None else self._rows] = 2 * (1 - self._null_at)
            out[at] = branches
            at = at + 1
        self._put(out, at if self._rows is None else at[self._rows])

    @abstractmethod
    def _put(self, out: Bytes, at: Ints) -> None:
        """Write the values, each of which begins at its place in ``at``."""


class _Fixed(_Part):
    """Values that take the same bytes in each row."""

    def __init__(self, values: Any, count: int, rows: Ints | None, null_at: int | None) -> None:
        super().__init__(count, rows, null_at)
        self._raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        self._set_sizes(values.dtype.itemsize)

    def _put(self, out: Bytes, at: Ints) -> None:
        out[at[:, None] + np.arange(self._raw.shape[1])] = self._raw


class _Varints(_Part):
    def __init__(self, values: Ints, count: int, rows: Ints | None, null_at: int | None) -> None:
        super().__init__(count, rows, null_at)
        if ((values >= _MOST_VARINT) | (values < -_MOST_VARINT)).any():
            raise NotAtOnce
        self._values = zigzag(values)
        self._lengths = varint_sizes(self._values)
        self._set_sizes(self._lengths)

    def _put(self, out: Bytes, at: Ints) -> None:
        put_varints(out, at, self._values, self._lengths)


class _Texts(_Part):
    """Bytes after their count."""

    def __init__(self, texts: pa.Array, count: int, rows: Ints | None, null_at: int | None) -> None:
        super().__init__(count, rows, null_at)
        _, bounds, data = texts.buffers()
        offsets = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self._counts = np.diff(offsets).astype(np.int64)
        everything = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        self._data = everything[offsets[0] : offsets[-1]]
        self._values = zigzag(self._counts)
        self._lengths = varint_sizes(self._values)
        self._set_sizes(self._lengths + self._counts)

    def _put(self, out: Bytes, at: Ints) -> None:
        put_varints(out, at, self._values, self._lengths)
        begun = np.cumsum(self._counts) - self._counts
        # Where each byte goes: as far from its place in the data as its text is moved.
        moved = np.repeat(at + self._lengths - begun, self._counts)
        out[moved + np.arange(len(self._data))] = self._data


def _part(column: pa.Array, of: str, logical: str | None, null_at: int | None) -> _Part:
    import pyarrow as pa

    count, rows = len(column), None
    if column.null_count:
        if null_at is None:
            raise NotAtOnce
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        column = column.drop_null()
    if of in ("string", "bytes"):
        return _Texts(column, count, rows, null_at)
    if logical is not None:
        column = column.cast(pa.int32() if logical == "date" else pa.int64())
    values = column.to_numpy(zero_copy_only=False)
    if logical in MILLIS:
        values = values // 1000  # towards earlier times, also before 1970
    if of in ("int", "long"):
        return _Varints(values.astype(np.int64), count, rows, null_at)
    return _Fixed(values.astype(_FIXED.get(of, np.uint8)), count, rows, null_at)
