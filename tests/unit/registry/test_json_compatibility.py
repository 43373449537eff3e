"""JSON Schemas: compatibility beside the validation of documents by jsonschema."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest

from minikafka.registry.errors import RegistryError
from minikafka.registry.json_schema import JsonSchema

SCALARS: list[Any] = [None, True, 0, 1, 5, 6.5, "", "a", "abcdef"]
DOCUMENTS: list[Any] = [
    *SCALARS,
    *([each] for each in SCALARS),
    *([a, b] for a, b in itertools.product(SCALARS[2:8], repeat=2)),
    {},
    *({name: each} for name in "ab" for each in SCALARS),
    *({"a": one, "b": two} for one, two in itertools.product(SCALARS, repeat=2)),
    {"a": {"a": 1}, "b": [1, "a"]},
]


def random_schema(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(11 if depth else 6)
    if kind == 0:
        return dice.choice([True, False, {}, {"title": "x"}])
    if kind == 1:
        return {"type": dice.choice(["integer", "number"]), **limits(dice, "minimum", "maximum", 7)}
    if kind == 2:
        return {"type": "string", **limits(dice, "minLength", "maxLength", 4)}
    if kind == 3:
        return {"enum": dice.sample(SCALARS, dice.randrange(1, 4))}
    if kind == 4:
        return {"type": dice.sample(["null", "boolean", "string", "integer", "array"], 2)}
    if kind == 5:
        return {"const": dice.choice(SCALARS)}
    inner = [random_schema(dice, depth - 1) for _ in range(2)]
    if kind == 6:
        return {dice.choice(["anyOf", "allOf"]): inner}
    if kind == 7:
        items = dice.choice([{"items": inner[0]}, {"prefixItems": inner}, {}])
        return {"type": "array", **items, **limits(dice, "minItems", "maxItems", 3)}
    if kind == 8:
        return {"not": inner[0]}
    found: dict[str, Any] = {"type": "object"}
    found["properties"] = dict(zip(dice.choice(["a", "b", "ab"]), inner, strict=False))
    found["required"] = dice.sample("ab", dice.randrange(3))
    if dice.random() < 0.5:
        found["additionalProperties"] = dice.choice([False, True, {"type": "string"}])
    return found


def limits(dice: random.Random, low: str, high: str, most: int) -> dict[str, int]:
    found = {low: dice.randrange(3)} if dice.random() < 0.5 else {}
    return {**found, **({high: dice.randrange(most)} if dice.random() < 0.5 else {})}


def changed(dice: random.Random, schema: Any, depth: int) -> Any:
    if dice.random() < 0.2 or not isinstance(schema, dict):
        return random_schema(dice, depth) if dice.random() < 0.4 else schema
    found: dict[str, Any] = {}
    for key, each in schema.items():
        if isinstance(each, int) and not isinstance(each, bool):
            found[key] = each + dice.choice([-1, 0, 1]) if each else each
        elif key == "properties":
            found[key] = {name: changed(dice, of, depth - 1) for name, of in each.items()}
        elif key in ("anyOf", "allOf", "prefixItems"):
            found[key] = [changed(dice, of, depth - 1) for of in each]
        elif key in ("items", "not", "additionalProperties"):
            found[key] = changed(dice, each, depth - 1)
        elif key not in ("required", "enum") or dice.random() < 0.8:
            found[key] = each
    return found


def fits(schema: Any, document: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(document))


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize("block", range(4))
def test_documents_fit_every_compatible_schema(block: int) -> None:
    counts = {True: 0, False: 0}
    for seed in range(block * 150, block * 150 + 150):
        dice = random.Random(seed)
        old = random_schema(dice, 2)
        new = changed(dice, old, 2)
        reasons = JsonSchema(json.dumps(new)).unreadable(JsonSchema(json.dumps(old)))
        counts[not reasons] += 1
        if not reasons:
            broken = [each for each in DOCUMENTS if fits(old, each) and not fits(new, each)]
            assert not broken, (seed, old, new, broken[:3])
    assert min(counts.values()) > 20


CLOSED = {"type": "object", "additionalProperties": False}
TEXT = {"properties": {"a": {"type": "string"}}}


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize(
    ("old", "new", "compatible"),
    [
        (CLOSED, {**CLOSED, **TEXT}, True),
        ({"type": "object"}, {"type": "object", **TEXT}, False),  # any value was allowed for it
        ({"type": "object", **TEXT}, {"type": "object"}, True),
        ({**CLOSED, **TEXT}, CLOSED, False),
        (TEXT, {**TEXT, "required": ["a"]}, False),
        (TEXT, {"properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]}, True),
        ({"type": "integer"}, {"type": "number"}, True),
        ({"type": "string"}, {"type": "string", "pattern": "^a"}, False),
        ({"multipleOf": 4}, {"multipleOf": 2}, True),
        ({"multipleOf": 2}, {"multipleOf": 4}, False),
        ({"not": {"type": "string"}}, {"not": {"type": ["string", "null"]}}, False),
        ({"not": {"type": ["string", "null"]}}, {"not": {"type": "string"}}, True),
        ({"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, False),
    ],
)
def test_changes_of_single_keywords(old: Any, new: Any, compatible: bool) -> None:
    reasons = JsonSchema(json.dumps(new)).unreadable(JsonSchema(json.dumps(old)))
    assert (not reasons) is compatible


@pytest.mark.mission("REG-5")
def test_references_lead_into_other_files_and_around_cycles() -> None:
    item = JsonSchema(
        '{"$id": "item.json", "type": "object", "properties": {"n": {"type": "integer"}}}'
    )
    text = '{"properties": {"of": {"$ref": "item.json"}, "next": {"$ref": "#"}}}'
    order = JsonSchema(text, {"item.json": item})
    assert order.unreadable(order) == []
    wider = JsonSchema(text, {"item.json": JsonSchema('{"type": ["object", "null"]}')})
    assert wider.unreadable(order) == []
    assert order.unreadable(wider) != []
    with pytest.raises(RegistryError, match=r"other\.json"):
        JsonSchema('{"$ref": "other.json"}', {"item.json": item})
    with pytest.raises(RegistryError, match="leads to itself"):
        JsonSchema('{"$ref": "#"}').unreadable(order)


@pytest.mark.mission("REG-10")
def test_schemas_that_are_too_complex_to_compare_are_refused() -> None:
    def nested(leaf: str) -> JsonSchema:
        """Each definition is three times in the one before it."""
        parts: dict[str, Any] = {"d20": {"type": leaf}}
        for number in range(20):
            inner = {"$ref": f"#/definitions/d{number + 1}"}
            branches = [{"properties": {name: inner}} for name in "abc"]
            parts[f"d{number}"] = {"anyOf": branches}
        return JsonSchema(json.dumps({"definitions": parts, "$ref": "#/definitions/d0"}))

    with pytest.raises(RegistryError, match="too complex"):
        nested("string").unreadable(nested("null"))
