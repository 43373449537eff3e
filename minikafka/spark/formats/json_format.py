"""Columns of JSON documents, whose types come from a JSON Schema.

Arrow's parser reads the documents of all rows of a batch, its functions for texts write them, and
no row becomes an object of Python.

What is read or written here is what Python's ``json`` has. Batches of other documents, and those in
which a single row does not fit, are left to it, since it says which row that is.

What a JSON Schema demands of the values of a column is checked for all of them at once. The
validator judges a few values that stand for all: the smallest and the largest number, the shortest
and the longest text or array, or each different value. So what a keyword means in a draft of JSON
Schema is left to it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from minikafka.client.columnar.columns import binary_column
from minikafka.spark.formats.registry_access import FormatError, RegisteredSchema
from minikafka.spark.formats.wire import Decoded, NotAtOnce, Payloads, array_of, encoded, header

if TYPE_CHECKING:
    import pyarrow as pa


# Returns whether all values of a column fit a schema. Nulls are not in the document.
Check = Callable[["pa.Array"], bool]
Choice = Callable[["pa.Array"], list[Any]]

PLAIN: Final = ("boolean", "integer", "number", "string")
_BOUNDS: Final = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_LENGTHS: Final = {"minLength", "maxLength"}
_OF_VALUES: Final = _BOUNDS | _LENGTHS | {"pattern", "enum", "const", "multipleOf"}
_OF_ARRAYS: Final = {"minItems", "maxItems"}


def check_of(
    validator: Any, schema: Any, kind: str | None, keywords: AbstractSet[str]
) -> Check | None:
    """Return a check of ``keywords``, which stand in ``schema``, for columns of its type ``kind``.

    Return None if there are no values that stand for all. ``validator`` is that of the whole
    schema."""
    if not keywords:
        return lambda _: True
    chosen = _choice(kind, keywords)
    if chosen is None:
        return None
    judge = validator.evolve(
        schema={name: each for name, each in schema.items() if name != "items"}
    )
    return lambda column: all(judge.is_valid(value) for value in chosen(column))


def _choice(kind: str | None, keywords: AbstractSet[str]) -> Choice | None:
    if kind == "array":
        return _lengths_alone if keywords <= _OF_ARRAYS else None
    if kind not in PLAIN or not keywords <= _OF_VALUES:
        return None
    if kind in ("integer", "number") and keywords <= _BOUNDS:
        return _extremes
    return _shortest_and_longest if kind == "string" and keywords <= _LENGTHS else _different


def _different(column: pa.Array) -> list[Any]:
    found: list[Any] = column.unique().drop_null().to_pylist()
    return found


def _extremes(numbers: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    return [each for each in pc.min_max(numbers).as_py().values() if each is not None]


def _shortest_and_longest(column: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    lengths = pc.utf8_length(column)
    return [column[pc.index(lengths, each).as_py()].as_py() for each in _extremes(lengths)]


def _lengths_alone(column: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    return [[None] * each for each in _extremes(pc.list_value_length(column))]


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


def _texts(column: pa.Array, kind: pa.DataType, shape: Shape) -> pa.Array:
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
        text = _texts(values, kinds[each.name], shape.inner.get(each.name, Shape()))
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
    texts = _texts(values, kind.value_type, shape.inner.get("[]", Shape()))
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


Convert = Callable[[Any], Any]
_UNFIT: Final = (ValueError, RecursionError, TypeError, AttributeError, OverflowError)
# Keywords that the type of a column fulfils, or a ``Shape``. Additional properties have no column.
_UNDERSTOOD: Final = frozenset(
    {"type", "properties", "required", "items", "additionalProperties", "format"}
)


class JsonFormat:
    """Objects of a schema as structs of its properties. What has no single type becomes the text
    of its JSON."""

    def __init__(self, schema: RegisteredSchema, message: str | None = None) -> None:
        """Raises FormatError."""
        if message is not None:
            raise FormatError("only Protobuf schemas have messages to choose from")
        import jsonschema
        import pyarrow as pa
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        self._schema = schema
        self._files = {name: json.loads(each.text) for name, each in schema.references}
        raw = json.loads(schema.text)
        self._all_read_by_arrow = True
        self.arrow_type, self._convert = self._type(raw, raw, 0)
        if not pa.types.is_struct(self.arrow_type):
            raise FormatError(f"schema {schema.id} is not that of an object with properties")
        known = Registry().with_resources(
            (name, Resource.from_contents(each, default_specification=DRAFT7))
            for name, each in self._files.items()
        )
        kind = validator_for(raw, default=jsonschema.Draft7Validator)
        self._validator = kind(raw, registry=known)
        self._shape = self._shape_of(raw, raw)

    def decode(self, payloads: Payloads, writer: RegisteredSchema) -> Decoded:
        if self._all_read_by_arrow:
            try:
                return Decoded(read_documents(payloads, self.arrow_type), {})
            except NotAtOnce:
                pass  # json finds the value that does not fit
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        for at, payload in enumerate(payloads.each()):
            try:
                rows.append(self._convert(json.loads(payload)))
            except _UNFIT as error:
                rows.append(None)
                reasons[at] = f"not JSON of schema {payloads.schema_id}: {error}"
        return array_of(rows, self.arrow_type, reasons)

    def encode(self, column: pa.Array) -> pa.Array:
        """Encode a column of structs as JSON without nulls. Raises FormatError for a row that is
        not valid."""
        if self._shape is not None:
            try:
                return write_documents(column, self.arrow_type, self._shape, self._schema.id)
            except NotAtOnce:
                pass  # the validator finds the row that does not fit
        return encoded(column, self._encoded)

    def _encoded(self, row: Any) -> bytes:
        document = _document(row)
        for error in self._validator.iter_errors(document):
            where = "/".join(str(each) for each in error.absolute_path)
            raise FormatError(f"a row does not fit schema {self._schema.id} at /{where}")
        return header(self._schema.id) + json.dumps(document).encode()

    def _type(self, schema: Any, file: Any, depth: int) -> tuple[pa.DataType, Convert]:
        import pyarrow as pa

        if depth > 50:
            raise FormatError(f"schema {self._schema.id} is recursive: it has no type in Spark")
        if isinstance(schema, dict) and "$ref" in schema:
            return self._type(*self._referred(schema["$ref"], file), depth + 1)
        if (other := _other_than_null(schema)) is not None:
            return self._type(other, file, depth + 1)
        kind = _single_kind(schema)
        if kind in PLAIN:
            plain = {
                "boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(),
                "string": pa.string(),
            }  # fmt: skip
            return plain[kind], _number if kind == "number" else _same
        if kind == "array" and isinstance(schema.get("items"), dict):
            inner, convert = self._type(schema["items"], file, depth + 1)
            return pa.list_(inner), _of_list(convert)
        if kind == "object" and schema.get("properties"):
            parts = {n: self._type(s, file, depth + 1) for n, s in schema["properties"].items()}
            fields = [pa.field(name, of) for name, (of, _) in parts.items()]
            return pa.struct(fields), _of_object({name: how for name, (_, how) in parts.items()})
        self._all_read_by_arrow = False
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            inner, convert = self._type(schema["additionalProperties"], file, depth + 1)
            return pa.map_(pa.string(), inner), _of_map(convert)
        return pa.string(), _dumped

    def _shape_of(self, schema: Any, file: Any, depth: int = 0) -> Shape | None:
        """Return what a schema demands beyond the type of its column; None if it takes the
        validator to say that."""
        if not isinstance(schema, dict) or depth > 50:
            return None
        demands = set(schema) & set(self._validator.VALIDATORS)
        if "$ref" in schema:
            found = self._referred(schema["$ref"], file)
            return self._shape_of(*found, depth + 1) if demands == {"$ref"} else None
        if (other := _other_than_null(schema)) is not None:
            return self._shape_of(other, file, depth + 1) if len(demands) == 1 else None
        kind, parts = _single_kind(schema), schema.get("properties", {})
        if kind == "array":
            parts = {"[]": schema.get("items")}
        elif kind not in PLAIN and not parts:
            return None
        required = schema.get("required", [])
        fits = check_of(self._validator, schema, kind, demands - _UNDERSTOOD)
        if fits is None or not isinstance(required, list):
            return None
        inner = {name: self._shape_of(each, file, depth + 1) for name, each in parts.items()}
        known = {name: each for name, each in inner.items() if each is not None}
        return Shape(frozenset(required), known, fits) if len(known) == len(inner) else None

    def _referred(self, ref: str, file: Any) -> tuple[Any, Any]:
        name, _, pointer = ref.partition("#")
        found = file = self._files.get(name) if name else file
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict | bool):
            raise FormatError(f"schema {self._schema.id}: {ref} cannot be resolved")
        return found, file


def _single_kind(schema: Any) -> str | None:
    """Return the type of a schema, without null; None if it has several, or none."""
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        kind = others[0] if len(others) == 1 else None
    return kind if isinstance(kind, str) else None


def _other_than_null(schema: Any) -> Any:
    """Return the other one of two alternatives if one is null: so generators of schemas declare
    what may be missing."""
    for key in ("anyOf", "oneOf"):
        either = schema.get(key) if isinstance(schema, dict) and "type" not in schema else None
        if isinstance(either, list) and len(either) == 2:
            others = [each for each in either if _single_kind(each) != "null"]
            if len(others) == 1:
                return others[0]
    return None


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _same(value: Any) -> Any:
    return value


def _dumped(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _of_list(convert: Convert) -> Convert:
    return lambda value: None if value is None else [convert(each) for each in value]


def _of_map(convert: Convert) -> Convert:
    return lambda value: None if value is None else [(k, convert(v)) for k, v in value.items()]


def _of_object(fields: Mapping[str, Convert]) -> Convert:
    if all(convert is _same for convert in fields.values()):
        return _same

    def converted(value: Any) -> Any:
        if value is None:
            return None
        return {name: convert(value.get(name)) for name, convert in fields.items()}

    return converted


def _document(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _document(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_document(each) for each in value]
    if isinstance(value, datetime.date):  # and datetime
        return value.isoformat()
    return value
