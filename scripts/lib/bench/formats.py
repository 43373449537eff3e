"""Columns of Avro, Protobuf and JSON beside their libraries, which take one record at a time."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa

from minikafka.registry.protobuf import ProtobufSchema
from minikafka.spark.formats.columns import format_of
from minikafka.spark.formats.protobuf_format import file_of
from minikafka.spark.formats.registry_access import AVRO, JSON, PROTOBUF, RegisteredSchema
from minikafka.spark.formats.wire import split_column
from scripts.lib.bench.report import Report

RECORDS = 20_000  # as many as Spark hands to a function at once
MEASURED_S = 1.0

FIELDS = (
    "int64 id = 1; string product = 2; double amount = 3; optional string note = 4; int64 at = 5;"
)
LISTS = "string id = 1; repeated int64 days = 2; repeated string tags = 3; repeated Item items = 4;"
ITEM = "message Item { string product = 1; double amount = 2; }"


def run(report: Report) -> None:
    title = f"formats: records of five fields, batches of {RECORDS:,}, thousands a second of CPU"
    report.section(title, ours="columns", probe="library")
    plain, lists = _rows(int), [_lists(number) for number in range(RECORDS)]
    protobuf = _protobuf(2, PROTOBUF, FIELDS, plain)
    with_lists = _protobuf(4, f"{PROTOBUF} with lists", LISTS, lists)
    for kind, schema, rows, read in (_avro(), protobuf, with_lists, _json()):
        fixed = format_of(schema, None)
        column = pa.array(rows, fixed.arrow_type)
        values = fixed.encode(column)
        (group,), _ = split_column(values)
        payloads = list(group.each())
        ours = _rate(lambda: fixed.decode(group, schema))  # noqa: B023
        alone = _rate(lambda: [read(each) for each in payloads])  # noqa: B023
        report.row(f"{kind}: decoded", "k/s", ours, alone, 5 if kind == AVRO else None)
        report.row(f"{kind}: encoded", "k/s", _rate(lambda: fixed.encode(column)))  # noqa: B023


def _rows(at: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": number * 1000,
            "product": f"product-{number % 97}",
            "amount": number / 2,
            "note": None if number % 2 else f"a note about order {number}",
            "at": at(number),
        }
        for number in range(RECORDS)
    ]


def _avro() -> tuple[str, RegisteredSchema, list[Any], Callable[[bytes], object]]:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "product", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    raw = {"type": "record", "name": "Order", "fields": fields}
    parsed = fastavro.parse_schema(raw)
    schema = RegisteredSchema(1, AVRO, json.dumps(raw))
    rows = _rows(lambda number: datetime.fromtimestamp(number, UTC))
    return AVRO, schema, rows, lambda raw: fastavro.schemaless_reader(io.BytesIO(raw), parsed, None)


def _protobuf(
    number: int, kind: str, fields: str, rows: list[Any]
) -> tuple[str, RegisteredSchema, list[Any], Callable[[bytes], object]]:
    from google.protobuf.message_factory import GetMessageClass

    text = f'syntax = "proto3"; message Order {{ {fields} }} {ITEM}'
    schema = RegisteredSchema(number, PROTOBUF, ProtobufSchema(text).serialized())
    order = GetMessageClass(file_of(schema).message_types_by_name["Order"])
    return kind, schema, rows, lambda raw: order.FromString(raw[1:])


def _lists(number: int) -> dict[str, Any]:
    """A text, and lists of numbers, texts and messages with zero to four elements each."""
    product = f"product-{number % 97}"
    return {
        "id": f"order-{number}",
        "days": [number * 1000 + day for day in range(number % 5)],
        "tags": [f"tag-{tag}" for tag in range((number + 1) % 5)],
        "items": [{"product": product, "amount": n / 2} for n in range((number + 2) % 5)],
    }


def _json() -> tuple[str, RegisteredSchema, list[Any], Callable[[bytes], object]]:
    kinds = {"id": "integer", "product": "string", "amount": "number", "at": "integer"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    properties["note"] = {"type": ["null", "string"]}  # type: ignore[dict-item]
    schema = RegisteredSchema(3, JSON, json.dumps({"type": "object", "properties": properties}))
    return JSON, schema, _rows(int), json.loads


def _rate(work: Callable[[], object]) -> float:
    """Return thousands of records in a second of this process's CPU time."""
    work()
    begun, rounds = time.process_time(), 0
    while (taken := time.process_time() - begun) < MEASURED_S:
        work()
        rounds += 1
    return rounds * RECORDS / taken / 1000
