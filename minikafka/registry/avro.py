"""Avro schemas: their canonical text, and whether one reads what another has written.

A schema is parsed from JSON, and the rules of Avro's specification that it breaks are found. One
that breaks a rule still gets its types as far as possible: an earlier registry may have
stored it. Where the specification leaves something open, the rules are those of Java's parser
with strict names and checked defaults, which Confluent's registry uses for new schemas.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from minikafka.registry.decisions import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.records import AVRO

Json: TypeAlias = Any

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
INNER: Final[Mapping[str, str]] = {"array": "items", "map": "values"}

MOST_STEPS: Final = 200_000  # to check the defaults of one schema
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SCALE: Final = 1_000
_ORDERS: Final = ("ascending", "descending", "ignore")
_MOST_BYTES: Final = 2**31 - 9  # the longest array of a JVM
_LIMITS: Final[Mapping[str, int]] = {"int": 2**31, "long": 2**63}
_FLOATING: Final = ("float", "double")
# The texts that Java's Double.parseDouble takes.
_DOUBLE: Final = re.compile(
    r"[\0- ]*[+-]?(NaN|Infinity"
    r"|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)[\0- ]*"
)


ABSENT: Final = object()  # the default of a field that has none


class AvroField:
    """A field of a record. Its default is JSON, or ``ABSENT``."""

    __slots__ = ("aliases", "default", "name", "type")

    def __init__(self, name: str, aliases: Sequence[str], default: Json, of: AvroType) -> None:
        self.name = name
        self.aliases = aliases
        self.default = default
        self.type = of


class AvroType:
    """A node of a schema in which names are resolved; a recursive schema is a cycle of nodes.
    ``logical`` is the name of its logical type, which matters to readers only, and ``scale`` that
    of a decimal."""

    __slots__ = (
        *("aliases", "branches", "default", "fields", "kind", "logical", "name"),
        *("scale", "size", "symbols"),
    )

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind = kind
        self.name = name
        self.aliases: frozenset[str] = frozenset()
        self.fields: list[AvroField] | None = None  # of a record, once it is complete
        self.branches: list[AvroType] = []  # of a union; the one of an array or a map
        self.symbols: Sequence[str] = ()
        self.default: str | None = None
        self.size = 0
        self.logical = ""
        self.scale = 0

    def note_logical(self, schema: Mapping[str, Json]) -> None:
        logical, scale = schema.get("logicalType"), schema.get("scale", 0)
        if isinstance(logical, str) and _is_integer(scale) and 0 <= scale <= _MOST_SCALE:
            self.logical, self.scale = logical, scale


class AvroParser:
    """Parses schemas. ``named`` maps full names to the types that a schema may refer to; the parser
    adds the types that it defines. ``violations`` collects the rules that it breaks."""

    def __init__(self, named: dict[str, AvroType]) -> None:
        self._named = named
        self._steps = 0
        self.violations: list[str] = []

    def type_of(self, schema: Json, namespace: str = "") -> AvroType:
        """Return the type that a schema denotes within a namespace. Raises ValueError if it denotes
        none."""
        if isinstance(schema, str):
            return self._referred(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if kind is None:
            raise ValueError(f"{_quoted(schema)} has no type")
        if not isinstance(kind, str):
            self._break(f"the attribute type of a type is not a name: {_quoted(kind)}")
            return self.type_of(kind, namespace)
        if kind in NAMED:
            return self._definition(kind, schema, namespace)
        if kind in INNER:
            found = AvroType(kind)
            found.branches = [self.type_of(_required(schema, INNER[kind]), namespace)]
            return found
        found = self._referred(kind, namespace)
        if kind in PRIMITIVES:
            found.note_logical(schema)
        return found

    def _referred(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = full_name(name, namespace)
        if full not in self._named:
            raise ValueError(f"the type {full} is not defined")
        return self._named[full]

    def _union(self, schema: list[Json], namespace: str) -> AvroType:
        union = AvroType("union")
        union.branches = [self.type_of(each, namespace) for each in schema]
        names = [each.name or each.kind for each in union.branches]
        if "union" in names:
            self._break("a union holds a union")
        self._once(names, "a union holds {} twice")
        return union

    def _definition(self, kind: str, schema: Mapping[str, Json], namespace: str) -> AvroType:
        name, within = name_of(schema, namespace)
        self._check_name(name, *name.split("."))
        if name in PRIMITIVES:
            self._break(f"{name} is the name of a primitive type")
        if name in self._named:
            self._break(f"{name} is defined twice")
        found = self._named[name] = AvroType("record" if kind == "error" else kind, name)
        aliases = self._aliases(schema)
        for alias in aliases:
            self._check_name(alias, alias.rpartition(".")[2])
        found.aliases = frozenset(full_name(alias, within) for alias in aliases)
        if kind == "enum":
            self._enum(found, schema)
        elif kind == "fixed":
            found.note_logical(schema)
            size: Json = schema.get("size")
            if _is_integer(size) and 0 <= size <= _MOST_BYTES:
                found.size = size
            else:
                self._break(f"the size of {name} is not a number from 0 to {_MOST_BYTES}")
        else:
            self._record(found, schema, within)
        return found

    def _enum(self, found: AvroType, schema: Mapping[str, Json]) -> None:
        symbols = self._list(schema, "symbols")
        found.symbols = [str(each) for each in symbols]
        for symbol in symbols:
            self._check_name(symbol, symbol)
        self._once(found.symbols, f"{found.name} has the symbol {{}} twice")
        default = schema.get("default")
        if isinstance(default, str):  # Java skips others
            found.default = default
            if default not in found.symbols:
                self._break(f"the default {default} of {found.name} is no symbol of it")

    def _record(self, found: AvroType, schema: Mapping[str, Json], within: str) -> None:
        fields = [self._field(each, found, within) for each in self._list(schema, "fields")]
        self._once([each.name for each in fields], f"{found.name} has the field {{}} twice")
        found.fields = fields

    def _field(self, schema: Json, record: AvroType, namespace: str) -> AvroField:
        name = _required(schema, "name")
        self._check_name(name, name)
        of = self.type_of(_required(schema, "type"), namespace)
        order = schema.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            self._break(f"the order of {name} in {record.name} is not {', '.join(_ORDERS)}")
        default = schema.get("default", ABSENT)
        if of.kind in _FLOATING and isinstance(default, str) and _DOUBLE.fullmatch(default):
            default = 0.0  # Java parses such a text as a number
        if default is not ABSENT and not self._takes(of, default):
            self._break(f"the default of {name} in {record.name} does not fit its type")
        return AvroField(str(name), self._aliases(schema), default, of)

    def _takes(self, of: AvroType, default: Json) -> bool:
        """Whether the value may be the default of a field of this type. A record type whose fields
        are still being parsed accepts none. Raises ValueError after ``MOST_STEPS``."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ValueError(f"its defaults take more than {MOST_STEPS:,} steps to check")
        match of.kind:
            case "null":
                return default is None
            case "boolean":
                return isinstance(default, bool)
            case "int" | "long":
                limit = _LIMITS[of.kind]
                return _is_integer(default) and -limit <= default < limit
            case "float" | "double":
                return _is_integer(default) or isinstance(default, float)
            case "string" | "bytes" | "enum" | "fixed":
                return isinstance(default, str)
            case "array":
                return isinstance(default, list) and self._all(of.branches[0], default)
            case "map":
                return isinstance(default, dict) and self._all(of.branches[0], default.values())
            case "union":
                return any(self._takes(branch, default) for branch in of.branches)
        return (
            of.fields is not None
            and isinstance(default, dict)
            and all(self._takes(one.type, default.get(one.name, one.default)) for one in of.fields)
        )

    def _all(self, of: AvroType, defaults: Iterable[Json]) -> bool:
        return all(self._takes(of, each) for each in defaults)

    def _aliases(self, schema: Mapping[str, Json]) -> list[str]:
        found = self._list(schema, "aliases") if "aliases" in schema else []
        if not all(isinstance(each, str) for each in found):
            self._break("an alias is not a text")
        return [str(each) for each in found]

    def _list(self, schema: Mapping[str, Json], attribute: str) -> list[Json]:
        found = schema.get(attribute)
        if isinstance(found, list):
            return found
        self._break(f"{attribute} of {_quoted(schema)} is not a list")
        return []

    def _once(self, names: Sequence[str], rule: str) -> None:
        for name, count in Counter(names).items():
            if count > 1:
                self._break(rule.format(name))

    def _check_name(self, name: Json, *parts: Json) -> None:
        if not all(isinstance(each, str) and _NAME.fullmatch(each) for each in parts):
            self._break(f"{_quoted(name)} is no name: use A-Z, a-z, _ and, after the first, 0-9")

    def _break(self, rule: str) -> None:
        self.violations.append(rule)


def full_name(name: str, namespace: str) -> str:
    """Return the full name of a name that is used within a namespace."""
    if "." not in name:
        return f"{namespace}.{name}" if namespace else name
    return name[1:] if name.rfind(".") == 0 else name


def name_of(schema: Mapping[str, Json], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of the names inside it. Raises
    ValueError."""
    name, own = _required(schema, "name"), schema.get("namespace")
    if not isinstance(name, str):
        raise ValueError(f"the name {_quoted(name)} is not a text")
    full = full_name(name, own if isinstance(own, str) else namespace)
    return full, full.rpartition(".")[0]


def _required(schema: Json, attribute: str) -> Json:
    if not isinstance(schema, dict) or attribute not in schema:
        raise ValueError(f"{_quoted(schema)} has no {attribute}")
    return schema[attribute]


def _is_integer(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _quoted(found: Json) -> str:
    """Format a part of a schema for a message, and of a large part only its name or kind."""
    if isinstance(found, dict):
        found = found.get("name", found.get("type", "a schema"))
    return json.dumps(found)[:100] if isinstance(found, str | int | float | None) else "a list"


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
