"""Messages as JSON values, in the form that Kafka's generated JsonConverters give them."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

from minikafka.protocol.layout import Array, Field, Struct, WireType, layout_of
from minikafka.protocol.schema import Message


def to_json(message: Message, version: int) -> dict[str, Any]:
    """The fields that ``version`` has, under Kafka's names; bytes and UUIDs in base64."""
    return _struct(message, version, version >= message.SPEC.first_flexible)


def _struct(value: Any, version: int, flexible: bool) -> dict[str, Any]:
    layout = layout_of(type(value), version, flexible)
    shown: dict[str, Any] = {}
    for field in layout.plain + layout.tagged:
        content = getattr(value, field.name)
        if field.tag is None or content != field.default:
            shown[_java_name(field)] = _value(content, field.type, version, flexible)
    return shown


def _value(value: Any, wire: WireType, version: int, flexible: bool) -> Any:
    if value is None:
        return None
    if isinstance(wire, Array):
        return [_value(element, wire.element, version, flexible) for element in value]
    if isinstance(wire, Struct):
        return _struct(value, version, flexible)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    return value


def _java_name(field: Field) -> str:
    first, *rest = field.name.split("_")
    return first + "".join(word.capitalize() for word in rest)
