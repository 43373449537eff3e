"""The text of a .proto file, printed from its descriptor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf import text_encoding, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from minikafka.registry.known_protos import meta_pool

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
