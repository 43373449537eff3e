"""Keys and values decoded: numbers, packed formats, schemas, and the records of internal topics."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.rest import RestError
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.decoder import Decoder, schema_id
from minikafka.page.dashboard.records.decoding import DECODINGS, DecodedPart, decode_auto, hex_dump
from minikafka.page.dashboard.records.packed import cbor, message_pack
from minikafka.page.dashboard.records.schemas import UNKNOWN_FOR_MS, RegistrySchemas
from minikafka.protocol.messages.offsets_log import OffsetCommitKey, OffsetCommitValue
from minikafka.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue
from minikafka.protocol.versioned import encode_versioned
from minikafka.registry.avro import AvroSchema
from minikafka.registry.avro_values import avro_value


def record(value: bytes | None, key: bytes | None = None, topic: str = "t") -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, 0, key, value, (), 0)


def decoded(value: bytes | None, how: str, topic: str = "t") -> DecodedPart:
    return Decoder(topic, "auto", how, None).value(record(value, topic=topic), 100)


@pytest.mark.mission("GLASS-115")
@pytest.mark.parametrize(
    ("how", "data", "text"),
    [
        ("int32", struct.pack(">i", -7), "-7"),
        ("int32-le", struct.pack("<i", -7), "-7"),
        ("int64", struct.pack(">q", 42), "42"),
        ("int64-le", struct.pack("<q", 42), "42"),
        ("float", struct.pack(">f", 0.1), "0.1"),
        ("float-le", struct.pack("<f", 3.4028235e38), "3.4028235e+38"),
        ("double", struct.pack(">d", 0.1), "0.1"),
        ("double-le", struct.pack("<d", float("inf")), "Infinity"),
        ("uuid", bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("text", b"a\xff", "a\ufffd"),
        ("json", b'{"a": "\\ud800"}', '{"a":"?"}'),
        ("hex", b"AB\0", "41 42 00  |AB.|"),
        ("msgpack", b"\x82\xa1a\x01\xa1b\x93\xc0\xc3\xff", '{"a":1,"b":[null,true,-1]}'),
        ("cbor", b"\xa2\x61a\x01\x61b\x82\x02\x03", '{"a":1,"b":[2,3]}'),
        ("auto", b"text\n", "text\n"),
        ("auto", b"", ""),
        ("auto", b"\x7f", "7f  |.|"),
    ],
)
def test_a_value_is_decoded_as_wished(how: str, data: bytes, text: str) -> None:
    found = decoded(data, how)
    assert (found.text, found.error) == (text, None)
    assert found.how == (how if how != "auto" else "hex" if data == b"\x7f" else "text")


@pytest.mark.mission("GLASS-115")
def test_what_cannot_be_decoded_is_in_hex_and_says_why() -> None:
    for how in DECODINGS:
        assert decoded(None, how) == DecodedPart("null", None)
        found = decoded(b"\xc1{", how)
        if how not in ("text", "hex", "auto"):
            assert (found.how, found.text) == ("hex", "c1 7b  |.{|")
            assert found.error
    assert decoded(b"abc", "int64").error == "int64 needs 8 bytes, not 3"
    assert decode_auto(bytes(15) + b"\x01", 100).hint == (
        "uuid", "00000000-0000-0000-0000-000000000001",
    )  # fmt: skip
    assert hex_dump(b"\x01" * 17, 100).text == (
        "000000  " + "01 " * 16 + " |" + "." * 16 + "|\n000010  " + "01" + " " * 47 + "|.|"
    )
    assert decode_auto("é".encode() * 50, 51) == DecodedPart("text", "é" * 25, truncated=True)


# RFC 8949, appendix A, but for numbers that JSON does not have.
@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("1bffffffffffffffff", 2**64 - 1), ("c249010000000000000000", 2**64), ("3903e7", -1000),
        ("f93c00", 1.0), ("fa47c35000", 100000.0), ("fb3ff199999999999a", 1.1), ("f6", None),
        ("f0", {"simple": 16}), ("f8ff", {"simple": 255}),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("4401020304", "AQIDBA=="), ("62c3bc", "ü"), ("a201020304", {"1": 2, "3": 4}),
        ("5f42010243030405ff", "AQIDBAU="), ("7f657374726561646d696e67ff", "streaming"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ],
)  # fmt: skip
def test_cbor_is_read_as_its_rfc_shows(data: str, value: object) -> None:
    assert cbor(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("cb3ff199999999999a", 1.1), ("ca3fc00000", 1.5), ("cd0100", 256), ("d1ff00", -256),
        ("cfffffffffffffffff", 2**64 - 1), ("d9026869", "hi"), ("c40201ff", "Af8="),
        ("dc00020102", [1, 2]), ("de0001a16101", {"a": 1}), ("8101c2", {"1": False}),
        ("d40105", {"extension": 1, "data": "BQ=="}),
        ("c702fe0102", {"extension": -2, "data": "AQI="}),
    ],
)  # fmt: skip
def test_message_pack_is_read(data: str, value: object) -> None:
    assert message_pack(bytes.fromhex(data)) == value


AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "n", "type": "long"}, {"name": "t", "type": ["null", "string"]},
        {"name": "d", "type": "double"}, {"name": "b", "type": "boolean"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "l", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
        {"name": "next", "type": ["null", "R"]},
    ],
}  # fmt: skip
RECORDS = st.recursive(
    st.none(),
    lambda inner: st.fixed_dictionaries(
        {
            "n": st.integers(-(2**63), 2**63 - 1), "t": st.none() | st.text(max_size=3),
            "d": st.floats(allow_nan=False), "b": st.booleans(), "e": st.sampled_from("AB"),
            "l": st.lists(st.integers(-9, 9), max_size=3),
            "m": st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
            "next": inner,
        }
    ),
    max_leaves=3,
).filter(bool)  # fmt: skip


@pytest.mark.mission("GLASS-116")
@given(RECORDS)
def test_avro_is_read_as_fastavro_writes_it(value: Any) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), value)
    assert avro_value(AvroSchema(json.dumps(AVRO)).root, out.getvalue()) == value


@pytest.mark.mission("GLASS-116")
@given(
    st.decimals(-(10**6), 10**6, places=2),
    st.datetimes(*map(datetime.datetime.fromisoformat, ("1900-01-01", "2300-01-01"))),
)
def test_logical_types_of_avro_are_texts_for_people(
    price: decimal.Decimal, at: datetime.datetime
) -> None:
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    types = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "fixed": {
            "type": "fixed", "name": "F", "size": 8,
            "logicalType": "decimal", "precision": 9, "scale": 2,
        },
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "plain": {"type": "long", "logicalType": "of-nobody"},
    }  # fmt: skip
    fields = [{"name": name, "type": of} for name, of in types.items()]
    schema = {"type": "record", "name": "R", "fields": fields}
    utc, out = at.replace(tzinfo=datetime.UTC), io.BytesIO()
    value = {"price": price, "fixed": price, "at": utc, "local": at, "day": at.date(), "plain": 7}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    assert avro_value(AvroSchema(json.dumps(schema)).root, out.getvalue()) == {
        "price": f"{price:.2f}" if price else "0.00",
        "fixed": f"{price:.2f}" if price else "0.00",
        "at": at.isoformat(timespec="microseconds") + "Z",
        "local": at.isoformat(timespec="milliseconds"),
        "day": at.date().isoformat(),
        "plain": 7,
    }


def test_a_timestamp_beyond_the_calendar_stays_a_number() -> None:
    root = AvroSchema('{"type": "long", "logicalType": "timestamp-millis"}').root
    assert avro_value(root, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01") == 2**63 - 1


NULLS = AvroSchema('{"type": "array", "items": "null"}').root


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (lambda data: avro_value(NULLS, data), b"\xfe\xff\xff\xff\xff\x0f\0"),
        (message_pack, b"\xdd\xff\xff\xff\xff" + b"\xc0" * 300_000),
        (message_pack, b"\x91" * 300),
        (cbor, b"\x9f" * 300),
        (cbor, b"\x9b\x7f" + b"\xff" * 7),
    ],
)
def test_a_few_bytes_do_not_announce_endless_work(
    read: Callable[[bytes], object], data: bytes
) -> None:
    with pytest.raises(ValueError, match=r"more than|the bytes end"):
        read(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    for how in DECODINGS:
        found = decoded(data, how)
        assert found.text is not None
        json.dumps(found.facts()).encode()
    root = AvroSchema(json.dumps(AVRO)).root
    for topic in ("__consumer_offsets", "__transaction_state", "_schemas", "__share_group_state"):
        Decoder(topic, "auto", "auto", None).value(record(data, data, topic), 100)
    try:
        avro_value(root, data)
    except ValueError:
        return
    assert len(data) >= 13  # the shortest record


@pytest.mark.mission("GLASS-117")
def test_records_of_internal_topics_are_decoded_by_name() -> None:
    key = encode_versioned(OffsetCommitKey("g", "orders", 3), 1)
    value = encode_versioned(OffsetCommitValue(offset=7), 3)
    commit = record(value, key, "__consumer_offsets")
    decoder = Decoder(commit.topic, "auto", "auto", None)
    assert decoder.key_json(commit)["data"] == {"group": "g", "topic": "orders", "partition": 3}
    assert decoder.value_json(commit)["data"]["offset"] == 7
    assert decoder.value(commit, 1_000).how == "internal"
    key = encode_versioned(TransactionLogKey("tx"), 0)
    state = record(encode_versioned(TransactionLogValue(transaction_status=1), 0), key)
    decoder = Decoder("__transaction_state", "auto", "auto", None)
    assert decoder.value_json(state)["data"]["transactionStatus"] == "Ongoing"
    assert Decoder("t", "auto", "auto", None).value(commit, 1_000).how == "hex"
    broken = record(b"\xff", b"\0\x01\xff", "__consumer_offsets")
    assert Decoder(broken.topic, "auto", "auto", None).value(broken, 100).error


class Paths:
    """A registry without a server."""

    def __init__(self, bodies: dict[str, Any]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []

    async def get(self, path: str) -> Any:
        self.asked.append(path)
        if path not in self.bodies:
            raise RestError(40403, "Schema not found")
        return self.bodies[path]


def framed(number: int, body: bytes) -> ConsumerRecord:
    return record(b"\0" + number.to_bytes(4, "big") + body, b"k")


PROTO = """\
syntax = "proto3";
package shop;
import "line.proto";
message Other {}
message Order { message Inner { int64 id = 1; Line line = 2; } }
"""


@pytest.mark.mission("GLASS-116")
def test_schemas_come_from_the_registry_once() -> None:
    reference = {"name": "line.proto", "subject": "a/line", "version": 2}
    line = 'syntax = "proto3"; package shop; message Line { string name = 1; }'
    paths = Paths(
        {
            "/schemas/ids/1": {"schema": '{"type": "array", "items": "string"}'},
            "/schemas/ids/1/versions": [
                {"subject": "other", "version": 9}, {"subject": "t-value", "version": 3},
            ],
            "/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
            "/schemas/ids/2/versions": [],
            "/schemas/ids/3": {
                "schema": PROTO, "schemaType": "PROTOBUF", "references": [reference],
            },
            "/schemas/ids/3/versions": [{"subject": "s", "version": 1}],
            "/subjects/a%2Fline/versions/2": {"schema": line, "schemaType": "PROTOBUF"},
            "/schemas/ids/4": {"schema": "no JSON"},
        }
    )  # fmt: skip
    now_ms = 0
    schemas = RegistrySchemas(paths.get, lambda: now_ms)
    decoder = Decoder("t", "text", "auto", schemas)
    avro = framed(1, b"\x04\x02a\x02b\0")
    document = framed(2, b'{"a": 1}')
    proto = framed(3, b"\x04\x02\0" + b"\x08\x2a\x12\x03\x0a\x01x")  # Order, its Inner
    unknown = framed(99, b"x")
    records = [avro, document, proto, unknown, framed(4, b"")]
    asyncio.run(decoder.prepare(records))
    found = decoder.value(avro, 100)
    assert (found.how, found.text) == ("schema", '["a","b"]')
    assert found.schema == {"id": 1, "subject": "t-value", "version": 3, "type": "AVRO"}
    assert decoder.value_json(document) == {"a": 1}
    assert decoder.value(document, 100).schema == {
        "id": 2, "subject": None, "version": None, "type": "JSON",
    }  # fmt: skip
    assert decoder.value_json(proto) == {"id": "42", "line": {"name": "x"}}
    assert decoder.value(unknown, 100).how == "hex"
    by_schema = Decoder("t", "text", "schema", schemas)
    assert by_schema.value(unknown, 100).error == "the registry has no schema 99"
    assert "cannot be read" in str(by_schema.value(framed(4, b""), 100).error)
    assert "the bytes end" in str(by_schema.value(framed(1, b"\x04"), 100).error)
    assert "no message at [7]" in str(by_schema.value(framed(3, b"\x02\x0e"), 100).error)
    asked = len(paths.asked)
    asyncio.run(decoder.prepare(records))
    assert len(paths.asked) == asked
    now_ms = UNKNOWN_FOR_MS
    asyncio.run(decoder.prepare(records))
    assert len(paths.asked) == asked + 2  # those that were not there are looked for again


def test_an_id_is_a_positive_number_after_a_zero() -> None:
    assert schema_id(b"\0\0\0\0\x07") == 7
    for data in (None, b"\0\0\0\0", b"\x01\0\0\0\x07", bytes(8), b"\0\xff\0\0\0"):
        assert schema_id(data) is None
