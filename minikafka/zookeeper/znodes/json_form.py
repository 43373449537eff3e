"""JSON as Kafka's Jackson writes it, with the key order that Scala's and Java's maps give it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from minikafka.zookeeper.errors import MalformedZnode

_INT32 = 1 << 32


def encode_json(value: Any) -> bytes:
    """Compact, UTF-8 left as it is, keys in the order of the dict."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_json_object(path: str, data: bytes) -> dict[str, Any]:
    """Raises ``MalformedZnode`` unless ``data`` is one JSON object."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise MalformedZnode(path, data, "not JSON") from error
    if not isinstance(value, dict):
        raise MalformedZnode(path, data, "not a JSON object")
    return value


class Fields:
    """Reads the fields of one znode's JSON object; whatever is wrong is a ``MalformedZnode``."""

    def __init__(self, path: str, data: bytes, values: Mapping[str, Any] | None = None) -> None:
        self._path = path
        self._data = data
        self._values = decode_json_object(path, data) if values is None else values

    def broken(self, reason: str) -> MalformedZnode:
        return MalformedZnode(self._path, self._data, reason)

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def _value(self, key: str, kind: type) -> Any:
        value = self._values.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.broken(f"field {key} is not a {kind.__name__}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self:
            return default
        value: int = self._value(key, int)
        return value

    def text(self, key: str) -> str:
        value: str = self._value(key, str)
        return value

    def integer_text(self, key: str) -> int:
        """A number that Kafka writes as a string."""
        try:
            return int(self.text(key))
        except ValueError as error:
            raise self.broken(f"field {key} is not a number") from error

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if default is not None and key not in self:
            return default
        values = self._value(key, list)
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            raise self.broken(f"field {key} is not a list of integers")
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._value(key, list)
        if not all(isinstance(v, str) for v in values):
            raise self.broken(f"field {key} is not a list of strings")
        return tuple(values)

    def text_map(self, key: str) -> dict[str, str]:
        values = self._value(key, dict)
        if not all(isinstance(v, str) for v in values.values()):
            raise self.broken(f"field {key} is not a map of strings")
        return dict(values)

    def object(self, key: str) -> Fields:
        """A nested object; one without fields when it is missing."""
        values = self._value(key, dict) if key in self else {}
        return Fields(self._path, self._data, values)

    def objects(self, key: str) -> list[Fields]:
        values = self._value(key, list)
        if not all(isinstance(v, dict) for v in values):
            raise self.broken(f"field {key} is not a list of objects")
        return [Fields(self._path, self._data, v) for v in values]

    def names(self) -> list[str]:
        return list(self._values)


def uuid_to_text(value: UUID) -> str:
    """Kafka's form of an id: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """Raises ``ValueError``."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not an id: {text!r}") from error


def java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-be")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) % _INT32
    return value - _INT32 if value >= _INT32 // 2 else value


def _spread(text: str) -> int:
    """What both libraries make of a hash code before they pick a bucket (unsigned)."""
    value = java_hash(text) % _INT32
    return value ^ (value >> 16)


def _table_size(count: int) -> int:
    """16 buckets at first, doubled when three quarters are reached."""
    size = 16
    while count >= size * 3 // 4:
        size *= 2
    return size


def scala_order(keys: Iterable[str]) -> list[str]:
    """The order in which Scala 2.13's ``mutable.HashMap`` walks its keys: by bucket, then hash."""
    names = list(keys)
    mask = _table_size(len(names)) - 1

    def place(name: str) -> tuple[int, int]:
        value = _spread(name)
        return value & mask, value - _INT32 if value >= _INT32 // 2 else value

    return sorted(names, key=place)


def properties_order(keys: Iterable[str]) -> list[str]:
    """The order in which ``java.util.Properties`` walks its keys: by bucket. Keys that share a
    bucket stay as they came (Java may turn such a pair round when its table grows)."""
    names = list(keys)
    mask = _table_size(len(names)) - 1
    return sorted(names, key=lambda name: _spread(name) & mask)
