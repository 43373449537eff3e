"""The wire layout of message classes: the fields, and their types and order, in one version."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import (
    ALWAYS,
    Fixed,
    In,
    Message,
    Sized,
    VersionRange,
    parse_versions,
)


@dataclass(frozen=True, slots=True)
class Array:
    element: WireType


@dataclass(frozen=True, slots=True)
class Struct:
    cls: type


WireType: TypeAlias = Fixed | Sized | Array | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or struct class, for all versions. ``default`` is the default value;
    if it is mutable, it is a copy to compare with."""

    name: str
    type: WireType
    versions: VersionRange
    nullable: VersionRange | None
    tag: int | None
    ignorable: bool
    default: Any
    encoded: bool = False
    varies: bool = False

    def may_be_null(self, version: int) -> bool:
        return self.nullable is not None and self.nullable.has(version)


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct in one version: ``plain`` are the untagged fields in wire order, ``tagged`` the
    tagged fields sorted by tag, and ``absent`` the fields that this version does not have."""

    cls: type
    flexible: bool
    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """Return all fields of a message or struct class, in declaration order."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _field(f.name, hints[f.name], f.default if f.default is not MISSING else _made(cls, f))
        for f in fields(cls)
    )


def layout_of(cls: type, version: int, flexible: bool) -> Layout:
    """Return the layout of ``cls`` in ``version``. Asserts that a version with tagged fields is
    flexible."""
    present = [f for f in fields_of(cls) if f.versions.has(version)]
    tagged = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
    assert flexible or not tagged, f"{cls.__name__}: tagged fields in inflexible v{version}"
    return Layout(
        cls,
        flexible,
        tuple(f for f in present if f.tag is None),
        tuple(tagged),
        tuple(f for f in fields_of(cls) if not f.versions.has(version)),
    )


def top_fields(cls: type[Message], version: int) -> set[str]:
    """Return the names of the fields that a message has in ``version``."""
    layout = layout_of(cls, version, version >= cls.SPEC.first_flexible)
    return {field.name for field in (*layout.plain, *layout.tagged)}


def min_size(wire: WireType, version: int, flexible: bool) -> int:
    """Return the smallest number of bytes that a value can take. The decoder uses it to refuse an
    array length that the remaining bytes cannot hold."""
    if isinstance(wire, Fixed):
        return wire.size
    if isinstance(wire, Sized):
        return 1 if flexible else wire.prefix_size
    if isinstance(wire, Array):
        return 1 if flexible else 4
    layout = layout_of(wire.cls, version, flexible)
    return flexible + sum(
        1
        if isinstance(f.type, Struct) and f.may_be_null(version)
        else min_size(f.type, version, flexible)
        for f in layout.plain
    )


def _made(cls: type, field: Any) -> Any:
    assert field.default_factory is not MISSING, f"{cls.__name__}.{field.name} has no default"
    return field.default_factory()


def _field(name: str, hint: Any, default: Any) -> Field:
    place = In("0+")
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
        wires = [mark for mark in marks if isinstance(mark, Fixed | Sized)]
        place = next((mark for mark in marks if isinstance(mark, In)), place)
        if wires:
            hint = Annotated[hint, wires[0]]
    inner = [a for a in get_args(hint) if a is not NoneType]
    optional = get_origin(hint) in {Union, UnionType} and NoneType in get_args(hint)
    wire = _wire_type(name, inner[0] if optional and len(inner) == 1 else hint)
    nullable = None if place.nullable is None else parse_versions(place.nullable)
    if optional and nullable is None and not (place.tag is not None and isinstance(wire, Struct)):
        nullable = ALWAYS
    return Field(
        name,
        wire,
        parse_versions(place.versions),
        nullable,
        place.tag,
        place.ignorable,
        default,
        place.encoded,
        place.varies,
    )


def _wire_type(name: str, hint: Any) -> WireType:
    if get_origin(hint) is Annotated:
        wire = get_args(hint)[1]
        assert isinstance(wire, Fixed | Sized), f"{name}: {hint} is not a wire type"
        return wire
    if get_origin(hint) is list:
        return Array(_wire_type(name, get_args(hint)[0]))
    assert isinstance(hint, type), f"{name}: {hint} is not a wire type"
    return Struct(hint)
