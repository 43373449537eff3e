"""Requests that clients send again and again, decoded without parsing what they have in common.

Two requests have the same *form* if they differ only in their correlation ids, in fields that the
schema marks (``In.varies``: offsets, session epochs) and in record batches. ``PreparedRequests``
keeps a message for each form, and returns copies of it with the values of a frame. What it returns
is what ``decode_request_header`` and ``decode`` return.

A form is a sequence of chunks, between which are the records. A chunk has constant bytes and
numbers, which one ``struct`` call reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.protocol.buffer import DecodeError, read_uvarint, write_uvarint
from minikafka.protocol.codec import encode_parts
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.layout import Array, Field, Struct, WireType, fields_of
from minikafka.protocol.schema import Message
from minikafka.protocol.source import SourceWriter
from minikafka.protocol.types import RECORDS, Fixed

# A form has a client id and names, which any client can make up. Each takes some 2 KB.
MAX_FORMS: Final = 4_000  # of one API
MAX_CONSTANT_BYTES: Final = 1_000
MAX_LAYOUTS: Final = 4  # of one version, with records: each is tried
LEARN_EVERY: Final = 8  # requests without a form: to learn one takes as long as to decode some ten
_FIRST_BYTE: Final = 8  # behind the correlation id

_read_int: Final = struct.Struct(">i").unpack_from

# Builds a copy of a message. The function returns the next of the values that vary.
Rebuild: TypeAlias = Callable[[Any, Callable[[], Any]], Any]


class _Chunk(NamedTuple):
    """Bytes of fixed size: ``unpack`` returns constants and numbers in turn, a constant first and
    last."""

    structure: str
    unpack: Callable[[memoryview, int], tuple[Any, ...]]
    size: int
    constants: tuple[bytes, ...]


class _Form(NamedTuple):
    """``message`` has none of the values that vary. Each chunk in ``rest`` is behind records."""

    client_id: str | None
    message: Message
    rebuild: Rebuild
    rest: tuple[_Chunk, ...]
    flexible: bool


class _Layout:
    """Forms whose first chunks have the same structure, by their constants."""

    __slots__ = ("forms", "size", "structure", "unpack")

    def __init__(self, chunk: _Chunk) -> None:
        self.structure = chunk.structure
        self.unpack = chunk.unpack
        self.size = chunk.size
        self.forms: dict[tuple[bytes, ...], _Form] = {}


class PreparedRequests:
    """The forms of the requests of one API, shared by all connections."""

    def __init__(self, request_class: type[Message]) -> None:
        self._request_class: type = request_class
        self._fixed: dict[tuple[int, int], _Layout] = {}  # without records: by version and size
        self._with_records: dict[int, list[_Layout]] = {}  # by version; bound: MAX_LAYOUTS
        self._count = 0
        self._misses = 0

    def decode(self, frame: memoryview, version: int) -> tuple[RequestHeader, Message] | None:
        """Return the header and the message of a frame; None if its form is not known. Records are
        memoryviews into the frame."""
        layout = self._fixed.get((version, len(frame)))
        if layout is not None:
            return self._matched(layout, frame, version)
        for layout in self._with_records.get(version, ()):
            if layout.size + _FIRST_BYTE < len(frame):
                found = self._matched(layout, frame, version)
                if found is not None:
                    return found
        return None

    def _matched(
        self, layout: _Layout, frame: memoryview, version: int
    ) -> tuple[RequestHeader, Message] | None:
        found = layout.unpack(frame, _FIRST_BYTE)
        form = layout.forms.get(found[::2])
        if form is None:
            return None
        values = list(found[1::2])
        if form.rest and not _read_rest(form, frame, _FIRST_BYTE + layout.size, values):
            return None
        (correlation_id,) = _read_int(frame, 4)
        header = RequestHeader(frame[0] << 8 | frame[1], version, correlation_id, form.client_id)
        return header, form.rebuild(form.message, iter(values).__next__)

    def learn(
        self, frame: memoryview, header: RequestHeader, position: int, message: Message
    ) -> None:
        """Learn the form of some requests for which ``decode`` has returned None: the body of the
        frame begins at ``position`` and decodes to ``message``."""
        self._misses += 1
        if self._misses % LEARN_EVERY != 1:
            return
        version = header.api_version
        chunks = _chunks_of(message, version, frame, position)
        if chunks is None:
            return
        if self._count >= MAX_FORMS:
            self._fixed.clear()
            self._with_records.clear()
            self._count = 0
        first, *rest = chunks
        layout = (
            self._with_records_of(version, first) if rest else self._fixed_of(frame, version, first)
        )
        cls = self._request_class
        rebuild = rebuild_of(cls, version)
        blank = [b"" if wire is RECORDS else 0 for wire, _ in _varying(cls, message, version)]
        layout.forms[first.constants] = _Form(
            header.client_id,
            rebuild(message, iter(blank).__next__),
            rebuild,
            tuple(rest),
            version >= message.SPEC.first_flexible,
        )
        self._count += 1

    def _fixed_of(self, frame: memoryview, version: int, first: _Chunk) -> _Layout:
        key = version, len(frame)
        layout = self._fixed.get(key)
        if layout is None or layout.structure != first.structure:
            layout = self._fixed[key] = _Layout(first)
        return layout

    def _with_records_of(self, version: int, first: _Chunk) -> _Layout:
        layouts = self._with_records.setdefault(version, [])
        for layout in layouts:
            if layout.structure == first.structure:
                return layout
        layout = _Layout(first)
        layouts.insert(0, layout)
        del layouts[MAX_LAYOUTS:]
        return layout


def _read_rest(form: _Form, frame: memoryview, position: int, values: list[Any]) -> bool:
    """Read records and the chunks behind them, and append their values. False if the frame has
    another form."""
    try:
        for chunk in form.rest:
            if form.flexible:
                size, position = read_uvarint(frame, position)
                size -= 1
            else:
                (size,) = _read_int(frame, position)
                position += 4
            stop = position + size
            if size < 0 or stop + chunk.size > len(frame):
                return False
            values.append(frame[position:stop])
            found = chunk.unpack(frame, stop)
            if found[::2] != chunk.constants:
                return False
            values += found[1::2]
            position = stop + chunk.size
    except (DecodeError, IndexError, struct.error):
        return False
    return position == len(frame)


# ------------------------------------------------------------------------------ learning a form


def _chunks_of(
    message: Message, version: int, frame: memoryview, position: int
) -> list[_Chunk] | None:
    """Return the chunks of a frame; None if it has no form: it is too large, has null records, or
    is not what an encoder would write."""
    varying = list(_varying(type(message), message, version))
    records = [value for wire, value in varying if wire is RECORDS]
    if any(value is None for value in records):
        return None
    if len(frame) - sum(map(len, records)) > MAX_CONSTANT_BYTES:
        return None
    if b"".join(encode_parts(message, version)) != frame[position:]:
        return None
    header = frame[_FIRST_BYTE:position].tobytes()
    codes = _codes_of_chunks([wire for wire, _ in varying])
    # The numbers are where the bytes of two messages differ, in which they are 0 and -1.
    zeros, ones = (_constant_bytes(message, version, header, varying, number) for number in (0, -1))
    return [_chunk(*each) for each in zip(zeros, ones, codes, strict=True)]


def _varying(cls: type, value: Any, version: int) -> Iterator[tuple[WireType, Any]]:
    """Yield type and value of the fields that vary, in the order in which they are encoded."""
    for field in fields_of(cls):
        if _varies(field, version):
            yield field.type, getattr(value, field.name)
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            for element in getattr(value, field.name) or ():
                yield from _varying(field.type.element.cls, element, version)


def _varies(field: Field, version: int) -> bool:
    return (field.varies or field.type is RECORDS) and field.versions.has(version)


def _codes_of_chunks(wires: Sequence[WireType]) -> list[list[Fixed]]:
    """Return the types of the numbers in each chunk."""
    chunks: list[list[Fixed]] = [[]]
    for wire in wires:
        if isinstance(wire, Fixed):
            chunks[-1].append(wire)
        else:
            chunks.append([])
    return chunks


def _constant_bytes(
    message: Message,
    version: int,
    header: bytes,
    varying: Sequence[tuple[WireType, Any]],
    number: int,
) -> list[bytes]:
    """Return the bytes of each chunk, if all numbers are ``number``."""
    values = [value if wire is RECORDS else number for wire, value in varying]
    records = iter([value for wire, value in varying if wire is RECORDS])
    chunks, awaited = [header], next(records, None)
    flexible = version >= message.SPEC.first_flexible
    kind: type = type(message)
    rebuilt = rebuild_of(kind, version)(message, iter(values).__next__)
    for part in encode_parts(rebuilt, version):
        if part is awaited:
            size = len(write_uvarint(len(part) + 1)) if flexible else 4
            chunks[-1] = chunks[-1][:-size]
            chunks.append(b"")
            awaited = next(records, None)
        else:
            chunks[-1] += part
    return chunks


def _chunk(zeros: bytes, ones: bytes, wires: Sequence[Fixed]) -> _Chunk:
    structure, constants, start = ">", [], 0
    for wire in wires:
        place = next(at for at in range(start, len(zeros)) if zeros[at] != ones[at])
        structure += f"{place - start}s{wire.code}"
        constants.append(zeros[start:place])
        start = place + wire.size
    structure += f"{len(zeros) - start}s"
    return _Chunk(
        structure, struct.Struct(structure).unpack_from, len(zeros), (*constants, zeros[start:])
    )


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
