"""MessagePack and CBOR as JSON. Pure, and bounded: records are written by others.

A library would be one more dependency for each; what the page needs of both is to read a value.
Bytes become texts in base64, and keys that are no texts become their JSON. ``MOST_VALUES`` bounds
the work, since a few bytes can announce any number of values.
"""

from __future__ import annotations

import base64
import json
from struct import Struct
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any

MOST_VALUES: Final = 200_000
DEEPEST: Final = 100
_HALF, _FLOAT, _DOUBLE = Struct(">e"), Struct(">f"), Struct(">d")
_BREAK: Final = object()


def message_pack(data: bytes) -> Json:
    """Raises ValueError for bytes that are not one value of MessagePack."""
    return _whole(_MessagePack(data))


def cbor(data: bytes) -> Json:
    """Decode a value of RFC 8949. A tag is left out, but for large integers. Raises ValueError."""
    return _whole(_Cbor(data))


def _whole(reader: _MessagePack | _Cbor) -> Json:
    found = reader.value(0)
    if found is _BREAK:
        raise ValueError("a break stands outside of a list")
    if reader.at != len(reader.data):
        raise ValueError(f"{len(reader.data) - reader.at:,} bytes follow the value")
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._left = MOST_VALUES

    def take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise ValueError("the bytes end within a value")
        return self.data[begin : self.at]

    def number(self, count: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(count), "big", signed=signed)

    def text(self, count: int) -> str:
        return self.take(count).decode(errors="replace")

    def bytes_text(self, count: int) -> str:
        return base64.b64encode(self.take(count)).decode()

    def begin(self, depth: int) -> None:
        """Call this before each value."""
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise ValueError(f"more than {MOST_VALUES:,} values, or {DEEPEST} levels")


def _key(found: Json) -> str:
    return found if isinstance(found, str) else json.dumps(found)


class _MessagePack(_Reader):
    def value(self, depth: int) -> Json:
        self.begin(depth)
        kind = self.number(1)
        if kind < 0x80:
            return kind
        if kind < 0x90:
            return self._map(kind & 15, depth)
        if kind < 0xA0:
            return self._list(kind & 15, depth)
        if kind < 0xC0:
            return self.text(kind & 31)
        if kind >= 0xE0:
            return kind - 256
        return self._long(kind, depth)

    def _long(self, kind: int, depth: int) -> Json:
        match kind:
            case 0xC0 | 0xC2 | 0xC3:
                return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
            case 0xC4 | 0xC5 | 0xC6:
                return self.bytes_text(self.number(1 << kind - 0xC4))
            case 0xC7 | 0xC8 | 0xC9:
                return self._extension(self.number(1 << kind - 0xC7))
            case 0xCA:
                return _FLOAT.unpack(self.take(4))[0]
            case 0xCB:
                return _DOUBLE.unpack(self.take(8))[0]
            case 0xCC | 0xCD | 0xCE | 0xCF:
                return self.number(1 << kind - 0xCC)
            case 0xD0 | 0xD1 | 0xD2 | 0xD3:
                return self.number(1 << kind - 0xD0, signed=True)
            case 0xD4 | 0xD5 | 0xD6 | 0xD7 | 0xD8:
                return self._extension(1 << kind - 0xD4)
            case 0xD9 | 0xDA | 0xDB:
                return self.text(self.number(1 << kind - 0xD9))
            case 0xDC | 0xDD:
                return self._list(self.number(2 << kind - 0xDC), depth)
            case 0xDE | 0xDF:
                return self._map(self.number(2 << kind - 0xDE), depth)
        raise ValueError(f"no value of MessagePack begins with {kind:#x}")

    def _list(self, count: int, depth: int) -> list[Json]:
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Json]:
        return {_key(self.value(depth + 1)): self.value(depth + 1) for _ in range(count)}

    def _extension(self, count: int) -> Json:
        kind = self.number(1, signed=True)
        return {"extension": kind, "data": self.bytes_text(count)}


class _Cbor(_Reader):
    def value(self, depth: int) -> Json:
        self.begin(depth)
        first = self.number(1)
        major, info = first >> 5, first & 31
        if major == 7:
            return self._simple(info)
        if info == 31 and major in (2, 3, 4, 5):
            return self._indefinite(major, depth)
        count = self._argument(info)
        match major:
            case 0:
                return count
            case 1:
                return -1 - count
            case 2:
                return self.bytes_text(count)
            case 3:
                return self.text(count)
            case 4:
                return [self._item(depth) for _ in range(count)]
            case 5:
                return {_key(self._item(depth)): self._item(depth) for _ in range(count)}
        return self._tagged(count, depth)

    def _item(self, depth: int) -> Json:
        found = self.value(depth + 1)
        if found is _BREAK:
            raise ValueError("a break stands where a value should")
        return found

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise ValueError(f"{info} is no length of CBOR")
        return self.number(1 << info - 24)

    def _simple(self, info: int) -> Json:
        floats = {25: _HALF, 26: _FLOAT, 27: _DOUBLE}
        if info in floats:
            return floats[info].unpack(self.take(floats[info].size))[0]
        if info == 31:
            return _BREAK
        named = {20: False, 21: True, 22: None, 23: None}
        if info in named:
            return named[info]
        return {"simple": self._argument(info)}

    def _indefinite(self, major: int, depth: int) -> Json:
        found = list(iter(lambda: self.value(depth + 1), _BREAK))
        if major == 4:
            return found
        if major == 5:
            if len(found) % 2:
                raise ValueError("a map has a key without a value")
            return {_key(k): v for k, v in zip(found[::2], found[1::2], strict=True)}
        if not all(isinstance(part, str) for part in found):
            raise ValueError("a text has parts that are none")
        if major == 3:
            return "".join(found)
        return base64.b64encode(b"".join(base64.b64decode(part) for part in found)).decode()

    def _tagged(self, tag: int, depth: int) -> Json:
        found = self._item(depth)
        if tag in (2, 3) and isinstance(found, str):
            number = int.from_bytes(base64.b64decode(found), "big")
            return number if tag == 2 else -1 - number
        return found
