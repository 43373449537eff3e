"""Avro's binary form as JSON, of a schema that has been parsed. Pure.

fastavro is faster. This reader is for the bytes of strangers: a few of them can announce any number
of values that take no bytes, which it bounds by ``MOST_VALUES``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar

from minikafka.kernel.short_float import short_float
from minikafka.registry.avro import AvroType

Json: TypeAlias = Any
T = TypeVar("T")

MOST_VALUES: Final = 200_000
DEEPEST: Final = 100
_LONGEST_VARINT: Final = 10  # bytes
_MOST_DECIMAL: Final = 64  # bytes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {  # in microseconds
    f"{prefix}timestamp-{unit}": size
    for prefix in ("", "local-")
    for unit, size in (("millis", 1_000), ("micros", 1))
}
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")


def avro_value(schema: AvroType, data: bytes) -> Json:
    """Return a value; bytes and fixed are in base64, the branch of a union is not named. Decimals
    are texts with their digits, dates and timestamps those of ISO 8601. Raises ValueError for bytes
    that are not one value of this schema."""
    reader = _Reader(data)
    found = reader.value(schema, 0)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at:,} bytes follow the value")
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._left = MOST_VALUES

    def value(self, of: AvroType, depth: int) -> Json:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise ValueError(f"more than {MOST_VALUES:,} values, or {DEEPEST} levels")
        match of.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return _with_unit(self._long(), of.logical)
            case "float":
                return short_float(_FLOAT.unpack(self._take(4))[0])
            case "double":
                return _DOUBLE.unpack(self._take(8))[0]
            case "bytes":
                return _bytes(self._take(self._long()), of)
            case "string":
                return self._take(self._long()).decode(errors="replace")
            case "fixed":
                return _bytes(self._take(of.size), of)
            case "enum":
                return self._chosen(of.symbols, "symbol")
            case "union":
                return self.value(self._chosen(of.branches, "branch"), depth + 1)
            case "array":
                return [self.value(of.branches[0], depth + 1) for _ in self._blocks()]
            case "map":
                return {self._name(): self.value(of.branches[0], depth + 1) for _ in self._blocks()}
        fields = of.fields or []
        return {field.name: self.value(field.type, depth + 1) for field in fields}

    def _take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self._data):
            raise ValueError("the bytes end within a value")
        return self._data[begin : self.at]

    def _long(self) -> int:
        found = 0
        for number in range(_LONGEST_VARINT):
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise ValueError("a number has more than 64 bits")

    def _name(self) -> str:
        return self._take(self._long()).decode(errors="replace")

    def _chosen(self, of: Sequence[T], what: str) -> T:
        number = self._long()
        if not 0 <= number < len(of):
            raise ValueError(f"there is no {what} {number}")
        return of[number]

    def _blocks(self) -> Iterator[None]:
        """Yield once for each item of an array or a map."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block
            for _ in range(count):
                yield None


def _bytes(data: bytes, of: AvroType) -> str:
    if of.logical != "decimal" or len(data) > _MOST_DECIMAL:
        return base64.b64encode(data).decode()
    number = int.from_bytes(data, "big", signed=True)
    sign, digits = "-" if number < 0 else "", str(abs(number)).rjust(of.scale + 1, "0")
    point = len(digits) - of.scale
    return sign + digits[:point] + ("." + digits[point:] if of.scale else "")


def _with_unit(number: int, logical: str) -> Json:
    """Return a date or a timestamp as text; a number if it is none, or beyond the calendar."""
    try:
        if logical == "date":
            return (_EPOCH + timedelta(days=number)).date().isoformat()
        if (unit := _UNITS.get(logical)) is not None:
            zone = "" if logical.startswith("local-") else "Z"
            at = _EPOCH + timedelta(microseconds=number * unit)
            digits = "milliseconds" if unit > 1 else "microseconds"
            return at.replace(tzinfo=None).isoformat(timespec=digits) + zone
    except OverflowError:
        pass
    return number
