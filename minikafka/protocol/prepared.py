"""Requests that clients send again and again, decoded without parsing what they have in common.

Two requests have the same *form* if they differ only in their correlation ids, and in numbers that
the schema marks (``In.varies``: offsets, the epoch of a session). ``PreparedRequests`` keeps a
message for each form, and returns copies of it with the numbers of a frame. What it returns is what
``decode_request_header`` and ``decode`` return. Requests with record batches are not prepared: to
parse them costs no more than to look for a form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.protocol.codec import encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.layout import Array, Field, Struct, WireType, fields_of
from minikafka.protocol.schema import RECORDS, Fixed, Message
from minikafka.protocol.source import SourceWriter

# A form has a client id and names, which any client can make up. Each takes some 2 KB.
MAX_FORMS: Final = 4_000  # of one API
MAX_BYTES: Final = 1_000
LEARN_EVERY: Final = 8  # requests without a form: learning one costs about ten decodes
_FIRST_BYTE: Final = 8  # behind the correlation id

_read_int: Final = struct.Struct(">i").unpack_from

# Builds a copy of a message. The function returns the next of the numbers that vary.
Rebuild: TypeAlias = Callable[[Any, Callable[[], Any]], Any]


class _Form(NamedTuple):
    client_id: str | None
    position: int  # of the body in a frame
    message: Message
    rebuild: Rebuild


class _Layout:
    """Forms of one version and size, whose numbers are at the same offsets. ``unpack`` returns the
    constant bytes of a frame and its numbers in turn, constant bytes first and last."""

    __slots__ = ("forms", "structure", "unpack")

    def __init__(self, structure: str) -> None:
        self.structure = structure
        self.unpack = struct.Struct(structure).unpack_from
        self.forms: dict[tuple[bytes, ...], _Form] = {}


class PreparedRequests:
    """The forms of the requests of one API without record batches, shared by all connections."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[int, int], _Layout] = {}  # by version and size
        self._count = 0  # bound: MAX_FORMS
        self._misses = 0

    def decode(self, frame: memoryview) -> tuple[RequestHeader, int, Message] | None:
        """Return the header of a frame, the position of its body, and the message; None if its form
        is not known. The frame has at least eight bytes."""
        version = frame[2] << 8 | frame[3]
        layout = self._layouts.get((version, len(frame)))
        if layout is None:
            return None
        found = layout.unpack(frame, _FIRST_BYTE)
        form = layout.forms.get(found[::2])
        if form is None:
            return None
        (correlation_id,) = _read_int(frame, 4)
        header = RequestHeader(frame[0] << 8 | frame[1], version, correlation_id, form.client_id)
        message = form.rebuild(form.message, iter(found[1::2]).__next__)
        return header, form.position, message

    def learn(
        self, frame: memoryview, header: RequestHeader, position: int, message: Message
    ) -> None:
        """Learn the form of some requests for which ``decode`` has returned None. The body of the
        frame begins at ``position``, and decodes to ``message``."""
        self._misses += 1
        if self._misses % LEARN_EVERY != 1 or len(frame) > MAX_BYTES:
            return
        version = header.api_version
        kind: type = type(message)
        if encode(message, version) != frame[position:]:
            return  # or it is not what an encoder would write
        structure = _structure(message, version, frame[_FIRST_BYTE:position].tobytes())
        if self._count >= MAX_FORMS:
            self._layouts.clear()
            self._count = 0
        key = version, len(frame)
        layout = self._layouts.get(key)
        if layout is None or layout.structure != structure:
            layout = self._layouts[key] = _Layout(structure)
        constants = layout.unpack(frame, _FIRST_BYTE)[::2]
        rebuild = rebuild_of(kind, version)
        blank = _with(message, version, 0)
        layout.forms[constants] = _Form(header.client_id, position, blank, rebuild)
        self._count += 1


def _structure(message: Message, version: int, header: bytes) -> str:
    """Return the ``struct`` format of the bytes behind the correlation id, of which ``header`` are
    the first: constant bytes and numbers in turn."""
    # The numbers are where the bytes of two messages differ, in which they are 0 and -1.
    zeros, ones = (header + encode(_with(message, version, number), version) for number in (0, -1))
    structure, start = ">", 0
    for wire in _varying(type(message), message, version):
        place = next(at for at in range(start, len(zeros)) if zeros[at] != ones[at])
        structure += f"{place - start}s{wire.code}"
        start = place + wire.size
    return f"{structure}{len(zeros) - start}s"


def _with(message: Message, version: int, number: int) -> Message:
    """Return a copy of a message in which all numbers that vary are ``number``."""
    kind: type = type(message)
    copy: Message = rebuild_of(kind, version)(message, lambda: number)
    return copy


def _varying(cls: type, value: Any, version: int) -> Iterator[Fixed]:
    """Yield the types of the numbers that vary, in the order in which they are encoded."""
    for field in fields_of(cls):
        if _varies(field, version):
            assert isinstance(field.type, Fixed), f"{field.name} varies, and is a number"
            yield field.type
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            for element in getattr(value, field.name) or ():
                yield from _varying(field.type.element.cls, element, version)


def _varies(field: Field, version: int) -> bool:
    return field.varies and field.versions.has(version)


@cache
def has_records(cls: type) -> bool:
    """Return whether messages of a class have record batches."""
    return any(_is_records(field.type) for field in fields_of(cls))


def _is_records(wire: WireType) -> bool:
    if isinstance(wire, Array):
        return _is_records(wire.element)
    return has_records(wire.cls) if isinstance(wire, Struct) else wire is RECORDS


@cache
def rebuild_of(cls: type, version: int) -> Rebuild:
    """Compile the function that builds a copy of a message of this version."""
    w = SourceWriter()
    with w.function("def rebuild(m, take):"):
        w.line(f"return {_copy(w, cls, 'm', version)}")
    return w.compiled("rebuild", f"rebuild {cls.__name__} v{version}")


def _copy(w: SourceWriter, cls: type, name: str, version: int) -> str:
    """Return an expression that builds a copy of the struct of this name. Its arguments are
    evaluated in the order in which ``_varying`` yields the fields."""
    arguments = []
    for field in fields_of(cls):
        value = f"{name}.{field.name}"
        if _varies(field, version):
            arguments.append("take()")
        elif isinstance(field.type, Array):
            one, element = w.fresh("x"), field.type.element
            copied = _copy(w, element.cls, one, version) if isinstance(element, Struct) else one
            arguments.append(f"None if {value} is None else [{copied} for {one} in {value}]")
        elif isinstance(field.type, Struct):
            copied = _copy(w, field.type.cls, value, version)
            arguments.append(f"None if {value} is None else {copied}")
        else:
            arguments.append(value)
    return f"{w.use('C', cls)}({', '.join(arguments)})"
