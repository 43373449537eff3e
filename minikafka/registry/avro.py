"""Avro schemas: their canonical text, and whether one reads what another has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from minikafka.registry.avro_parser import (
    ABSENT,
    INNER,
    NAMED,
    PRIMITIVES,
    AvroParser,
    AvroType,
    Json,
    name_of,
)
from minikafka.registry.compatibility import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.records import AVRO

# What a reader of one type may get from a writer of others, besides the type itself.
_PROMOTED: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
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
MOST_PAIRS: Final = 100_000  # of branches of unions, in one comparison
_FIELD: Final = ("name", "type", "doc", "default", "order", "aliases")


class AvroSchema:
    """A parsed schema. ``named`` are its own named types and those of its references."""

    kind = AVRO

    def __init__(self, text: str, references: Sequence[AvroSchema] = ()) -> None:
        """Raises RegistryError for a text that is no schema."""
        raw = _loaded(text)
        self.named: dict[str, AvroType] = {}
        for each in references:
            self.named |= each.named
        parser = AvroParser(self.named)
        try:
            self.root = parser.type_of(raw)
            self.canonical = _written(_canonical(raw, ""))
        except ValueError as error:
            raise invalid_schema(error) from None
        except RecursionError:
            raise invalid_schema("the types are nested too deeply") from None
        self.violations = parser.violations + _not_json(raw)

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        try:
            return list(_Resolution().reasons(self.root, cast(AvroSchema, writer).root, "/"))
        except RecursionError:
            return ["the types are nested too deeply to be compared"]
        except _TooManyPairs:
            return [f"more than {MOST_PAIRS:,} pairs of types would have to be compared"]


class _TooManyPairs(Exception):
    """A comparison has reached ``MOST_PAIRS``."""


class _Resolution:
    """The comparison of two schemas. Pairs of named types that are being compared are taken as
    fitting, so that recursive schemas end."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._failed: set[tuple[int, int]] = set()
        self._pairs = 0

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
        elif reader.kind in INNER:
            yield from self.reasons(reader.branches[0], writer.branches[0], f"{path}{reader.kind}/")
        elif reader.kind in NAMED:
            self._seen.add((id(reader), id(writer)))
            yield from self._named(reader, writer, path)

    def _reads(self, reader: AvroType, writer: AvroType) -> bool:
        self._pairs += 1
        if self._pairs > MOST_PAIRS:
            raise _TooManyPairs
        pair = (id(reader), id(writer))
        if pair in self._failed:
            return False
        before = set(self._seen)
        if next(self.reasons(reader, writer, ""), None) is None:
            return True
        self._seen = before  # pairs that were assumed to match in this branch
        self._failed.add(pair)  # it fails although the pairs under comparison count as matching
        return False

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        if _local(reader) != _local(writer) and writer.name not in reader.aliases:
            yield f"{path}: expected the name {writer.name}, found {reader.name}"
        elif reader.kind == "fixed" and reader.size != writer.size:
            yield f"{path}: size {reader.size} of {reader.name} was {writer.size}"
        elif reader.kind == "enum" and reader.default is None:
            missing = [each for each in writer.symbols if each not in reader.symbols]
            if missing:
                yield f"{path}: {reader.name} lacks the symbols {', '.join(missing)}"
        written = {each.name: each for each in writer.fields or ()}
        for field in reader.fields or ():
            names = {name for name in (field.name, *field.aliases) if name in written}
            if len(names) > 1:
                matches = ", ".join(sorted(names))
                yield f"{path}{field.name}: more than one field of the writer matches: {matches}"
            elif names:
                there = written[names.pop()]
                yield from self.reasons(field.type, there.type, f"{path}{field.name}/")
            elif field.default is ABSENT:
                yield f"{path}{field.name}: a field without a default that the writer lacks"


def _shown(found: AvroType) -> str:
    return found.name or found.kind


def _local(found: AvroType) -> str:
    return found.name.rpartition(".")[2]


def _loaded(text: str) -> Json:
    """Parse JSON; a bare name of a primitive type is a schema, too. Raises RegistryError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise invalid_schema(f"not JSON: {error}") from None


def _not_json(raw: Json) -> list[str]:
    """Return a violation for values that Python's JSON parser takes and others refuse: NaN,
    infinities, lone surrogates."""
    try:
        json.dumps(raw, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        return [f"a number or a text is not JSON: {error}"]
    return []


def _written(schema: Json) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _canonical(schema: Json, namespace: str) -> Json:
    """Return the schema with its attributes in the order in which Java writes them."""
    if isinstance(schema, list):
        return [_canonical(each, namespace) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return _canonical(kind, namespace) if len(schema) == 1 else schema
    if kind not in (*NAMED, *INNER) and (len(schema) == 1 or kind not in PRIMITIVES):
        return kind
    written = dict(schema)
    if kind in NAMED:
        name, within = name_of(schema, namespace)
        written["name"] = name.rpartition(".")[2]
        written.pop("namespace", None)
        if within != namespace:
            written["namespace"] = within
        if kind == "enum" and not isinstance(schema.get("default", ""), str):
            del written["default"]
        if kind in ("record", "error") and isinstance(schema.get("fields"), list):
            written["fields"] = [_canonical_field(each, within) for each in schema["fields"]]
    elif kind in INNER:
        written[INNER[kind]] = _canonical(schema[INNER[kind]], namespace)
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
