"""Bytes of keys and values as people read them: texts, numbers, UUIDs, hex. Pure.

What needs more than the bytes, schemas and the records of internal topics, is in ``decoder``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from minikafka.kernel.short_float import short_float
from minikafka.page.dashboard.records.expression import ABSENT, Json
from minikafka.page.dashboard.records.packed import cbor, message_pack

AUTO, TEXT, JSON, HEX, SCHEMA, INTERNAL = "auto", "text", "json", "hex", "schema", "internal"
NULL: Final = "null"
DECODINGS: Final[Mapping[str, str]] = {
    AUTO: "Automatic",
    TEXT: "Text (UTF-8)",
    JSON: "JSON",
    HEX: "Hex with ASCII",
    "int32": "32-bit integer",
    "int32-le": "32-bit integer, little endian",
    "int64": "64-bit integer",
    "int64-le": "64-bit integer, little endian",
    "float": "32-bit float",
    "float-le": "32-bit float, little endian",
    "double": "64-bit float",
    "double-le": "64-bit float, little endian",
    "uuid": "UUID",
    "msgpack": "MessagePack",
    "cbor": "CBOR",
    SCHEMA: "Schema registry",
    INTERNAL: "Internal topic",
}
MOST_DECODED: Final = 512 * 1024  # bytes that are decoded whole
MOST_DUMPED: Final = 1_024  # bytes of a hex dump in a list
MOST_DUMPED_WHOLE: Final = 256 * 1024
_LONGEST_CHARACTER: Final = 4
_CONTROL: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NUMBERS: Final[Mapping[str, Struct]] = {
    "int32": Struct(">i"),
    "int32-le": Struct("<i"),
    "int64": Struct(">q"),
    "int64-le": Struct("<q"),
    "float": Struct(">f"),
    "float-le": Struct("<f"),
    "double": Struct(">d"),
    "double-le": Struct("<d"),
}
_GUESSES: Final[Mapping[int, str]] = {4: "int32", 8: "int64", 16: "uuid"}  # by the size


class DecodedPart(NamedTuple):
    """A key or a value as text. ``how`` is a name of ``DECODINGS``, or null.

    ``schema`` has its id, subject, version and type. ``error`` says why the bytes could not be
    decoded as wished; they are in hex then. ``hint`` is another decoding that fits bytes of this
    size, and its text.
    """

    how: str
    text: str | None
    schema: Mapping[str, Any] | None = None
    error: str | None = None
    hint: tuple[str, str] | None = None
    truncated: bool = False

    def facts(self) -> dict[str, Any]:
        hint = None if self.hint is None else {"as": self.hint[0], "text": self.hint[1]}
        return {
            "as": self.how, "text": self.text, "schema": self.schema, "error": self.error,
            "hint": hint, "truncated": self.truncated,
        }  # fmt: skip


def has_controls(text: str) -> bool:
    """Whether there are control characters beside line ends and tabs."""
    return _CONTROL.search(text) is not None


def text_of(data: bytes, most_bytes: int) -> str | None:
    """Return the first ``most_bytes`` as text, without half a character at the end; None if they
    are no UTF-8."""
    part = data[:most_bytes]
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if len(part) < len(data) and 0 < error.start > len(part) - _LONGEST_CHARACTER:
            return part[: error.start].decode()
    return None


def decode_auto(data: bytes, most_bytes: int) -> DecodedPart:
    """Decode as text if it is printable, else as hex."""
    text = text_of(data, most_bytes)
    if text is None or has_controls(text):
        return hex_dump(data, most_bytes)
    return DecodedPart(TEXT, text, truncated=len(data) > most_bytes)


def hex_dump(data: bytes, most_bytes: int, error: str | None = None) -> DecodedPart:
    """Return lines of 16 bytes: where they begin, if there are several, hex, and ASCII."""
    most = MOST_DUMPED_WHOLE if most_bytes > MOST_DECODED else MOST_DUMPED
    part, rows = data[:most], []
    for begin in range(0, len(part), 16):
        row = part[begin : begin + 16]
        place = f"{begin:06x}  " if len(part) > 16 else ""
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        width = 16 * 3 - 1 if len(part) > 16 else 0
        rows.append(f"{place}{row.hex(' '):<{width}}  |{ascii_text}|")
    hint = None
    if error is None and (guess := _GUESSES.get(len(data))) is not None:
        hint = (guess, as_text(plain_value(data, guess)))
    return DecodedPart(HEX, "\n".join(rows), None, error, hint, len(part) < len(data))


def plain_value(data: bytes, how: str) -> Json:
    """Return the value of bytes by a decoding that needs nothing else: a text, a number or JSON.
    Raises ValueError."""
    if len(data) > MOST_DECODED:
        raise ValueError(f"more than {MOST_DECODED:,} bytes are not decoded as {how}")
    if (layout := _NUMBERS.get(how)) is not None:
        if len(data) != layout.size:
            raise ValueError(f"{how} needs {layout.size} bytes, not {len(data):,}")
        (number,) = layout.unpack(data)
        return short_float(number) if how.startswith("float") else number
    return _PLAIN[how](data)


def as_text(value: Json) -> str:
    """Return a decoded value for people; a text as it is."""
    is_text = isinstance(value, str)
    text = value if is_text else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace").decode()  # JSON may have halves of surrogate pairs


def json_value(data: bytes) -> Json:
    """Return the JSON that the bytes are. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None


def json_or_absent(data: bytes) -> Json:
    """Return the JSON that the bytes are, ABSENT if they are none or too many."""
    if len(data) > MOST_DECODED:
        return ABSENT
    try:
        return json_value(data)
    except ValueError:
        return ABSENT


def _uuid(data: bytes) -> str:
    if len(data) != 16:
        raise ValueError(f"a UUID needs 16 bytes, not {len(data):,}")
    return str(UUID(bytes=data))


_PLAIN: Final[Mapping[str, Callable[[bytes], Json]]] = {
    TEXT: lambda data: data.decode(errors="replace"),
    JSON: json_value,
    "uuid": _uuid,
    "msgpack": message_pack,
    "cbor": cbor,
}
