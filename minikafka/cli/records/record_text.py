"""Records as lines of text or JSON, parsed and formatted as Kafka's console tools do."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from minikafka.cli.usage import WrongUsage
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.record import Header

READER_PROPERTIES = (
    "parse.key", "key.separator", "parse.headers", "headers.delimiter", "headers.separator",
    "headers.key.separator", "ignore.error", "null.marker",
)  # fmt: skip
FORMATTER_PROPERTIES = (
    "print.timestamp", "print.partition", "print.offset", "print.headers", "print.key",
    "print.value", "key.separator", "line.separator", "headers.separator", "null.literal",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record parsed from a line; ``partition`` and ``timestamp_ms`` are None if not given."""

    value: bytes | None
    key: bytes | None = None
    headers: list[Header] = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


def check_properties(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Check the names of ``--property`` options. Raises ConfigError for unknown ones."""
    if unknown := set(given) - set(known):
        raise WrongUsage(f"unknown --property {', '.join(sorted(unknown))}")


def is_set(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"


# ------------------------------------------------------------------------------------ reading


def parse_line(line: bytes, properties: Mapping[str, str]) -> OutgoingRecord:
    """Parse a line: the value, after headers and key if the properties say so.

    Raises ConfigError if a separator is missing, unless ``ignore.error`` is set: then the rest of
    the line is the value. Kafka: ``LineMessageReader``.
    """
    rest = line.rstrip(b"\n").removesuffix(b"\r")
    lenient = is_set(properties, "ignore.error")
    null = properties.get("null.marker")
    marker = None if null is None else null.encode()
    headers: list[Header] = []
    if is_set(properties, "parse.headers"):
        text, rest = _cut(rest, properties.get("headers.delimiter", "\t"), "headers", lenient)
        if text is not None and text != marker:
            headers = _headers(text, properties, marker, lenient)
    key: bytes | None = None
    if is_set(properties, "parse.key"):
        key, rest = _cut(rest, properties.get("key.separator", "\t"), "key", lenient)
    return OutgoingRecord(None if rest == marker else rest, None if key == marker else key, headers)


def _cut(text: bytes, separator: str, what: str, lenient: bool) -> tuple[bytes | None, bytes]:
    before, found, after = text.partition(separator.encode())
    if found:
        return before, after
    if lenient:
        return None, text
    raise ConfigError(f"no {what} separator in line: {text.decode(errors='replace')}")


def _headers(
    text: bytes, properties: Mapping[str, str], marker: bytes | None, lenient: bool
) -> list[Header]:
    found: list[Header] = []
    for pair in text.split(properties.get("headers.separator", ",").encode()):
        separator = properties.get("headers.key.separator", ":")
        name, value = _cut(pair, separator, "header key", lenient)
        if name is None:
            name, value = pair, b""
        text_name = name.decode(errors="surrogateescape")
        found.append((text_name, None if value == marker else value))
    return found


def parse_json_line(line: bytes) -> OutgoingRecord:
    """Parse a JSON object of ``json_line``; all fields are optional. Raises ConfigError."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise TypeError("not an object")
        headers = row.get("headers") or []
        return OutgoingRecord(
            _bytes(row, "value"),
            _bytes(row, "key"),
            [(str(each["key"]), _bytes(each, "value")) for each in headers],
            _number(row, "partition"),
            _number(row, "timestamp"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        text = line.decode(errors="replace").strip()
        raise ConfigError(f"not a record: {text[:100]} ({error})") from None


def _bytes(row: Mapping[str, Any], name: str) -> bytes | None:
    encoded = row.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = row.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()


def _number(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is not an integer")
    return value


# ------------------------------------------------------------------------------------ printing


def record_line(record: ConsumerRecord, properties: Mapping[str, str]) -> bytes:
    """Format a record as Kafka's console consumer does (``DefaultMessageFormatter``)."""
    null = properties.get("null.literal", "null").encode()
    parts: list[bytes] = []
    if is_set(properties, "print.timestamp"):
        known = record.timestamp >= 0
        parts.append(b"CreateTime:%d" % record.timestamp if known else b"NO_TIMESTAMP")
    if is_set(properties, "print.partition"):
        parts.append(b"Partition:%d" % record.partition)
    if is_set(properties, "print.offset"):
        parts.append(b"Offset:%d" % record.offset)
    if is_set(properties, "print.headers"):
        headers = [
            name.encode(errors="surrogateescape") + b":" + (null if v is None else v)
            for name, v in record.headers
        ]
        separator = properties.get("headers.separator", ",").encode()
        parts.append(separator.join(headers) or b"NO_HEADERS")
    if is_set(properties, "print.key"):
        parts.append(null if record.key is None else record.key)
    if is_set(properties, "print.value", "true"):
        parts.append(null if record.value is None else record.value)
    separator = properties.get("key.separator", "\t").encode()
    return separator.join(parts) + properties.get("line.separator", "\n").encode()


def json_line(record: ConsumerRecord) -> bytes:
    """Format a record as JSON. Bytes that are not UTF-8 become ``value_base64`` and so on."""
    row: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text("key", record.key),
        **_text("value", record.value),
    }
    if record.headers:
        row["headers"] = [{"key": name, **_text("value", value)} for name, value in record.headers]
    return json.dumps(row, ensure_ascii=False).encode(errors="surrogateescape") + b"\n"


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
