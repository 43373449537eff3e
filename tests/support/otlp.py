"""OTLP metrics by the protobuf library, from a description of the messages that tests write."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Of each message: the name, the number, the type, and whether it is repeated. Types in lower case
# are scalars.
MESSAGES: Final[dict[str, tuple[tuple[str, int, str, bool], ...]]] = {
    "AnyValue": (
        ("string_value", 1, "string", False),
        ("bool_value", 2, "bool", False),
        ("int_value", 3, "int64", False),
        ("double_value", 4, "double", False),
    ),
    "KeyValue": (("key", 1, "string", False), ("value", 2, "AnyValue", False)),
    "Resource": (("attributes", 1, "KeyValue", True),),
    "NumberDataPoint": (
        ("attributes", 7, "KeyValue", True),
        ("start_time_unix_nano", 2, "fixed64", False),
        ("time_unix_nano", 3, "fixed64", False),
        ("as_double", 4, "double", False),
        ("as_int", 6, "sfixed64", False),
        ("flags", 8, "uint32", False),
    ),
    "Gauge": (("data_points", 1, "NumberDataPoint", True),),
    "Sum": (
        ("data_points", 1, "NumberDataPoint", True),
        ("aggregation_temporality", 2, "int32", False),
        ("is_monotonic", 3, "bool", False),
    ),
    "Metric": (
        ("name", 1, "string", False),
        ("description", 2, "string", False),
        ("unit", 3, "string", False),
        ("gauge", 5, "Gauge", False),
        ("sum", 7, "Sum", False),
    ),
    "InstrumentationScope": (("name", 1, "string", False),),
    "ScopeMetrics": (
        ("scope", 1, "InstrumentationScope", False),
        ("metrics", 2, "Metric", True),
    ),
    "ResourceMetrics": (
        ("resource", 1, "Resource", False),
        ("scope_metrics", 2, "ScopeMetrics", True),
    ),
    "MetricsData": (("resource_metrics", 1, "ResourceMetrics", True),),
}
_ONE_OF: Final = {"AnyValue", "NumberDataPoint"}  # their scalars know that they are 0
_PACKAGE: Final = "tests.otlp"


def _metrics_data() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package=_PACKAGE, syntax="proto3")
    for name, rows in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name="any")
        for field_name, number, kind, repeated in rows:
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind.islower():
                field.type = getattr(field, f"TYPE_{kind.upper()}")
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if name in _ONE_OF and (field_name.startswith("as_") or field_name.endswith("_value")):
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.MetricsData")
    return message_factory.GetMessageClass(descriptor)


MetricsData: Final = _metrics_data()
