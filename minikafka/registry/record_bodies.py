"""What serializers of Confluent write after the id of a schema, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error, MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from minikafka.registry.avro import AvroSchema
from minikafka.registry.avro_values import avro_value
from minikafka.registry.decisions import ParsedSchema
from minikafka.registry.protobuf import ProtobufSchema

Json: TypeAlias = Any

MOST_INDEXES: Final = 32
_LONGEST_VARINT: Final = 5  # bytes


def body_reader(schema: ParsedSchema) -> Callable[[bytes], Json]:
    """Return what decodes the bytes after the id; it raises ValueError."""
    if isinstance(schema, AvroSchema):
        return partial(avro_value, schema.root)
    if isinstance(schema, ProtobufSchema):
        return ProtobufBodies(schema).value
    return _json


def _json(body: bytes) -> Json:
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


class ProtobufBodies:
    """Decodes messages of a schema's file, which are named by their places in it."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._file = schema.descriptor
        self._pool = DescriptorPool()
        for file in schema.compiled.file:  # protoc lists imports first
            self._pool.Add(file)

    def value(self, body: bytes) -> Json:
        indexes, at = _indexes(body)
        found = self._pool.FindMessageTypeByName(self._name(indexes))
        try:
            message = GetMessageClass(found).FromString(body[at:])
            return MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=self._pool
            )
        except (DecodeError, Error, TypeError) as error:  # TypeError: an Any of an unknown type
            raise ValueError(f"not a message {found.full_name}: {error}") from None

    def _name(self, indexes: list[int]) -> str:
        names = [self._file.package] if self._file.package else []
        inner: list[DescriptorProto] = list(self._file.message_type)
        for index in indexes:
            if not 0 <= index < len(inner):
                raise ValueError(f"the schema has no message at {indexes}")
            names.append(inner[index].name)
            inner = list(inner[index].nested_type)
        return ".".join(names)


def _indexes(body: bytes) -> tuple[list[int], int]:
    """Return the places of nested messages, outermost first, and where the message begins."""
    count, at = _varint(body, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise ValueError(f"{count} is no number of nested messages")
    indexes = []
    for _ in range(count):
        index, at = _varint(body, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for number in range(_LONGEST_VARINT):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        found |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise ValueError("the bytes end within a number")
