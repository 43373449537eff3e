"""Protobuf messages that are decoded all at once, beside the library, which takes one at a time."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from minikafka.registry.protobuf import ProtobufSchema
from minikafka.spark.formats.columns import format_of
from minikafka.spark.formats.flat_protobuf import FlatMessage, encode_messages
from minikafka.spark.formats.protobuf_format import ProtobufFormat, _plain, file_of
from minikafka.spark.formats.registry_access import PROTOBUF, FormatError, RegisteredSchema
from minikafka.spark.formats.wire import Decoded, NotAtOnce, encoded, header, split_column

NUMBERS = (
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64",
)  # fmt: skip
Field = tuple[str, str, str]  # label, type and name
TIMESTAMP = "google.protobuf.Timestamp"
OTHERS = ("bool", "float", "double", "string", "bytes", "Kind", "Inner", TIMESTAMP)
BITS = {"int32": 31, "sint32": 31, "sfixed32": 31, "uint32": 32, "fixed32": 32}
BITS |= {"uint64": 64, "fixed64": 64}
DECLARED = """
import "google/protobuf/timestamp.proto";
enum Kind { NONE = 0; SOME = 1; OTHER = -7; }
message Inner { optional sint64 n = 3; string s = 1; repeated sint32 many = 20; }
"""


def schema_of(fields: str, syntax: str = "proto3", more: str = DECLARED) -> RegisteredSchema:
    text = f'syntax = "{syntax}";\n{more}\nmessage M {{ {fields} }}'
    return RegisteredSchema(3, PROTOBUF, ProtobufSchema(text).serialized())


def class_of(schema: RegisteredSchema, name: str = "M") -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(file_of(schema).message_types_by_name[name])


def value_of(dice: random.Random, kind: str) -> Any:
    if kind in NUMBERS:
        bits = BITS.get(kind, 63)
        low = 0 if "u" in kind or kind in ("fixed32", "fixed64") else -(2**bits)
        return dice.choice([0, 1, 127, 128, 2**bits - 1, low, dice.randrange(2**bits)])
    return {
        "Kind": dice.choice([0, 1, -7]),
        "bool": dice.random() < 0.5,
        "float": float(dice.randrange(-99, 99)),
        "double": dice.choice([dice.random(), 0.0, -0.0]),
        "string": "".join(dice.choices("aé→", k=dice.choice([0, 1, 70]))),
        "bytes": dice.randbytes(dice.choice([0, 1, 200])),
    }[kind]


def fill(dice: random.Random, message: Any, kind: str) -> None:
    """Set the fields of an ``Inner`` or a timestamp."""
    message.SetInParent()
    if kind == TIMESTAMP:
        message.seconds = dice.choice([0, -1, 1_777_640_400])
        message.nanos = dice.choice([0, 1, 999_999_999])
        return
    for name, of in (("n", "sint64"), ("s", "string")):
        if dice.random() < 0.6:
            setattr(message, name, value_of(dice, of))
    message.many.extend(value_of(dice, "sint32") for _ in range(dice.choice([0, 0, 3])))


def set_field(dice: random.Random, message: Any, label: str, kind: str, name: str) -> None:
    is_message = kind in ("Inner", TIMESTAMP)
    if label == "map":
        entries = getattr(message, name)
        for key in dice.sample(["", "a", "é" * 40, "b", "c"], dice.choice([0, 1, 4])):
            if is_message:
                fill(dice, entries[key], kind)
            else:
                entries[key] = value_of(dice, kind)
    elif label == "repeated":
        values = getattr(message, name)
        for _ in range(dice.choice([0, 1, 2, 9])):
            if is_message:
                fill(dice, values.add(), kind)
            else:
                values.append(value_of(dice, kind))
    elif is_message:
        fill(dice, getattr(message, name), kind)
    else:
        setattr(message, name, value_of(dice, kind))


def messages(dice: random.Random, made: Any, fields: list[Field], count: int) -> list[Any]:
    found = []
    for _ in range(count):
        message = made()
        for field in fields:
            if dice.random() < 0.7:
                set_field(dice, message, *field)
        found.append(message)
    return found


def decode(fixed: ProtobufFormat, schema: RegisteredSchema, raw: list[bytes]) -> Decoded:
    # M is the second message of a file that has the declarations.
    prefix = header(3) + (
        b"\2\2" if "Inner" in str(file_of(schema).message_types_by_name) else b"\0"
    )
    (group,), _ = split_column(pa.array([prefix + each for each in raw], pa.binary()))
    return fixed.decode(group, schema)


def at_once_and_one_by_one(schema: RegisteredSchema, raw: list[bytes]) -> tuple[Decoded, Decoded]:
    by_library = ProtobufFormat(schema, "M")
    by_library._flat = None
    found = decode(ProtobufFormat(schema, "M"), schema, raw)
    return found, decode(by_library, schema, raw)


def shown(values: pa.Array) -> str:
    """The rows as text, in which a NaN is as any other, and all timestamps are possible."""
    kinds = {pa.timestamp("us", "UTC"): pa.int64()}
    kinds |= {
        make(kind): make(of)
        for kind, of in kinds.items()
        for make in (pa.list_, lambda each: pa.map_(pa.string(), each))
    }
    columns = [each.cast(kinds.get(each.type, each.type)) for each in values.flatten()]
    return repr([values.is_valid().to_pylist(), *map(dicts, columns)])


def dicts(values: pa.Array) -> list[Any]:
    """Values of Python; the entries of a map have no order."""
    found = values.to_pylist(maps_as_pydicts="strict")
    return [
        {key: row[key] for key in sorted(row)} if isinstance(row, dict) else row for row in found
    ]


def random_fields(dice: random.Random) -> tuple[list[Field], list[int]]:
    """The fields, and their numbers. Those with the label ``oneof`` exclude each other."""
    kinds = dice.choices([*NUMBERS, *OTHERS], k=dice.randrange(1, 7))
    labels = dice.choices(["", "optional", "repeated", "repeated", "map", "oneof"], k=len(kinds))
    pairs = enumerate(zip(labels, kinds, strict=True))
    fields = [
        # The library takes no timestamps for maps of them.
        ("" if label == "map" and kind == TIMESTAMP else label, kind, f"f{at}")
        for at, (label, kind) in pairs
    ]
    return fields, dice.sample([*range(1, 20), 1000, 2**29 - 1], len(fields))


def declared(dice: random.Random, fields: list[Field], numbers: list[int]) -> str:
    """The fields in a .proto file, packed or not."""
    lines, alternatives = [], []
    for (label, kind, name), number in zip(fields, numbers, strict=True):
        line = f"{kind} {name} = {number}"
        if label == "oneof":
            alternatives.append(f"{line};")
        elif label == "map":
            lines.append(f"map<string, {line.replace(' ', '> ', 1)};")
        elif label == "repeated" and kind in (*NUMBERS, "bool", "float", "double", "Kind"):
            lines.append(f"{label} {line} [packed = {dice.choice(['true', 'false'])}];")
        else:
            lines.append(f"{label} {line};")
    if alternatives:
        lines.insert(0, f"oneof choice {{ {' '.join(alternatives)} }}")
    return " ".join(lines)


@pytest.mark.mission("SPF-5")
@pytest.mark.parametrize("seed", range(60))
def test_messages_are_those_of_the_library(seed: int) -> None:
    dice = random.Random(seed)
    fields, numbers = random_fields(dice)
    schema = schema_of(declared(dice, fields, numbers))
    more = "string more = 30; fixed64 x = 31;"
    newer = class_of(schema_of(declared(dice, fields, numbers) + more))
    raw = []
    for message in messages(dice, newer, fields, 60):
        if dice.random() < 0.2:
            message.more, message.x = "unknown to the plan", 7
        raw.append(message.SerializeToString())
    (group,), _ = split_column(pa.array([header(3) + b"\0" + each for each in raw], pa.binary()))
    fixed = ProtobufFormat(schema, "M")
    flat = FlatMessage(file_of(schema).message_types_by_name["M"], fixed.arrow_type)
    found = flat.decode(group, b"\0")
    assert found.type == fixed.arrow_type
    expected = [fixed._convert(fixed._class.FromString(each)) for each in raw]
    assert dicts(found) == dicts(pa.array(expected, fixed.arrow_type))


@pytest.mark.mission("SPF-8")
@pytest.mark.parametrize("seed", range(60))
def test_rows_are_encoded_as_by_the_library(seed: int) -> None:
    """Rows that messages were decoded to, in another order of columns, some of them left out."""
    dice = random.Random(seed)
    fields, numbers = random_fields(dice)
    schema = schema_of(declared(dice, fields, numbers))
    made = class_of(schema)
    fixed = ProtobufFormat(schema, "M")
    rows = [None, *(fixed._convert(each) for each in messages(dice, made, fields, 40))]
    for row in rows[-5:]:  # a null is no value
        row[dice.choice(fields)[2]] = None
    column = pa.array(rows, fixed.arrow_type)
    names = dice.sample([name for *_, name in fields], dice.randrange(1, len(fields) + 1))
    parts = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
    column = pa.StructArray.from_arrays(
        [parts[name] for name in names], names, mask=column.is_null()
    ).slice(dice.randrange(3))
    assert fixed._flat is not None
    found = encode_messages(column, fixed._flat, b"head")
    assert found.type == pa.binary()
    library = encoded(column, lambda row: b"head" + made(**_plain(row)).SerializeToString())
    if any(label == "map" for label, *_ in fields):  # in the library's order, which is none

        def ordered(raw: bytes) -> bytes:
            message = made.FromString(raw.removeprefix(b"head"))
            found: bytes = message.SerializeToString(deterministic=True)
            return found

        found, library = (
            pa.array([v and ordered(v) for v in each.to_pylist()]) for each in (found, library)
        )
    assert found.to_pylist() == library.to_pylist()


@pytest.mark.mission("SPF-8")
@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ("repeated int32 a = 1;", {"a": [1, None]}),
        ("repeated uint32 a = 1;", {"a": [0, -1]}),
        ("repeated string a = 1;", {"a": [1]}),
        ("repeated string a = 1;", {"a": "x"}),
        ("map<string, int32> a = 1;", {"a": {"x": "y"}}),
        ("repeated Inner a = 1;", {"a": [{"other": 1}]}),
        ("int32 a = 1;", {"a": 2**31}),
        ("uint32 a = 1;", {"a": -1}),
        ("uint64 a = 1;", {"a": -1}),
        ("uint64 a = 1;", {"a": Decimal(-1)}),
        ("fixed32 a = 1;", {"a": 2**32}),
        ("int32 a = 1;", {"a": "x"}),
        ("string a = 1;", {"a": 1}),
        ("Kind a = 1;", {"a": "NO_SUCH"}),
        ("Inner a = 1;", {"a": {"other": 1}}),
        ("Inner a = 1;", {"a": {"n": "x"}}),
    ],
)
def test_a_row_that_the_library_refuses_is_an_error(fields: str, row: Any) -> None:
    is_decimal = isinstance(row["a"], Decimal)
    kind = pa.struct([("a", pa.decimal128(20, 0))]) if is_decimal else pa.array([row]).type
    with pytest.raises(FormatError, match="a row does not fit M"):
        ProtobufFormat(schema_of(fields), "M").encode(pa.array([{"a": None}, row], kind))


@pytest.mark.mission("SPF-5", "FMT-4")
@pytest.mark.parametrize("seed", range(60))
def test_damaged_messages_are_decoded_as_by_the_library(seed: int) -> None:
    """Bytes are changed, cut, repeated and joined: fields come twice, in another order, or not at
    all. What the library refuses has its reason, wherever it stands."""
    dice = random.Random(seed)
    fields, _ = random_fields(dice)
    schema = schema_of(declared(dice, fields, [*range(1, len(fields) + 1)]))
    raw = [each.SerializeToString() for each in messages(dice, class_of(schema), fields, 8)]
    for _ in range(40):
        at = dice.randrange(len(raw))
        changed = bytearray(raw[at])
        how = dice.randrange(4)
        if how == 0 and changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        elif how == 1:
            del changed[dice.randrange(len(changed) + 1) :]
        elif how == 2:
            changed += dice.choice(raw)
        else:
            changed += dice.randbytes(dice.randrange(6))
        damaged = list(raw)
        damaged[at] = bytes(changed)
        found, expected = at_once_and_one_by_one(schema, damaged)
        assert found.reasons == expected.reasons
        assert shown(found.values) == shown(expected.values)


@pytest.mark.mission("SPF-5", "SPF-8")
@pytest.mark.parametrize(
    "field", ["required int32 a = 1;", "optional group A = 1 { optional int32 b = 2; }"]
)
def test_required_fields_and_groups_are_left_to_the_library(field: str) -> None:
    schema = schema_of(field, "proto2", more="")
    kind = format_of(schema, None).arrow_type
    with pytest.raises(NotAtOnce):
        FlatMessage(file_of(schema).message_types_by_name["M"], kind)


@pytest.mark.mission("SPF-5")
@pytest.mark.parametrize(
    "entries",
    [b"\x0a\x04\x0a\x00\x10\x01" * 2, b"\x0a\x02\x10\x01", b"\x0a\x02\x0a\x00", b"\x0a\x00"],
)
def test_odd_entries_of_a_map_are_those_of_the_library(entries: bytes) -> None:
    """A key that comes twice, and entries without a key or a value."""
    schema = schema_of("map<string, int32> a = 1;", more="")
    found, expected = at_once_and_one_by_one(schema, [b"", entries])
    assert found.values.equals(expected.values)
    assert len(found.values.to_pylist()[1]["a"]) == 1


@pytest.mark.mission("SPF-5")
@pytest.mark.parametrize("rows", [3, 300])
def test_long_lists_are_those_of_the_library(rows: int) -> None:
    """Of a few messages, which are left to it, and of many."""
    schema = schema_of("repeated string a = 1; repeated sint64 b = 2;", more="")
    made, dice = class_of(schema), random.Random(1)
    raw = []
    for _ in range(rows):
        texts = [str(dice.randrange(999)) for _ in range(dice.randrange(250, 500))]
        numbers = [dice.randrange(-(2**63), 2**63) for _ in range(len(texts))]
        raw.append(made(a=texts, b=numbers).SerializeToString())
    found, expected = at_once_and_one_by_one(schema, raw)
    assert found.values.equals(expected.values)


@pytest.mark.mission("SPF-8")
def test_a_row_with_two_alternatives_is_encoded_as_by_the_library() -> None:
    schema = schema_of("oneof o { int32 a = 1; string b = 2; }", more="")
    rows: list[Any] = [{"a": 1, "b": None}, {"a": 0, "b": ""}, {"a": None, "b": None}]
    fixed = ProtobufFormat(schema, "M")
    found = fixed.encode(pa.array(rows, fixed.arrow_type))
    made = [class_of(schema)(**row).SerializeToString() for row in rows]
    assert found.to_pylist() == [header(3) + b"\0" + each for each in made]


@pytest.mark.mission("SPF-5")
def test_optional_fields_of_proto2_are_null_without_a_value() -> None:
    schema = schema_of("optional int32 a = 1 [default = 5]; optional string s = 2;", "proto2", "")
    raw = [class_of(schema)(**row).SerializeToString() for row in ({"a": 1}, {"s": "x"}, {})]
    found, expected = at_once_and_one_by_one(schema, raw)
    assert found.values.to_pylist() == expected.values.to_pylist()
    assert found.values.to_pylist()[2] == {"a": None, "s": None}


@pytest.mark.mission("SPF-5", "SPF-8")
def test_maps_of_timestamps_are_encoded_and_decoded() -> None:
    schema = schema_of(f"map<int32, {TIMESTAMP}> a = 1;")
    fixed = ProtobufFormat(schema, "M")
    column = pa.array([{"a": [(1, 1_000_001), (-2, 0)]}, {"a": []}], fixed.arrow_type)
    raw = [each.removeprefix(header(3) + b"\2\2") for each in fixed.encode(column).to_pylist()]
    made = class_of(schema).FromString(raw[0])
    assert (made.a[1].seconds, made.a[1].nanos, len(made.a), raw[1]) == (1, 1000, 2, b"")
    assert decode(fixed, schema, raw).values.equals(column)


@pytest.mark.mission("SPF-8")
def test_columns_without_a_value_are_encoded() -> None:
    schema = schema_of("Inner a = 1; int32 b = 2;")
    fixed = ProtobufFormat(schema, "M")
    for rows in ([], [None, None], [{"a": None, "b": None}], [{"a": {"n": None}, "b": 0}]):
        found = fixed.encode(pa.array(rows, fixed.arrow_type))
        assert found.type == pa.binary()
        made = [None if row is None else class_of(schema)(**_plain(row)) for row in rows]
        start = header(3) + b"\2\2"
        assert found.to_pylist() == [m and start + m.SerializeToString() for m in made]
