"""The .proto files that a schema imports without a reference, as in Confluent's registry.

Clients register no schema for them. Those of Google come with its packages, those of Confluent are
described here.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

GOOGLE_TYPES: Final = (
    "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction",
    "interval", "latlng", "localized_text", "money", "month", "phone_number", "postal_address",
    "quaternion", "timeofday",
)  # fmt: skip

# Descriptors in the text format of Protobuf.
_CONFLUENT: Final = {
    "confluent/type/decimal.proto": """
        package: "confluent.type"
        message_type {
          name: "Decimal"
          field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
          field { name: "precision" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 }
          field { name: "scale" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
        }""",
    "confluent/type/variant.proto": """
        package: "confluent.type"
        message_type {
          name: "Variant"
          field { name: "metadata" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
          field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
        }""",
    "confluent/meta.proto": """
        package: "confluent"
        dependency: "google/protobuf/descriptor.proto"
        message_type {
          name: "Meta"
          field { name: "doc" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
          field {
            name: "params" number: 2 label: LABEL_REPEATED
            type: TYPE_MESSAGE type_name: ".confluent.Meta.ParamsEntry"
          }
          field { name: "tags" number: 3 label: LABEL_REPEATED type: TYPE_STRING }
          field {
            name: "rules" number: 4 label: LABEL_REPEATED
            type: TYPE_MESSAGE type_name: ".confluent.Rule"
          }
          nested_type {
            name: "ParamsEntry"
            field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
            field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
            options { map_entry: true }
          }
        }
        message_type {
          name: "Rule"
          field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
          field { name: "doc" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
          field { name: "expr" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
          field { name: "sql" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING }
        }"""
    + "".join(
        f"""
        extension {{
          name: "{name}" number: 1088 label: LABEL_OPTIONAL extendee: ".google.protobuf.{of}"
          type: TYPE_MESSAGE type_name: ".confluent.Meta"
        }}"""
        for name, of in (
            ("file_meta", "FileOptions"),
            ("message_meta", "MessageOptions"),
            ("field_meta", "FieldOptions"),
            ("enum_meta", "EnumOptions"),
            ("enum_value_meta", "EnumValueOptions"),
        )
    ),
}


def known_proto(name: str) -> Any:
    """Return the descriptor of the file that is imported as ``name``; None if it is not a known
    file. Raises ImportError if Google's packages lack it."""
    from google.protobuf import text_format
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in _CONFLUENT:
        file = FileDescriptorProto(name=name, syntax="proto3")
        return text_format.Merge(_CONFLUENT[name], file)
    if not name.startswith(("google/protobuf/", "google/type/")):
        return None
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def add_known_proto(pool: Any, name: str, added: set[str]) -> None:
    """Add a known file and its imports to ``pool``, and their names to ``added``. Other files, and
    those in ``added``, are skipped. Raises ImportError."""
    file = None if name in added else known_proto(name)
    if file is None:
        return
    added.add(name)
    for other in file.dependency:
        add_known_proto(pool, other, added)
    pool.Add(file)


@cache
def known_set() -> bytes:
    """Return a serialized FileDescriptorSet of the known files that protoc does not bring."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    names = [*_CONFLUENT, *(f"google/type/{name}.proto" for name in GOOGLE_TYPES)]
    serialized: bytes = FileDescriptorSet(file=map(known_proto, names)).SerializeToString()
    return serialized


@cache
def meta_pool() -> Any:
    """Return a pool that knows the options of ``confluent/meta.proto``."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    add_known_proto(pool, "confluent/meta.proto", set())
    return pool
