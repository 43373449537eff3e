"""Protobuf messages, encoded for all rows at once: the reverse of ``flat_protobuf``.

Each field becomes a column of bytes, its tag and its value, empty where a row has none. The
elements of a repeated field are encoded as such a column, too, whose bytes need only be divided
among the rows. Arrow joins the columns. What the library of Protobuf would refuse, or change, is
left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.varints import Bytes, Ints, zigzag
from minikafka.spark.formats.flat_protobuf import FlatField, FlatMessage, check_entries, elements_of
from minikafka.spark.formats.wire import NotAtOnce

if TYPE_CHECKING:
    import pyarrow as pa

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
