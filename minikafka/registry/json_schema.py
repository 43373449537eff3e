"""JSON Schemas: their canonical text, and what they refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import jsonschema
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

from minikafka.registry.compatibility import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.json_comparison import Comparison, Document
from minikafka.registry.records import JSON

Json: TypeAlias = Any


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
