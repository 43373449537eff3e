"""The changes that scripts/mutants makes to code, and those that it leaves out."""

from __future__ import annotations

import ast
import textwrap

import pytest

from scripts.lib.mutants.mutations import mutations_of


def changes(source: str) -> list[str]:
    tree = ast.parse(textwrap.dedent(source))
    return [mutation.text for mutation in mutations_of(tree)]


def in_function(*lines: str) -> list[str]:
    return changes("def f(a, b):\n" + "".join(f"    {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x = a < b", ["a < b -> a <= b"]),
        ("x = a >= b", ["a >= b -> a > b"]),
        ("x = a is not b", ["a is not b -> a is b"]),
        ("x = a in b", ["a in b -> a not in b"]),
        ("x = a and b", ["a -> True", "b -> True"]),
        ("x = a or b", ["a -> False", "b -> False"]),
        ("x = not a", ["not a -> a"]),
        ("x = a * b", ["a * b -> a // b"]),
        ("x = a + 7", ["7 -> 8"]),
        ("x = a + 1", ["1 -> 2", "1 -> 0"]),
        ("x = True", ["True -> False"]),
        ("x = min(a, b)", ["min(a, b) -> b", "min(a, b) -> a"]),
        ("x = max(a)", ["max(a) -> min(a)"]),
        ("x = a if b else 'c'", ["a if b else 'c' -> a", "a if b else 'c' -> 'c'"]),
        ("match a:\n        case 'c' if b: pass", ["b -> True", "b -> False"]),
        ("x = [c for c in a if c]", ["c -> True"]),
        ("return a", ["return a -> return None"]),
        ("a.append(b)", ["a.append(b) -> (dropped)"]),
        ("a.x = b", ["a.x = b -> (dropped)"]),
        ("a += b", ["a += b -> (dropped)"]),
        (
            "raise KafkaError(ErrorCode.NONE, f'{a + 1}')",
            [
                "raise KafkaError(ErrorCode.NONE, f'{a + 1}') -> (dropped)",
                "ErrorCode.NONE -> ErrorCode.UNKNOWN_SERVER_ERROR",
            ],
        ),
    ],
)
def test_a_statement_is_changed_in_these_ways(statement: str, expected: list[str]) -> None:
    assert in_function(statement) == expected


def test_a_condition_is_forced_both_ways_and_its_only_statement_is_left_alone() -> None:
    assert in_function("if a == b:", "    a.clear()") == ["a == b -> True", "a == b -> False"]
    assert in_function("if a < b:", "    a.clear()", "else:", "    b.clear()") == [
        "a < b -> True",
        "a < b -> False",
        "a < b -> a <= b",
        "a.clear() -> (dropped)",
        "b.clear() -> (dropped)",
    ]


def test_a_function_that_returns_a_bool_returns_the_other_one() -> None:
    assert changes("def f(a) -> bool:\n    return a.b") == [
        "return a.b -> return True",
        "return a.b -> return False",
    ]


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Text."""',
        "def f(a: Literal[1]) -> 'int':\n    x: Final[2]",
        "def f(log):\n    log.info('a', b=1)",
        "def f(a):\n    assert a > 1",
        "def f(a):\n    x = zip(a, strict=True)",
        "class A:\n    def __repr__(self):\n        return 1",
        "class A(Protocol):\n    x = 1",
        "class A:\n    __slots__ = ('a', 'b')",
        "if TYPE_CHECKING:\n    x = 1",
        "Rows = Mapping[int, str]",
        "Called = Callable[[int, str], None]",
    ],
)
def test_code_without_effect_on_behaviour_is_not_mutated(source: str) -> None:
    assert changes(source) == []


def test_a_table_of_a_module_loses_each_entry() -> None:
    assert changes("NEXT = {A: {B, C}, B: set()}") == [
        "{A: {B, C}} -> (no entry)",
        "{B: set()} -> (no entry)",
        "B -> (no element)",
        "C -> (no element)",
    ]


def test_a_mutation_knows_its_function_its_lines_and_when_it_is_evaluated() -> None:
    source = """
        LIMIT = 5

        class A:
            x: int = 3

            def method(self, a=False):
                def inner():
                    return [
                        a > 1,
                    ]
                return inner
    """
    found = mutations_of(ast.parse(textwrap.dedent(source)))
    assert [(m.function, m.text, m.at_import, m.lines) for m in found] == [
        ("<module>", "5 -> 6", True, range(2, 3)),
        ("A", "3 -> 4", True, range(5, 6)),
        ("A.method", "False -> True", True, range(7, 8)),
        ("A.method.<locals>.inner", "return [a > 1] -> return None", False, range(9, 12)),
        ("A.method.<locals>.inner", "a > 1 -> a >= 1", False, range(9, 12)),
        ("A.method.<locals>.inner", "1 -> 2", False, range(9, 12)),
        ("A.method.<locals>.inner", "1 -> 0", False, range(9, 12)),
        ("A.method", "return inner -> return None", False, range(12, 13)),
    ]


def test_applying_one_changes_the_tree_in_place_and_keeps_a_generator_one() -> None:
    tree = ast.parse("def f(a):\n    yield a\n    a.x = 1")
    for mutation in mutations_of(tree):
        if mutation.after == "(dropped)":
            mutation.apply()
    names: dict[str, object] = {}
    exec(compile(tree, "f.py", "exec"), names)
    assert list(names["f"](object())) == []  # type: ignore[operator]
