"""Avro schemas: canonical texts, and compatibility beside what fastavro can read."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from minikafka.registry.avro import AvroSchema
from minikafka.registry.errors import RegistryError
from tests.support.avro_maze import avro_maze

NUMBERS = ["int", "long", "float", "double"]
OTHERS = ["string", "bytes", "boolean"]
DEFAULTS = {"int": 1, "long": 1, "float": 1.5, "double": 1.5, "string": "", "boolean": True}


def random_type(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(9 if depth else 5)
    if kind < 4:
        return dice.choice(NUMBERS + OTHERS)
    if kind == 4:
        return ["null", dice.choice(NUMBERS + OTHERS)]
    if kind == 5:
        return {"type": "array", "items": random_type(dice, depth - 1)}
    if kind == 6:
        return {"type": "map", "values": random_type(dice, depth - 1)}
    if kind == 7:
        symbols = dice.sample("ABC", dice.randrange(1, 4))
        return {"type": "enum", "name": f"E{dice.randrange(10**9)}", "symbols": symbols}
    return random_record(dice, depth - 1, f"R{dice.randrange(10**9)}")


def random_record(dice: random.Random, depth: int, name: str) -> Any:
    fields = []
    for number in range(dice.randrange(1, 4)):
        of = random_type(dice, depth)
        field = {"name": f"f{number}", "type": of}
        if isinstance(of, str) and of in DEFAULTS and dice.random() < 0.5:
            field["default"] = DEFAULTS[of]
        fields.append(field)
    return {"type": "record", "name": name, "fields": fields}


def changed(dice: random.Random, schema: Any) -> Any:
    """Return the schema with a few random changes."""
    if isinstance(schema, str):
        return schema if dice.random() < 0.7 else dice.choice(NUMBERS + OTHERS)
    if isinstance(schema, list):
        return dice.choice([schema, [*schema[:1], changed(dice, schema[1])], schema[1]])
    found = dict(schema)
    for inner in ("items", "values"):
        if inner in found:
            found[inner] = changed(dice, found[inner])
    if "symbols" in found:
        found["symbols"] = sorted({*found["symbols"], dice.choice("ABCD")})
        if dice.random() < 0.3:
            found["symbols"] = found["symbols"][1:] or ["Z"]
    if "fields" in found:
        fields = [{**f, "type": changed(dice, f["type"])} for f in found["fields"]]
        for field in fields:
            field.pop("default", None)
        if dice.random() < 0.3:
            fields.pop()
        if dice.random() < 0.3:
            fields.append({"name": "added", "type": "string", "default": ""})
        found["fields"] = fields
    return found


def reads(reader: Any, writer: Any, seed: int) -> bool:
    """Tell whether fastavro reads forty random records of the writer with the reader's schema."""
    written, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    random.seed(seed)
    for each in generate_many(written, 40):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, written, each)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, written, read)
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            return False
    return True


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize("block", range(6))
def test_a_compatible_schema_reads_all_records_in_fastavro(block: int) -> None:
    counts = {True: 0, False: 0}
    for seed in range(block * 100, block * 100 + 100):
        dice = random.Random(seed)
        writer = random_record(dice, 2, "R")
        reader = changed(dice, writer)
        reasons = AvroSchema(json.dumps(reader)).unreadable(AvroSchema(json.dumps(writer)))
        counts[not reasons] += 1
        if "bytes" not in json.dumps(writer):  # random bytes may be no text
            assert reasons or reads(reader, writer, seed), (writer, reader)
    assert min(counts.values()) > 10


def avro(schema: Any) -> AvroSchema:
    return AvroSchema(json.dumps(schema))


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ("string", "int", "cannot read int"),
        (["null", "string"], "long", "lacks the writer's type long"),
        ("string", ["null", "string"], "cannot read null"),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, "8"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "lacks the symbols B",
        ),
        (
            {"type": "record", "name": "a.R", "fields": []},
            {"type": "record", "name": "a.S", "fields": []},
            "expected the name a.S",
        ),
    ],
)
def test_reasons_of_incompatible_schemas(reader: Any, writer: Any, reason: str) -> None:
    (found,) = avro(reader).unreadable(avro(writer))
    assert reason in found


def record(name: str, *fields: Any, **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Any = "int", **more: Any) -> Any:
    return {"name": name, "type": of, **more}


def fixed(name: str, **more: Any) -> Any:
    return {"type": "fixed", "name": name, "size": 2, **more}


def enum(name: str, **more: Any) -> Any:
    return {"type": "enum", "name": name, "symbols": ["A"], **more}


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize(
    ("reader", "writer", "compatible"),
    [
        (record("a.R"), record("b.R"), True),
        (record("a.R"), record("R"), True),
        (record("a.R"), record("a.S"), False),
        (fixed("a.X"), fixed("b.X"), True),
        (fixed("a.X"), fixed("a.Y"), False),
        (enum("a.E"), enum("b.E"), True),
        (enum("a.E"), enum("a.F"), False),
        # An alias is a full name, within the namespace of its type if it has none.
        (record("a.R", aliases=["S"]), record("a.S"), True),
        (record("a.R", aliases=["S"]), record("b.S"), False),
        (record("a.R", aliases=["S"]), record("S"), False),
        (record("a.R", aliases=["b.S"]), record("b.S"), True),
        (record("S"), record("R", aliases=["S"]), False),
        (enum("a.E", aliases=["F"]), enum("a.F"), True),
        (fixed("a.X", aliases=["b.Y"]), fixed("c.Y"), False),
        (["null", record("a.R")], record("b.R"), True),
        (["null", record("a.R")], ["null", record("b.R")], True),
        ([record("a.R"), fixed("b.S")], [fixed("a.S"), record("b.R")], True),
        ([record("a.R")], [record("b.R"), record("a.S")], False),
        (record("R", field("f", record("a.I"))), record("R", field("f", record("b.I"))), True),
        (record("R", field("f", record("a.I"))), record("R", field("f", record("b.J"))), False),
        (
            record("a.R", field("next", ["null", "R"])),
            record("b.R", field("next", ["null", "R"])),
            True,
        ),
        (record("R", field("c", aliases=["b"])), record("R", field("a"), field("b")), True),
        # Java does not choose between two fields of the writer.
        (record("R", field("a", aliases=["b"])), record("R", field("a"), field("b")), False),
    ],
)
def test_names_are_compared_without_their_namespaces(
    reader: Any, writer: Any, compatible: bool
) -> None:
    assert (avro(reader).unreadable(avro(writer)) == []) is compatible


@pytest.mark.mission("REG-10")
def test_each_pair_of_types_is_compared_once() -> None:
    reader, writer = avro_maze(40, field("new")), avro_maze(40)
    assert len(avro(reader).unreadable(avro(writer))) == 2
    assert avro(writer).unreadable(avro(reader)) == []


@pytest.mark.mission("REG-3")
def test_aliases_defaults_and_recursion_are_compatible() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "next", "type": ["null", "Tree"]}, {"name": "n", "type": "int"}],
    }
    renamed = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "next", "type": ["null", "Tree"]},
            {"name": "number", "aliases": ["n"], "type": "double"},
            {"name": "new", "type": "string", "default": ""},
        ],
    }
    assert avro(renamed).unreadable(avro(tree)) == []
    assert avro(tree).unreadable(avro(renamed)) != []
    other = {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}
    assert avro(other).unreadable(avro({**other, "symbols": ["A", "B"]})) == []


@pytest.mark.mission("REG-2")
def test_canonical_text_has_the_order_of_javas_schemas() -> None:
    schema = {
        "fields": [
            {"type": {"type": "string"}, "name": "a", "aliases": ["b"], "doc": "d", "x": 1},
            {"default": 0, "name": "t", "type": {"logicalType": "date", "type": "int"}},
        ],
        "aliases": ["Old"], "namespace": "n", "extra": True, "name": "R", "type": "record",
    }  # fmt: skip
    assert avro(schema).canonical == (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"string",'
        '"doc":"d","aliases":["b"],"x":1},{"name":"t","type":{"type":"int",'
        '"logicalType":"date"},"default":0}],"extra":true,"aliases":["Old"]}'
    )
    assert (
        AvroSchema("string").canonical == AvroSchema('{"type": "string"}').canonical == '"string"'
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '{"type": "record"}', '"nope"'],
)
def test_texts_that_are_no_schemas(text: str) -> None:
    with pytest.raises(RegistryError) as failed:
        AvroSchema(text)
    assert failed.value.code == 42201


def test_comparisons_are_bounded() -> None:
    def union(space: str) -> AvroSchema:
        branches = [
            {"type": "fixed", "name": f"{space}{number}.F", "size": number + (space == "b") * 1_000}
            for number in range(1, 400)
        ]
        return AvroSchema(json.dumps(branches))

    (reason,) = union("a").unreadable(union("b"))[-1:]
    assert reason.endswith("pairs of types would have to be compared")


def test_types_that_are_nested_too_deeply_are_incompatible() -> None:
    def cycle(length: int) -> AvroSchema:
        """Records that refer to the next one, all with the same unqualified name."""
        schema: Any = "n0.X"
        for number in reversed(range(length)):
            field = {"name": "f", "type": schema}
            schema = {"type": "record", "name": "X", "namespace": f"n{number}", "fields": [field]}
        return AvroSchema(json.dumps(schema))

    reasons = cycle(37).unreadable(cycle(38))
    assert reasons == ["the types are nested too deeply to be compared"]
