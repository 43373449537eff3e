"""The layout of a record in a batch of magic 2, and loops over records compiled from it.

``RECORD`` below is the one description of a record. Each reader of records needs another part of
it: the leader's check needs times and the presence of keys, the cleaner needs keys, a consumer
needs everything as columns. Reading more than that costs half of a broker's time, and so would a
function call for each field. So a reader says which fields it wants in which form, and
``compile_walk`` writes the loop that it would otherwise write by hand.

How the generated code reads. ``position`` is a place in ``data``. It moves only behind a field
whose size is not known in advance; ``data[position + 3]`` is the byte three behind it. A varint is
read in place while it has its usual number of bytes; ``read_uvarlong`` reads a longer one::

    if (length := data[position]) >= 0x80:
        position += 1
        if (high := data[position]) < 0x80:
            length += (high << 7) - 0x80
        else:
            length, position = read_uvarlong(data, position - 1)
            position -= 1
    end = position + 1 + (length >> 1)

Numbers are zigzag-coded: the lowest bit of the unsigned varint is the sign. A length below zero
means null, so ``length & 1`` asks for null.

Kafka: ``DefaultRecord.writeTo``, ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from textwrap import dedent
from typing import Any, Final, NamedTuple

from minikafka.protocol.buffer import read_uvarlong, read_varlong
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.source import SourceWriter


class FieldKind(Enum):
    """The encoding of a field."""

    BYTE = "one byte"
    NUMBER = "a zigzag varint"
    LENGTH = "a zigzag varint: the bytes that the record has after it"
    BYTES = "a zigzag varint, and as many bytes; null if it is negative"
    HEADERS = "a zigzag varint, and as many pairs of BYTES: a name in UTF-8, never null; a value"


class RecordField(NamedTuple):
    """What a reader may expect, but not rely on: its varint takes ``usual_bytes`` (1 or 2) at most;
    bytes are ``often_null``."""

    name: str
    kind: FieldKind
    usual_bytes: int = 1
    often_null: bool = False


RECORD: Final = (
    RecordField("length", FieldKind.LENGTH, 2),
    RecordField("attributes", FieldKind.BYTE),  # no bit is in use
    RecordField("timestamp_delta", FieldKind.NUMBER),  # to the batch's base timestamp, in ms
    RecordField("offset_delta", FieldKind.NUMBER, 2),  # to the batch's base offset
    RecordField("key", FieldKind.BYTES, often_null=True),
    RecordField("value", FieldKind.BYTES, 2),
    RecordField("headers", FieldKind.HEADERS),
)


class Want(Enum):
    """The form in which a loop reads a field. Fields that it does not name are skipped.

    No loop reads headers: ``record_loop.read_columns`` does."""

    RAW = "the unsigned varint; of bytes, their length"
    SIGNED = "the number"
    CONTENT = "bytes or None"
    ABSENT = "no headers: a record that has any is malformed to this loop"


def compile_walk(
    name: str,
    parameters: str,
    wanted: Mapping[str, Want],
    *,
    each: str = "",
    before: str = "",
    result: str = "",
) -> Callable[..., Any]:
    """Compile a loop over the ``count`` records in ``data``, which must be among ``parameters``.

    The fields behind the last one that is ``wanted`` are not read. The pieces of code, in the order
    in which they run:

    - ``before`` the loop;
    - ``each``, for every record. The locals that it finds are the ``wanted`` fields, and ``start``
      and ``end`` of the record. It may call ``malformed()``;
    - ``result``, an expression to return.

    The compiled function raises CorruptRecordError unless ``data`` consists of ``count`` whole
    records.
    """
    return _WalkSource(parameters, wanted, each, before, result).compiled(name)


class _WalkSource:
    """Writes the source of one loop. ``_ahead`` is the distance of the next field from ``position``
    in bytes."""

    def __init__(
        self, parameters: str, wanted: Mapping[str, Want], each: str, before: str, result: str
    ) -> None:
        self._writer = SourceWriter()
        self._wanted = wanted
        self._ahead = 0
        self._writer.names.update(
            read_uvarlong=read_uvarlong,
            zigzag=_ZIGZAG,
            Corrupt=CorruptRecordError,
            malformed=_malformed,
            problem_of=problem_of,
        )
        write = self._writer
        with write.function(f"def walk({parameters}):"):
            self._lines(before)
            write.line("position, size = 0, len(data)")
            with write.block("try:"), write.block("for _ in range(count):"):
                if re.search(r"\bstart\b", each):
                    write.line("start = position")
                self._record()
                self._lines(each)
            with write.block("except (IndexError, ValueError) as error:"):
                write.line("raise Corrupt(problem_of(data, count)) from error")
            with write.block("if position != size:"):
                write.line("raise Corrupt(problem_of(data, count))")
            if result:
                write.line(f"return {result}")

    def compiled(self, name: str) -> Callable[..., Any]:
        return self._writer.compiled("walk", f"records: {name}")

    def _lines(self, text: str) -> None:
        for line in dedent(text).strip("\n").splitlines():
            self._writer.line(line)

    def _at(self, more: int = 0) -> str:
        distance = self._ahead + more
        return f"position {'+-'[distance < 0]} {abs(distance)}" if distance else "position"

    def _record(self) -> None:
        write = self._writer
        left = list(RECORD)
        while any(field.name in self._wanted for field in left):
            self._field(left.pop(0))
        # Each field that is left takes a byte at least.
        if left:
            with write.block(f"if {self._at(len(left))} > end or length & 1 or end > size:"):
                write.line("malformed()")
            write.line("position = end")
        else:
            if self._ahead:
                write.line(f"position += {self._ahead}")
            with write.block("if position != end or length & 1:"):
                write.line("malformed()")
        self._ahead = 0

    def _field(self, field: RecordField) -> None:
        want = self._wanted.get(field.name)
        match field.kind:
            case FieldKind.BYTE:
                self._ahead += 1
            case FieldKind.LENGTH:
                self._number(field.name, field.usual_bytes)
                self._writer.line(f"end = {self._at()} + ({field.name} >> 1)")
            case FieldKind.NUMBER:
                if want is None:
                    self._step_over(field)
                else:
                    self._number(field.name, field.usual_bytes, signed=want is Want.SIGNED)
            case FieldKind.BYTES:
                self._bytes(field, want)
            case FieldKind.HEADERS:
                with self._writer.block(f"if data[{self._at()}]:"):
                    self._writer.line("malformed()")
                self._ahead += 1

    def _number(self, name: str, usual_bytes: int, signed: bool = False) -> None:
        write = self._writer
        with write.block(f"if ({name} := data[{self._at()}]) >= 0x80:"):
            if usual_bytes > 1:
                write.line("position += 1")
                with write.block(f"if (high := data[{self._at()}]) < 0x80:"):
                    write.line(f"{name} += (high << 7) - 0x80")
                with write.block("else:"):
                    self._long_number(name, self._at(-1))
            else:
                self._long_number(name, self._at())
            if signed:
                write.line(f"{name} = ({name} >> 1) ^ -({name} & 1)")
        if signed:
            with write.block("else:"):
                write.line(f"{name} = zigzag[{name}]")
        self._ahead += 1

    def _step_over(self, field: RecordField) -> None:
        write = self._writer
        with write.block(f"if data[{self._at()}] >= 0x80:"):
            if field.usual_bytes > 1:
                write.line("position += 1")
                with write.block(f"if data[{self._at()}] >= 0x80:"):
                    self._long_number("_", self._at(-1))
            else:
                self._long_number("_", self._at())
        self._ahead += 1

    def _long_number(self, name: str, at: str) -> None:
        self._writer.line(f"{name}, position = read_uvarlong(data, {at})")
        self._writer.line(f"position -= {self._ahead + 1}")

    def _bytes(self, field: RecordField, want: Want | None) -> None:
        write, name, ahead = self._writer, field.name, self._ahead
        if want is not Want.CONTENT:
            length = name if want is Want.RAW else "size_of"
            self._number(length, field.usual_bytes)
            with write.block(f"if not {length} & 1:"):
                write.line(f"position += {length} >> 1")
        elif field.often_null:
            with write.block(f"if data[{self._at()}] == 1:"):
                write.line(f"{name} = None")
                write.line(f"position += {ahead + 1}")
            with write.block("else:"):
                self._content(field)
        else:
            self._content(field)

    def _content(self, field: RecordField) -> None:
        write, name = self._writer, field.name
        self._number("size_of", field.usual_bytes)
        with write.block("if size_of & 1:"):
            write.line(f"{name} = None")
            write.line(f"position += {self._ahead}")
        with write.block("else:"):
            write.line(f"begin = {self._at()}")
            write.line("position = begin + (size_of >> 1)")
            write.line(f"{name} = data[begin:position]")
        self._ahead = 0


_ZIGZAG: Final = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))


def _malformed() -> None:
    raise ValueError("a record whose fields do not fill it")


# ---- the description read plainly: slow, so only for what compiled loops have refused


EXPLAINED_BYTES: Final = 16 * 1024


def problem_of(data: bytes, count: int) -> str:
    """Describe what is wrong with the ``count`` records in ``data``.

    The description names the record only if ``data`` is small, since reading a large batch plainly
    would take a minute."""
    if len(data) > EXPLAINED_BYTES:
        return f"malformed record among {count} records in {len(data)} bytes"
    problem = None
    try:
        for _ in each_plainly(data, count):
            pass
    except CorruptRecordError as error:
        problem = error.message
    return problem or "malformed record"


def each_plainly(data: bytes, count: int) -> Iterator[dict[str, Any]]:
    """Yield the fields of each of the ``count`` records in ``data`` by name.

    Raises CorruptRecordError, which says where the fault is, after the records before it."""
    position = 0
    try:
        for _ in range(count):
            fields, position = read_plainly(data, position)
            yield fields
    except IndexError:
        problem = f"malformed record: the record at byte {position} is cut off"
        raise CorruptRecordError(problem) from None
    except ValueError as error:
        problem = f"malformed record: {error}, in the record at byte {position}"
        raise CorruptRecordError(problem) from None
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes after the last record of a batch")


def read_plainly(data: bytes, position: int) -> tuple[dict[str, Any], int]:
    """The fields of the record at ``position`` by name, and where it ends.

    Raises IndexError when the data ends before the record, ValueError for any other fault.
    """
    found: dict[str, Any] = {}
    end = len(data)
    for field in RECORD:
        if field.kind is FieldKind.HEADERS:
            count, position = read_varlong(data, position)
            if count < 0:
                raise ValueError(f"{count} headers")
            pairs = []
            for _ in range(count):
                name, position = _plain_bytes(data, position, end)
                content, position = _plain_bytes(data, position, end)
                if name is None:
                    raise ValueError("a header without a name")
                pairs.append((name.decode(errors="surrogateescape"), content))
            found[field.name] = pairs
        elif field.kind is FieldKind.BYTES:
            found[field.name], position = _plain_bytes(data, position, end)
        elif field.kind is FieldKind.BYTE:
            found[field.name] = data[position]
            position += 1
        else:
            found[field.name], position = read_varlong(data, position)
            if field.kind is FieldKind.LENGTH:
                end = position + found[field.name]
                if end < position or end > len(data):
                    raise ValueError(f"a record of {end - position} bytes")
    if position != end:
        raise ValueError(f"fields that end at byte {position}, not at {end}")
    return found, end


def _plain_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varlong(data, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise ValueError(f"a field of {length} bytes reaches past its record")
    return data[position : position + length], position + length
