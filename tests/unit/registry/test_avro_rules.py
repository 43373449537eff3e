"""The rules of Avro's specification that a new schema must keep, as Java's parser has them.

The tables were compared with Avro 1.12.1 for Java (strict names, checked defaults).
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.registry.avro import AvroSchema
from minikafka.registry.errors import RegistryError
from tests.support.avro_maze import avro_maze


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(of: Any = "int", name: Any = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def values(*found: Any) -> tuple[Any, ...]:
    return found


def default(of: Any, value: Any) -> dict[str, Any]:
    return record(field(of, default=value))


ENUM: Any = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED: Any = {"type": "fixed", "name": "X", "size": 2}
INNER: Any = record(field(name="x"), field("string", "y", default=""), name="In")
INTS: Any = {"type": "array", "items": "int"}
LONGS: Any = {"type": "map", "values": "long"}
DOUBLES: Any = record(field("double", "x", default="1.5"), name="In")
DECIMAL: Any = {"type": "bytes", "logicalType": "decimal"}

ACCEPTED: list[Any] = [
    "string",
    record(),
    {"type": "error", "name": "R", "fields": []},
    *(record(name=name) for name in ("a.R", ".R", "record", "a.int", "_1")),
    *(record(namespace=space) for space in ("a.b", "", None, 7)),
    record(name="int", namespace="a"),
    record(name="a.R", namespace="b-c"),
    *(record(aliases=names) for names in values(["O"], ["a-b.c"], ["int"], ["O", "O"])),
    record(field(aliases=["a-b"])),
    record(field(), field(name="A")),
    *(record(field(order=order)) for order in ("descending", "IGNORE")),
    [],
    ["int"],
    [INTS, LONGS],
    [INNER, FIXED, {**FIXED, "name": "Y"}],
    [record(namespace="a"), record(namespace="b")],
    record(field(FIXED), field({"type": "X"}, "b")),
    {**ENUM, "symbols": []},
    *({**ENUM, "default": value} for value in values("A", 7, None)),
    *({**FIXED, "size": size} for size in (0, 2**31 - 9)),
    *(default("int", value) for value in values(2**31 - 1, -(2**31))),
    *(default("long", value) for value in values(2**63 - 1, -(2**63))),
    *(default("double", value) for value in values(1, 1.5, 10**400)),
    *(
        default("double", value)
        for value in values("NaN", "-Infinity", "0x1p3", " 1.5d ", ".5", "+1")
    ),
    default("bytes", "\u0100"),
    default(ENUM, "C"),
    default(FIXED, "a"),
    *(default(INTS, value) for value in values([1, 2], [])),
    *(default(LONGS, value) for value in values({"a": 1}, {})),
    *(default(INNER, value) for value in values({"x": 1}, {"x": 1, "y": "z"}, {"x": 1, "q": 2})),
    default(DOUBLES, {}),
    *(default(["null", "int"], value) for value in values(None, 1)),
    default(["null", INNER], {"x": 1}),
    default({"type": "array", "items": ["null", "int"]}, [None, 1]),
    record(field(["null", "R"], default=None)),
    record(field({"type": "array", "items": "R"}, default=[])),
    record(field(record(field(["null", "R"], "r", default=None), name="S"), default={})),
    # A logical type that does not fit is no logical type.
    {"type": "int", "logicalType": "uuid"},
    DECIMAL,
    {**DECIMAL, "precision": 2, "scale": 4},
    {**DECIMAL, "precision": -2},
    {**FIXED, "logicalType": "decimal", "precision": 40},
]

REFUSED: list[Any] = [
    *(record(field(name=name)) for name in ("a-b", "1a", "", "ä", "a.b", "a\n", 7)),
    *(record(name=name) for name in ("a-b", "Ä", "int", "R.", "a..R", "a-b.R", ".a.R", 7)),
    *(record(namespace=space) for space in ("a-b", "a.b-c", "a.1", "a.", ".a")),
    {**ENUM, "name": "long"},
    {**FIXED, "name": "null"},
    *(record(aliases=names) for names in values(["a-b"], [""], [7], "O", None)),
    {**ENUM, "aliases": ["a-b"]},
    {**FIXED, "aliases": ["a-b"]},
    *(record(field(aliases=names)) for names in values([7], "b")),
    record(field(), field()),
    {"type": "record", "name": "R"},
    *({"type": "record", "name": "R", "fields": value} for value in values(None, {}, 7, ["a"])),
    {"type": "record", "fields": []},
    record({"name": "a"}),
    record({"type": "int"}),
    *(record(field(order=order)) for order in ("sideways", 7, None)),
    ["int", "int"],
    ["int", {"type": "int", "logicalType": "date"}],
    ["null", ["int"]],
    ["null", {"type": ["int", "string"]}],
    [INTS, {"type": "array", "items": "string"}],
    [LONGS, {"type": "map", "values": "string"}],
    [INNER, "In"],
    [ENUM, "E"],
    {"type": "array", "items": ["int", "int"]},
    {"type": "map", "values": ["int", ["string"]]},
    record(field(["null", "null"])),
    *({"type": of} for of in ({"type": "string"}, ["null"], None, 7, "nope")),
    *(7, None, True, {}),
    *({"type": "enum", "name": "E", "symbols": value} for value in values(None, "AB")),
    *(
        {**ENUM, "symbols": value}
        for value in values(["A", "A"], ["A-B"], ["1"], [7], [""], ["A.B"])
    ),
    {**ENUM, "default": "C"},
    {"type": "fixed", "name": "X"},
    *({**FIXED, "size": size} for size in ("2", -1, 2.0, True, 2**31 - 8, 2**31)),
    *({"type": of} for of in ("array", "map", "enum", "fixed", "record")),
    *(default("int", value) for value in values("1", 1.0, True, None, 2**31, -(2**31) - 1)),
    *(default("long", value) for value in values(1.5, 2**63, -(2**63) - 1)),
    *(default("double", value) for value in values("x", "nan", "", "1_0", "\u0661", True, None)),
    *(default("string", value) for value in values(7, None)),
    default("bytes", [1]),
    *(default("boolean", value) for value in values(0, "true")),
    *(default("null", value) for value in values(0, "null")),
    default(ENUM, 7),
    default(FIXED, 7),
    *(default(INTS, value) for value in values(["1"], [2**31], {}, None)),
    *(default(LONGS, value) for value in values({"a": "1"}, {"a": 2**63}, [])),
    *(
        default(INNER, value)
        for value in values({}, {"y": "z"}, {"x": "1"}, {"x": 1, "y": None}, [])
    ),
    default(DOUBLES, {"x": "1.5"}),
    *(default(["null", "int"], value) for value in values("x", 2**31)),
    default(["double", "null"], "1.5"),
    default(["null", INNER], {}),
    default([], None),
    default({"type": "array", "items": ["null", "int"]}, [None, "1"]),
    {"type": "array", "items": default("int", "x")},
    # The fields of a record are not known yet in its own fields.
    *(record(field("R", default=value)) for value in values({}, None)),
    record(field(["R", "null"], default={})),
    record(field({"type": "array", "items": "R"}, default=[{}])),
    record(field(FIXED), field({**FIXED, "size": 3}, "b")),
    record(field(FIXED), field({**ENUM, "name": "X"}, "b")),
    record(field({**FIXED, "name": "n.X"}), field({**FIXED, "namespace": "n", "size": 3}, "b")),
    record(field(record(field("string")))),
    # Java takes these; the specification forbids them, and other readers do, too.
    record(field(FIXED), field(FIXED, "b")),
    record(field("X"), field(FIXED, "b")),
    record(field({**FIXED, "namespace": ""}), field("X", "b"), namespace="n"),
    {"type": "int", "x": float("nan")},
    {"type": "int", "x": "\ud800"},
]


def broken(schema: Any) -> list[str]:
    """Return the rules that a schema breaks, or why it is none."""
    found = parsed(json.dumps(schema))
    return [found.message] if isinstance(found, RegistryError) else list(found.violations)


def parsed(text: str) -> AvroSchema | RegistryError:
    try:
        return AvroSchema(text)
    except RegistryError as error:
        return error


@pytest.mark.mission("REG-11")
@pytest.mark.parametrize("schema", ACCEPTED, ids=json.dumps)
def test_schemas_that_keep_the_rules(schema: Any) -> None:
    assert broken(schema) == []


@pytest.mark.mission("REG-11")
@pytest.mark.parametrize("schema", REFUSED, ids=json.dumps)
def test_schemas_that_break_a_rule(schema: Any) -> None:
    assert broken(schema)


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (record(field(name="a-b")), '"a-b" is no name'),
        (record(name="int"), "int is the name of a primitive type"),
        (record(field(), field()), "R has the field a twice"),
        (["int", "int"], "a union holds int twice"),
        (["null", ["int"]], "a union holds a union"),
        ({**ENUM, "symbols": ["A", "A"]}, "E has the symbol A twice"),
        (default("int", "x"), "the default of a in R does not fit its type"),
    ],
)
def test_the_reason_names_the_rule(schema: Any, rule: str) -> None:
    (reason,) = broken(schema)
    assert rule in reason


@pytest.mark.parametrize("levels", [200, 250, 300, 400, 900, 100_000])
def test_deep_schemas_are_parsed_or_refused(levels: int) -> None:
    begun = "".join(
        f'{{"type":"record","name":"R{n}","fields":[{{"name":"a","type":' for n in range(levels)
    )
    text = begun + '"int"' + "}]}" * levels
    found = parsed(text)
    if isinstance(found, RegistryError):
        assert found.code == 42201
    else:
        assert found.unreadable(found) == []


@pytest.mark.mission("REG-10")
def test_the_check_of_defaults_has_a_bound() -> None:
    """At each level either record may fit, until the innermost field does not."""
    value: Any = "no number"
    for _ in range(40):
        value = {"a": value}
    (reason,) = broken(default(avro_maze(40, field()), value))
    assert "200,000 steps" in reason


def test_a_type_of_a_reference_is_not_defined_again() -> None:
    reference = AvroSchema(json.dumps({**FIXED, "size": 3}))
    again = AvroSchema(json.dumps(record(field(FIXED))), [reference])
    assert again.violations == ["X is defined twice"]
    assert not AvroSchema(json.dumps(record(field("X"))), [reference]).violations


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text("abä", max_size=3),
    "bytes": st.text("abÿ", max_size=3),
}


@st.composite
def types(draw: st.DrawFn, names: Any, depth: int, union: bool = True) -> tuple[Any, Any]:
    """Draw a valid schema and a default that fits it."""
    kinds = ["enum", "fixed", *PRIMITIVES, *(["array", "map", "record"] if depth else [])]
    kind = draw(st.sampled_from([*kinds, "union"] if union and depth else kinds))
    if kind in PRIMITIVES:
        return kind, draw(PRIMITIVES[kind])
    if kind == "union":
        branches = draw(st.lists(types(names, depth - 1, union=False), min_size=1, max_size=4))
        by_kind = {
            each if isinstance(each, str) else each["type"]: (each, d) for each, d in branches
        }
        return [each for each, _ in by_kind.values()], next(iter(by_kind.values()))[1]
    if kind in ("array", "map"):
        inner, value = draw(types(names, depth - 1))
        if kind == "array":
            return {"type": "array", "items": inner}, [value]
        return {"type": "map", "values": inner}, {"k": value}
    name = f"{draw(st.sampled_from(['', 'n.', 'n.m.']))}T{next(names)}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "b_1", "_"]}, "b_1"
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": 2}, "ab"
    fields: list[Any] = []
    given_values: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 3))):
        of, one = draw(types(names, depth - 1))
        if draw(st.booleans()):
            fields.append(field(of, f"f{number}", default=one))
        else:
            fields.append(field(of, f"f{number}"))
            given_values[f"f{number}"] = one
    return record(*fields, name=name), given_values


@pytest.mark.mission("REG-11")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_generated_schemas_are_accepted(data: st.DataObject) -> None:
    schema, value = data.draw(types(itertools.count(), 3))
    whole = record(field(schema, default=value), name="Whole")
    fastavro.parse_schema(whole)
    assert broken(whole) == []
    assert broken(json.loads(AvroSchema(json.dumps(whole)).canonical)) == []
