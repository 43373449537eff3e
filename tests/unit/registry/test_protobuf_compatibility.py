"""Protobuf schemas: text and descriptors, and what may change between versions."""

from __future__ import annotations

import pytest

from minikafka.registry.errors import RegistryError
from minikafka.registry.known_protos import GOOGLE_TYPES
from minikafka.registry.protobuf import ProtobufSchema
from minikafka.spark.formats.protobuf_format import file_of
from minikafka.spark.formats.registry_access import PROTOBUF, RegisteredSchema

ALL = """\
syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";

option java_package = "org.shop";

message Order {
  option deprecated = true;
  reserved 20, 30 to 40, 50 to max;
  reserved "old";
  int64 id = 1 [json_name = "ID"];
  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  oneof price {
    double amount = 4;
    string text = 5;
  }
  optional int32 count = 6;
  google.protobuf.Timestamp at = 7;
  Kind kind = 8;
  repeated int32 numbers = 9 [packed = false];
  message Line {
    string name = 1;
    .shop.v1.Line outer = 2;
  }
}

message Line {
}

enum Kind {
  option allow_alias = true;
  NONE = 0;
  NOTHING = 0;
  SOME = 1;
}
service Orders {
  rpc Put (Order) returns (stream Line);
}
"""
OLD = """\
syntax = "proto2";
message M {
  optional string s = 1 [default = "a\\"b\\n"];
  required int32 n = 2;
  extensions 100 to 199;
}
extend M {
  optional bytes more = 100;
}
"""


@pytest.mark.mission("REG-2")
def test_printed_texts_compile_to_the_same_descriptors() -> None:
    for text in (ALL, OLD):
        first = ProtobufSchema(text)
        again = ProtobufSchema(first.canonical)
        assert again.descriptor == first.descriptor
        assert ProtobufSchema(first.serialized()).canonical == first.canonical
    assert "    .shop.v1.Line outer = 2;\n" in ProtobufSchema(ALL).canonical
    assert "  repeated Order.Line lines = 2;\n" in ProtobufSchema(ALL).canonical


BASE = (
    'syntax = "proto3"; message M { int32 a = 1; string s = 2; '
    "oneof o { int32 x = 3; Q y = 4; } } message Q {}"
)


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize(
    ("before", "after", "compatible"),
    [
        ("int32 a = 1; ", "", True),
        ("int32 a = 1", "int64 b = 1", True),
        ("int32 a = 1", "sint32 a = 1", False),
        ("int32 a = 1", "repeated int32 a = 1", False),
        ("string s = 2", "repeated bytes s = 2", True),
        ("string s = 2", "Q s = 2", False),
        ("int32 x = 3; ", "", False),
        ("oneof o { int32 x = 3; Q y = 4; }", "", True),
        ("oneof o { int32 x = 3; Q y = 4; }", "int32 x = 3; Q y = 4;", True),
        ("string s = 2; oneof o {", "oneof o { string s = 2; ", False),
        ("Q y = 4; } } message Q {}", "R y = 4; } } message R {} message Q {}", False),
        ("message Q {}", "message Q { M m = 1; }", True),
        ("message M", "message N {} message M", True),
        ("string s = 2", "map<string, int32> s = 2", False),
        ('"proto3";', '"proto3"; package p;', False),
    ],
)
def test_changes_of_messages(before: str, after: str, compatible: bool) -> None:
    assert before in BASE
    reasons = ProtobufSchema(BASE.replace(before, after)).unreadable(ProtobufSchema(BASE))
    assert (not reasons) is compatible, reasons


@pytest.mark.mission("REG-3")
def test_a_removed_message_is_incompatible_in_one_direction() -> None:
    less = ProtobufSchema(BASE)
    more = ProtobufSchema(f"{BASE} message T {{}}")
    assert more.unreadable(less) == []
    assert less.unreadable(more) == ["/T: the message was removed"]


@pytest.mark.mission("REG-5")
def test_imports_are_other_schemas() -> None:
    item = ProtobufSchema('syntax = "proto3"; package item; message Item { int32 n = 1; }')
    text = 'syntax = "proto3"; import "shop/item.proto"; message M { item.Item of = 1; }'
    order = ProtobufSchema(text, {"shop/item.proto": item})
    assert 'import "shop/item.proto";' in order.canonical
    other = ProtobufSchema('syntax = "proto3"; package item; message Item { string n = 1; }')
    changed = ProtobufSchema(text, {"shop/item.proto": other})
    assert changed.unreadable(order) == ["/M/1: the type item.Item changed"]
    assert order.unreadable(ProtobufSchema(text, {"shop/item.proto": item})) == []


@pytest.mark.mission("REG-5")
@pytest.mark.parametrize(
    "name",
    [
        *(f"google/type/{name}.proto" for name in GOOGLE_TYPES),
        *(f"confluent/{name}.proto" for name in ("meta", "type/decimal", "type/variant")),
        *(
            f"google/protobuf/{name}.proto"
            for name in (
                "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context",
                "struct", "timestamp", "type", "wrappers",
            )
        ),
    ],
)  # fmt: skip
def test_known_files_need_no_reference(name: str) -> None:
    schema = ProtobufSchema(f'syntax = "proto3"; import "{name}"; message M {{}}')
    assert ProtobufSchema(schema.canonical).descriptor == schema.descriptor
    registered = RegisteredSchema(1, PROTOBUF, schema.serialized())
    assert [each.name for each in file_of(registered).dependencies] == [name]


SHOP = """\
syntax = "proto3";
package shop;
import "confluent/type/decimal.proto";
import "google/type/money.proto";
message M {
  google.type.Money price = 1;
  confluent.type.Decimal amount = 2;
}
"""


@pytest.mark.mission("REG-3")
def test_types_of_known_files_are_compared() -> None:
    old = ProtobufSchema(SHOP)
    assert ProtobufSchema(SHOP.replace("price", "cost")).unreadable(old) == []
    changed = ProtobufSchema(SHOP.replace("google.type.Money", "confluent.type.Decimal"))
    assert changed.unreadable(old) == [
        "/M/1: the type changed from google.type.Money to confluent.type.Decimal"
    ]
    theirs = ProtobufSchema(
        'syntax = "proto3"; package google.type; message Money { int32 units = 1; }'
    )
    assert ProtobufSchema(SHOP, {"google/type/money.proto": theirs}).unreadable(old) != []


WITH_OPTIONS = """\
syntax = "proto3";
package PACKAGE;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";

option (@confluent.file_meta) = { doc: "a \\"file\\"" };

message M {
  option (@confluent.message_meta) = { params { key: "k" value: "ä" } rules { name: "r" } };
  @confluent.type.Decimal d = 1 [deprecated = true, (@confluent.field_meta) = { tags: "PII" }];
  E e = 2;
}

enum E {
  option (@confluent.enum_meta) = { doc: "e" };
  A = 0 [(@confluent.enum_value_meta) = { doc: "v" }];
}
"""


@pytest.mark.mission("REG-2")
@pytest.mark.parametrize(("package", "root"), [("shop", ""), ("io.confluent.shop", ".")])
def test_options_of_confluent_are_printed(package: str, root: str) -> None:
    """The package io.confluent hides confluent."""
    text = WITH_OPTIONS.replace("PACKAGE", package).replace("@", root)
    schema = ProtobufSchema(text)
    assert schema.canonical == text
    assert ProtobufSchema(schema.serialized()).canonical == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; message M { int32 a = 1 }', "default.proto:1"),
        ('syntax = "proto3"; import "other.proto";', "other.proto"),
        ('syntax = "proto3"; import "google/api/http.proto";', "google/api/http.proto"),
        ('syntax = "proto3"; import "../../etc/passwd";', "passwd"),
    ],
)
def test_texts_that_do_not_compile(text: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason) as failed:
        ProtobufSchema(text)
    assert failed.value.code == 42201
    with pytest.raises(RegistryError, match="leads out"):
        ProtobufSchema(BASE, {"../up.proto": ProtobufSchema(BASE)})


def test_a_text_with_custom_options_is_stored_as_it_is() -> None:
    text = """\
syntax = "proto3";
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { string unit = 50001; }
message M { int32 a = 1 [(unit) = "kg"]; }  // kept
"""
    assert ProtobufSchema(text).canonical == text
    with pytest.raises(RegistryError, match="needs the schema as text"):
        ProtobufSchema(ProtobufSchema(text).serialized())
