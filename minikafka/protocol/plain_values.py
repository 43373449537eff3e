"""Requests built from plain values: a nested struct is a dict. For tools that send what no client
of this package sends."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.layout import Array, Struct, WireType, fields_of


def built(cls: Any, values: dict[str, Any]) -> Any:
    """Return a message or struct of ``cls`` with these fields; the others keep their defaults."""
    types = {field.name: field.type for field in fields_of(cls)}
    return cls(**{name: _value(types[name], value) for name, value in values.items()})


def _value(wire: WireType, value: Any) -> Any:
    if isinstance(wire, Array) and isinstance(wire.element, Struct) and value is not None:
        return [_value(wire.element, each) for each in value]
    if isinstance(wire, Struct) and isinstance(value, dict):
        return built(wire.cls, value)
    return value
