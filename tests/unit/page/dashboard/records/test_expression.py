"""The language of searches, against a twin that is made together with the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.page.dashboard.records.expression import (
    ABSENT,
    DEEPEST,
    LONGEST,
    MOST_PARTS,
    ExpressionError,
    parse_expression,
)

pytestmark = pytest.mark.mission("GLASS-114")
Twin = Callable[[dict[str, Any]], bool]
NAMES = ("id", "state", "content-type", "with space", "é")
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "x"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)


def holds(text: str, decoded: Any, /, **roots: Any) -> bool:
    row = {"$": decoded, "$key": ABSENT, "header": {}, **roots}
    return parse_expression(text).holds(lambda name: row[name])


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Twin]:
    """A text and what it means. Values have no texts that are numbers."""
    kind = draw(st.sampled_from(["compare", "compare", "exists", "not", "and", "or"]))
    if depth == 0 or kind in ("compare", "exists"):
        steps = draw(st.lists(st.sampled_from(NAMES) | st.integers(0, 2), max_size=2))
        path = "$" + "".join(draw(step_text(step)) for step in steps)

        def found(value: Any) -> Any:
            for step in steps:
                wanted = list if isinstance(step, int) else dict
                if not isinstance(value, wanted):
                    return ABSENT
                value = reach_one(value, step)
            return value

        if kind == "exists":
            return f"{path} exists", lambda value: found(value) is not ABSENT
        literal = draw(SCALARS)
        operator = draw(st.sampled_from(["=", "==", "!=", "<", ">=", "contains"]))
        text = f"{path} {operator} {json.dumps(literal)}"
        return text, lambda value: twin(found(value), operator, literal)
    if kind == "not":
        text, meaning = draw(expressions(depth - 1))
        return f"not ({text})", lambda value: not meaning(value)
    parts = draw(st.lists(expressions(depth - 1), min_size=2, max_size=3))
    every = all if kind == "and" else any
    joined = f" {draw(st.sampled_from([kind, kind.upper()]))} ".join(f"({t})" for t, _ in parts)
    return joined, lambda value: every(meaning(value) for _, meaning in parts)


def reach_one(value: Any, step: Any) -> Any:
    if value is ABSENT or (isinstance(step, int) and step >= len(value)):
        return ABSENT
    return value[step] if isinstance(step, int) else value.get(step, ABSENT)


def step_text(step: str | int) -> st.SearchStrategy[str]:
    if isinstance(step, int):
        return st.just(f"[{step}]")
    quoted = [f".{json.dumps(step)}", f"[{json.dumps(step, ensure_ascii=False)}]", f"['{step}']"]
    return st.sampled_from(quoted if " " in step else [f".{step}", *quoted])


def twin(found: Any, operator: str, literal: Any) -> bool:
    if operator == "!=":
        return not same(found, literal)
    if operator in ("=", "=="):
        return same(found, literal)
    if operator == "contains":
        if isinstance(found, str):
            text = literal if isinstance(literal, str) else str(literal)
            return not isinstance(literal, bool | None) and text in found
        return isinstance(found, list) and any(same(each, literal) for each in found)
    if (
        type(found) is not type(literal)
        or not isinstance(found, int | str)
        or isinstance(found, bool)
    ):
        return False
    return bool(found < literal if operator == "<" else found >= literal)


@given(expressions(), VALUES)
def test_an_expression_means_what_its_twin_means(expression: tuple[str, Twin], value: Any) -> None:
    text, meaning = expression
    assert holds(text, value) is meaning(value)


@given(st.text(alphabet="$.a1\"'()[]*=<>! \\andortexismch-é", max_size=40))
@example("$." + "9" * 60)
@example("'\\")
def test_any_text_is_an_expression_or_an_error_that_says_where(text: str) -> None:
    try:
        found = parse_expression(text)
    except ExpressionError as error:
        where = str(error)
        if "character" not in where:
            raise AssertionError(where) from None
    else:
        assert found.holds(lambda name: {}) in (True, False)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('$.order.id = 42 and $.state != "done"', True),
        ("$.missing != 1", True),
        ("$.missing = 1 or $.missing exists", False),
        ('$.items[*].sku = "b"', True),
        ('$.items[*].sku != "b"', False),
        ("$.items[1].sku matches '^[b-c]$'", True),
        ("$.state matches 'e'", True),
        ("$.order.id = '42'", True),  # a text that is a number is one
        ("key > 5 and key < 5.5e1", True),
        ("key = '42'", True),
        ('header.source = "app"', True),
        ('header."source" contains "eb"', True),
        ("header.other exists", False),
        ("partition = 3 and offset >= 7 and timestamp > 0 and size < 10", True),
        ("$.flag = true and $.flag != 1", True),
        ("$.nothing = null", True),
        ("value = 'it\\'s \"x\" \\\\'", True),
        ("$.broken matches 'x'", True),
        ("not not $.order.id = $.items[0].id", True),
    ],
)
def test_expressions_over_a_record(text: str, result: bool) -> None:
    value = {
        "order": {"id": 42}, "state": "new", "items": [{"sku": "a", "id": 42}, {"sku": "b"}],
        "flag": True, "nothing": None, "broken": "\ud800x",
    }  # fmt: skip
    roots = {"partition": 3, "offset": 7, "timestamp": 5, "size": 9}
    header = {"source": ["web", "app"]}
    assert holds(text, value, key="42", value='it\'s "x" \\', header=header, **roots) is result


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a value or a path is expected, but the expression ends, at character 1"),
        ("($.a = 1", r"\) is expected, but the expression ends, at character 9"),
        ("$.a 1", "an operator .* is expected, not 1, at character 5"),
        ("foo = 1", "foo is none of .* at character 1"),
        ("$.a = bar", "bar is none of .* at character 7"),
        ("$.a[*] = $.b[*]", r"\[\*\] may stand on one side only"),
        ("$.a matches '('", "not a valid regular expression.* at character 13"),
        ("$.a matches $.b", "needs a regular expression in quotes"),
        ("header = 1", "a header's name"),
        ("$.a = 1 1", "and, or, or the end is expected, not 1"),
        ("$.a = €", "'€' is not understood, at character 7"),
        ("(" * (DEEPEST + 2) + "$.a = 1", "levels"),
        (" and ".join(["$.a=1"] * (MOST_PARTS + 1)), "comparisons"),
        ("$.a = 1" + " " * LONGEST, "characters"),
    ],
)
def test_a_wrong_expression_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(ExpressionError, match=sentence):
        parse_expression(text)


def test_values_are_nested_as_deeply_as_json_can_be() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert not holds("$.a = $.b", {"a": deep, "b": [deep]})
