"""JSON that Arrow reads and writes for all rows at once, beside Python's json, a row at a time."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from minikafka.spark.formats import json_format
from minikafka.spark.formats.columns import format_of
from minikafka.spark.formats.registry_access import JSON, FormatError, RegisteredSchema
from minikafka.spark.formats.wire import Decoded, NotAtOnce, header, split_column

INTEGERS = [0, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
NUMBERS = [0.0, -0.5, 1.0, 1e-300, 1e300, 1e16, 123456.789, 2.5e-7, float(2**60)]
TEXTS = ["", "plain", 'a "quoted" \\ one', "line\nend\ttab\x00\x1f\x7f", "é→𝄞", "Infinity", "{}"]
# Documents in which something is odd. json takes some of them, so the rows after them count, too.
ODD = [
    b"", b"[", b"7", b"null", b"[]", b'{"i": 1}{"i": 2}', b'{"i": 1} {"i": 2}', b'{"a": [{}',
    b"{}]}", b'{"i":\n1}', b'{"i": 1}\r', b' {"i": 1}', b"\xef\xbb\xbf{}", b'{"s": "\xff"}',
    b'{"n": Inf}', b'{"n": Infinity}', b'{"n": 1e400}', b'{"n": 1152921504606846977}',
    b'{"i": 1.0}', b'{"i": 1.5}', b'{"s": "Information: Inf"}', b'{"s": ""}',
    b'{"i": 1, "i": 2}', b'{"s": 1}', b'{"s": "\\ud800"}', b'{"o": []}', b'{"l": [null]}',
    b'{"i": 99999999999999999999}', b'{"i": true}', b'{"b": 0}', b'{"x": NaN}', b"{'i': 1}",
    b'{"i": 1,}', b'{"\\u0069": 5}', b'{"x": {"i": [1, {}]}}', b'{"i": "1"}', b"{", b"}",
]  # fmt: skip


def schema_of(properties: Any, **more: Any) -> RegisteredSchema:
    text = json.dumps({"type": "object", "properties": properties, **more})
    return RegisteredSchema(3, JSON, text)


ORDERS = schema_of(
    {
        "i": {"type": "integer"},
        "n": {"type": ["number", "null"]},
        "s": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "b": {"type": "boolean"},
        "o": {"$ref": "#/definitions/o"},
        "l": {"type": "array", "items": {"$ref": "#/definitions/o"}},
        "t": {"type": "array", "items": {"type": "string"}},
    },
    definitions={
        "o": {
            "type": "object",
            "properties": {"x": {"type": "integer", "title": "X"}, "y": {"type": "string"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
    required=["i"],
)


def made(dice: random.Random, sparse: float = 0.3) -> dict[str, Any]:
    """A row that fits ORDERS."""

    def inner() -> dict[str, Any]:
        text = dice.choice(TEXTS) if dice.random() > sparse else None
        return {"x": dice.choice(INTEGERS), "y": text}

    row = {
        "i": dice.choice(INTEGERS),
        "n": dice.choice(NUMBERS),
        "s": dice.choice(TEXTS),
        "b": dice.random() < 0.5,
        "o": inner(),
        "l": [inner() for _ in range(dice.randrange(3))],
        "t": dice.choices(TEXTS, k=dice.randrange(3)),
    }
    return {k: None if k != "i" and dice.random() < sparse else v for k, v in row.items()}


def decode(schema: RegisteredSchema, documents: list[bytes]) -> Decoded:
    (group,), _ = split_column(pa.array([header(3) + each for each in documents], pa.binary()))
    return format_of(schema, None).decode(group, schema)


def not_at_once(*_: object) -> Any:
    raise NotAtOnce


def by_json(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(json_format, name, not_at_once)


def only_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", not_at_once)
    monkeypatch.setattr(json_format, "encoded", not_at_once)


@pytest.mark.mission("SPF-3")
@pytest.mark.parametrize("seed", range(30))
def test_documents_are_read_at_once_as_json_reads_them(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    rows = [made(dice) for _ in range(50)]
    documents = [
        json.dumps({**row, "unknown": [row]}, ensure_ascii=dice.random() < 0.5).encode()
        for row in rows
    ]
    format_of(ORDERS, None)
    with monkeypatch.context() as patched:
        only_by_arrow(patched)
        found = decode(ORDERS, documents)
    assert found.values.to_pylist() == rows
    assert found.reasons == {}
    assert found.values.type == format_of(ORDERS, None).arrow_type


@pytest.mark.mission("SPF-3", "FMT-4")
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_document_is_that_of_json_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, odd: bytes
) -> None:
    """Among good ones, alone, and beside each other odd one that might complete it."""
    good = b'{"i": 1, "s": "x"}'
    for documents in ([good, odd, good], [odd], *([odd, other] for other in ODD)):
        found = decode(ORDERS, documents)
        with monkeypatch.context() as patched:
            by_json(patched, "read_documents")
            expected = decode(ORDERS, documents)
        assert found.reasons == expected.reasons
        assert found.values.to_pylist() == expected.values.to_pylist()


@pytest.mark.mission("SPF-4")
@pytest.mark.parametrize("seed", range(30))
def test_rows_are_written_at_once_as_json_writes_them(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    rows: list[Any] = [made(dice, dice.choice([0, 0.5, 1])) for _ in range(50)]
    rows[7] = None
    fixed = format_of(ORDERS, None)
    column = pa.array(rows, fixed.arrow_type).slice(dice.randrange(9))
    with monkeypatch.context() as patched:
        only_by_arrow(patched)
        found = fixed.encode(column)
    by_json(monkeypatch, "write_documents")
    assert found.to_pylist() == fixed.encode(column).to_pylist()
    assert found.type == pa.binary()


@pytest.mark.mission("SPF-4")
@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"i": None}, "/"),
        ({"s": "x"}, "/"),
        ({"i": 1, "o": {"y": "x"}}, "/o"),
        ({"i": 1, "l": [{"x": 1}, {"x": None}]}, "/l/1"),
        ({"i": 1, "l": [{"x": 1, "z": 1}]}, "/l/0"),
        ({"i": 1, "t": ["a", None]}, "/t/1"),
        ({"i": 1.5}, "/i"),
        ({"i": 1, "s": 5}, "/s"),
        ({"i": True}, "/i"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error(row: dict[str, Any], where: str) -> None:
    with pytest.raises(FormatError, match=f"does not fit schema 3 at {where}$"):
        format_of(ORDERS, None).encode(pa.array([row]))


# Schemas of one property with keywords beyond its type, and values, of which some fit.
DEMANDING: list[tuple[dict[str, Any], list[Any]]] = [
    ({"type": "string", "pattern": "^[ab]+$"}, ["a", "bab", "c", "", "ab\n", "a\nb"]),
    ({"type": "string", "pattern": r"\d"}, ["1", "\u0663", "x"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["é→", "𝄞𝄞𝄞", "a", "abcd", ""]),
    ({"type": "string", "maxLength": 2, "pattern": "a"}, ["a", "ba", "bbb", "aaa"]),
    ({"type": ["string", "null"], "enum": ["x", "y", None]}, ["x", "y", "z"]),
    ({"type": "string", "const": "x"}, ["x", "xx"]),
    ({"type": "integer", "minimum": 1, "maximum": 9}, [1, 9, 0, 10]),
    ({"type": "integer", "minimum": 2**53 + 1}, [2**53 + 1, 2**53, 2**63 - 1]),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5}, [0.0, 0.1, 1.4, 1.5]),
    ({"type": "integer", "multipleOf": 3}, [0, -3, 9, 10]),
    ({"type": "number", "multipleOf": 0.5}, [0.5, -2.0, 0.3]),
    ({"type": "integer", "enum": [1, 2.0, True]}, [1, 2, 3]),
    ({"type": "boolean", "const": True}, [True, False]),
    ({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
     [["a"], ["a", "b"], [], ["a", "b", "c"]]),
    ({"type": "array", "items": {"type": "integer", "maximum": 5}}, [[], [5, 1], [6]]),
]  # fmt: skip
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


@pytest.mark.mission("SPF-9")
@pytest.mark.parametrize(("demand", "values"), DEMANDING)
def test_keywords_are_checked_at_once_as_the_validator_does(
    monkeypatch: pytest.MonkeyPatch, demand: dict[str, Any], values: list[Any]
) -> None:
    fixed = format_of(schema_of({"v": demand}), None)
    texts, refused = [], []
    for value in values:
        column = pa.array([{"v": value}], fixed.arrow_type)
        with monkeypatch.context() as patched:
            by_json(patched, "write_documents")
            try:
                texts.append((value, *fixed.encode(column).to_pylist()))
            except FormatError:
                refused.append(value)
    assert texts
    assert refused
    good = pa.array([{"v": value} for value, _ in texts] + [None, {"v": None}], fixed.arrow_type)
    with monkeypatch.context() as patched:
        only_by_arrow(patched)
        assert fixed.encode(good).to_pylist()[:-2] == [text for _, text in texts]
    for value in refused:
        rows = [{"v": each} for each, _ in texts] + [{"v": value}]
        with pytest.raises(FormatError, match="does not fit schema 3 at /v"):
            fixed.encode(pa.array(rows, fixed.arrow_type))


@pytest.mark.mission("SPF-9")
def test_keywords_have_the_meaning_of_their_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    demand = {"type": "number", "minimum": 1, "exclusiveMinimum": True}
    fixed = format_of(schema_of({"v": demand}, **DRAFT_4), None)
    with monkeypatch.context() as patched:
        only_by_arrow(patched)
        fixed.encode(pa.array([{"v": 1.5}]))
    with pytest.raises(FormatError, match="at /v"):
        fixed.encode(pa.array([{"v": 1.0}]))


@pytest.mark.mission("SPF-4")
@pytest.mark.parametrize(
    ("of_s", "text"),
    [
        ({"type": "string", "not": {"pattern": "^a"}}, "a"),
        ({"enum": ["b"]}, "a"),
        ({"type": ["integer", "object"]}, "a"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "const": "b"}, "a"),
        ({"allOf": [{"type": "integer"}]}, "a"),
        (False, "a"),
    ],
)
def test_keywords_beyond_types_are_checked_by_the_validator(of_s: Any, text: str) -> None:
    with pytest.raises(FormatError, match="does not fit schema 3 at /"):
        format_of(schema_of({"s": of_s}), None).encode(pa.array([{"s": text}]))


def test_numbers_that_are_not_finite_are_written_as_json_writes_them() -> None:
    numbers = schema_of({"n": {"type": "number"}})
    found = format_of(numbers, None).encode(pa.array([{"n": float("nan")}, {"n": 1.5}]))
    assert [each[5:] for each in found.to_pylist()] == [b'{"n": NaN}', b'{"n": 1.5}']
