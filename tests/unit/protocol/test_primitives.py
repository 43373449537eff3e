"""Every primitive type: its layout byte by byte, and round trips."""

from dataclasses import dataclass, field
from typing import Annotated
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.buffer import (
    DecodeError,
    EncodeError,
    FieldOverflow,
    read_uvarint,
    read_uvarlong,
    read_varlong,
    uuid_from_bytes,
    write_uvarint,
    write_varint,
    write_varlong,
)
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.schema import (
    Bool,
    Bytes,
    Float64,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    data,
)
from tests.support.protocol.golden import golden
from tests.support.protocol.messages import messages


@dataclass(slots=True)
class Inner:
    number: Int16 = 0


@dataclass(slots=True)
class Everything(Message):
    """Version 0 in the old encoding, version 1 in the compact one."""

    SPEC = data("0-1", flexible="1+")

    flag: Bool = False
    int8: Int8 = 0
    int16: Int16 = 0
    int32: Int32 = 0
    int64: Int64 = 0
    float64: Float64 = 0.0
    uuid: Uuid = ZERO_UUID
    string: String = ""
    nullable_string: String | None = ""
    raw: Bytes = b""
    nullable_raw: Bytes | None = b""
    numbers: list[Int32] = field(default_factory=list)
    nullable_numbers: list[Int32] | None = field(default_factory=list)
    strings: list[String] = field(default_factory=list)
    uuids: list[Uuid] = field(default_factory=list)
    flags: list[Bool] = field(default_factory=list)
    structs: list[Inner] = field(default_factory=list)
    struct: Inner = field(default_factory=Inner)
    nullable_struct: Inner | None = None
    records: Records | None = None
    tagged_number: Annotated[Int32, In("1+", tag=0)] = 7
    tagged_strings: Annotated[list[String] | None, In("1+", tag=1)] = None
    tagged_struct: Annotated[Inner | None, In("1+", tag=3)] = None
    tagged_nullable_struct: Annotated[Inner | None, In("1+", nullable="1+", tag=4)] = None
    tagged_uuid: Annotated[Uuid, In("1+", tag=5)] = ZERO_UUID


# (field, value, bytes in version 0, bytes in version 1)
SOME_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ROWS = [
    ("flag", True, "01", "01"),
    ("int8", -2, "fe", "fe"),
    ("int16", -2, "fffe", "fffe"),
    ("int32", 0x01020304, "01020304", "01020304"),
    ("int64", -1, "ffffffffffffffff", "ffffffffffffffff"),
    ("float64", 1.0, "3ff0000000000000", "3ff0000000000000"),
    ("uuid", SOME_UUID, SOME_UUID.hex, SOME_UUID.hex),
    ("string", "né", "0003 'né'", "04 'né'"),
    ("nullable_string", "ab", "0002 'ab'", "03 'ab'"),
    ("nullable_string", None, "ffff", "00"),
    ("raw", b"ab", "00000002 'ab'", "03 'ab'"),
    ("nullable_raw", b"ab", "00000002 'ab'", "03 'ab'"),
    ("nullable_raw", None, "ffffffff", "00"),
    ("numbers", [1, -1], "00000002 00000001 ffffffff", "03 00000001 ffffffff"),
    ("nullable_numbers", [1], "00000001 00000001", "02 00000001"),
    ("nullable_numbers", None, "ffffffff", "00"),
    ("strings", ["a", ""], "00000002 0001 'a' 0000", "03 02 'a' 01"),
    ("uuids", [SOME_UUID], "00000001" + SOME_UUID.hex, "02" + SOME_UUID.hex),
    ("flags", [True, False], "00000002 01 00", "03 01 00"),
    ("structs", [Inner(number=5)], "00000001 0005", "02 0005 00"),
    ("struct", Inner(number=5), "0005", "0005 00"),
    ("nullable_struct", Inner(number=5), "01 0005", "01 0005 00"),
    ("nullable_struct", None, "ff", "ff"),
    ("records", b"abc", "00000003 'abc'", "04 'abc'"),
    ("records", None, "ffffffff", "00"),
    ("string", "x" * 200, "00c8" + "78" * 200, "c901" + "78" * 200),
]
DEFAULT_BYTES = {
    "flag": ("00", "00"),
    "int8": ("00", "00"),
    "int16": ("0000", "0000"),
    "int32": ("00000000",) * 2,
    "int64": ("00" * 8,) * 2,
    "float64": ("00" * 8,) * 2,
    "uuid": ("00" * 16,) * 2,
    "string": ("0000", "01"),
    "nullable_string": ("0000", "01"),
    "raw": ("00000000", "01"),
    "nullable_raw": ("00000000", "01"),
    "numbers": ("00000000", "01"),
    "nullable_numbers": ("00000000", "01"),
    "strings": ("00000000", "01"),
    "uuids": ("00000000", "01"),
    "flags": ("00000000", "01"),
    "structs": ("00000000", "01"),
    "struct": ("0000", "0000 00"),
    "nullable_struct": ("ff", "ff"),
    "records": ("ffffffff", "00"),
}
TAG_ROWS = [
    ("tagged_number", 7, "00"),
    ("tagged_number", 8, "01 00 04 00000008"),
    ("tagged_strings", ["a"], "01 01 03 02 02 'a'"),
    ("tagged_strings", [], "01 01 01 01"),
    ("tagged_struct", Inner(number=5), "01 03 03 0005 00"),
    ("tagged_nullable_struct", Inner(number=5), "01 04 04 01 0005 00"),
    ("tagged_uuid", SOME_UUID, f"01 05 10 {SOME_UUID.hex}"),
]


@pytest.mark.mission("PRO-4")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_layout(row: tuple[str, object, str, str], version: int) -> None:
    name, value, *texts = row
    expected = golden(
        " ".join(texts[version] if n == name else t[version] for n, t in DEFAULT_BYTES.items())
        + (" 00" if version == 1 else "")
    )
    message = Everything(**{name: value})  # type: ignore[arg-type]
    assert encode(message, version) == expected
    assert decode(Everything, version, expected) == message


@pytest.mark.parametrize("row", TAG_ROWS, ids=lambda row: row[0])
def test_tagged_fields_come_last_and_only_when_set(row: tuple[str, object, str]) -> None:
    name, value, text = row
    before = golden(" ".join(t[1] for t in DEFAULT_BYTES.values()))
    message = Everything(**{name: value})  # type: ignore[arg-type]
    assert encode(message, 1) == before + golden(text)
    assert decode(Everything, 1, before + golden(text)) == message


def test_a_tagged_struct_of_defaults_is_not_sent() -> None:
    assert encode(Everything(tagged_struct=Inner()), 1) == encode(Everything(), 1)


@pytest.mark.mission("PRO-4")
@pytest.mark.parametrize("version", [0, 1])
@given(drawn=st.data())
def test_round_trip_of_all_at_once(version: int, drawn: st.DataObject) -> None:
    message = drawn.draw(messages(Everything, version))
    assert decode(Everything, version, encode(message, version)) == message


@pytest.mark.mission("PRO-4")
@pytest.mark.parametrize(
    ("value", "text"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001")]
)
def test_zigzag_layout(value: int, text: str) -> None:
    assert write_varint(value) == write_varlong(value) == bytes.fromhex(text)


@pytest.mark.mission("PRO-4")
@given(value=st.integers(-(1 << 31), (1 << 31) - 1), before=st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes) -> None:
    written = write_varint(value)
    assert len(written) <= 5
    assert read_varlong(before + written + b"\xff", len(before)) == (
        value,
        len(before) + len(written),
    )


@pytest.mark.mission("PRO-4")
@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_varlong_round_trip(value: int) -> None:
    written = write_varlong(value)
    assert len(written) <= 10
    assert read_varlong(memoryview(written), 0) == (value, len(written))


@pytest.mark.mission("PRO-4")
@given(value=st.integers(0, (1 << 32) - 1))
def test_unsigned_varint_round_trip(value: int) -> None:
    written = write_uvarint(value)
    assert read_uvarint(written, 0) == (value, len(written)) == read_uvarlong(written, 0)


def test_varints_that_are_too_long() -> None:
    for endless in (b"\x80" * 20, b"\xff" * 4 + b"\x1f"):
        with pytest.raises(DecodeError):
            read_uvarint(endless, 0)
    for endless in (b"\x80" * 20, b"\xff" * 9 + b"\x03"):
        with pytest.raises(DecodeError):
            read_uvarlong(endless, 0)
    for cut in (b"", b"\x80", b"\x80\x80"):
        with pytest.raises(IndexError):
            read_uvarint(cut, 0)


@given(raw=st.binary(min_size=16, max_size=16))
def test_uuid_is_as_if_made_by_its_constructor(raw: bytes) -> None:
    made, wanted = uuid_from_bytes(raw), UUID(bytes=raw)
    assert made == wanted
    assert hash(made) == hash(wanted)
    assert (made.bytes, str(made), made.is_safe) == (wanted.bytes, str(wanted), wanted.is_safe)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 128),
        ("int16", 1 << 15),
        ("int32", -(1 << 31) - 1),
        ("int64", 1 << 63),
        ("string", None),
        ("string", "\ud800"),
        ("raw", None),
        ("numbers", None),
        ("numbers", [1 << 31]),
        ("structs", [None]),
        ("uuid", None),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_invalid_values_raise_encode_error(name: str, value: object, version: int) -> None:
    with pytest.raises(EncodeError, match=f"Everything v{version}") as error:
        encode(Everything(**{name: value}), version)  # type: ignore[arg-type]
    assert error.type is EncodeError


def test_strings_hold_32767_bytes_in_every_version() -> None:
    longest = "x" * 32767
    assert decode(Everything, 0, encode(Everything(string=longest), 0)).string == longest
    with pytest.raises(FieldOverflow):
        encode(Everything(string=longest + "x"), 0)
    with pytest.raises(FieldOverflow):
        encode(Everything(strings=["é" * 16384]), 0)
    assert decode(Everything, 1, encode(Everything(string=longest), 1)).string == longest
    with pytest.raises(DecodeError, match="32768 bytes"):
        decode(Everything, 1, encode(Everything(string=longest + "x"), 1))
