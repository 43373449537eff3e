"""JSON as Kafka writes it: Jackson's form, with the key order of Scala's and Java's maps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from minikafka.core.coordinator_shard import java_string_hash
from minikafka.server.zookeeper.requests import MalformedZnode

_INT32 = 1 << 32
INT_BITS = 31  # of Java's int, without the sign
LONG_BITS = 63
# A larger epoch is garbage: no cluster holds so many elections. It leaves room for as many more.
MAX_EPOCH = 1 << 30
_DECIMAL = re.compile(r"-?[0-9]{1,19}")  # as many digits as a long can have


def encode_json(value: Any) -> bytes:
    """Encode without blanks and without escapes for non-ASCII text; keys keep the dict's order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_json_object(path: str, data: bytes) -> dict[str, Any]:
    """Decode one JSON object. Raises ``MalformedZnode`` for anything else: also for text that is
    nested too deep (Jackson stops at 1,000 levels), a number of thousands of digits, and half of a
    surrogate pair, which cannot be encoded again."""
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise MalformedZnode(path, data, "not JSON") from error
    except RecursionError as error:
        raise MalformedZnode(path, data, "nested too deep") from error
    if not isinstance(value, dict):
        raise MalformedZnode(path, data, "not a JSON object")
    return value


def decimal(text: str, bits: int = LONG_BITS) -> int | None:
    """Return the number that ``text`` is; None if it is none, or does not fit ``bits`` and a
    sign."""
    value = int(text) if _DECIMAL.fullmatch(text) else None
    return value if value is not None and _fits(value, bits) else None


def _fits(value: int, bits: int) -> bool:
    return -1 << bits <= value < 1 << bits


class Fields:
    """Reads typed fields of a znode's JSON object. Every method raises ``MalformedZnode`` for a
    field that is missing or has another type."""

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
        if not _fits(value, INT_BITS):
            raise self.broken(f"field {key} does not fit an int")
        return value

    def long(self, key: str) -> int:
        value: int = self._value(key, int)
        if not _fits(value, LONG_BITS):
            raise self.broken(f"field {key} does not fit a long")
        return value

    def text(self, key: str) -> str:
        value: str = self._value(key, str)
        return value

    def integer_text(self, key: str) -> int:
        """Return a long that Kafka writes as a string."""
        value = decimal(self.text(key))
        if value is None:
            raise self.broken(f"field {key} is not a number")
        return value

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if default is not None and key not in self:
            return default
        values = self._value(key, list)
        if not all(type(v) is int and _fits(v, INT_BITS) for v in values):
            raise self.broken(f"field {key} is not a list of ints")
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
        """Return a nested object; an empty one if it is missing."""
        values = self._value(key, dict) if key in self else {}
        return Fields(self._path, self._data, values)

    def objects(self, key: str) -> list[Fields]:
        values = self._value(key, list)
        if not all(isinstance(v, dict) for v in values):
            raise self.broken(f"field {key} is not a list of objects")
        return [Fields(self._path, self._data, v) for v in values]

    def names(self) -> list[str]:
        return list(self._values)


def _spread(text: str) -> int:
    """Mix a hash code as both libraries do before they choose a bucket; return it unsigned."""
    value = java_string_hash(text) % _INT32
    return value ^ (value >> 16)


def _table_size(count: int) -> int:
    """Return the number of buckets: 16, doubled whenever three quarters are reached."""
    size = 16
    while count >= size * 3 // 4:
        size *= 2
    return size


def scala_order(keys: Iterable[str]) -> list[str]:
    """Sort keys as Scala 2.13's ``mutable.HashMap`` iterates over them: by bucket, then hash."""
    names = list(keys)
    mask = _table_size(len(names)) - 1

    def place(name: str) -> tuple[int, int]:
        value = _spread(name)
        return value & mask, value - _INT32 if value >= _INT32 // 2 else value

    return sorted(names, key=place)


def properties_order(keys: Iterable[str]) -> list[str]:
    """Sort keys as ``java.util.Properties`` iterates over them: by bucket. Keys of one bucket keep
    their order (Java may reverse such a pair when its table grows)."""
    names = list(keys)
    mask = _table_size(len(names)) - 1
    return sorted(names, key=lambda name: _spread(name) & mask)
