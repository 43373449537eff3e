"""Protobuf messages, decoded for all values and encoded for all rows at once.

Each step of decoding takes one field of all messages that have it next, in the order of the fields'
numbers, in which every serializer writes them; so one round over the fields decodes a batch, and no
message is an object of Python. A repeated field takes a step for each element of the longest list,
or, if it is packed, one for all of them. Messages in messages are decoded in the same way; a map is
a list of messages, its entries. Groups in which a single value does not fit are left to the library
of Protobuf, since it says which.

To encode, each field becomes a column of bytes, its tag and its value, empty where a row has none.
The elements of a repeated field are encoded as such a column, too, whose bytes need only be divided
among the rows. Arrow joins the columns. What the library of Protobuf would refuse, or change, is
left to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.columns import binary_column, number_column
from minikafka.client.columnar.varints import Bytes, Ints, decode_plain_varints, unzigzag, zigzag
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.spark.formats.wire import NotAtOnce, Payloads

if TYPE_CHECKING:
    import pyarrow as pa


_VARINT: Final = 0
_EIGHT: Final = 1
_BYTES: Final = 2
_FOUR: Final = 5
_MOST_ROUNDS: Final = 6  # of messages with fields in another order, twice, or unknown
# Lists that are longer than those of all but a few messages: steps of a few rows are slower than
# the library.
_LONG_LIST: Final = 256
_FEW_ROWS: Final = 16
_MOST_TAG: Final = 2**32
_MOST_BYTES: Final = 2**31


class FlatField:
    """A field of a message. ``scalar`` is the name of its type, empty for an enum, whose names are
    in ``enum``, and for a message, whose type is ``inner``. ``kind`` is the type of its column, or
    of the elements if it ``is_repeated``."""

    def __init__(self, descriptor: Any, kind: pa.DataType) -> None:
        if descriptor.is_required or descriptor.type == descriptor.TYPE_GROUP:
            raise NotAtOnce
        self.name: str = descriptor.name
        self.is_repeated = bool(descriptor.is_repeated)
        self.is_map = self.is_repeated and is_entry(descriptor.message_type)
        self.is_packed = bool(descriptor.is_packed)  # how it is written; both ways are read
        self.oneof: str | None = None
        alternatives = descriptor.containing_oneof
        if alternatives is not None and len(alternatives.fields) > 1:
            self.oneof = alternatives.name
        self.kind = kind = elements_of(kind) if self.is_repeated else kind
        self.scalar = ""
        # An entry of a map is written with its key and its value, also if these are defaults.
        self.has_presence = bool(descriptor.has_presence) or is_entry(descriptor.containing_type)
        self.inner: FlatMessage | None = None
        self.enum: dict[int, str] | None = None
        self.convert: Callable[[Any], Any] = _same
        if descriptor.message_type is not None:
            wire = _BYTES
            self.inner = FlatMessage(descriptor.message_type, kind)
        elif descriptor.enum_type is not None:
            wire, self.convert = _VARINT, _to_int32
            numbers = descriptor.enum_type.values_by_number
            self.enum = {number: each.name for number, each in numbers.items()}
        else:
            self.scalar = _type_name(descriptor)
            wire, self.convert = _SCALARS[self.scalar]
        self.wire = wire
        self.tag = descriptor.number << 3 | wire
        self.packed_tag = descriptor.number << 3 | _BYTES

    @property
    def tags(self) -> set[int]:
        """The tags with which messages may have the field."""
        return {self.tag, self.packed_tag} if self.is_repeated else {self.tag}

    def column(self, values: Any, is_there: Any) -> pa.Array:
        """Return the values of scalars as a column. ``is_there`` is None if all have one."""
        import pyarrow as pa

        nulls = None if is_there is None or not self.has_presence else ~is_there
        if self.enum is not None:
            known, at = np.unique(values, return_inverse=True)
            if not all(int(number) in self.enum for number in known):
                raise NotAtOnce
            names = pa.array([self.enum[int(number)] for number in known], pa.string())
            return names.take(number_column(at.astype(np.int32), pa.int32(), nulls))
        if pa.types.is_decimal(self.kind):
            wide = np.zeros((len(values), 2), np.int64)  # 128 bits, the low ones first
            wide[:, 0] = values
            return number_column(wide, self.kind, nulls)
        if pa.types.is_boolean(self.kind):
            return number_column(values.astype(np.uint8), pa.uint8(), nulls).cast(self.kind)
        return number_column(values, self.kind, nulls)


class FlatMessage:
    """Decodes messages of one type into structs, or timestamps."""

    def __init__(self, descriptor: Any, kind: pa.DataType) -> None:
        """Raises NotAtOnce if the type has required fields or groups, or no field."""
        import pyarrow as pa

        self._kind = kind
        self.is_timestamp = pa.types.is_timestamp(kind)
        if self.is_timestamp:
            kind = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
        fields = [FlatField(each, kind.field(each.name).type) for each in descriptor.fields]
        if not fields:
            raise NotAtOnce
        self._fields = fields
        self._tags = frozenset(tag for each in fields for tag in each.tags)
        self.in_order = sorted(fields, key=lambda each: each.tag)
        self._struct = kind

    def decode(self, payloads: Payloads, prefix: bytes) -> pa.Array:
        """Decode the messages that stand after ``prefix`` in each payload. Raises NotAtOnce."""
        import pyarrow as pa

        starts = payloads.starts + len(prefix)
        if (starts > payloads.ends).any():
            raise NotAtOnce
        for place, byte in enumerate(prefix):
            if (payloads.data[payloads.starts + place] != byte).any():
                raise NotAtOnce
        try:
            return self.decode_ranges(payloads.data, starts, payloads.ends)
        except (IndexError, CorruptRecordError, pa.ArrowInvalid):
            raise NotAtOnce from None

    def decode_ranges(self, data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
        """Decode ``data[start : end]`` in each row. Raises NotAtOnce, IndexError,
        CorruptRecordError, ArrowInvalid for what is not such a message."""
        import pyarrow as pa

        found = {
            field.name: _FoundLists(field, data, len(starts))
            if field.is_repeated
            else _Found(field, data, starts)
            for field in self._fields
        }
        cursor = _Cursor(data, starts, ends)
        for _ in range(_MOST_ROUNDS):
            for field in self.in_order:
                found[field.name].read(cursor)
            if not cursor.skip_unknown(self._tags):
                break
        else:
            raise NotAtOnce
        named = {name: each.column() for name, each in found.items()}
        self.check_alternatives(named)
        struct = pa.StructArray.from_arrays([*named.values()], fields=list(self._struct))
        return _timestamps(struct, self._kind) if self.is_timestamp else struct

    def check_alternatives(self, columns: Mapping[str, pa.Array]) -> None:
        """Raises NotAtOnce if a row has more than one field of a ``oneof``. ``columns`` are those
        of the fields that there are, by their names."""
        for oneof in {field.oneof for field in self._fields} - {None}:
            names = [field.name for field in self._fields if field.oneof == oneof]
            there = [columns[name].is_valid() for name in names if name in columns]
            given = np.array([each.to_numpy(zero_copy_only=False) for each in there])
            if (given.sum(axis=0) > 1).any():
                raise NotAtOnce


class _Cursor:
    """The place in each message up to which it is decoded, and the tag that stands there, -1 at
    the end."""

    def __init__(self, data: Bytes, starts: Ints, ends: Ints) -> None:
        self._data = data
        self._ends = ends
        self._at = starts.copy()
        self._tags = np.full(len(starts), -1, np.int64)
        self._read_tags(np.arange(len(starts)))

    def rows_at(self, tag: int) -> Ints:
        return np.flatnonzero(self._tags == tag)

    def still_at(self, rows: Ints, tag: int) -> Ints:
        """Return those of ``rows`` on whose place this tag stands."""
        found: Ints = rows[self._tags[rows] == tag]
        return found

    def read(self, rows: Ints, wire: int) -> tuple[Any, Any]:
        """Read the field on which these rows stand, and go to the next one. Returns its numbers,
        or where its bytes begin, and how many there are."""
        at = self._at[rows]
        values: Any = at
        sizes: Any = None
        if wire == _VARINT:
            values, after = decode_plain_varints(self._data, at)
        elif wire == _BYTES:
            sizes, values = decode_plain_varints(self._data, at)
            if ((sizes < 0) | (sizes >= _MOST_BYTES)).any():
                raise NotAtOnce
            after = values + sizes
        elif wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
            after = at + size
            values = self._data[at[:, None] + np.arange(size)]
        else:
            raise NotAtOnce
        if (after > self._ends[rows]).any():
            raise NotAtOnce
        self._at[rows] = after
        self._read_tags(rows)
        return values, sizes

    def skip_unknown(self, known: Set[int]) -> bool:
        """Skip the fields that are not known. Returns whether anything is left."""
        left = np.flatnonzero(self._tags >= 0)
        for tag in np.unique(self._tags[left]).tolist():
            if tag not in known:
                if tag >> 3 in {each >> 3 for each in known}:  # of another type
                    raise NotAtOnce
                self.read(self.rows_at(tag), tag & 7)
        return bool(left.size)

    def _read_tags(self, rows: Ints) -> None:
        self._tags[rows] = -1
        rows = rows[self._at[rows] < self._ends[rows]]
        tags, after = decode_plain_varints(self._data, self._at[rows])
        if ((tags < 8) | (tags >= _MOST_TAG) | (after > self._ends[rows])).any():
            raise NotAtOnce
        self._tags[rows], self._at[rows] = tags, after


class _Found:
    """The values of a single field of all rows."""

    def __init__(self, field: FlatField, data: Bytes, starts: Ints) -> None:
        self._field = field
        self._data = data
        self._is_there = np.zeros(len(starts), np.bool_)
        self._values: Any = starts.copy() if field.wire == _BYTES else None
        self._sizes = np.zeros(len(starts), np.int64)

    def read(self, cursor: _Cursor) -> None:
        """Read the field in all rows in which it is next."""
        rows = cursor.rows_at(self._field.tag)
        if rows.size:
            self._put(rows, *cursor.read(rows, self._field.wire))

    def _put(self, rows: Ints, values: Any, sizes: Any) -> None:
        field = self._field
        if field.inner is not None and self._is_there[rows].any():
            raise NotAtOnce  # the parts of a message that comes twice are merged
        if sizes is None:
            values = field.convert(values)
            if self._values is None:
                self._values = np.zeros(len(self._is_there), values.dtype)
        else:
            self._sizes[rows] = sizes
        self._values[rows] = values
        self._is_there[rows] = True

    def column(self) -> pa.Array:
        import pyarrow as pa

        field, count = self._field, len(self._is_there)
        if field.inner is not None:
            return self._messages(field.inner)
        if field.wire == _BYTES:
            if field.has_presence:
                self._sizes[~self._is_there] = -1
            column = binary_column(self._data, self._values, self._sizes)
            return column.cast(field.kind)
        if self._values is None:
            if field.has_presence:
                return pa.nulls(count, field.kind)
            self._values = field.convert(_zeros(field.wire, count))
        return field.column(self._values, None if self._is_there.all() else self._is_there)

    def _messages(self, inner: FlatMessage) -> pa.Array:
        rows = np.flatnonzero(self._is_there)
        starts = self._values[rows]
        found = inner.decode_ranges(self._data, starts, starts + self._sizes[rows])
        if len(rows) == len(self._is_there):
            return found
        import pyarrow as pa

        at = np.cumsum(self._is_there).astype(np.int32) - 1
        return found.take(number_column(at, pa.int32(), ~self._is_there))


class _FoundLists:
    """The elements of a repeated field of all rows, in the order of each message."""

    def __init__(self, field: FlatField, data: Bytes, count: int) -> None:
        self._field = field
        self._data = data
        self._count = count
        none = np.empty(0, np.int64)
        self._rows: list[Ints] = [none]
        self._values: list[Any] = [field.convert(_zeros(field.wire, 0))]
        self._sizes: list[Ints] = [none]

    def read(self, cursor: _Cursor) -> None:
        """Read the elements in all rows in which the field is next. Raises NotAtOnce."""
        field = self._field
        for rows, values, sizes in self._steps(cursor, field.tag, field.wire):
            self._put(rows, values, sizes)
        if field.wire != _BYTES:
            for rows, starts, sizes in self._steps(cursor, field.packed_tag, _BYTES):
                counts, values = _packed(self._data, starts, sizes, field.wire)
                self._put(np.repeat(rows, counts), values, None)

    def column(self) -> pa.Array:
        import pyarrow as pa

        rows, values = np.concatenate(self._rows), np.concatenate(self._values)
        sizes = np.concatenate(self._sizes)
        if len(self._rows) > 2:
            order = np.argsort(rows, kind="stable")
            rows, values = rows[order], values[order]
            sizes = sizes[order] if sizes.size else sizes
        bounds = np.zeros(self._count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self._count), out=bounds[1:])
        field = self._field
        if field.inner is not None:
            elements = field.inner.decode_ranges(self._data, values, values + sizes)
        elif field.wire == _BYTES:
            elements = binary_column(self._data, values, sizes).cast(field.kind)
        else:
            elements = field.column(values, None)
        offsets = number_column(bounds, pa.int32())
        if not field.is_map:
            return pa.ListArray.from_arrays(offsets, elements)
        keys, items = elements.flatten()
        check_entries(rows, keys, items)
        return pa.MapArray.from_arrays(offsets, keys, items)

    def _put(self, rows: Ints, values: Any, sizes: Any) -> None:
        self._rows.append(rows)
        if sizes is None:
            self._values.append(self._field.convert(values))
        else:
            self._values.append(values)
            self._sizes.append(sizes)

    def _steps(self, cursor: _Cursor, tag: int, wire: int) -> Iterator[tuple[Ints, Any, Any]]:
        """Yield what ``_Cursor.read`` reads, until no row has this tag next. Raises NotAtOnce."""
        rows = cursor.rows_at(tag)
        for step in itertools.count():
            if not rows.size:
                return
            if step >= _LONG_LIST and rows.size < _FEW_ROWS:
                raise NotAtOnce
            yield (rows, *cursor.read(rows, wire))
            rows = cursor.still_at(rows, tag)


def is_entry(message: Any) -> bool:
    """Return whether a message type is that of the entries of a map."""
    return message is not None and bool(message.GetOptions().map_entry)


def elements_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of the elements of a list, or of the entries of a map, as structs."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return kind.value_type


def check_entries(rows: Ints, keys: pa.Array, items: pa.Array) -> None:
    """Check the entries of the maps of ``rows``. Raises NotAtOnce for a key or a value that is
    not there, and for a key that a row has twice."""
    if keys.null_count or items.null_count:
        raise NotAtOnce
    known = keys.dictionary_encode()
    codes = known.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(np.unique(rows * len(known.dictionary) + codes)) < len(codes):
        raise NotAtOnce


def _packed(data: Bytes, starts: Ints, sizes: Ints, wire: int) -> tuple[Ints, Any]:
    """Return how many numbers are packed in each range, and the numbers of all ranges. Raises
    NotAtOnce for a range that ends within a number."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    places = np.repeat(starts - bounds[:-1], sizes) + np.arange(bounds[-1])
    raw = data[places]
    if wire != _VARINT:
        width = 8 if wire == _EIGHT else 4
        if (sizes % width).any():
            raise NotAtOnce
        return sizes // width, raw.reshape(-1, width)
    is_last = raw < 0x80
    if not is_last[bounds[1:][sizes > 0] - 1].all():
        raise NotAtOnce
    ended = np.zeros(len(raw) + 1, np.int64)
    np.cumsum(is_last, out=ended[1:])
    is_first = np.ones(len(raw), np.bool_)
    is_first[1:] = is_last[:-1]
    numbers, _ = decode_plain_varints(data, places[is_first])
    return ended[bounds[1:]] - ended[bounds[:-1]], numbers


def _timestamps(struct: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    seconds, nanos = (each.to_numpy() for each in struct.flatten())
    micros = number_column(nanos.astype(np.int64) // 1000, pa.int64())
    whole = pc.multiply_checked(number_column(seconds, pa.int64()), 1_000_000)
    return pc.add_checked(whole, micros).cast(kind)


def _zeros(wire: int, count: int) -> Any:
    if wire in (_VARINT, _BYTES):
        return np.zeros(count, np.int64)
    return np.zeros((count, 8 if wire == _EIGHT else 4), np.uint8)


def _same(values: Any) -> Any:
    return values


def _to_int32(values: Ints) -> Any:
    return values.astype(np.int32)


def _fixed(kind: str, then: Any = None) -> Callable[[Any], Any]:
    def convert(raw: Any) -> Any:
        found = np.ascontiguousarray(raw).view(kind).reshape(-1)
        return found if then is None else found.astype(then)

    return convert


# By the name of the type: how it is written, and how the numbers become those of its column.
_SCALARS: Final[dict[str, tuple[int, Callable[[Any], Any]]]] = {
    "int64": (_VARINT, _same),
    "uint64": (_VARINT, _same),
    "int32": (_VARINT, _to_int32),
    "uint32": (_VARINT, lambda values: values & 0xFFFFFFFF),
    "sint64": (_VARINT, unzigzag),
    "sint32": (_VARINT, lambda values: unzigzag(values & 0xFFFFFFFF).astype(np.int32)),
    "bool": (_VARINT, lambda values: values != 0),
    "fixed64": (_EIGHT, _fixed("<i8")),
    "sfixed64": (_EIGHT, _fixed("<i8")),
    "double": (_EIGHT, _fixed("<f8")),
    "fixed32": (_FOUR, _fixed("<u4", np.int64)),
    "sfixed32": (_FOUR, _fixed("<i4")),
    "float": (_FOUR, _fixed("<f4")),
    "string": (_BYTES, _same),
    "bytes": (_BYTES, _same),
}


def _type_name(descriptor: Any) -> str:
    for name in _SCALARS:
        if descriptor.type == getattr(descriptor, f"TYPE_{name.upper()}"):
            return name
    raise NotAtOnce


_RANGES: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 2**63 - 1)),
}
_FIXED: Final = {
    "fixed32": "<u4", "sfixed32": "<i4", "float": "<f4", "fixed64": "<u8", "sfixed64": "<i8",
    "double": "<f8",
}  # fmt: skip
_SECONDS: Final = (-62_135_596_800, 253_402_300_800)  # the years 1 to 9999


def encode_messages(column: pa.Array, of: FlatMessage, header: bytes) -> pa.Array:
    """Encode structs, each after ``header``; a null stays a null. Raises NotAtOnce."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(column) == 0:
        raise NotAtOnce
    try:
        parts = _timestamp(column) if of.is_timestamp else _fields(column, of)
        begin = pa.scalar(header, pa.binary())
        found = pc.binary_join_element_wise(begin, *parts, pa.scalar(b"", pa.binary()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise NotAtOnce from None
    found = pc.if_else(column.is_valid(), found, pa.scalar(None, pa.binary()))
    # All of the column may be null, or have no field: then all rows have one value.
    return found if isinstance(found, pa.Array) else pa.repeat(found, len(column))


def _fields(column: pa.Array, of: FlatMessage) -> list[pa.Array]:
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        raise NotAtOnce
    given = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
    if len(given) != column.type.num_fields or given.keys() - {each.name for each in of.in_order}:
        raise NotAtOnce
    of.check_alternatives(given)
    return [
        _repeated(given[each.name], each)
        if each.is_repeated
        else _single(given[each.name], each, _varint_bytes(each.tag), each.has_presence)
        for each in of.in_order
        if each.name in given
    ]


def _repeated(column: pa.Array, field: FlatField) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_map if field.is_map else pa.types.is_list)(column.type):
        raise NotAtOnce
    if field.is_map:
        column = column.cast(pa.list_(elements_of(column.type)))
    elements = column.flatten()
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    if field.is_map:
        check_entries(np.repeat(np.arange(len(column)), counts), *elements.flatten())
    if len(elements) == 0:
        return pa.repeat(pa.scalar(b"", pa.binary()), len(column))
    if elements.null_count:
        raise NotAtOnce
    tag = _varint_bytes(field.tag)
    bytes_ = _single(elements, field, b"" if field.is_packed else tag, has_presence=True)
    firsts = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts, out=firsts[1:])
    _, bounds, data = bytes_.buffers()
    offsets = np.frombuffer(bounds, np.int32)[bytes_.offset :]
    rows = pa.BinaryArray.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(offsets[firsts]), data]
    )
    if not field.is_packed:
        return rows
    return _sized(rows, counts > 0, _varint_bytes(field.packed_tag))


def _single(column: pa.Array, field: FlatField, tag: bytes, has_presence: bool) -> pa.Array:
    """Return the tag and the value of each row. Without ``has_presence`` a default is no value."""
    import pyarrow as pa

    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    if field.inner is not None:
        return _sized(encode_messages(column, field.inner, b""), is_there, tag)
    if field.scalar in ("string", "bytes"):
        wanted = pa.types.is_string if field.scalar == "string" else pa.types.is_binary
        if not wanted(column.type):
            raise NotAtOnce
        return _sized(column.cast(pa.binary()), is_there, tag, has_presence)
    if field.scalar in ("float", "double"):
        if column.type != field.kind:
            raise NotAtOnce
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
    else:
        values = _integers(column, field)
        if field.scalar in ("sint32", "sint64"):
            values = zigzag(values)
    raw = np.ascontiguousarray(values.astype(_FIXED.get(field.scalar, np.uint64)))
    if not has_presence:
        is_there = is_there & (raw.view(np.uint8).reshape(len(raw), raw.itemsize) != 0).any(axis=1)
    if field.scalar in _FIXED:
        matrix = raw.view(np.uint8).reshape(len(raw), raw.itemsize)
        return _joined(tag, matrix, np.ones(matrix.shape, np.bool_), is_there)
    return _joined(tag, *_varints(raw), is_there)


def _integers(column: pa.Array, field: FlatField) -> Ints:
    """Return integers, booleans and enums as 64 bits; 0 for a null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, of = pa.types, column.type
    if field.enum is not None:
        if not types.is_string(of):
            raise NotAtOnce
        at = pc.index_in(column, pa.array(field.enum.values(), pa.string()))
        if at.null_count > column.null_count:
            raise NotAtOnce
        numbers = np.array([*field.enum], np.int64)
        found: Ints = numbers[at.fill_null(0).to_numpy(zero_copy_only=False)]
        return found
    if field.scalar == "bool":
        if not types.is_boolean(of):
            raise NotAtOnce
        column = column.cast(pa.int8())
    elif of == field.kind and types.is_decimal(of):
        halves = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
        halves = halves[column.offset : column.offset + len(column)]
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        if (halves[~nulls, 1] != 0).any():  # negative, or above 64 bits
            raise NotAtOnce
        return np.where(nulls, 0, halves[:, 0])
    elif not types.is_signed_integer(of):
        raise NotAtOnce
    values: Ints = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if field.scalar in _RANGES:
        least, most = _RANGES[field.scalar]
        if ((values < least) | (values > most)).any():
            raise NotAtOnce
    return values


def _timestamp(column: pa.Array) -> list[pa.Array]:
    """Return the fields of ``google.protobuf.Timestamp``."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type) or column.type.unit != "us":
        raise NotAtOnce
    micros = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, rest = np.divmod(micros, 1_000_000)
    if ((seconds < _SECONDS[0]) | (seconds >= _SECONDS[1])).any():
        raise NotAtOnce
    return [
        _joined(_varint_bytes(number << 3), *_varints(values.astype(np.uint64)), values != 0)
        for number, values in ((1, seconds), (2, rest * 1000))
    ]


def _sized(values: pa.Array, is_there: Any, tag: bytes, also_empty: bool = True) -> pa.Array:
    """Return the tag, the size and the bytes of each value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.fill_null(values, b"")
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.uint64)
    if not also_empty:
        is_there = is_there & (sizes > 0)
    begin = _joined(tag, *_varints(sizes), is_there)
    return pc.binary_join_element_wise(begin, values, pa.scalar(b"", pa.binary()))


def _varint_bytes(number: int) -> bytes:
    matrix, used = _varints(np.array([number], np.uint64))
    return bytes(matrix[used])


def _varints(values: Any) -> tuple[Bytes, Any]:
    """Return the bytes of varints, a row for each, and which of them count."""
    most = max(1, (int(values.max(initial=0)).bit_length() + 6) // 7)
    rest = values[:, None] >> (np.arange(most, dtype=np.uint64) * np.uint64(7))
    used = rest > 0
    used[:, 0] = True
    matrix = (rest & np.uint64(0x7F)).astype(np.uint8)
    matrix[:, :-1] |= np.where(used[:, 1:], np.uint8(0x80), np.uint8(0))
    return matrix, used


def _joined(tag: bytes, matrix: Bytes, used: Any, is_there: Any) -> pa.Array:
    """Return a column of the tag and the used bytes of each row, empty if the row has none."""
    import pyarrow as pa

    count = len(matrix)
    tags = np.broadcast_to(np.frombuffer(tag, np.uint8), (count, len(tag)))
    everything = np.concatenate([tags, matrix], axis=1)
    counts = np.concatenate([np.ones(tags.shape, np.bool_), used], axis=1) & is_there[:, None]
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(counts.sum(axis=1), out=bounds[1:])
    if bounds[-1] >= 2**31:
        raise NotAtOnce
    data = pa.py_buffer(everything[counts])
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds.astype(np.int32)), data]
    )
