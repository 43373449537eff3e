"""Compiles (message class, version) to a straight-line decode function.

Neighbouring fields of fixed size, the length bytes between them included, are read by one
``struct`` call. Structs are inlined; arrays become loops; only tagged fields, which are rarely
present, get separate functions.

A request may have only so many array elements (``schema``): ``left`` counts them down.
"""

from __future__ import annotations

import struct

from minikafka.protocol.buffer import DecodeError, read_uvarint, skip_tags, uuid_from_bytes
from minikafka.protocol.layout import Array, Field, Layout, Struct, WireType, layout_of, min_size
from minikafka.protocol.schema import RECORDS, STRING, UUID_TYPE, Decoder, Fixed, Message, Sized
from minikafka.protocol.source import SourceWriter


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """``decode(buf, pos) -> (message, position after it)``; see ``codec.decode`` for its errors."""
    return _DecoderSource(cls, version).writer.compiled(
        "decode", f"decode {cls.__name__} v{version}"
    )


def has_records(layout: Layout, version: int) -> bool:
    """Return whether a message has record batches. It is decoded in place then, without a copy."""
    return any(_is_records(f.type, version, layout.flexible) for f in layout.plain + layout.tagged)


def _is_records(wire: WireType, version: int, flexible: bool) -> bool:
    if isinstance(wire, Array):
        return _is_records(wire.element, version, flexible)
    if isinstance(wire, Struct):
        return has_records(layout_of(wire.cls, version, flexible), version)
    return wire is RECORDS


def _overrun(wanted: int) -> None:
    raise DecodeError(f"the data ends {wanted} bytes too early")


def _null(name: str) -> None:
    raise DecodeError(f"{name} is null but must not be")


def _too_long(name: str, length: int) -> None:
    raise DecodeError(f"{name}: {length} elements cannot be in so few bytes")


def _over_limit(name: str, limit: int) -> None:
    raise DecodeError(f"{name}: the message has more than {limit} array elements")


def _long_text(name: str, length: int) -> None:
    raise DecodeError(f"{name}: a text of {length} bytes is longer than {MAX_TEXT_BYTES}")


def _tag_mismatch(name: str) -> None:
    raise DecodeError(f"tagged field {name} is not as long as it says")


# Kafka's generated readers refuse longer texts also where an unsigned varint measures them.
MAX_TEXT_BYTES = 0x7FFF


class _DecoderSource:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.writer = SourceWriter()
        self.version = version
        self.flexible = version >= cls.SPEC.first_flexible
        self.limit = cls.SPEC.max_elements
        self._run: list[tuple[Fixed, str]] = []
        self.writer.names.update(
            new=object.__new__,
            uvarint=read_uvarint,
            uuid=uuid_from_bytes,
            unpack_from=struct.unpack_from,
            overrun=_overrun,
            null=_null,
            too_long=_too_long,
            over_limit=_over_limit,
            long_text=_long_text,
            tag_mismatch=_tag_mismatch,
            skip_tags=skip_tags,
        )
        layout = layout_of(cls, version, self.flexible)
        self.in_place = has_records(layout, version)
        w = self.writer
        with w.function("def decode(buf, pos):"):
            if self.in_place:
                with w.block("if type(buf) is not memoryview:"):
                    w.line("buf = memoryview(buf)")
            else:
                w.line("buf = bytes(buf)")
            w.line("end = len(buf)")
            w.line("left = end" if self.limit is None else f"left = {self.limit}")
            message = self._struct(layout)
            w.line(f"return {message}, pos")

    # -- runs of fixed size ----------------------------------------------------------------

    def _fixed(self, code: Fixed, target: str) -> None:
        self._run.append((code, target))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        w = self.writer
        targets = ", ".join(target for _, target in run)
        if [code.code for code, _ in run] == ["B"]:
            w.line(f"{targets} = buf[pos]")
        else:
            unpack = w.struct_method("unpack_from", "".join(code.code for code, _ in run))
            w.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buf, pos)")
        w.line(f"pos += {sum(code.size for code, _ in run)}")
        for code, target in run:
            if code is UUID_TYPE:
                w.line(f"{target} = uuid({target})")

    # -- structs ---------------------------------------------------------------------------

    def _struct(self, layout: Layout) -> str:
        """Writes what reads one struct; the name of the local that holds it."""
        w = self.writer
        target = w.fresh("o")
        w.line(f"{target} = new({w.use('C', layout.cls)})")
        for field in layout.plain:
            self._value(field.type, f"{target}.{field.name}", field)
        if layout.flexible:
            tags = w.fresh("t")
            self._fixed(_UVARINT, tags)
            self._flush()
        else:
            self._flush()
        for field in layout.tagged + layout.absent:
            w.line(f"{target}.{field.name} = {self._default(field)}")
        if layout.flexible:
            with w.block(f"if {tags}:"):
                if layout.tagged:
                    reader = self._tag_reader(layout)
                    w.line(f"pos, left = {reader}(buf, pos - 1, end, {target}, left)")
                else:
                    w.line("pos, left = skip_tags(buf, pos - 1, left)")
        return target

    def _tag_reader(self, layout: Layout) -> str:
        w = self.writer
        name = w.fresh("read_tags")
        with w.function(f"def {name}(buf, pos, end, o, left):"):
            w.line("count, pos = uvarint(buf, pos)")
            w.line("left -= count")
            with w.block("if left < 0:"):
                w.line(f"over_limit('tagged fields', {self.limit})")
            with w.block("for _ in range(count):"):
                w.line("tag, pos = uvarint(buf, pos)")
                w.line("size, pos = uvarint(buf, pos)")
                w.line("tag_end = pos + size")
                with w.block("if tag_end > end:"):
                    w.line("overrun(tag_end - end)")
                for i, field in enumerate(layout.tagged):
                    with w.block(f"{'el' if i else ''}if tag == {field.tag}:"):
                        self._value(field.type, f"o.{field.name}", field)
                        self._flush()
                        with w.block("if pos != tag_end:"):
                            w.line(f"tag_mismatch({_title(layout, field)!r})")
                w.line("pos = tag_end")
            w.line("return pos, left")
        return name

    def _default(self, field: Field) -> str:
        if isinstance(field.default, bool | int | float | str | bytes | None):
            return repr(field.default)
        if isinstance(field.default, list):
            return "[]"
        if isinstance(field.type, Struct):
            return f"{self.writer.use('C', field.type.cls)}()"
        return self.writer.use("D", field.default)

    # -- values ----------------------------------------------------------------------------

    def _value(self, wire: WireType, target: str, field: Field) -> None:
        if isinstance(wire, Fixed):
            self._fixed(wire, target)
        elif isinstance(wire, Sized):
            self._sized(wire, target, field)
        elif isinstance(wire, Array):
            self._array(wire, target, field)
        elif field.may_be_null(self.version):
            present = self.writer.fresh("n")
            self._fixed(_INT8, present)
            self._flush()
            # Kafka's generated code reads a byte, but a varint if the field is tagged.
            with self.writer.block(f"if {present} {'<' if field.tag is None else '<='} 0:"):
                self.writer.line(f"{target} = None")
            with self.writer.block("else:"):
                self._assign_struct(wire, target)
        else:
            self._flush()
            self._assign_struct(wire, target)

    def _assign_struct(self, wire: Struct, target: str) -> None:
        inner = self._struct(layout_of(wire.cls, self.version, self.flexible))
        self.writer.line(f"{target} = {inner}")

    def _length(self, code: str, size: int, text: str | None = None) -> str:
        """Read a length; in flexible versions it is one more than the value has. ``text``: the
        field's name if it is that of a string, which has a limit."""
        w = self.writer
        length = w.fresh("n")
        self._fixed(_UVARINT if self.flexible else Fixed("length", code, size), length)
        self._flush()
        if self.flexible:
            with w.block(f"if {length} > 127:"):
                w.line(f"{length}, pos = uvarint(buf, pos - 1)")
                if text is not None:
                    with w.block(f"if {length} > {MAX_TEXT_BYTES + 1}:"):
                        w.line(f"long_text({text!r}, {length} - 1)")
        return length

    def _sized(self, wire: Sized, target: str, field: Field) -> None:
        w = self.writer
        text = field.name if wire is STRING else None
        length = self._length(wire.code, wire.prefix_size, text)
        with w.block(f"if {length}{'' if self.flexible else ' >= 0'}:"):
            w.line(f"stop = pos + {length}{' - 1' if self.flexible else ''}")
            with w.block("if stop > end:"):
                w.line("overrun(stop - end)")
            copied = ".tobytes()" if self.in_place else ""
            decoded = {STRING: f"{copied}.decode()", RECORDS: ""}.get(wire, copied)
            w.line(f"{target} = buf[pos:stop]{decoded}")
            w.line("pos = stop")
        self._if_null(target, field)

    def _if_null(self, target: str, field: Field) -> None:
        with self.writer.block("else:"):
            if field.may_be_null(self.version):
                self.writer.line(f"{target} = None")
            else:
                self.writer.line(f"null({field.name!r})")

    def _array(self, wire: Array, target: str, field: Field) -> None:
        w = self.writer
        length = self._length("i", 4)
        if self.flexible:
            w.line(f"{length} -= 1")
        size = max(1, min_size(wire.element, self.version, self.flexible))
        with w.block(f"if {length} * {size} > end - pos:"):
            w.line(f"too_long({field.name!r}, {length})")
        element = wire.element
        with w.block(f"if {length} >= 0:"):
            if self.limit is not None:
                w.line(f"left -= {length}")
                with w.block("if left < 0:"):
                    w.line(f"over_limit({field.name!r}, {self.limit})")
            if isinstance(element, Fixed) and element is not UUID_TYPE:
                w.line(f'{target} = list(unpack_from(f">{{{length}}}{element.code}", buf, pos))')
                w.line(f"pos += {length} * {element.size}")
            else:
                items, item = w.fresh("a"), w.fresh("e")
                w.line(f"{target} = {items} = []")
                with w.block(f"for _ in range({length}):"):
                    if isinstance(element, Struct):
                        item = self._struct(layout_of(element.cls, self.version, self.flexible))
                    else:
                        self._value(element, item, _element_of(field))
                        self._flush()
                    w.line(f"{items}.append({item})")
        self._if_null(target, field)


_UVARINT = Fixed("uvarint", "B", 1)  # its first byte, which nearly always is all of it
_INT8 = Fixed("int8", "b", 1)


def _title(layout: Layout, field: Field) -> str:
    return f"{layout.cls.__name__}.{field.name}"


def _element_of(field: Field) -> Field:
    """An element is never null, whatever its array may be."""
    return Field(field.name, field.type, field.versions, None, None, False, None)
