"""The records of the topic `_schemas`, in the JSON that Confluent's registry writes and reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
TOPIC: Final = "_schemas"

JsonObject: TypeAlias = Mapping[str, Any]
StoreRecord: TypeAlias = tuple[bytes, bytes | None]  # key, value

# The keys of a schema's value that have a meaning here; all others are kept as they are.
_KNOWN: Final = frozenset(
    {"subject", "version", "id", "schemaType", "references", "schema", "deleted"}
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses under ``name``: a type, a file, or a URI."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as it is stored: its type, its text and its references."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject. ``others`` are keys of Confluent's that have no meaning here."""

    subject: str
    version: int
    id: int
    schema: SchemaText
    deleted: bool = False
    others: JsonObject = field(default_factory=dict)


def references_of(found: object) -> tuple[Reference, ...]:
    """Parse the references of a request or a record. Raises ValueError."""
    if not isinstance(found, list):
        raise ValueError("references must be an array")
    references = []
    for each in found:
        if not isinstance(each, dict):
            raise ValueError("a reference must be an object")
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise ValueError("a reference needs name, subject and version")
        references.append(Reference(name, subject, version))
    return tuple(references)


def schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def schema_record(found: Registered) -> StoreRecord:
    value: dict[str, object] = {
        "subject": found.subject, "version": found.version, "id": found.id,
    }  # fmt: skip
    if found.schema.kind != AVRO:
        value["schemaType"] = found.schema.kind
    if found.schema.references:
        value["references"] = [each.as_json() for each in found.schema.references]
    value |= found.others
    value |= {"schema": found.schema.text, "deleted": found.deleted}
    return schema_key(found.subject, found.version), _json(value)


def schema_tombstone(subject: str, version: int) -> StoreRecord:
    return schema_key(subject, version), None


def delete_subject_record(subject: str, version: int) -> StoreRecord:
    """Return the record that marks all versions up to ``version`` as deleted."""
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return _json(key), _json({"subject": subject, "version": version})


def config_record(subject: str | None, level: str | None) -> StoreRecord:
    """Return the record that sets the level; that removes it if it is None."""
    key = _json({"keytype": "CONFIG", "subject": subject, "magic": 0})
    return key, None if level is None else _json({"compatibilityLevel": level})


def mode_record(subject: str | None, mode: str | None) -> StoreRecord:
    """Return the record that sets the mode; that removes it if it is None."""
    key = _json({"keytype": "MODE", "subject": subject, "magic": 0})
    return key, None if mode is None else _json({"mode": mode})


def registered_of(value: JsonObject) -> Registered:
    """Parse the value of a schema's record. Raises KeyError, ValueError."""
    schema = SchemaText(
        value.get("schemaType") or AVRO,
        value["schema"],
        references_of(value.get("references") or []),
    )
    others = {key: each for key, each in value.items() if key not in _KNOWN}
    deleted = bool(value.get("deleted"))
    return Registered(value["subject"], value["version"], value["id"], schema, deleted, others)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
