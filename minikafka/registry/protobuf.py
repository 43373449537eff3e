"""Protobuf schemas: text compiled by protoc, and whether one reads what another has written.

The rules are those of Confluent's registry, which go by the numbers of fields.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias, cast

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError

from minikafka.registry.compatibility import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.known_protos import known_set
from minikafka.registry.proto_text import TYPE_NAMES, CannotPrint, map_entry, proto_text
from minikafka.registry.records import PROTOBUF

MAIN: Final = "default.proto"
COMPILE_WITHIN_S: Final = 30

# Types of one group have the same form on the wire.
_GROUPS: Final[Mapping[str, str]] = {
    "int32": "number", "int64": "number", "uint32": "number", "uint64": "number",
    "bool": "number", "enum": "number", "sint32": "signed", "sint64": "signed",
    "string": "text", "bytes": "text", "fixed32": "fixed32", "sfixed32": "fixed32",
    "fixed64": "fixed64", "sfixed64": "fixed64", "float": "float", "double": "double",
}  # fmt: skip
_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
Types: TypeAlias = dict[str, tuple[str, DescriptorProto]]  # full name: the package, the message


class ProtobufSchema:
    """A compiled schema. ``references`` are other schemas by the names that import them."""

    kind = PROTOBUF
    violations = ()

    def __init__(self, text: str, references: Mapping[str, ProtobufSchema] | None = None) -> None:
        """``text`` is that of a .proto file, or its descriptor in base64. Raises RegistryError."""
        descriptor = _descriptor(text)
        if descriptor is not None:
            try:
                text = proto_text(descriptor)
            except CannotPrint as error:
                raise invalid_schema(f"{error} needs the schema as text") from None
        self.files: dict[str, str] = {}
        for name, each in (references or {}).items():
            self.files |= {**each.files, name: each.source}
        self.source: str = text
        compiled = _compiled({**self.files, MAIN: text})
        self.descriptor = next(each for each in compiled.file if each.name == MAIN)
        self.types: Types = {}
        for file in compiled.file:
            for message in file.message_type:
                _note_types(message, file.package, file.package, self.types)
        try:
            self.canonical = proto_text(self.descriptor)
        except CannotPrint:
            self.canonical = text

    def serialized(self) -> str:
        """Return the descriptor in base64."""
        return base64.b64encode(self.descriptor.SerializeToString(deterministic=True)).decode()

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        return list(_Comparison(cast(ProtobufSchema, writer), self).reasons())


class _Comparison:
    """The comparison of an earlier schema with one that reads what it has written."""

    def __init__(self, old: ProtobufSchema, new: ProtobufSchema) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str]] = set()

    def reasons(self) -> Iterator[str]:
        old, new = self._old.descriptor, self._new.descriptor
        if old.package != new.package:
            yield f"the package changed from {old.package} to {new.package}"
        after = {each.name: each for each in new.message_type}
        for message in old.message_type:
            yield from self._message(message, after.get(message.name), f"/{message.name}")

    def _message(
        self, old: DescriptorProto, new: DescriptorProto | None, path: str
    ) -> Iterator[str]:
        if new is None:
            yield f"{path}: the message was removed"
            return
        yield from self._oneofs(old, new, path)
        before, after = _by_number(old), _by_number(new)
        for number in sorted(before.keys() | after.keys()):
            there = f"{path}/{number}"
            if number not in after:
                if before[number].label == _REQUIRED:
                    yield f"{there}: a required field was removed"
            elif number not in before:
                if after[number].label == _REQUIRED:
                    yield f"{there}: a required field was added"
            else:
                one, two = before[number], after[number]
                yield from self._field(one, map_entry(one, old), two, map_entry(two, new), there)
        nested = {each.name: each for each in new.nested_type}
        for each in old.nested_type:
            if not each.options.map_entry:
                yield from self._message(each, nested.get(each.name), f"{path}/{each.name}")

    def _oneofs(self, old: DescriptorProto, new: DescriptorProto, path: str) -> Iterator[str]:
        before, after = _oneofs_by_number(old), _oneofs_by_number(new)
        numbers, left = _by_number(old), _by_number(new)
        for name in dict.fromkeys(after.values()):
            members = [number for number, of in after.items() if of == name and number in numbers]
            groups = {before.get(number, f"field {number}") for number in members}
            if len(groups) > 1:
                yield f"{path}/{name}: fields that could be set together are in one oneof now"
        for name in dict.fromkeys(before.values()):
            members = [number for number, of in before.items() if of == name]
            survive = name in after.values() or any(number in left for number in members)
            for number in members:
                if survive and number not in left:
                    yield f"{path}/{name}/{number}: a field of a oneof was removed"

    def _field(
        self,
        old: FieldDescriptorProto,
        old_entry: DescriptorProto | None,
        new: FieldDescriptorProto,
        new_entry: DescriptorProto | None,
        path: str,
    ) -> Iterator[str]:
        kinds = _kind(old, old_entry), _kind(new, new_entry)
        if kinds[0] != kinds[1]:
            yield f"{path}: the type changed from {_shown(old)} to {_shown(new)}"
        elif old_entry is not None and new_entry is not None:
            for one, two in zip(old_entry.field, new_entry.field, strict=True):
                yield from self._field(one, None, two, None, f"{path}/{one.name}")
        elif kinds[0] == "message":
            yield from self._named(old.type_name, new.type_name, path)
        elif kinds[0] != "text" and (old.label == _REPEATED) != (new.label == _REPEATED):
            yield f"{path}: the field changed between repeated and single"

    def _named(self, old: str, new: str, path: str) -> Iterator[str]:
        """Compare the types of a field: their names within their packages, and what they have if
        they are not of this file, whose messages are compared anyway."""
        (package, one), (other, two) = self._old.types[old], self._new.types[new]
        if _local(old, package) != _local(new, other):
            yield f"{path}: the type changed from {old[1:]} to {new[1:]}"
        elif (old, new) not in self._seen:
            self._seen.add((old, new))
            foreign = package != self._old.descriptor.package
            if (foreign or other != self._new.descriptor.package) and any(
                True for _ in self._message(one, two, path)
            ):
                yield f"{path}: the type {new[1:]} changed"


def _kind(field: FieldDescriptorProto, entry: DescriptorProto | None) -> str:
    return "map" if entry is not None else _GROUPS.get(TYPE_NAMES[field.type], "message")


def _shown(field: FieldDescriptorProto) -> str:
    return field.type_name[1:] or TYPE_NAMES[field.type]


def _local(name: str, package: str) -> str:
    return name[1:].removeprefix(f"{package}." if package else "")


def _by_number(message: DescriptorProto) -> dict[int, FieldDescriptorProto]:
    return {field.number: field for field in message.field}


def _oneofs_by_number(message: DescriptorProto) -> dict[int, str]:
    return {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }


def _note_types(message: DescriptorProto, outer: str, package: str, types: Types) -> None:
    name = f"{outer}.{message.name}" if outer else message.name
    types[f".{name}"] = package, message
    for nested in message.nested_type:
        _note_types(nested, name, package, types)


def _descriptor(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that the text is in base64; None if it is not one."""
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
        return FileDescriptorProto.FromString(raw) if raw else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compiled(files: Mapping[str, str]) -> FileDescriptorSet:
    """Compile the files by protoc, in another process. Raises RegistryError."""
    with (
        TemporaryDirectory(prefix="minikafka-protoc-") as folder,
        TemporaryDirectory(prefix="minikafka-protoc-") as sets,
    ):
        for name, text in files.items():
            path = Path(folder, name)
            if not path.resolve().is_relative_to(Path(folder).resolve()):
                raise invalid_schema(f"the name {name} leads out of its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        Path(sets, "known").write_bytes(known_set())  # what the folder has comes first
        command = (sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}")
        known = f"--descriptor_set_in={sets}/known"
        options = (known, f"--descriptor_set_out={sets}/compiled", "--include_imports", MAIN)
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=COMPILE_WITHIN_S
        )
        if done.returncode:
            lines = done.stderr.replace(f"{folder}/", "").splitlines()
            raise invalid_schema("; ".join(each for each in lines if "warning" not in each))
        return FileDescriptorSet.FromString(Path(sets, "compiled").read_bytes())
