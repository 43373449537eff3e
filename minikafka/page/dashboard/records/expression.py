"""The language of searches: ``$.order.id = 42 and not (header.source = "web")``. Pure.

An expression compares paths with literals or other paths::

    or          := and ("or" and)*
    and         := not ("and" not)*
    not         := "not" not | "(" or ")" | operand "exists" | operand OPERATOR operand
    operand     := literal | path
    path        := ROOT step*
    step        := "." NAME | "." STRING | "[" (NUMBER | STRING | "*") "]"

A path names any number of values: none if something on its way is missing, several with ``[*]`` or
if a header occurs more than once. A comparison holds if it holds for any of them; ``!=`` holds if
no value is equal, so also where there is none. Work is bounded by the size of the expression times
``MOST_VALUES``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

from minikafka.core.regexes import compile_regex
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

Json: TypeAlias = Any
Row: TypeAlias = Callable[[str], Json]  # the value of a root; ABSENT if the record has none

LONGEST: Final = 2_000  # characters
DEEPEST: Final = 50  # parentheses, and negations of negations
MOST_PARTS: Final = 100  # comparisons
MOST_VALUES: Final = 10_000  # that a path names
ABSENT: Final = object()
VALUE, KEY, HEADER = "$", "$key", "header"
ROOTS: Final = (
    *(VALUE, KEY, "key", "value", HEADER),
    *("partition", "offset", "timestamp", "size"),
)
ANY: Final = object()  # the step ``[*]``

_TOKEN: Final = re.compile(
    r"""(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>\$?[^\W\d][\w-]*|\$)
    |(?P<sign>!=|<=|>=|==|[=<>()\[\].*])""",
    re.VERBOSE,
)
_QUOTE: Final = re.compile(r"""\\.|\"""")
_AS_JSON: Final = {'"': '\\"', "\\'": "'"}  # within a text in single quotes
_WORDS: Final = ("and", "or", "not", "exists", "contains", "matches")
_CONSTANTS: Final[Mapping[str, Json]] = {"true": True, "false": False, "null": None}
_NUMBER: Final = re.compile(r"\s*-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)


class ExpressionError(ValueError):
    """An expression is malformed; the message says where."""


class SearchCondition(Protocol):
    """What a record fulfils or not."""

    def holds(self, row: Row) -> bool: ...


class Searchable(Protocol):
    """A regular expression of RE2, which takes linear time."""

    def search(self, text: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Path:
    """Values of a record: ``steps`` are names, numbers of list elements, or ``ANY``."""

    root: str
    steps: tuple[Any, ...] = ()

    def values(self, row: Row) -> Iterator[Json]:
        found = row(self.root)
        return iter(()) if found is ABSENT else islice(_reached(found, self.steps), MOST_VALUES)


@dataclass(frozen=True, slots=True)
class Literal:
    value: Json

    def values(self, row: Row) -> Iterator[Json]:
        return iter((self.value,))


Operand: TypeAlias = Path | Literal


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """``left`` OPERATOR ``right``: whether it holds for any pair of their values."""

    left: Operand
    operator: str
    right: Operand

    def holds(self, row: Row) -> bool:
        compare = _COMPARE[self.operator]
        rights = list(self.right.values(row))
        return any(compare(left, right) for left in self.left.values(row) for right in rights)


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether the regular expression is found in any of the texts."""

    left: Operand
    text: str
    pattern: Searchable

    def holds(self, row: Row) -> bool:
        texts = (_text(value) for value in self.left.values(row))
        return any(text is not None and self._found(text) for text in texts)

    def _found(self, text: str) -> bool:
        try:
            return bool(self.pattern.search(text))
        except UnicodeEncodeError:  # JSON may have halves of surrogate pairs
            return bool(self.pattern.search(text.encode(errors="replace").decode()))


@dataclass(frozen=True, slots=True)
class Exists:
    left: Operand

    def holds(self, row: Row) -> bool:
        return next(self.left.values(row), ABSENT) is not ABSENT


@dataclass(frozen=True, slots=True)
class Not:
    part: SearchCondition

    def holds(self, row: Row) -> bool:
        return not self.part.holds(row)


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[SearchCondition, ...]

    def holds(self, row: Row) -> bool:
        return all(part.holds(row) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[SearchCondition, ...]

    def holds(self, row: Row) -> bool:
        return any(part.holds(row) for part in self.parts)


def parse_expression(text: str) -> SearchCondition:
    """Raises ExpressionError."""
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression has more than {LONGEST:,} characters")
    parser = _Parser(text)
    found = parser.either(0)
    parser.end()
    return found


# ------------------------------------------------------------------------------------- comparing


def _reached(value: Json, steps: Sequence[Any]) -> Iterator[Json]:
    for number, step in enumerate(steps):
        if step is ANY:
            if isinstance(value, dict | list):
                for each in value.values() if isinstance(value, dict) else value:
                    yield from _reached(each, steps[number + 1 :])
            return
        is_there: bool
        if isinstance(step, int):
            is_there = isinstance(value, list) and step < len(value)
        else:
            is_there = isinstance(value, dict) and step in value
        if not is_there:
            return
        value = value[step]
    yield value


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Json) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if _is_number(value) else None


def _alike(left: Json, right: Json) -> tuple[Json, Json]:
    """Turn a text that is a number into one if the other side is a number."""
    if isinstance(left, str) and _is_number(right) and _NUMBER.fullmatch(left):
        return _number(left), right
    if isinstance(right, str) and _is_number(left) and _NUMBER.fullmatch(right):
        return left, _number(right)
    return left, right


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _equal(left: Json, right: Json) -> bool:
    left, right = _alike(left, right)
    try:
        return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
    except RecursionError:
        return False


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Json, Json], bool]:
    def compare(left: Json, right: Json) -> bool:
        left, right = _alike(left, right)
        numbers = _is_number(left) and _is_number(right)
        texts = isinstance(left, str) and isinstance(right, str)
        return (numbers or texts) and test(left, right)

    return compare


def _contains(left: Json, right: Json) -> bool:
    if isinstance(left, str) and (wanted := _text(right)) is not None:
        return wanted in left
    return isinstance(left, list) and any(_equal(each, right) for each in left[:MOST_VALUES])


_COMPARE: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "=": _equal,
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "contains": _contains,
}


# --------------------------------------------------------------------------------------- parsing


class _Parser:
    """Parses by recursive descent, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._comparisons = 0
        self._kind: str = ""
        self._token = ""
        self._start = 0
        self._next()

    def _next(self) -> str:
        """Return the current token, and go on to the next one. Kind and token are empty at the
        end."""
        before = self._token
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        self._start = self._at
        found = _TOKEN.match(self._text, self._at)
        if found is not None:
            self._kind, self._token = found.lastgroup or "", found[0]
            self._at = found.end()
        elif self._at == len(self._text):
            self._kind = self._token = ""
        else:
            raise self._error(f"{self._text[self._at]!r} is not understood")
        return before

    def _error(self, what: str) -> ExpressionError:
        return ExpressionError(f"{what}, at character {self._start + 1} of the expression")

    def _expected(self, what: str) -> ExpressionError:
        found = f"not {self._token}" if self._kind else "but the expression ends"
        return self._error(f"{what} is expected, {found}")

    def _is(self, word: str) -> bool:
        return self._kind in ("name", "sign") and self._token.lower() == word

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            raise self._expected(sign)
        self._next()

    def end(self) -> None:
        if self._kind:
            raise self._expected("and, or, or the end")

    def either(self, depth: int) -> SearchCondition:
        parts = [self._both(depth)]
        while self._is("or"):
            self._next()
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _both(self, depth: int) -> SearchCondition:
        parts = [self._negated(depth)]
        while self._is("and"):
            self._next()
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _negated(self, depth: int) -> SearchCondition:
        if depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} levels")
        if self._is("not"):
            self._next()
            return Not(self._negated(depth + 1))
        if self._is("("):
            self._next()
            found = self.either(depth + 1)
            self._expect(")")
            return found
        return self._comparison()

    def _comparison(self) -> SearchCondition:
        self._comparisons += 1
        if self._comparisons > MOST_PARTS:
            raise self._error(f"more than {MOST_PARTS} comparisons")
        left = self._operand()
        if self._is("exists"):
            self._next()
            return Exists(left)
        operator = self._token.lower() if self._kind in ("name", "sign") else ""
        if operator not in (*_COMPARE, "!=", "==", "matches"):
            raise self._expected("an operator (= != < <= > >= contains matches exists)")
        self._next()
        start = self._start
        right = self._operand()
        if operator == "matches":
            return self._matches(left, right, start)
        if all(isinstance(each, Path) and ANY in each.steps for each in (left, right)):
            raise self._error("[*] may stand on one side only")
        if operator == "!=":
            return Not(ValueComparison(left, "=", right))
        return ValueComparison(left, "=" if operator == "==" else operator, right)

    def _matches(self, left: Operand, right: Operand, start: int) -> SearchCondition:
        self._start = start
        if not isinstance(right, Literal) or not isinstance(right.value, str):
            raise self._error('matches needs a regular expression in quotes ("")')
        try:
            pattern: Any = compile_regex(right.value, "the expression")
        except KafkaError as error:
            raise self._error(str(error.message).rstrip(".")) from None
        return Matches(left, right.value, pattern)

    def _operand(self) -> Operand:
        if self._kind == "string":
            return Literal(self._string())
        if self._kind == "number":
            return Literal(self._number())
        name = self._token
        if self._kind == "name" and name.lower() in _CONSTANTS:
            self._next()
            return Literal(_CONSTANTS[name.lower()])
        if self._kind != "name" or name in _WORDS:
            raise self._expected("a value or a path")
        if name not in ROOTS:
            raise self._error(f"{name} is none of {', '.join(ROOTS)}; texts need quotes")
        self._next()
        steps = tuple(self._steps())
        if name == HEADER and (not steps or not isinstance(steps[0], str)):
            raise self._expected("a header's name, as in header.NAME")
        return Path(name, (steps[0], ANY, *steps[1:]) if name == HEADER else steps)

    def _steps(self) -> Iterator[Any]:
        while True:
            if self._is("."):
                self._next()
                if self._kind == "string":
                    yield self._string()
                elif self._kind == "name":
                    yield self._next()
                else:
                    raise self._expected("a name")
            elif self._is("["):
                self._next()
                if self._is("*"):
                    self._next()
                    yield ANY
                elif self._kind == "string":
                    yield self._string()
                elif self._kind == "number" and self._token.isdigit():
                    yield self._number()
                else:
                    raise self._expected("a number, a name in quotes or *")
                self._expect("]")
            else:
                return

    def _string(self) -> str:
        token = self._token
        if token[0] == "'":
            token = (
                '"' + _QUOTE.sub(lambda found: _AS_JSON.get(found[0], found[0]), token[1:-1]) + '"'
            )
        try:
            found: str = json.loads(token, strict=False)
        except ValueError:
            raise self._error("a text has an escape that JSON does not have") from None
        self._next()
        return found

    def _number(self) -> float:
        if len(self._token) > 40:
            raise self._error("a number has more than 40 characters")
        return _number(self._next())
