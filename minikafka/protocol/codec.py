"""Bytes to messages and back, by functions compiled once per (class, version)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from minikafka.protocol.buffer import Buffer, DecodeError, EncodeError, FieldOverflow
from minikafka.protocol.decoder import MAX_TEXT_BYTES, compile_decoder
from minikafka.protocol.encoder import compile_encoder, compile_struct_encoder
from minikafka.protocol.layout import Array, Field, Struct, WireType, fields_of
from minikafka.protocol.schema import Decoder, Encoder, Message
from minikafka.protocol.source import SourceWriter

__all__ = [
    "DecodeError",
    "EncodeError",
    "FieldOverflow",
    "decode",
    "element_count",
    "encode",
    "encode_parts",
    "encode_struct",
    "error_codes",
]

M = TypeVar("M", bound=Message)
_ERROR_FIELDS = ("error_code", "partition_error_code")  # the second one in AddPartitionsToTxn


def encode(message: Message, version: int) -> bytes:
    """Encode a message, without its header.

    Raises EncodeError where ``version`` cannot carry it: a value set in a field that the version
    lacks and must not ignore, null in a field that is not nullable, an integer out of range;
    FieldOverflow for a text that is too long.
    """
    parts: list[Buffer] = []
    append_message(message, version, parts)
    return b"".join(parts)


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """Encode a message into a list of buffers. Record batches are in it as they were given."""
    parts: list[Buffer] = []
    append_message(message, version, parts)
    return parts


def encode_struct(struct: Any, message: type[Message], version: int) -> bytes:
    """Encode a struct as it stands in a message of that class and version."""
    parts: list[Buffer] = []
    kind: type = type(struct)
    _struct_encoder(kind, version, version >= message.SPEC.first_flexible)(struct, parts)
    return b"".join(parts)


@cache
def _struct_encoder(cls: type, version: int, flexible: bool) -> Encoder:
    return compile_struct_encoder(cls, version, flexible)


def append_message(message: Message, version: int, parts: list[Buffer]) -> None:
    """Append the parts that ``encode_parts`` returns to ``parts``."""
    encoder = message.SPEC.encoders.get(version) or encoder_for(type(message), version)
    try:
        encoder(message, parts)
    except EncodeError as reason:  # another name than below: mypyc gives a variable one type
        raise EncodeError(f"{type(message).__name__} v{version}: {reason}") from None
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        kind = FieldOverflow if _has_long_text(message) else EncodeError
        raise kind(f"{type(message).__name__} v{version}: {error}") from error


def element_count(message: Message) -> int:
    """Return how many elements the arrays of a message have, and the arrays in these elements:
    about how much work it is to encode the message. What is encoded already counts as one."""
    kind: type = type(message)
    return _counter_of(kind)(message)


@cache
def _counter_of(cls: type) -> Callable[[Any], int]:
    """Compile ``element_count`` for a class, since it runs for every response."""
    w = SourceWriter()
    with w.function("def count(message):"):
        w.line("count = 0")
        for array, element in _arrays_of(cls):
            with w.block(f"if message.{array.name}:"):
                w.line(f"count += len(message.{array.name})")
                for inner, _ in _arrays_of(element.cls) if isinstance(element, Struct) else ():
                    with w.block(f"for element in message.{array.name}:"):
                        if array.encoded and isinstance(element, Struct):
                            with w.block(f"if element.__class__ is not {w.use('E', element.cls)}:"):
                                w.line("continue")
                        w.line(f"count += len(element.{inner.name} or ())")
        w.line("return count")
    return w.compiled("count", f"count {cls.__name__}")


def error_codes(message: Message) -> list[int]:
    """Return the error codes of a response that are not 0: its own, and those of all elements in
    it. What is encoded already has none."""
    kind: type = type(message)
    return _error_finder_of(kind)(message)


@cache
def _error_finder_of(cls: type) -> Callable[[Any], list[int]]:
    """Compile ``error_codes`` for a class, likewise."""
    w = SourceWriter()
    with w.function("def find(message):"):
        w.line("found = []")
        _write_finder(w, cls, "message")
        w.line("return found")
    return w.compiled("find", f"find {cls.__name__}")


def _write_finder(w: SourceWriter, cls: type, name: str) -> None:
    """Write what appends the error codes in the struct of this name to ``found``."""
    for code in _error_fields(cls):
        with w.block(f"if {name}.{code}:"):
            w.line(f"found.append({name}.{code})")
    for array, element in _arrays_of(cls):
        if not (isinstance(element, Struct) and _may_have_errors(element.cls)):
            continue
        one = w.fresh("x")
        with w.block(f"for {one} in {name}.{array.name} or ():"):
            if array.encoded:
                with w.block(f"if {one}.__class__ is not {w.use('E', element.cls)}:"):
                    w.line("continue")
            _write_finder(w, element.cls, one)


def _error_fields(cls: type) -> list[str]:
    return [field.name for field in fields_of(cls) if field.name in _ERROR_FIELDS]


def _may_have_errors(cls: type) -> bool:
    """Whether a struct, or an element in it, has an error code."""
    return bool(_error_fields(cls)) or any(
        isinstance(element, Struct) and _may_have_errors(element.cls)
        for _, element in _arrays_of(cls)
    )


def _arrays_of(cls: type) -> list[tuple[Field, WireType]]:
    """Return the array fields of a class, with the types of their elements."""
    return [
        (field, field.type.element) for field in fields_of(cls) if isinstance(field.type, Array)
    ]


def _has_long_text(value: Any) -> bool:
    """Return whether a value of a message contains a string of more than 32,767 bytes."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass")) > MAX_TEXT_BYTES
    if isinstance(value, list):
        return any(map(_has_long_text, value))
    return is_dataclass(value) and any(
        _has_long_text(getattr(value, field.name)) for field in fields(value)
    )


def decode(cls: type[M], version: int, data: Buffer, position: int = 0) -> M:
    """Decode the message that starts at ``position`` of ``data``.

    Records are memoryviews into ``data``. Unknown tagged fields are skipped; bytes after the
    message are left alone, as Kafka does. Raises DecodeError for anything malformed or cut short,
    and for a version that the message does not have.
    """
    decoder = cls.SPEC.decoders.get(version) or decoder_for(cls, version)
    try:
        message: M = decoder(data, position)[0]
    except DecodeError as reason:
        raise DecodeError(f"{cls.__name__} v{version}: {reason}") from None
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from error
    return message


def decoder_for(cls: type[Message], version: int) -> Decoder:
    """The compiled ``decode(data, position) -> (message, position after it)``."""
    spec = cls.SPEC
    decoder = spec.decoders.get(version)
    if decoder is None:
        if not spec.versions.has(version):
            raise DecodeError(f"{cls.__name__} has no version {version}")
        decoder = spec.decoders[version] = compile_decoder(cls, version)
    return decoder


def encoder_for(cls: type[Message], version: int) -> Encoder:
    """The compiled ``encode(message, parts)``."""
    spec = cls.SPEC
    encoder = spec.encoders.get(version)
    if encoder is None:
        if not spec.versions.has(version):
            raise EncodeError(f"{cls.__name__} has no version {version}")
        encoder = spec.encoders[version] = compile_encoder(cls, version)
    return encoder
