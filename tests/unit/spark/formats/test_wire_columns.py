"""Columns in the registry's wire format, decoded and encoded without Spark."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from minikafka.registry.avro import AvroSchema
from minikafka.registry.protobuf import ProtobufSchema
from minikafka.spark.formats.columns import Decoding, Encoding
from minikafka.spark.formats.flat_avro import FlatDecoder, FlatEncoder
from minikafka.spark.formats.protobuf_format import read_indexes, written_indexes
from minikafka.spark.formats.registry_access import (
    AVRO,
    JSON,
    PROTOBUF,
    FormatError,
    RegisteredSchema,
    RegistryAccess,
)
from minikafka.spark.formats.wire import NotAtOnce, header, split_column


class Schemas:
    """The schemas that a registry would have; every look-up is counted."""

    def __init__(self) -> None:
        self.by_id: dict[int, RegisteredSchema] = {}
        self.lookups = 0

    def add(self, kind: str, text: str) -> RegisteredSchema:
        found = RegisteredSchema(len(self.by_id) + 1, kind, text)
        self.by_id[found.id] = found
        return found

    def get(self, access: RegistryAccess, schema_id: int) -> RegisteredSchema:
        self.lookups += 1
        if schema_id not in self.by_id:
            raise FormatError("no", 40403)
        return self.by_id[schema_id]


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> Schemas:
    found = Schemas()
    monkeypatch.setattr("minikafka.spark.formats.columns.schema_by_id", found.get)
    return found


ACCESS = RegistryAccess("http://registry:8081")


def record(*fields: tuple[str, Any], **more: Any) -> str:
    rows = [
        {"name": n, "type": t, **({"default": more[n]} if n in more else {})} for n, t in fields
    ]
    return json.dumps({"type": "record", "name": "R", "fields": rows})


def written(schema: RegisteredSchema, row: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(schema.text)), row)
    return header(schema.id) + buffer.getvalue()


def decoded(schema: RegisteredSchema, values: list[bytes | None], **more: Any) -> list[Any]:
    column = Decoding(ACCESS, "s", schema, **more).decode(pa.array(values, pa.binary()))
    assert column.type == Decoding(ACCESS, "s", schema, **more).arrow_type()
    return list(column.to_pylist())


@pytest.mark.mission("FMT-1")
def test_values_are_grouped_by_the_ids_of_their_schemas() -> None:
    values = [header(7) + b"a", None, b"", header(3), b"\1\0\0\0\7x", b"\0\0\0", header(7) + b"bc"]
    column = pa.array([b"before", *values], pa.binary()).slice(1)
    groups, headless = split_column(column)
    found = [(each.schema_id, each.rows.tolist(), list(each.each())) for each in groups]
    assert found == [(3, [3], [b""]), (7, [0, 6], [b"a", b"bc"])]
    assert headless.tolist() == [2, 4, 5]
    assert split_column(pa.nulls(3, pa.binary()))[0] == []


FLAT = ["int", "long", "float", "double", "boolean", "string", "bytes"]
MADE: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda dice: dice.choice([0, -1, 2**31 - 1, -(2**31), dice.randrange(99)]),
    "long": lambda dice: dice.choice([0, -1, 2**63 - 1, -(2**63), dice.randrange(9999)]),
    "float": lambda dice: float(dice.randrange(-99, 99)),
    "double": lambda dice: dice.random(),
    "boolean": lambda dice: dice.random() < 0.5,
    "string": lambda dice: "".join(dice.choices("aé→", k=dice.choice([0, 1, 70]))),
    "bytes": lambda dice: dice.randbytes(dice.choice([0, 1, 70])),
}


@pytest.mark.mission("FMT-2")
@pytest.mark.parametrize("seed", range(40))
def test_plain_records_are_those_of_fastavro(schemas: Schemas, seed: int) -> None:
    dice = random.Random(seed)
    kinds = [dice.choice(FLAT) for _ in range(dice.randrange(1, 6))]
    nulls = [dice.choice([None, 0, 1]) for _ in kinds]
    fields: list[tuple[str, Any]] = [
        (f"f{at}", kind if null is None else ["null", kind] if null == 0 else [kind, "null"])
        for at, (kind, null) in enumerate(zip(kinds, nulls, strict=True))
    ]
    schema = schemas.add(AVRO, record(*fields))
    rows = [
        {
            name: None if null is not None and dice.random() < 0.4 else MADE[kind](dice)
            for (name, _), kind, null in zip(fields, kinds, nulls, strict=True)
        }
        for _ in range(50)
    ]
    values: list[bytes | None] = [written(schema, row) for row in rows]
    values[7] = None
    rows_or_none: list[Any] = list(rows)
    rows_or_none[7] = None
    assert decoded(schema, values) == rows_or_none
    raw = json.loads(schema.text)
    FlatDecoder(raw, raw, Decoding(ACCESS, "s", schema).arrow_type())  # does not raise NotAtOnce
    column = pa.array(rows_or_none, Decoding(ACCESS, "s", schema).arrow_type())
    assert Encoding(schema).encode(column.slice(3)).to_pylist() == values[3:]
    # A value that is cut, or too long, is the only one that is not decoded.
    values[9] = (values[9] or b"") + b"\0"
    found = decoded(schema, values, reason="_reason")
    assert [at for at, row in enumerate(found) if row and row["_reason"]] == [9]
    assert "bytes too many" in found[9]["_reason"]
    assert found[7] is None
    found[10].pop("_reason")
    assert found[10] == rows[10]


@pytest.mark.mission("FMT-3")
def test_values_of_earlier_and_later_schemas_become_the_plans(schemas: Schemas) -> None:
    old = schemas.add(AVRO, record(("id", "int"), ("gone", "string")))
    new = schemas.add(
        AVRO,
        record(("id", "long"), ("note", ["null", "string"]), ("n", "double"), note=None, n=0.5),
    )
    later = schemas.add(
        AVRO, record(("n", "float"), ("id", "int"), ("more", {"type": "array", "items": "int"}))
    )
    values: list[bytes | None] = [
        written(old, {"id": 1, "gone": "x"}),
        written(new, {"id": 2**40, "note": "y", "n": 1.0}),
        written(later, {"id": 3, "n": 2.0, "more": [1, 2]}),
        written(old, {"id": 4, "gone": ""}),
    ]
    assert decoded(new, values) == [
        {"id": 1, "note": None, "n": 0.5},
        {"id": 2**40, "note": "y", "n": 1.0},
        {"id": 3, "note": None, "n": 2.0},
        {"id": 4, "note": None, "n": 0.5},
    ]
    assert schemas.lookups == 3  # one for each schema of the batch
    with pytest.raises(FormatError, match="2 values, the first: not Avro of schema 2"):
        decoded(old, values)


@pytest.mark.mission("FMT-2")
def test_plain_dates_and_times_are_those_of_fastavro(schemas: Schemas) -> None:
    logical = {"t": ("long", "timestamp-millis"), "u": ("long", "timestamp-micros")}
    logical |= {"l": ("long", "local-timestamp-millis"), "d": ("int", "date")}
    fields: list[tuple[str, Any]] = [
        (name, ["null", {"type": of, "logicalType": kind}]) for name, (of, kind) in logical.items()
    ]
    schema = schemas.add(AVRO, record(*fields))
    moments = [datetime.fromtimestamp(at, UTC) for at in (-0.001, 1_777_640_400.007)]
    rows = [{"t": at, "u": at, "l": at.replace(tzinfo=None), "d": at.date()} for at in moments]
    nothing: dict[str, Any] = dict.fromkeys(logical)
    values: list[bytes | None] = [written(schema, row) for row in (*rows, nothing)]
    assert decoded(schema, values) == [*rows, nothing]
    kind = Decoding(ACCESS, "s", schema).arrow_type()
    column = pa.array([*rows, nothing], kind)
    raw = json.loads(schema.text)
    assert FlatEncoder(raw, kind, schema.id).encode(column).to_pylist() == values


@pytest.mark.mission("FMT-3")
def test_flat_decoding_is_refused_where_types_differ_by_more_than_a_promotion() -> None:
    kind = pa.struct([pa.field("a", pa.int32())])
    reader = json.loads(record(("a", "int")))
    for other in ("long", ["null", "int"], {"type": "array", "items": "int"}):
        with pytest.raises(NotAtOnce):
            FlatDecoder(json.loads(record(("a", other))), reader, kind)


@pytest.mark.mission("FMT-4")
def test_failures_of_single_values_have_reasons(schemas: Schemas) -> None:
    schema = schemas.add(AVRO, record(("s", "string")))
    schemas.add(JSON, '{"type": "object"}')
    good = written(schema, {"s": "x"})
    values = [good, b"plain", header(9) + b"x", header(2) + b"{}", good[:-1], None, good]
    found = decoded(schema, values, reason="why")
    assert [row and row["s"] for row in found] == ["x", None, None, None, None, None, "x"]
    reasons = [row and row["why"] for row in found]
    assert reasons[0] is None
    assert reasons[1] == "the value does not begin with the id of a schema"
    assert reasons[2] == "schema 9 is not registered"
    assert reasons[3] == "schema 2 is of type JSON, not AVRO"
    assert str(reasons[4]).startswith("not Avro of schema 1")
    assert found[5] is None
    with pytest.raises(FormatError, match="4 values, the first: the value does not begin"):
        decoded(schema, values)
    with pytest.raises(FormatError, match="name the reason otherwise"):
        decoded(schema, values, reason="s")


NESTED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]},
            },
        },
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


@pytest.mark.mission("FMT-2", "FMT-5")
def test_nested_avro_comes_back_as_it_was_encoded(schemas: Schemas) -> None:
    schema = schemas.add(AVRO, json.dumps(NESTED))
    row = {
        "at": datetime(2026, 5, 1, 12, tzinfo=UTC) + timedelta(milliseconds=7),
        "day": date(1969, 12, 31), "price": Decimal("-12.34"), "kind": "B",
        "tags": {"a": 1}, "lines": [{"n": 1}, {"n": 2}], "id": "x",
    }  # fmt: skip
    kind = Decoding(ACCESS, "s", schema).arrow_type()
    values = Encoding(schema).encode(pa.array([row, None, {**row, "day": None}], kind))
    column = Decoding(ACCESS, "s", schema).decode(values)
    found = column.to_pylist(maps_as_pydicts="strict")
    assert found == [row, None, {**row, "day": None}]
    with pytest.raises(FormatError, match="no field other"):
        Encoding(schema).encode(pa.array([{"other": 1}]))
    with pytest.raises(FormatError, match="a row does not fit schema"):
        Encoding(schema).encode(pa.array([{"kind": "C"}]))


@pytest.mark.mission("FMT-2")
@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, b"ab", b"ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4}, b"ab", b"ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": "2"}, b"ab", b"ab"),
        (
            {"type": "fixed", "name": "X", "size": 1, "logicalType": "decimal", "precision": 3},
            b"a",
            b"a",
        ),
        ({"type": "string", "logicalType": "date"}, "a", "a"),
        ({"type": "int", "logicalType": ["date"]}, 1, 1),
        (
            {"type": "fixed", "name": "X", "size": 1, "logicalType": "decimal", "precision": 2},
            Decimal(99),
            Decimal(99),
        ),
    ],
)
def test_a_logical_type_that_does_not_fit_is_ignored(
    schemas: Schemas, schema: Any, value: Any, shown: Any
) -> None:
    """Java's reader ignores it, and so the registry takes such a schema."""
    text = record(("a", schema))
    assert not AvroSchema(text).violations
    registered = schemas.add(AVRO, text)
    kind = Decoding(ACCESS, "s", registered).arrow_type()
    values = Encoding(registered).encode(pa.array([{"a": value}], kind))
    assert decoded(registered, values.to_pylist()) == [{"a": shown}]


ORDER = """\
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Order {
  message Line { string name = 1; uint64 amount = 2; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, double> prices = 3;
  optional bool paid = 4;
  google.protobuf.Timestamp at = 5;
  enum Kind { NONE = 0; SOME = 1; }
  Kind kind = 6;
}
"""


@pytest.mark.mission("FMT-5")
def test_protobuf_comes_back_as_it_was_encoded(schemas: Schemas) -> None:
    schema = schemas.add(PROTOBUF, ProtobufSchema(ORDER).serialized())
    row = {
        "id": -5, "lines": [{"name": "x", "amount": Decimal(2**64 - 1)}],
        "prices": {"a": 0.5, "b": 1.0}, "paid": False,
        "at": datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC), "kind": "SOME",
    }  # fmt: skip
    empty = {
        "id": 0, "lines": [], "prices": {}, "paid": None, "at": None, "kind": "NONE",
    }  # fmt: skip
    kind = Decoding(ACCESS, "s", schema, "Order").arrow_type()
    values = Encoding(schema, "Order").encode(pa.array([row, empty, None], kind))
    assert values[0].as_py()[:7] == header(1) + bytes([2, 2])  # one index, the second message
    column = Decoding(ACCESS, "s", schema, "Order").decode(values)
    assert column.to_pylist(maps_as_pydicts="strict") == [row, empty, None]
    (found,) = decoded(schema, [values[0].as_py()], reason="why")
    assert found["why"].endswith("the message is Order, not Other")
    with pytest.raises(FormatError, match=r"no message Nope: Other, Order, Order\.Line"):
        decoded(schema, [], message="Nope")


@pytest.mark.mission("FMT-5")
def test_types_of_known_files_need_no_reference(schemas: Schemas) -> None:
    text = """
        syntax = "proto3";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        import "google/type/interval.proto";
        import "google/type/money.proto";
        message M {
          google.type.Money price = 1 [(confluent.field_meta).tags = "PII"];
          confluent.type.Decimal amount = 2;
          google.type.Interval open = 3;
        }"""
    schema = schemas.add(PROTOBUF, ProtobufSchema(text).serialized())
    row = {
        "price": {"currency_code": "EUR", "units": 3, "nanos": 500_000_000},
        "amount": {"value": b"\1\0", "precision": 5, "scale": 2},
        "open": {"start_time": datetime(2026, 5, 1, tzinfo=UTC), "end_time": None},
    }
    kind = Decoding(ACCESS, "s", schema).arrow_type()
    values = Encoding(schema).encode(pa.array([row], kind))
    assert decoded(schema, values.to_pylist()) == [row]


@pytest.mark.mission("FMT-3")
def test_protobuf_of_other_versions_is_parsed_by_field_numbers(schemas: Schemas) -> None:
    old = schemas.add(
        PROTOBUF,
        ProtobufSchema('syntax = "proto3"; message M { int32 a = 1; string b = 2; }').serialized(),
    )
    new = schemas.add(
        PROTOBUF,
        ProtobufSchema(
            'syntax = "proto3"; message X {} message M { int64 a = 1; bool c = 3; }'
        ).serialized(),
    )
    values = Encoding(old).encode(pa.array([{"a": 7, "b": "x"}])).to_pylist()
    assert decoded(new, values, message="M") == [{"a": 7, "c": False}]


def paths() -> Iterator[tuple[int, ...]]:
    yield from [(0,), (1,), (0, 0), (3, 70, 0), (2**20,)]


@pytest.mark.mission("FMT-1")
def test_paths_of_messages_are_counts_and_indexes() -> None:
    for path in paths():
        raw = written_indexes(path)
        assert read_indexes(raw + b"rest") == (path, len(raw))
    assert written_indexes((0,)) == b"\0"
    assert read_indexes(b"\2\0") == ((0,), 2)  # not shortened, as some clients write it
    for broken in (b"", b"\2", b"\xff" * 12, b"\1"):
        with pytest.raises((ValueError, IndexError)):
            read_indexes(broken)


@pytest.mark.mission("FMT-5")
def test_json_comes_back_as_it_was_encoded(schemas: Schemas) -> None:
    text = {
        "type": "object",
        "definitions": {"line": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "properties": {
            "id": {"type": "integer"},
            "note": {"type": ["string", "null"]},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
            "tags": {"type": "object", "additionalProperties": {"type": "number"}},
            "any": {"type": ["string", "object"]},
        },
        "required": ["id"],
    }
    schema = schemas.add(JSON, json.dumps(text))
    row = {"id": 1, "note": None, "lines": [{"n": 2}], "tags": {"a": 0.5}, "any": None}
    kind = Decoding(ACCESS, "s", schema).arrow_type()
    values = Encoding(schema).encode(pa.array([row, None], kind))
    assert json.loads(values[0].as_py()[5:]) == {"id": 1, "lines": [{"n": 2}], "tags": {"a": 0.5}}
    column = Decoding(ACCESS, "s", schema).decode(values)
    assert column.to_pylist(maps_as_pydicts="strict") == [row, None]
    with pytest.raises(FormatError, match="does not fit"):
        Encoding(schema).encode(pa.array([{"note": "x"}]))
    documents = ['{"id": 7, "any": {"x": [1]}}', '{"id": "x"}', "[", "7"]
    found = decoded(schema, [header(1) + each.encode() for each in documents], reason="why")
    assert found[0]["any"] == '{"x": [1]}'
    assert [bool(each["why"]) for each in found] == [False, True, True, True]


@pytest.mark.mission("FMT-6")
def test_secrets_are_in_no_text() -> None:
    basic = RegistryAccess("http://ann:s3cret%21@host:1/base/, https://other:2")
    assert (basic.url, basic.user, basic.password) == (
        "http://host:1/base,https://other:2", "ann", "s3cret!",
    )  # fmt: skip
    for access in (basic, RegistryAccess("http://h:1", token="s3cret")):
        assert (
            "s3cret"
            not in f"{access!r} {access} {Decoding(access, 's', RegisteredSchema(1, AVRO, ''))}"
        )
    with pytest.raises(ValueError, match="http://HOST:PORT") as failed:
        RegistryAccess("ann:s3cret@host")
    assert "s3cret" not in str(failed.value)
    with pytest.raises(FormatError) as refused:
        RegistryAccess("http://ann:s3cret@127.0.0.1:1", timeout_s=1).request("GET", "/subjects")
    assert "s3cret" not in str(refused.value)
