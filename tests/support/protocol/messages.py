"""Hypothesis strategies for messages, derived from the schema that the codec compiles."""

from functools import cache
from typing import Any, cast
from uuid import UUID

from hypothesis import strategies as st

from minikafka.protocol.layout import Array, Field, Struct, WireType, layout_of
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.schema import BYTES, RECORDS, STRING, UUID_TYPE, Fixed, Message

INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

ALL_VERSIONS: list[tuple[type[Message], int]] = [
    (cls, version)
    for classes in (REQUESTS, RESPONSES)
    for cls in classes.values()
    for version in range(cls.SPEC.versions.first, cls.SPEC.versions.last + 1)
]


def title(value: Any) -> str:
    """Return the id of a parametrized test."""
    return value.__name__ if isinstance(value, type) else str(value)


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages that ``version`` carries in full: fields that it lacks keep their defaults."""
    return structs(cast(Any, cls), version, version >= cls.SPEC.first_flexible)


@cache
def structs(cls: type[Any], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    layout = layout_of(cls, version, flexible)
    return st.builds(
        cls, **{f.name: field_values(f, version, flexible) for f in layout.plain + layout.tagged}
    )


def field_values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    found = values(field.type, version, flexible)
    if field.tag is not None and isinstance(field.type, Struct) and field.nullable is None:
        absent = field.type.cls()  # not sent, hence None at the other end
        return st.none() | found.map(lambda value: None if value == absent else value)
    return st.none() | found if field.may_be_null(version) else found


@cache
def values(wire: WireType, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(wire, Array):
        return st.lists(values(wire.element, version, flexible), max_size=2)
    if isinstance(wire, Struct):
        return structs(wire.cls, version, flexible)
    if wire == STRING:
        return st.text(max_size=6) | st.just("long enough for two length bytes " * 5)
    if wire in {BYTES, RECORDS}:
        return st.binary(max_size=6) | st.just(bytes(range(256)) * 70)
    assert isinstance(wire, Fixed)
    if wire == UUID_TYPE:
        return st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw))
    if wire.code == "?":
        return st.booleans()
    if wire.code == "d":
        return st.floats(allow_nan=False)
    if wire.code in "HI":
        return st.integers(0, (1 << (16 if wire.code == "H" else 32)) - 1)
    bits = INTEGER_BITS[wire.code]
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
