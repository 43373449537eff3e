"""JSON documents of all rows of a batch: Arrow's parser reads them, its functions for texts write
them, and no row becomes an object of Python.

What is read or written here is what Python's ``json`` has. Batches of other documents, and those in
which a single row does not fit, are left to it, since it says which row that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

import numpy as np

from minikafka.client.columnar.columns import binary_column
from minikafka.spark.formats.json_checks import Check
from minikafka.spark.formats.wire import NotAtOnce, Payloads, header

if TYPE_CHECKING:
    import pyarrow as pa

# A number that Arrow reads, and json does not: it reads Infinity.
_INF: Final = re.compile(rb"[\s:,\[-]Inf[\s,}\]]")


@dataclass(frozen=True)
class Shape:
    """What a document must have beyond the types of its columns: the properties that must not be
    null, what ``fits`` says of all values, and the shapes of objects in it, by name, the elements
    of an array as ``[]``."""

    required: frozenset[str] = frozenset()
    inner: Mapping[str, Shape] = field(default_factory=dict)
    fits: Check = lambda _: True


def read_documents(payloads: Payloads, kind: pa.DataType) -> pa.Array:
    """Read each payload as one object into a struct. ``kind`` must have no maps. Raises NotAtOnce.

    Arrow's parser reads the payloads as lines. Each begins and ends with a brace and has no line
    end, and there are as many objects as payloads, so no payload holds two or a part of one."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    data, starts, ends = payloads.data, payloads.starts, payloads.ends
    if len(starts) == 0 or (ends == starts).any():
        raise NotAtOnce
    if (data[starts] != ord("{")).any() or (data[ends - 1] != ord("}")).any():
        raise NotAtOnce
    try:
        texts = binary_column(data, starts, ends - starts).cast(pa.string())  # checks UTF-8
        block = _lines(texts)
        if block.count(b"\n") != len(starts) - 1 or (b"Inf" in block and _INF.search(block)):
            raise NotAtOnce
        table = arrow_json.read_json(
            pa.BufferReader(block),
            arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        raise NotAtOnce from None
    if len(table) != len(starts):
        raise NotAtOnce
    columns = [table.column(each.name).combine_chunks() for each in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _lines(texts: pa.Array) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    row = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return bytes(pc.binary_join(row, "\n")[0].as_buffer())


def write_documents(column: pa.Array, kind: pa.DataType, shape: Shape, schema_id: int) -> pa.Array:
    """Write structs as objects without nulls, each after the header of the schema. A null stays a
    null. Raises NotAtOnce."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = _object(column, kind, shape).cast(pa.binary())
        begin = pa.scalar(header(schema_id), pa.binary())
        return pc.binary_join_element_wise(begin, texts, pa.scalar(b"", pa.binary()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise NotAtOnce from None


def _text(column: pa.Array, kind: pa.DataType, shape: Shape) -> pa.Array:
    """Return the JSON of each value, null for a null."""
    import pyarrow as pa

    types, of = pa.types, column.type
    if types.is_struct(kind) and types.is_struct(of):
        return _object(column, kind, shape)
    if types.is_list(kind) and types.is_list(of):
        return _array(column, kind, shape)
    text = _plain(column, kind)
    if not shape.fits(column):
        raise NotAtOnce
    return text


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    types, of = pa.types, column.type
    if types.is_string(kind) and types.is_string(of):
        return _string(column)
    is_number = types.is_int64(kind) or types.is_float64(kind)
    if (types.is_boolean(kind) and types.is_boolean(of)) or (is_number and types.is_integer(of)):
        return column.cast(pa.string())
    if types.is_float64(kind) and types.is_floating(of):
        return _float(column)
    raise NotAtOnce


def _object(column: pa.Array, kind: pa.DataType, shape: Shape) -> pa.Array:
    import pyarrow.compute as pc

    kinds = {each.name: each.type for each in kind}
    parts = []
    for each, values in zip(column.type, column.flatten(), strict=True):
        if each.name not in kinds:
            raise NotAtOnce
        if each.name in shape.required and values.null_count > column.null_count:
            raise NotAtOnce
        text = _text(values, kinds[each.name], shape.inner.get(each.name, Shape()))
        key = f", {encode_basestring_ascii(each.name)}: "
        parts.append(pc.coalesce(pc.binary_join_element_wise(key, text, ""), ""))
    if not parts or shape.required - {each.name for each in column.type}:
        raise NotAtOnce
    members = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 2)
    return _only_where_valid(column, pc.binary_join_element_wise("{", members, "}", ""))


def _array(column: pa.Array, kind: pa.DataType, shape: Shape) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.flatten()
    if values.null_count or not shape.fits(column):
        raise NotAtOnce
    texts = _text(values, kind.value_type, shape.inner.get("[]", Shape()))
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    bounds = np.zeros(len(column) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    elements = pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), texts), ", ")
    return _only_where_valid(column, pc.binary_join_element_wise("[", elements, "]", ""))


def _string(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    buffer = column.buffers()[2]
    used = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    is_plain = (used >= ord(" ")) & (used < 0x7F) & (used != ord('"')) & (used != ord("\\"))
    if is_plain.all():
        return pc.binary_join_element_wise('"', column, '"', "")
    texts = [None if t is None else encode_basestring_ascii(t) for t in column.to_pylist()]
    return pa.array(texts, pa.string())


def _float(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    numbers = column.cast(pa.float64()).fill_null(0).to_numpy()
    if not np.isfinite(numbers).all():
        raise NotAtOnce
    return _only_where_valid(column, pa.array(list(map(repr, numbers.tolist())), pa.string()))


def _only_where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == 0:
        return texts
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
