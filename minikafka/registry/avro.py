"""Avro schemas: their canonical text, and whether one reads what another has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from minikafka.registry.compatibility import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.records import AVRO

Json: TypeAlias = Any

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
# What a reader of one type may get from a writer of others, besides the type itself.
_PROMOTED: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
# The order in which Java's ``Schema.toString`` writes attributes; others follow in their own
# order, and then the aliases.
_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "record": ("type", "name", "namespace", "doc", "fields"),
    "error": ("type", "name", "namespace", "doc", "fields"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default"),
    "fixed": ("type", "name", "namespace", "doc", "size"),
    "array": ("type", "items"),
    "map": ("type", "values"),
}
_FIELD: Final = ("name", "type", "doc", "default", "order", "aliases")


class AvroField:
    """A field of a record."""

    __slots__ = ("aliases", "has_default", "name", "type")

    def __init__(self, name: str, aliases: Sequence[str], has_default: bool, of: AvroType) -> None:
        self.name = name
        self.aliases = aliases
        self.has_default = has_default
        self.type = of


class AvroType:
    """A node of a schema in which names are resolved; a recursive schema is a cycle of nodes."""

    __slots__ = ("aliases", "branches", "default", "fields", "kind", "name", "size", "symbols")

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind = kind
        self.name = name
        self.aliases: frozenset[str] = frozenset()
        self.fields: list[AvroField] = []
        self.branches: list[AvroType] = []  # of a union; the one of an array or a map
        self.symbols: Sequence[str] = ()
        self.default: str | None = None
        self.size = 0


class AvroSchema:
    """A parsed schema. ``named`` are its own named types and those of its references."""

    kind = AVRO

    def __init__(self, text: str, references: Sequence[AvroSchema] = ()) -> None:
        """Raises RegistryError for a text that is no schema."""
        self.raw = _loaded(text)
        self.named: dict[str, AvroType] = {}
        self._definitions: list[Json] = []
        for each in references:
            self.named |= each.named
            new = [one for one in (*each._definitions, each.raw) if one not in self._definitions]
            self._definitions += new
        known: dict[str, dict[str, Any]] = {}
        try:
            for definition in self._definitions:
                fastavro.parse_schema(definition, named_schemas=known)
            fastavro.parse_schema(self.raw, named_schemas=known)
            self.root = _type(self.raw, "", self.named)
        except UnknownType as error:
            raise invalid_schema(f"the type {error.name} is not defined") from None
        except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise invalid_schema(error) from None
        self.canonical = json.dumps(
            _canonical(self.raw, ""), separators=(",", ":"), ensure_ascii=False
        )

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        return list(_Resolution().reasons(self.root, cast(AvroSchema, writer).root, "/"))


class _Resolution:
    """The comparison of two schemas. Pairs of named types that are being compared are taken as
    fitting, so that recursive schemas end."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def reasons(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        if (id(reader), id(writer)) in self._seen:
            return
        if writer.kind == "union":
            for number, branch in enumerate(writer.branches):
                yield from self.reasons(reader, branch, f"{path}{number}/")
        elif reader.kind == "union":
            if not any(self._reads(branch, writer) for branch in reader.branches):
                yield f"{path}: reader union lacks the writer's type {_shown(writer)}"
        elif reader.kind != writer.kind:
            if writer.kind not in _PROMOTED.get(reader.kind, ()):
                yield f"{path}: reader type {_shown(reader)} cannot read {_shown(writer)}"
        elif reader.kind in ("array", "map"):
            yield from self.reasons(reader.branches[0], writer.branches[0], f"{path}{reader.kind}/")
        elif reader.kind in _NAMED:
            self._seen.add((id(reader), id(writer)))
            yield from self._named(reader, writer, path)

    def _reads(self, reader: AvroType, writer: AvroType) -> bool:
        before = set(self._seen)
        if next(self.reasons(reader, writer, ""), None) is None:
            return True
        self._seen = before  # what was assumed for this branch does not hold
        return False

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        if reader.name != writer.name and writer.name not in reader.aliases:
            yield f"{path}: expected the name {writer.name}, found {reader.name}"
        elif reader.kind == "fixed" and reader.size != writer.size:
            yield f"{path}: size {reader.size} of {reader.name} was {writer.size}"
        elif reader.kind == "enum" and reader.default is None:
            missing = [each for each in writer.symbols if each not in reader.symbols]
            if missing:
                yield f"{path}: {reader.name} lacks the symbols {', '.join(missing)}"
        written = {each.name: each for each in writer.fields}
        for field in reader.fields:
            names = [name for name in (field.name, *field.aliases) if name in written]
            if names:
                there = written[names[0]]
                yield from self.reasons(field.type, there.type, f"{path}{field.name}/")
            elif not field.has_default:
                yield f"{path}{field.name}: a field without a default that the writer lacks"


def _shown(found: AvroType) -> str:
    return found.name or found.kind


def _loaded(text: str) -> Json:
    """Parse JSON; a bare name of a primitive type is a schema, too. Raises RegistryError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise invalid_schema(f"not JSON: {error}") from None


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _name_of(schema: Mapping[str, Json], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace that counts within it."""
    name = schema["name"]
    if "." not in name:
        name = _full_name(name, schema.get("namespace", namespace))
    return name, name.rpartition(".")[0]


def _type(schema: Json, namespace: str, named: dict[str, AvroType]) -> AvroType:
    """Resolve a schema. Raises KeyError, TypeError, ValueError."""
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return AvroType(schema)
        return named[_full_name(schema, namespace)]
    if isinstance(schema, list):
        union = AvroType("union")
        union.branches = [_type(each, namespace, named) for each in schema]
        return union
    kind = schema["type"]
    if not isinstance(kind, str) or not (kind in _NAMED or kind in ("array", "map")):
        return _type(kind, namespace, named)
    if kind in ("array", "map"):
        found = AvroType(kind)
        inner = schema["items" if kind == "array" else "values"]
        found.branches = [_type(inner, namespace, named)]
        return found
    name, within = _name_of(schema, namespace)
    found = named[name] = AvroType("record" if kind == "error" else kind, name)
    found.aliases = frozenset(_full_name(each, within) for each in schema.get("aliases", ()))
    found.symbols, found.default = schema.get("symbols", ()), schema.get("default")
    found.size = schema.get("size", 0)
    found.fields = [
        AvroField(
            each["name"],
            each.get("aliases", ()),
            "default" in each,
            _type(each["type"], within, named),
        )
        for each in schema.get("fields", ())
    ]
    return found


def _canonical(schema: Json, namespace: str) -> Json:
    """Return the schema with its attributes in the order in which Java writes them."""
    if isinstance(schema, list):
        return [_canonical(each, namespace) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return _canonical(kind, namespace) if len(schema) == 1 else schema
    if kind in PRIMITIVES and len(schema) == 1:
        return kind
    written = dict(schema)
    if kind in _NAMED:
        name, within = _name_of(schema, namespace)
        written["name"] = name.rpartition(".")[2]
        written.pop("namespace", None)
        if within != namespace:
            written["namespace"] = within
        if "fields" in schema:
            written["fields"] = [_canonical_field(each, within) for each in schema["fields"]]
        namespace = within
    for inner in ("items", "values"):
        if inner in schema:
            written[inner] = _canonical(schema[inner], namespace)
    return _ordered(written, _ORDER.get(kind, ("type",)))


def _canonical_field(field: Mapping[str, Json], namespace: str) -> Json:
    written = {**field, "type": _canonical(field["type"], namespace)}
    if written.get("order") == "ascending":
        del written["order"]
    return _ordered(written, _FIELD)


def _ordered(found: Mapping[str, Json], first: Sequence[str]) -> dict[str, Json]:
    ordered = {key: found[key] for key in first if key in found}
    ordered |= {key: each for key, each in found.items() if key not in (*first, "aliases")}
    if "aliases" in found:
        ordered["aliases"] = found["aliases"]
    return ordered
