"""Which topics use a subject, by the strategies of Confluent's serializers for its name."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any, Final

from minikafka.client.schema_registry import PROTOBUF, SchemaVersion
from minikafka.kernel.lazy_dataclass import dataclass

PARTS: Final = ("key", "value")
_CONTEXT: Final = re.compile(r":\.[^:]*:")
_PACKAGE: Final = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_MESSAGE: Final = re.compile(r"^\s*message\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SubjectUse:
    """``topic`` is None if any topic may use the subject; ``part`` is key or value, None for both.

    ``exists`` says whether the cluster has the topic.
    """

    strategy: str
    topic: str | None = None
    part: str | None = None
    exists: bool = False

    def facts(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "topic": self.topic,
            "part": self.part,
            "exists": self.exists,
        }


def subject_use(
    subject: str, topics: Container[str], schema: SchemaVersion | None = None
) -> SubjectUse | None:
    """Return the use that the subject's name tells of; None if it follows no strategy.

    ``schema`` is a version of the subject: two of the three strategies name its record.
    """
    plain = _CONTEXT.sub("", subject, count=1) if subject.startswith(":.") else subject
    record = None if schema is None else record_name(schema)
    if record is not None and plain == record:
        return SubjectUse("RecordNameStrategy")
    if record is not None and plain.endswith(f"-{record}"):
        topic = plain.removesuffix(f"-{record}")
        if topic in topics:
            return SubjectUse("TopicRecordNameStrategy", topic, None, True)
    topic, dash, part = plain.rpartition("-")
    if dash and topic and part in PARTS:
        return SubjectUse("TopicNameStrategy", topic, part, topic in topics)
    return None


def record_name(schema: SchemaVersion) -> str | None:
    """Return the name of a schema's record as the strategies take it: the full name in Avro, the
    title in JSON Schema, and the full name of the first message in Protobuf."""
    if schema.kind == PROTOBUF:
        message, package = _MESSAGE.search(schema.text), _PACKAGE.search(schema.text)
        names = [found[1] for found in (package, message) if found is not None]
        return ".".join(names) if message is not None else None
    try:
        found = json.loads(schema.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    name, space = found.get("name", found.get("title")), found.get("namespace")
    if not isinstance(name, str):
        return None
    return f"{space}.{name}" if isinstance(space, str) and space and "." not in name else name
