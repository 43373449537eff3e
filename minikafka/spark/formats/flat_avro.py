"""Avro records of plain fields, decoded for all values and encoded for all rows at once.

Each step of decoding takes one field of all records: numpy finds where it ends in each, so that no
record is an object of Python. Records with other fields are left to fastavro, as are groups in
which a single value does not fit, since fastavro says which.

To encode, the sizes of all fields say where each begins; then one step writes a field of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.columns import binary_column
from minikafka.client.columnar.varints import (
    Bytes,
    Ints,
    decode_varints,
    put_varints,
    varint_sizes,
    zigzag,
)
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.spark.formats.avro_types import nullable
from minikafka.spark.formats.wire import HEADER_BYTES, NotAtOnce, Payloads, header

if TYPE_CHECKING:
    import pyarrow as pa


_FIXED_BYTES: Final = {"float": 4, "double": 8}
_FLAT: Final = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes"})
_PROMOTED: Final[Mapping[str, tuple[str, ...]]] = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")


def flat_fields(record: Mapping[str, Any]) -> list[tuple[str, str, str | None, int | None]] | None:
    """Return name, type, logical type and index of null of each field; None if a field is not
    plain."""
    fields = []
    for each in record["fields"]:
        found = nullable(each["type"])
        inner, null_at = (each["type"], None) if found is None else found
        logical = inner.get("logicalType") if isinstance(inner, dict) else None
        kind = inner.get("type") if isinstance(inner, dict) else inner
        if not isinstance(kind, str) or kind not in _FLAT or logical == "decimal":
            return None
        fields.append((each["name"], kind, logical, null_at))
    return fields


class FlatDecoder:
    """Decodes what was written with one schema into the columns of another one."""

    def __init__(
        self, writer: Mapping[str, Any], reader: Mapping[str, Any], kind: pa.DataType
    ) -> None:
        """Raises NotAtOnce if the schemas have other than plain fields, or fields whose types
        differ by more than a promotion."""
        written, read = flat_fields(writer), flat_fields(reader)
        if written is None or read is None or writer["name"] != reader["name"]:
            raise NotAtOnce
        self._kind = kind
        self._written = written
        self._sources: list[tuple[int | None, Any]] = []  # the field of the writer, or the default
        places = {name: at for at, (name, *_) in enumerate(written)}
        for field, (name, of, logical, null_at) in zip(reader["fields"], read, strict=True):
            at = places.get(name)
            if at is None:
                if field.get("aliases") or "default" not in field or logical:
                    raise NotAtOnce
                self._sources.append((None, field["default"]))
                continue
            _, other, other_logical, other_null = written[at]
            same = (other == of or other in _PROMOTED.get(of, ())) and logical == other_logical
            if not same or (null_at is None and other_null is not None):
                raise NotAtOnce
            self._sources.append((at, None))

    def decode(self, payloads: Payloads) -> pa.Array:
        """Raises NotAtOnce if a value does not fit."""
        import pyarrow as pa

        data, at, count = payloads.data, payloads.starts.copy(), len(payloads.rows)
        columns: list[pa.Array] = []
        try:
            for _, of, logical, null_at in self._written:
                column, at = _column(data, at, payloads.ends, of, null_at)
                columns.append(_as_logical(column, logical))
            if not np.array_equal(at, payloads.ends):
                raise NotAtOnce
            arrays = [
                pa.repeat(pa.scalar(default, field.type), count)
                if source is None
                else columns[source].cast(field.type, safe=False)
                for field, (source, default) in zip(self._kind, self._sources, strict=True)
            ]
        except (IndexError, CorruptRecordError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise NotAtOnce from None
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))


def _column(
    data: Bytes, at: Ints, ends: Ints, of: str, null_at: int | None
) -> tuple[pa.Array, Ints]:
    """Decode the field that starts at ``at`` in each record; return it with where it ends."""
    if null_at is None:
        starts, sizes, values, after = _field(data, at, of)
        _check(after, ends)
        return _array(data, of, starts, sizes, values, None), after
    branches, after = decode_varints(data, at)
    _check(after, ends)
    if ((branches != 0) & (branches != 1)).any():
        raise NotAtOnce
    rows = np.flatnonzero(branches != null_at)
    few_starts, few_sizes, few_values, few_after = _field(data, after[rows], of)
    _check(few_after, ends[rows])
    starts, sizes = after.copy(), np.full(len(at), -1, np.int64)
    starts[rows], sizes[rows] = few_starts, few_sizes
    values = np.zeros(len(at), few_values.dtype)
    values[rows] = few_values
    after[rows] = few_after
    return _array(data, of, starts, sizes, values, branches == null_at), after


def _field(data: Bytes, at: Ints, of: str) -> tuple[Ints, Ints, Any, Ints]:
    """Return starts and sizes of texts, or values of numbers, and the positions after each."""
    if of in ("string", "bytes"):
        sizes, starts = decode_varints(data, at)
        if (sizes < 0).any():
            raise NotAtOnce
        return starts, sizes, sizes, starts + sizes
    none = np.zeros(len(at), np.int64)
    if of in ("int", "long"):
        values, after = decode_varints(data, at)
        if of == "int" and ((values < -(2**31)) | (values >= 2**31)).any():
            raise NotAtOnce
        return none, none, values, after
    if of == "boolean":
        flags = data[at]
        if (flags > 1).any():
            raise NotAtOnce
        return none, none, flags.astype(np.bool_), at + 1
    size = _FIXED_BYTES[of]
    raw = data[at[:, None] + np.arange(size)]
    return none, none, raw.view(f"<f{size}").reshape(-1), at + size


def _array(data: Bytes, of: str, starts: Ints, sizes: Ints, values: Any, nulls: Any) -> pa.Array:
    import pyarrow as pa

    if of in ("string", "bytes"):
        column = binary_column(data, starts, sizes)
        return column.cast(pa.string()) if of == "string" else column
    kinds = {"int": pa.int32(), "float": pa.float32()}
    found = pa.array(values, mask=nulls)
    return found.cast(kinds[of], safe=False) if of in kinds else found


def _as_logical(column: pa.Array, logical: str | None) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if logical is None:
        return column
    if logical == "date":
        return column.cast(pa.date32())
    micros = pc.multiply_checked(column, 1000) if logical in MILLIS else column
    zone = None if logical.startswith("local") else "UTC"
    return micros.cast(pa.timestamp("us", zone))


def _check(after: Ints, ends: Ints) -> None:
    if (after > ends).any():
        raise NotAtOnce


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
