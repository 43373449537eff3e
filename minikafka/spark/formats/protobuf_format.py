"""Columns of Protobuf messages, whose types come from a descriptor.

Values are parsed with the message type that the plan has fixed: unknown fields are skipped and
missing ones have their defaults, as the format wants. The schema of the writer says only which of
its messages a value is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from minikafka.registry.known_protos import add_known_proto
from minikafka.spark.formats.flat_protobuf import FlatMessage, encode_messages
from minikafka.spark.formats.registry_access import FormatError, RegisteredSchema
from minikafka.spark.formats.wire import (
    Decoded,
    NotAtOnce,
    Payloads,
    array_of,
    encoded,
    header,
)

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_MOST_INDEXES: Final = 100


class ProtobufFormat:
    """Reads and writes one message type: ``message``, its full name, or the first one of the
    schema."""

    def __init__(self, schema: RegisteredSchema, message: str | None = None) -> None:
        """Raises FormatError."""
        from google.protobuf.message_factory import GetMessageClass

        self._schema = schema
        file = file_of(schema)
        messages = _messages(file)
        if not messages:
            raise FormatError(f"schema {schema.id} has no message")
        name = message or next(iter(messages.values())).full_name
        paths = {found.full_name: path for path, found in messages.items()}
        if name not in paths:
            raise FormatError(f"schema {schema.id} has no message {name}: {', '.join(paths)}")
        path = paths[name]
        self._name = name
        self._header = header(schema.id) + written_indexes(path)
        self._class: Any = GetMessageClass(messages[path])
        self.arrow_type, self._convert = _struct(messages[path], ())
        self._flat: FlatMessage | None = None
        with suppress(NotAtOnce):
            self._flat = FlatMessage(messages[path], self.arrow_type)
        self._writers: dict[int, dict[tuple[int, ...], str]] = {}

    def decode(self, payloads: Payloads, writer: RegisteredSchema) -> Decoded:
        """Raises FormatError for a writer whose schema cannot be used."""
        from google.protobuf.message import DecodeError

        if writer.id not in self._writers:
            names = {path: found.full_name for path, found in _messages(file_of(writer)).items()}
            self._writers[writer.id] = names
        names = self._writers[writer.id]
        found = self._decoded_at_once(payloads, names)
        if found is not None:
            return Decoded(found, {})
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        for at, payload in enumerate(payloads.each()):
            try:
                path, begun = ((0,), 1) if payload[0] == 0 else read_indexes(payload)
                name = names.get(path)
                if name != self._name:
                    raise ValueError(f"the message is {name or path}, not {self._name}")
                rows.append(self._convert(self._class.FromString(payload[begun:])))
            except (DecodeError, ValueError, IndexError) as error:
                rows.append(None)
                reasons[at] = f"not Protobuf of schema {payloads.schema_id}: {error}"
        return array_of(rows, self.arrow_type, reasons)

    def _decoded_at_once(
        self, payloads: Payloads, names: Mapping[tuple[int, ...], str]
    ) -> pa.Array | None:
        if self._flat is None:
            return None
        for path in [each for each, name in names.items() if name == self._name]:
            with suppress(NotAtOnce):
                return self._flat.decode(payloads, written_indexes(path))
        return None

    def encode(self, column: pa.Array) -> pa.Array:
        """Encode a column of structs. Raises FormatError for a row that does not fit."""
        if self._flat is not None:
            with suppress(NotAtOnce):
                return encode_messages(column, self._flat, self._header)
        _check_lists(self._class.DESCRIPTOR, column.type)
        return encoded(column, self._encoded)

    def _encoded(self, row: Any) -> bytes:
        try:
            raw: bytes = self._class(**_plain(row)).SerializeToString()
        except (TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"a row does not fit {self._name}: {error}") from None
        return self._header + raw


def file_of(schema: RegisteredSchema) -> Any:
    """Return the descriptor of a schema's file, in a pool with what it imports. Raises
    FormatError."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    name = f"schema-{schema.id}.proto"
    try:
        _add_file(pool, name, schema, set())
        return pool.FindFileByName(name)
    except (DecodeError, ValueError, TypeError, KeyError, ImportError) as error:
        raise FormatError(f"the descriptor of schema {schema.id} cannot be used: {error}") from None


def _add_file(pool: Any, name: str, schema: RegisteredSchema, added: set[str]) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in added:
        return
    added.add(name)
    file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    file.name = name
    for other, each in schema.references:
        _add_file(pool, other, each, added)
    for other in file.dependency:
        add_known_proto(pool, other, added)
    pool.Add(file)


def _messages(file: Any) -> dict[tuple[int, ...], Any]:
    """Return the message types of a file by their paths of indexes."""
    found: dict[tuple[int, ...], Any] = {}
    rest: list[tuple[tuple[int, ...], Any]] = [
        ((at,), each) for at, each in enumerate(file.message_types_by_name.values())
    ]
    while rest:
        path, message = rest.pop(0)
        found[path] = message
        rest += [((*path, at), each) for at, each in enumerate(message.nested_types)]
    return found


def read_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Read the path of the message: a count and so many indexes, as zigzag varints; a count of 0
    stands for the first message. Raises IndexError, ValueError."""
    count, at = _read_varint(payload, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError(f"{count} indexes of messages")
    path = []
    for _ in range(count):
        index, at = _read_varint(payload, at)
        path.append(index)
    return tuple(path) or (0,), at


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        if shift > 63:
            raise ValueError("an index of a message has more than 64 bits")


def written_indexes(path: tuple[int, ...]) -> bytes:
    out = bytearray()
    for number in () if path == (0,) else (len(path), *path):
        rest = number << 1
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out) or b"\0"


def _struct(message: Any, outer: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    """Return the Arrow type of a message and the function that makes a dict of one."""
    import pyarrow as pa

    if message.full_name in outer:
        raise FormatError(f"the recursive message {message.full_name} has no type in Spark")
    fields, parts = [], []
    for field in message.fields:
        kind, convert = _type(field, (*outer, message.full_name))
        fields.append(pa.field(field.name, kind))
        parts.append((field.name, convert, field.has_presence and not field.is_repeated))

    def converted(value: Any) -> dict[str, Any]:
        return {
            name: None if optional and not value.HasField(name) else convert(getattr(value, name))
            for name, convert, optional in parts
        }

    return pa.struct(fields), converted


def _type(field: Any, outer: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    import pyarrow as pa

    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, _ = _single(entry.fields_by_name["key"], outer)
        inner, convert = _single(entry.fields_by_name["value"], outer)
        return pa.map_(key, inner), lambda found: [(k, convert(found[k])) for k in found]
    inner, convert = _single(field, outer)
    if field.is_repeated:
        return pa.list_(inner), lambda found: [convert(each) for each in found]
    return inner, convert


def _single(field: Any, outer: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    import pyarrow as pa

    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return pa.timestamp("us", "UTC"), lambda t: t.seconds * 1_000_000 + t.nanos // 1000
        return _struct(field.message_type, outer)
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number))
    kinds = {
        field.CPPTYPE_INT32: pa.int32(), field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(), field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(), field.CPPTYPE_BOOL: pa.bool_(),
    }  # fmt: skip
    if field.cpp_type == field.CPPTYPE_UINT64:
        return pa.decimal128(20, 0), Decimal
    if field.cpp_type == field.CPPTYPE_STRING:
        return (pa.binary() if field.type == field.TYPE_BYTES else pa.string()), _same
    return kinds[field.cpp_type], _same


def _same(value: Any) -> Any:
    return value


def _check_lists(message: Any, kind: pa.DataType) -> None:
    """Raises FormatError for a repeated field whose column has no lists: the library would take the
    characters of a text for its elements."""
    import pyarrow as pa

    types = pa.types
    for column in kind if types.is_struct(kind) else ():
        field, of = message.fields_by_name.get(column.name), column.type
        if field is None:
            continue
        if field.is_repeated and not (types.is_list(of) or types.is_map(of) or types.is_null(of)):
            raise FormatError(
                f"a row does not fit {message.full_name}: {field.name} is repeated, and its column "
                f"is {of}"
            )
        if field.message_type is not None:
            _check_lists(field.message_type, of.value_type if types.is_list(of) else of)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value
