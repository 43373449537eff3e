"""The compiler of encode functions: one function without dispatch per message class and version.

An encode function appends its output to a list of parts, which the caller joins once. Consecutive
fixed-size fields, and the lengths between them, form a "run" that one ``struct`` call packs. Record
batches are appended without a copy.
"""

from __future__ import annotations

import struct
from typing import Any

from minikafka.protocol.buffer import EncodeError, append_tags, write_uvarint
from minikafka.protocol.layout import Array, Field, Layout, Struct, WireType, fields_of, layout_of
from minikafka.protocol.schema import STRING, UUID_TYPE, Encoder, Fixed, Message, Sized
from minikafka.protocol.source import SourceWriter

_ONE_BYTE = tuple(bytes((n,)) for n in range(128))


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Return the function ``encode(message, parts)``, which appends the encoded message to
    ``parts``. ``codec.encode`` documents its errors."""
    return compile_struct_encoder(cls, version, version >= cls.SPEC.first_flexible)


def compile_struct_encoder(cls: type, version: int, flexible: bool) -> Encoder:
    """Return the same function for a struct in a message of ``version``."""
    return _EncoderSource(cls, version, flexible).writer.compiled(
        "encode", f"encode {cls.__name__} v{version}"
    )


def _refuse(name: str, value: Any) -> None:
    raise EncodeError(
        f"{name} is set to {value!r:.80}, but this version of the message has no such field"
    )


class _EncoderSource:
    """The generated source of one encode function.

    ``_run`` collects pairs of a ``struct`` code and a value expression until ``_flush`` writes the
    statement that packs them.
    """

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self.writer = SourceWriter()
        self.version = version
        self.flexible = flexible
        self._run: list[tuple[str, str]] = []
        self.writer.names.update(
            uvarint=write_uvarint,
            one_byte=_ONE_BYTE,
            pack=struct.pack,
            refuse=_refuse,
            append_tags=append_tags,
        )
        w = self.writer
        with w.function("def encode(m, parts):"):
            self._struct(layout_of(cls, version, self.flexible), "m")

    # -- runs of fixed size ----------------------------------------------------------------

    def _packed(self, run: list[tuple[str, str]]) -> str:
        if all(value.isdigit() for _, value in run):
            return repr(struct.pack(">" + "".join(c for c, _ in run), *(int(v) for _, v in run)))
        pack = self.writer.struct_method("pack", "".join(code for code, _ in run))
        return f"{pack}({', '.join(value for _, value in run)})"

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self.writer.line(f"parts.append({self._packed(run)})")

    def _flush_with_uvarint(self, value: str) -> None:
        """Write the run followed by a varint. Most varints take one byte, which the generated code
        packs together with the run."""
        w, run = self.writer, self._run
        self._run = []
        with w.block(f"if {value} < 128:"):
            short = self._packed([*run, ("B", value)]) if run else f"one_byte[{value}]"
            w.line(f"parts.append({short})")
        with w.block("else:"):
            head = f"{self._packed(run)} + " if run else ""
            w.line(f"parts.append({head}uvarint({value}))")

    # -- structs ---------------------------------------------------------------------------

    def _struct(self, layout: Layout, source: str) -> None:
        w = self.writer
        for field in layout.absent:
            if not field.ignorable:
                value = f"{source}.{field.name}"
                with w.block(f"if {self._is_set(field, value)}:"):
                    w.line(f"refuse({layout.cls.__name__ + '.' + field.name!r}, {value})")
        for field in layout.plain:
            self._value(field.type, f"{source}.{field.name}", field)
        if not layout.flexible:
            self._flush()
            return
        run, self._run = self._run, []
        if layout.tagged:
            conditions = (self._is_set(f, f"{source}.{f.name}") for f in layout.tagged)
            with w.block(f"if {' or '.join(f'({c})' for c in conditions)}:"):
                if run:
                    w.line(f"parts.append({self._packed(run)})")
                w.line(f"{self._tag_writer(layout)}({source}, parts)")
            with w.block("else:"):
                w.line(f"parts.append({self._packed([*run, ('B', '0')])})")
        else:
            w.line(f"parts.append({self._packed([*run, ('B', '0')])})")

    def _tag_writer(self, layout: Layout) -> str:
        w = self.writer
        name = w.fresh("write_tags")
        with w.function(f"def {name}(o, outer):"):
            w.line("tags = []")
            for field in layout.tagged:
                with w.block(f"if {self._is_set(field, f'o.{field.name}')}:"):
                    w.line("parts = []")
                    self._value(field.type, f"o.{field.name}", field)
                    self._flush()
                    w.line(f"tags.append(({field.tag}, parts))")
            w.line("append_tags(outer, tags)")
        return name

    def _is_set(self, field: Field, value: str) -> str:
        """Return an expression that is true if the field differs from its default. A struct whose
        fields all have their defaults counts as not set, as in Kafka's generated code."""
        if isinstance(field.type, Array):
            if field.nullable is None:
                return value
            return f"{value} is not None" if field.default is None else f"{value} != []"
        if isinstance(field.type, Struct) and field.default is None:
            if field.nullable is not None:
                return f"{value} is not None"
            parts = [
                self._is_set(inner, f"{value}.{inner.name}") for inner in fields_of(field.type.cls)
            ]
            return f"{value} is not None and ({' or '.join(f'({p})' for p in parts)})"
        if isinstance(field.default, bool | int | float | str | bytes):
            return f"{value} != {field.default!r}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {self.writer.use('D', field.default)}"

    # -- values ----------------------------------------------------------------------------

    def _value(self, wire: WireType, source: str, field: Field) -> None:
        if isinstance(wire, Fixed):
            self._run.append((wire.code, f"{source}.bytes" if wire is UUID_TYPE else source))
        elif isinstance(wire, Sized):
            self._sized(wire, source, field)
        elif isinstance(wire, Array):
            self._array(wire, source, field)
        elif field.may_be_null(self.version):
            self._flush()
            # Kafka's generated code writes a byte for null, but a varint if the field is tagged.
            null = r"\xff" if field.tag is None else r"\0"
            with self.writer.block(f"if {source} is None:"):
                self.writer.line(f"parts.append(b'{null}')")
            with self.writer.block("else:"):
                self._run.append(("b", "1"))
                self._struct(layout_of(wire.cls, self.version, self.flexible), source)
                self._flush()
        else:
            self._struct(layout_of(wire.cls, self.version, self.flexible), source)

    def _length(self, length: str, code: str) -> None:
        """Write a length whose offset is already applied. A fixed-size length joins the run; a
        varint ends it."""
        if self.flexible:
            self._flush_with_uvarint(length)
        else:
            self._run.append((code, length))

    def _sized(self, wire: Sized, source: str, field: Field) -> None:
        if not field.may_be_null(self.version):
            self._present(wire, source)
            return
        before = list(self._run)
        with self.writer.block(f"if {source} is None:"):
            self._run.append(("B", "0") if self.flexible else (wire.code, "-1"))
            self._flush()
        self._run = before
        with self.writer.block("else:"):
            self._present(wire, source)

    def _present(self, wire: Sized, source: str) -> None:
        """Write a value that is not null."""
        w = self.writer
        value, length = w.fresh("s"), w.fresh("n")
        w.line(f"{value} = {source}{'.encode()' if wire is STRING else ''}")
        w.line(f"{length} = len({value}){' + 1' if self.flexible else ''}")
        self._length(length, wire.code)
        self._flush()
        w.line(f"parts.append({value})")

    def _array(self, wire: Array, source: str, field: Field) -> None:
        w = self.writer
        items, length = w.fresh("a"), w.fresh("n")
        offset = " + 1" if self.flexible else ""
        w.line(f"{items} = {source}")
        if field.may_be_null(self.version):
            null = 0 if self.flexible else -1
            w.line(f"{length} = {null} if {items} is None else len({items}){offset}")
        else:
            w.line(f"{length} = len({items}){offset}")
        self._length(length, "i")
        self._flush()
        element = wire.element
        with w.block(f"if {items}:"):
            if isinstance(element, Fixed) and element is not UUID_TYPE:
                w.line(f'parts.append(pack(f">{{len({items})}}{element.code}", *{items}))')
                return
            item = w.fresh("e")
            with w.block(f"for {item} in {items}:"):
                if field.encoded:
                    assert isinstance(element, Struct), f"{field.name}: an array of structs"
                    with w.block(f"if {item}.__class__ is not {w.use('E', element.cls)}:"):
                        w.line(f"parts.append({item}.encoded)")
                        w.line("continue")
                self._value(element, item, _element_of(field))
                self._flush()


def _element_of(field: Field) -> Field:
    """Return the field of an array's elements: they are never null, even if the array may be."""
    return Field(field.name, field.type, field.versions, None, None, False, None)
