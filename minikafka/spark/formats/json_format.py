"""Columns of JSON documents, whose types come from a JSON Schema."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minikafka.spark.formats.json_checks import PLAIN, check_of
from minikafka.spark.formats.json_columns import Shape, read_documents, write_documents
from minikafka.spark.formats.registry_access import FormatError, RegisteredSchema
from minikafka.spark.formats.wire import (
    Decoded,
    NotAtOnce,
    Payloads,
    array_of,
    encoded,
    header,
)

if TYPE_CHECKING:
    import pyarrow as pa

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
        return pa.string(), _text

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


def _text(value: Any) -> str | None:
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
