"""A codec independent of minikafka's: the layouts of Kafka 2.0.1, encoded with ``struct``.

Kafka 2.0.1 itself has written ``kafka_2_0_layouts.txt``. Before Kafka 2.4 there are no compact
types and no tagged fields.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

FILE = Path(__file__).with_name("kafka_2_0_layouts.txt")
NUMBERS = {"boolean": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
LENGTHS = {"string": "h", "nullable_string": "h", "bytes": "i", "records": "i"}


@dataclass(frozen=True)
class ArrayOf:
    element: Layout
    nullable: bool


@dataclass(frozen=True)
class Fields:
    names: tuple[str, ...]
    types: tuple[Layout, ...]


Layout: TypeAlias = "str | ArrayOf | Fields"  # a string is the name of a primitive


@dataclass(frozen=True)
class Api:
    key: int
    name: str
    version: int
    request: Fields
    response: Fields

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"


def read() -> list[Api]:
    rows = [line.split("|") for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [Api(int(k), n, int(v), _parsed(req), _parsed(res)) for k, n, v, req, res in rows]


def _parsed(text: str) -> Fields:
    tokens = iter(re.findall(r"\w+:|\w+|\?\[|[()\[\]]", text))
    found = _parse(next(tokens), tokens)
    assert isinstance(found, Fields)
    assert not list(tokens)
    return found


def _parse(token: str, tokens: Iterator[str]) -> Layout:
    if token == "(":
        names, types = [], []
        while (name := next(tokens)) != ")":
            names.append(name.removesuffix(":"))
            types.append(_parse(next(tokens), tokens))
        return Fields(tuple(names), tuple(types))
    if token in ("[", "?["):
        element = _parse(next(tokens), tokens)
        assert next(tokens) == "]"
        return ArrayOf(element, token == "?[")
    assert token in NUMBERS or token in LENGTHS, token
    return token


def encode(layout: Layout, value: Any) -> bytes:
    """Encode a value. A struct's value is a list, in the order of its fields."""
    if isinstance(layout, Fields):
        return b"".join(encode(t, v) for t, v in zip(layout.types, value, strict=True))
    if isinstance(layout, ArrayOf):
        if value is None:
            return struct.pack(">i", -1)
        return struct.pack(">i", len(value)) + b"".join(encode(layout.element, v) for v in value)
    if layout in NUMBERS:
        return struct.pack(f">{NUMBERS[layout]}", value)
    code = f">{LENGTHS[layout]}"
    if value is None:
        return struct.pack(code, -1)
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(code, len(raw)) + raw


def decode(layout: Layout, data: bytes, position: int) -> tuple[Any, int]:
    """Decode a value; return it and the position after it."""
    if isinstance(layout, Fields):
        values = []
        for each in layout.types:
            value, position = decode(each, data, position)
            values.append(value)
        return values, position
    if isinstance(layout, ArrayOf):
        (count,) = struct.unpack_from(">i", data, position)
        position += 4
        assert count >= 0 or (layout.nullable and count == -1)
        elements = []
        for _ in range(count):
            element, position = decode(layout.element, data, position)
            elements.append(element)
        return (None if count < 0 else elements), position
    code = f">{NUMBERS.get(layout) or LENGTHS[layout]}"
    (value,) = struct.unpack_from(code, data, position)
    position += struct.calcsize(code)
    if layout in NUMBERS:
        return value, position
    if value < 0:
        assert value == -1
        assert layout in ("nullable_string", "records")
        return None, position
    raw = data[position : position + value]
    assert len(raw) == value, "cut short"
    return (raw.decode() if "string" in layout else raw), position + value


def plain_value(layout: Layout, name: str = "") -> Any:
    """Return a value to which a broker responds: empty arrays, 1 for codes that must not be
    UNKNOWN, and acks=1, since there is no response to acks=0."""
    if isinstance(layout, Fields):
        return [plain_value(t, n) for t, n in zip(layout.types, layout.names, strict=True)]
    if isinstance(layout, ArrayOf):
        return []
    if layout in NUMBERS:
        return 1 if layout == "int8" or name == "acks" else NUMBERS[layout] == "?"
    return {"string": "", "nullable_string": None}.get(layout, b"")


def values(layout: Layout) -> st.SearchStrategy[Any]:
    if isinstance(layout, Fields):
        return st.tuples(*(values(each) for each in layout.types)).map(list)
    if isinstance(layout, ArrayOf):
        some = st.lists(values(layout.element), max_size=2)
        return st.none() | some if layout.nullable else some
    if layout == "boolean":
        return st.booleans()
    if layout in NUMBERS:
        bits = 8 * struct.calcsize(NUMBERS[layout])
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    if "string" in layout:
        text = st.text(max_size=5)
        return st.none() | text if layout == "nullable_string" else text
    return st.binary(max_size=5)
