"""Protobuf schemas: text compiled by protoc, and whether one reads what another has written.

The rules are those of Confluent's registry, which go by the numbers of fields.

A .proto file is printed from its descriptor.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, cast

from google.protobuf import text_encoding, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from minikafka.registry.decisions import ParsedSchema
from minikafka.registry.errors import invalid_schema
from minikafka.registry.known_protos import known_set, meta_pool
from minikafka.registry.records import PROTOBUF

TYPE_NAMES: Final[Mapping[int, str]] = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()
}
_MAX_TAG: Final = 2**29
_MAX_ENUM: Final = 2**31 - 1
_STEP: Final = "  "


class CannotPrint(ValueError):
    """The file uses what the printer does not know: custom options, groups, or editions."""


def proto_text(file: FileDescriptorProto) -> str:
    """Return the file's text. Equal descriptors have equal texts. Raises CannotPrint."""
    return "\n".join(_Printer(file).lines()) + "\n"


def map_entry(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    """Return the nested type that stands for the entries, if the field of ``message`` is a map."""
    name = field.type_name.rpartition(".")[2]
    for nested in message.nested_type:
        if nested.name == name and nested.options.map_entry:
            return nested
    return None


class _Printer:
    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._names = set(_type_names(file))
        packages = file.package.split(".")
        self._hiding = self._names | {".".join(packages[:n]) for n in range(1, len(packages) + 1)}

    def lines(self) -> Iterator[str]:
        file = self._file
        if file.syntax not in ("", "proto2", "proto3"):
            raise CannotPrint(f"syntax {file.syntax}")
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
        public, weak = set(file.public_dependency), set(file.weak_dependency)
        for number, name in enumerate(file.dependency):
            kind = "public " if number in public else "weak " if number in weak else ""
            yield f'import {kind}"{name}";'
        options = [f"option {each};" for each in self._options(file.options)]
        yield from ["", *options] if options else []
        for message in file.message_type:
            yield ""
            yield from self._message(message, file.package, "")
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum, "")
        yield from self._extensions(file.extension, file.package, "")
        for service in file.service:
            yield ""
            yield from self._service(service)

    def _message(self, message: DescriptorProto, outer: str, indent: str) -> Iterator[str]:
        scope = f"{outer}.{message.name}" if outer else message.name
        inner = indent + _STEP
        yield f"{indent}message {message.name} {{"
        yield from (f"{inner}option {each};" for each in self._options(message.options))
        yield from _reserved(message, inner)
        for span in message.extension_range:
            yield f"{inner}extensions {_span(span.start, span.end - 1, _MAX_TAG - 1)};"
        done: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message, scope, inner)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                yield from self._oneof(field.oneof_index, message, scope, inner)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                yield from self._message(nested, scope, inner)
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        yield from self._extensions(message.extension, scope, inner)
        yield f"{indent}}}"

    def _oneof(
        self, index: int, message: DescriptorProto, scope: str, indent: str
    ) -> Iterator[str]:
        found = message.oneof_decl[index]
        yield f"{indent}oneof {found.name} {{"
        yield from (f"{indent}{_STEP}option {each};" for each in self._options(found.options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield from self._field(field, message, scope, indent + _STEP)
        yield f"{indent}}}"

    def _field(
        self, field: FieldDescriptorProto, message: DescriptorProto, scope: str, indent: str
    ) -> Iterator[str]:
        if field.type == FieldDescriptorProto.TYPE_GROUP:
            raise CannotPrint(f"the group {field.name}")
        entry = map_entry(field, message)
        if entry is not None:
            key, value = (self._type(each, scope) for each in entry.field)
            label, kind = "", f"map<{key}, {value}>"
        else:
            label, kind = self._label(field), self._type(field, scope)
        options = list(self._options(field.options))
        if field.HasField("default_value"):
            options.insert(0, f"default = {_default(field)}")
        if field.json_name not in ("", _camel(field.name)):
            options.append(f'json_name = "{field.json_name}"')
        shown = f" [{', '.join(options)}]" if options else ""
        yield f"{indent}{label}{kind} {field.name} = {field.number}{shown};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return "repeated "
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            return "required "
        proto3 = self._file.syntax == "proto3"
        in_oneof = field.HasField("oneof_index")
        return "optional " if field.proto3_optional or not (proto3 or in_oneof) else ""

    def _type(self, field: FieldDescriptorProto, scope: str) -> str:
        if field.type not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_ENUM):
            return TYPE_NAMES[field.type]
        return self._shown(field.type_name, scope)

    def _shown(self, name: str, scope: str) -> str:
        """Return the shortest name that means the type within ``scope``: without the package of
        this file if no inner type or package hides it, else the full name."""
        full = name.removeprefix(".")
        package = f"{self._file.package}." if self._file.package else ""
        short = full.removeprefix(package) if full in self._names else full
        first = short.partition(".")[0]
        place = scope
        while place:
            found = f"{place}.{first}"
            if found in self._hiding:
                return short if found == full or full.startswith(f"{found}.") else f".{full}"
            place = place.rpartition(".")[0]
        return short

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}enum {enum.name} {{"
        yield from (f"{indent}{_STEP}option {each};" for each in self._options(enum.options))
        for value in enum.value:
            options = ", ".join(self._options(value.options))
            shown = f" [{options}]" if options else ""
            yield f"{indent}{_STEP}{value.name} = {value.number}{shown};"
        spans = [_span(each.start, each.end, _MAX_ENUM) for each in enum.reserved_range]
        yield from _reserved_lines(spans, enum.reserved_name, indent + _STEP)
        yield f"{indent}}}"

    def _extensions(
        self, fields: Iterable[FieldDescriptorProto], scope: str, indent: str
    ) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {self._shown(field.extendee, scope)} {{"
            yield from self._field(field, DescriptorProto(), scope, indent + _STEP)
            yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        package = self._file.package
        yield f"service {service.name} {{"
        yield from (f"{_STEP}option {each};" for each in self._options(service.options))
        for method in service.method:
            taken, returned = (
                f"({'stream ' if streaming else ''}{self._shown(name, package)})"
                for name, streaming in (
                    (method.input_type, method.client_streaming),
                    (method.output_type, method.server_streaming),
                )
            )
            options = " ".join(f"option {each};" for each in self._options(method.options))
            end = f" {{ {options} }}" if options else ";"
            yield f"{_STEP}rpc {method.name} {taken} returns {returned}{end}"
        yield "}"

    def _options(self, options: Message) -> Iterator[str]:
        """Yield the options as ``name = value``. Raises CannotPrint for extensions other than
        Confluent's."""
        if not options.ByteSize():
            return
        kind = meta_pool().FindMessageTypeByName(options.DESCRIPTOR.full_name)
        known = GetMessageClass(kind).FromString(options.SerializeToString())
        printed = GetMessageClass(kind)()
        printed.CopyFrom(known)
        printed.DiscardUnknownFields()
        if printed != known:
            raise CannotPrint("a custom option")
        for field, value in printed.ListFields():
            if field.message_type is not None and not field.is_extension:
                raise CannotPrint(f"the option {field.name}")
            if field.name == "map_entry":
                continue
            name = field.name
            if field.is_extension:
                name = f"({self._shown(field.full_name, self._file.package)})"
            for each in value if field.is_repeated else [value]:
                yield f"{name} = {_value(field, each)}"


def _type_names(file: FileDescriptorProto) -> Iterator[str]:
    rest: list[tuple[str, Any]] = [(file.package, m) for m in (*file.message_type, *file.enum_type)]
    while rest:
        outer, found = rest.pop()
        name = f"{outer}.{found.name}" if outer else found.name
        yield name
        if isinstance(found, DescriptorProto):
            rest += [(name, each) for each in (*found.nested_type, *found.enum_type)]


def _value(field: FieldDescriptor, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_utf8=True, as_one_line=True)} }}"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{text_encoding.CEscape(value, False)}"' if isinstance(value, str) else str(value)


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptor.TYPE_STRING:
        return f'"{text_encoding.CEscape(field.default_value, False)}"'
    if field.type == FieldDescriptor.TYPE_BYTES:  # the descriptor holds it escaped
        return f'"{field.default_value}"'
    return str(field.default_value)


def _reserved(message: DescriptorProto, indent: str) -> Iterator[str]:
    spans = [_span(each.start, each.end - 1, _MAX_TAG - 1) for each in message.reserved_range]
    yield from _reserved_lines(spans, message.reserved_name, indent)


def _reserved_lines(spans: list[str], names: Iterable[str], indent: str) -> Iterator[str]:
    if spans:
        yield f"{indent}reserved {', '.join(spans)};"
    if quoted := ", ".join(f'"{name}"' for name in names):
        yield f"{indent}reserved {quoted};"


def _span(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"


def _camel(name: str) -> str:
    """Return the JSON name that protoc gives to a field."""
    letters, upper = [], False
    for letter in name:
        if letter == "_":
            upper = True
        else:
            letters.append(letter.upper() if upper else letter)
            upper = False
    return "".join(letters)


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
        self.compiled = compiled = _compiled({**self.files, MAIN: text})
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
