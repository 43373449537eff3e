"""JSON Schemas: their canonical text, what they refer to, and whether every document that fits one
of them fits another one.

The comparison goes keyword by keyword and is careful: where it cannot see that all documents fit,
it says that they do not. Content models count as in Confluent's registry: a property that is
optional may be added if the earlier schema was closed, since an open one let any value stand there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

import jsonschema
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

from minikafka.registry.decisions import ParsedSchema
from minikafka.registry.errors import invalid_schema, unprocessable
from minikafka.registry.records import JSON

Json: TypeAlias = Any

MOST_STEPS: Final = 20_000
_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string"})
_ANNOTATIONS: Final = frozenset(
    {
        "$id", "id", "$schema", "$comment", "$defs", "definitions", "$anchor", "$vocabulary",
        "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
        "format", "contentEncoding", "contentMediaType",
    }
)  # fmt: skip
_AT_MOST: Final = {
    "maximum": "number", "exclusiveMaximum": "number", "maxLength": "string",
    "maxItems": "array", "maxContains": "array", "maxProperties": "object",
}  # fmt: skip
_AT_LEAST: Final = {
    "minimum": "number", "exclusiveMinimum": "number", "minLength": "string",
    "minItems": "array", "minContains": "array", "minProperties": "object",
}  # fmt: skip
_EQUAL: Final = {
    "pattern": "string", "contains": "array", "propertyNames": "object",
    "if": "", "then": "", "else": "",
}  # fmt: skip
_DEPENDENCIES: Final = ("dependencies", "dependentRequired", "dependentSchemas")
_SUMS: Final = ("anyOf", "oneOf")


class Document:
    """A schema with the files that it refers to."""

    def __init__(self, root: Json, files: Mapping[str, Json]) -> None:
        self.root = SchemaNode(root, root)
        self._files = dict(files)
        for each in files.values():
            if isinstance(each, dict) and isinstance(each.get("$id"), str):
                self._files.setdefault(each["$id"], each)

    def resolve(self, ref: str, base: Json) -> SchemaNode | None:
        """Find what ``ref`` names in the file ``base``, or in another one; None if nothing."""
        name, _, pointer = ref.partition("#")
        file = base
        if name and not (isinstance(base, dict) and base.get("$id") == name):
            if name not in self._files:
                return None
            file = self._files[name]
        found: Json = file
        for part in unquote(pointer).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        if pointer and not pointer.startswith("/"):
            found = _with_anchor(file, pointer)
        return SchemaNode(found, file) if isinstance(found, dict | bool) else None

    def unresolved(self) -> str | None:
        """Return the first ``$ref`` of the root's file that names nothing, if there is one."""
        rest: list[Json] = [self.root.schema]
        while rest:
            each = rest.pop()
            if isinstance(each, dict):
                ref = each.get("$ref")
                if isinstance(ref, str) and self.resolve(ref, self.root.file) is None:
                    return ref
                rest += each.values()
            elif isinstance(each, list):
                rest += each
        return None


class SchemaNode(NamedTuple):
    """A schema within its file, to which its local references point."""

    schema: Json
    file: Json

    def at(self, schema: Json) -> SchemaNode:
        return SchemaNode(schema, self.file)

    @property
    def accepts_all(self) -> bool:
        return self.schema is True or (
            isinstance(self.schema, dict) and not self.schema.keys() - _ANNOTATIONS
        )


class Comparison:
    """The comparison of what was written with a schema that reads it."""

    def __init__(self, written: Document, reading: Document) -> None:
        self._written = written
        self._reading = reading
        self._seen: set[tuple[int, int]] = set()
        self._kept: list[Json] = []  # so that an id is not used again
        self._steps = 0

    def reasons(self) -> list[str]:
        """Return why a document that fits the written schema may not fit the other one. Raises
        RegistryError if the schemas are too complex to compare."""
        return list(self._compare(self._written.root, self._reading.root, "#"))

    def _fits(self, old: SchemaNode, new: SchemaNode) -> bool:
        before = set(self._seen)
        if next(self._compare(old, new, ""), None) is None:
            return True
        self._seen = before  # what was assumed on the way does not hold
        return False

    def _compare(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise unprocessable("The schemas are too complex to be compared.")
        old, new = _resolved(old, self._written), _resolved(new, self._reading)
        if new.accepts_all or old.schema is False:
            return
        if new.schema is False:
            yield f"{path}: nothing is allowed here any more"
            return
        pair = (id(old.schema), id(new.schema))
        if pair in self._seen:
            return
        self._seen.add(pair)
        self._kept += (old.schema, new.schema)
        old = old.at(_flattened(old, self._written))
        new = new.at(_flattened(new, self._reading))
        yield from self._sums(old, new, path)

    def _sums(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        """Compare unions: each branch that was written must fit, and fits if one reads it."""
        for key in _SUMS:
            if key in old.schema:
                rest = {name: each for name, each in old.schema.items() if name != key}
                for number, branch in enumerate(old.schema[key]):
                    both = old.at(_conjunction(rest, branch, old, self._written))
                    yield from self._compare(both, new, f"{path}/{key}/{number}")
                return
        for key in _SUMS:
            if key in new.schema:
                rest = {name: each for name, each in new.schema.items() if name != key}
                branches = [new.at(each) for each in new.schema[key]]
                if not any(self._fits(old, branch) for branch in branches):
                    yield f"{path}: no branch of {key} accepts what was written"
                new = new.at(rest)
        if "not" in new.schema and (
            "not" not in old.schema
            # The two change places: what is excluded now must have been excluded before.
            or not Comparison(self._reading, self._written)._fits(
                new.at(new.schema["not"]), old.at(old.schema["not"])
            )
        ):
            yield f"{path}/not: more is excluded"
        yield from self._values(old, new, path)

    def _values(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        values, allowed = _finite(old.schema), _finite(new.schema)
        if allowed is not None:
            lost = None if values is None else [each for each in values if each not in allowed]
            if lost is None or lost:
                yield f"{path}: the allowed values are fewer"
            return
        types, read = _types(old.schema), _types(new.schema)
        if not_read := sorted(each for each in types if each not in _widened(read)):
            yield f"{path}: the type {', '.join(not_read)} is not accepted any more"
            return
        yield from self._limits(old.schema, new.schema, _widened(types), path)
        if "object" in types:
            yield from self._objects(old, new, path)
        if "array" in types:
            yield from self._arrays(old, new, path)

    def _limits(
        self, old: Mapping[str, Json], new: Mapping[str, Json], types: frozenset[str], path: str
    ) -> Iterator[str]:
        for key, kind in _AT_MOST.items():
            if kind in types and key in new and not _ordered(old.get(key), new[key]):
                yield f"{path}/{key}: the limit is narrower"
        for key, kind in _AT_LEAST.items():
            if kind in types and key in new and not _ordered(new[key], old.get(key, _floor(key))):
                yield f"{path}/{key}: the limit is narrower"
        for key, kind in _EQUAL.items():
            if (not kind or kind in types) and key in new and old.get(key) != new[key]:
                yield f"{path}/{key}: it was added or changed"
        if "number" in types and "multipleOf" in new:
            step = old.get("multipleOf")
            if step is None or step % new["multipleOf"]:
                yield f"{path}/multipleOf: it was added or changed"
        if "array" in types and new.get("uniqueItems") and not old.get("uniqueItems"):
            yield f"{path}/uniqueItems: it was added"

    def _objects(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        before, after = old.schema.get("properties", {}), new.schema.get("properties", {})
        required = frozenset(old.schema.get("required", ()))
        for name in new.schema.get("required", ()):
            has_default = isinstance(after.get(name), dict) and "default" in after[name]
            if name not in required and not has_default:
                yield f"{path}/required/{name}: it was optional, and has no default"
        for key in _DEPENDENCIES:
            yield from self._dependencies(old, new, key, path)
        for name in (*before, *(each for each in after if each not in before)):
            there = f"{path}/properties/{name}"
            yield from self._compare(_property(old, name), _property(new, name), there)
        patterns, others = (each.schema.get("patternProperties", {}) for each in (old, new))
        for pattern in {**patterns, **others}:
            one = old.at(patterns.get(pattern, _additional(old)))
            two = new.at(others.get(pattern, _additional(new)))
            yield from self._compare(one, two, f"{path}/patternProperties/{pattern}")
        one, two = old.at(_additional(old)), new.at(_additional(new))
        yield from self._compare(one, two, f"{path}/additionalProperties")

    def _dependencies(self, old: SchemaNode, new: SchemaNode, key: str, path: str) -> Iterator[str]:
        before = old.schema.get(key, {})
        for name, needed in new.schema.get(key, {}).items():
            there = f"{path}/{key}/{name}"
            if isinstance(needed, list):
                found = before.get(name)
                if not isinstance(found, list) or not set(needed) <= set(found):
                    yield f"{there}: more properties are needed"
            else:
                yield from self._compare(old.at(before.get(name, True)), new.at(needed), there)

    def _arrays(self, old: SchemaNode, new: SchemaNode, path: str) -> Iterator[str]:
        (first, rest), (others, left) = _items(old.schema), _items(new.schema)
        for number in range(max(len(first), len(others))):
            one = first[number] if number < len(first) else rest
            two = others[number] if number < len(others) else left
            yield from self._compare(old.at(one), new.at(two), f"{path}/items/{number}")
        yield from self._compare(old.at(rest), new.at(left), f"{path}/items")


def _resolved(node: SchemaNode, document: Document) -> SchemaNode:
    for _ in range(100):
        if not (isinstance(node.schema, dict) and isinstance(node.schema.get("$ref"), str)):
            return node
        found = document.resolve(node.schema["$ref"], node.file)
        if found is None:
            raise unprocessable(f"The reference {node.schema['$ref']} cannot be resolved.")
        node = found
    raise unprocessable("A reference leads to itself.")


def _flattened(node: SchemaNode, document: Document) -> dict[str, Json]:
    """Return the schema with the parts of ``allOf`` as keywords of the whole."""
    schema: dict[str, Json] = {} if node.schema is True else node.schema
    if "allOf" not in schema:
        return schema
    whole: dict[str, Json] = {key: each for key, each in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        whole = _conjunction(whole, part, node, document)
    return whole


def _conjunction(
    whole: Mapping[str, Json], part: Json, node: SchemaNode, document: Document
) -> dict[str, Json]:
    """Return a schema of what fits both. A keyword that both have, and that cannot be joined, is
    that of ``part``."""
    found = _resolved(node.at(part), document)
    if found.schema is True:
        return dict(whole)
    if found.schema is False:
        return {"enum": []}
    if found.file is not node.file:
        found = node.at(_inlined(found, document, 0))
    schema = _flattened(found, document)
    joined = {**whole, **schema}
    if "properties" in whole and "properties" in schema:
        joined["properties"] = {**whole["properties"], **schema["properties"]}
    if "required" in whole and "required" in schema:
        joined["required"] = [*whole["required"], *schema["required"]]
    return joined


def _inlined(node: SchemaNode, document: Document, depth: int) -> Json:
    """Return a schema of another file with its references replaced by what they name."""
    if depth > 30:
        raise unprocessable("The schemas are too complex to be compared.")
    if isinstance(node.schema, list):
        return [_inlined(node.at(each), document, depth + 1) for each in node.schema]
    if not isinstance(node.schema, dict):
        return node.schema
    if isinstance(node.schema.get("$ref"), str):
        return _inlined(_resolved(node, document), document, depth + 1)
    return {k: _inlined(node.at(v), document, depth + 1) for k, v in node.schema.items()}


def _finite(schema: Mapping[str, Json]) -> list[Json] | None:
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def _types(schema: Mapping[str, Json]) -> frozenset[str]:
    """Return the types of the documents that fit; "integer" is a part of "number"."""
    found = schema.get("type")
    if found is not None:
        return frozenset([found] if isinstance(found, str) else found)
    values = _finite(schema)
    if values is not None:
        return frozenset(_type_of(each) for each in values)
    return _TYPES


def _type_of(value: Json) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "object" if isinstance(value, dict) else "array"


def _widened(types: frozenset[str]) -> frozenset[str]:
    """Add "integer" to "number", so that either counts where numbers do."""
    if "integer" in types and "number" not in types:
        return types
    return types | {"integer"} if "number" in types else types


def _ordered(low: Json, high: Json) -> bool:
    """Tell whether both are numbers and the first is not the greater one."""
    if isinstance(low, bool) or isinstance(high, bool):  # draft 4's exclusive limits
        return bool(low == high)
    return low is not None and high is not None and bool(low <= high)


def _floor(key: str) -> int | None:
    """Return what a lower limit is where it is not given."""
    return {"minContains": 1}.get(key, None if "imum" in key else 0)


def _additional(node: SchemaNode) -> Json:
    schema = node.schema
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _property(node: SchemaNode, name: str) -> SchemaNode:
    schema = node.schema
    if name in schema.get("properties", {}):
        return node.at(schema["properties"][name])
    for pattern, each in schema.get("patternProperties", {}).items():
        if re.search(pattern, name):
            return node.at(each)
    return node.at(_additional(node))


def _items(schema: Mapping[str, Json]) -> tuple[list[Json], Json]:
    """Return the schemas of the first items, and that of all others, in any draft's words."""
    unevaluated = schema.get("unevaluatedItems", True)
    items = schema.get("items", unevaluated)
    if isinstance(items, list):
        return items, schema.get("additionalItems", unevaluated)
    return schema.get("prefixItems", []), items


def _with_anchor(found: Json, name: str) -> Json:
    """Return the part of a file with this ``$anchor`` or, before draft 2019-09, ``$id``."""
    rest = [found]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            if each.get("$anchor") == name or each.get("$id") == f"#{name}":
                return each
            rest += each.values()
        elif isinstance(each, list):
            rest += each
    return None


class JsonSchema:
    """A parsed schema. ``references`` are the texts of others, by the name used in ``$ref``."""

    kind = JSON
    violations = ()

    def __init__(self, text: str, references: Mapping[str, JsonSchema] | None = None) -> None:
        """Raises RegistryError for a text that is no schema."""
        try:
            self.raw: Json = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise invalid_schema(f"not JSON: {error}") from None
        if not isinstance(self.raw, dict | bool):
            raise invalid_schema("a schema is an object, true or false")
        self._files: dict[str, Json] = {}
        for name, each in (references or {}).items():
            self._files |= {**each._files, name: each.raw}
        self.canonical = json.dumps(self.raw, separators=(",", ":"), ensure_ascii=False)
        try:
            validator_for(self.raw, default=jsonschema.Draft7Validator).check_schema(self.raw)
        except SchemaError as error:
            raise invalid_schema(error.message) from None
        except Unresolvable as error:
            raise invalid_schema(error) from None
        self._document = Document(self.raw, self._files)
        if (missing := self._document.unresolved()) is not None:
            raise invalid_schema(f"the reference {missing} cannot be resolved")

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        written = cast(JsonSchema, writer)._document
        return Comparison(written, self._document).reasons()
