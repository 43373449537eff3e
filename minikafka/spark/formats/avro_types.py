"""Avro schemas as Arrow types, and as fastavro's parsed schemas with their references."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.spark.formats.registry_access import FormatError, RegisteredSchema

if TYPE_CHECKING:
    import pyarrow as pa

# The logical types, besides decimal, that have a type in Spark, each with its Avro type. Values of
# any other logical type are read as their Avro type.
_LOGICAL: Final = {
    "date": "int", "timestamp-millis": "long", "timestamp-micros": "long",
    "local-timestamp-millis": "long", "local-timestamp-micros": "long",
}  # fmt: skip
_ANY_SIZE: Final = 2**31  # bytes
_NAMED: Final = ("record", "error", "enum", "fixed")


class AvroFile:
    """A schema that fastavro has parsed, with the named types that it may refer to."""

    def __init__(self, schema: RegisteredSchema) -> None:
        """Raises FormatError."""
        import fastavro

        self.named: dict[str, Any] = {}
        try:
            for each in _in_order(schema):
                raw = _known_logical(_loaded(each.text))
                self.parsed = fastavro.parse_schema(raw, named_schemas=self.named)
        except (fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"schema {schema.id} is no Avro schema: {error}") from None

    def record(self) -> Mapping[str, Any]:
        """Return the schema, which must be a record. Raises FormatError."""
        found = self.parsed
        if not isinstance(found, dict) or found.get("type") not in ("record", "error"):
            raise FormatError("the schema is no record")
        return found

    def arrow_type(self) -> pa.DataType:
        """Return the struct that the record becomes. Raises FormatError."""
        return _arrow(self.record(), self.named, ())


def nullable(schema: Any) -> tuple[Any, int] | None:
    """Return the type and the index of null, if the schema is a union of null and one type."""
    if isinstance(schema, list) and len(schema) == 2 and "null" in schema:
        at = schema.index("null")
        return schema[1 - at], at
    return None


def _arrow(schema: Any, named: Mapping[str, Any], outer: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    plain = {
        "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "null": pa.null(),
        "enum": pa.string(), "fixed": pa.binary(),
    }  # fmt: skip
    if isinstance(schema, list):
        found = nullable(schema)
        if found is None:
            raise FormatError("a union of several types has no type in Spark")
        return _arrow(found[0], named, outer)
    if isinstance(schema, str):
        return plain[schema] if schema in plain else _arrow(named[schema], named, outer)
    kind = schema["type"]
    logical = _logical(schema)
    if logical is not None:
        return logical
    if kind in ("record", "error"):
        name = schema["name"]
        if name in outer:
            raise FormatError(f"the recursive type {name} has no type in Spark")
        fields = [
            pa.field(each["name"], _arrow(each["type"], named, (*outer, name)))
            for each in schema["fields"]
        ]
        return pa.struct(fields)
    if kind == "array":
        return pa.list_(_arrow(schema["items"], named, outer))
    if kind == "map":
        return pa.map_(pa.string(), _arrow(schema["values"], named, outer))
    return plain[kind] if isinstance(kind, str) and kind in plain else _arrow(kind, named, outer)


def _logical(schema: Mapping[str, Any]) -> pa.DataType | None:
    import pyarrow as pa

    logical = schema.get("logicalType")
    if logical == "date":
        return pa.date32()
    if logical in ("timestamp-millis", "timestamp-micros"):
        return pa.timestamp("us", "UTC")
    if logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return pa.timestamp("us")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    return None


def _in_order(schema: RegisteredSchema) -> list[RegisteredSchema]:
    """Return the schemas with each one after those that it refers to, and none twice."""
    found: dict[int, RegisteredSchema] = {}
    for _, each in schema.references:
        found |= {one.id: one for one in _in_order(each) if one.id not in found}
    return [*found.values(), schema]


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _known_logical(schema: Any) -> Any:
    """Return the schema without the logical types that have no type in Spark or do not fit their
    Avro type: the specification says that readers ignore those."""
    if isinstance(schema, list):
        return [_known_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        k: _known_logical(v) if k not in ("default", "symbols") else v for k, v in schema.items()
    }
    if "logicalType" in found and not _fits(found):
        del found["logicalType"]
    return found


def _fits(schema: Mapping[str, Any]) -> bool:
    logical, kind = schema["logicalType"], schema.get("type")
    if logical != "decimal":
        return isinstance(logical, str) and kind == _LOGICAL.get(logical, "")
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if kind not in ("bytes", "fixed") or type(precision) is not int or type(scale) is not int:
        return False
    size = schema.get("size", 0) if kind == "fixed" else _ANY_SIZE
    return 0 <= scale <= precision and 0 < precision <= math.log10(2) * (8 * size - 1)
