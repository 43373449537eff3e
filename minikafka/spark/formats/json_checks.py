"""What a JSON Schema demands of the values of a column, checked for all of them at once.

The validator judges a few values that stand for all: the smallest and the largest number, the
shortest and the longest text or array, or each different value. So what a keyword means in a
draft of JSON Schema is left to it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# Returns whether all values of a column fit a schema. Nulls are not in the document.
Check = Callable[["pa.Array"], bool]
Choice = Callable[["pa.Array"], list[Any]]

PLAIN: Final = ("boolean", "integer", "number", "string")
_BOUNDS: Final = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_LENGTHS: Final = {"minLength", "maxLength"}
_OF_VALUES: Final = _BOUNDS | _LENGTHS | {"pattern", "enum", "const", "multipleOf"}
_OF_ARRAYS: Final = {"minItems", "maxItems"}


def check_of(
    validator: Any, schema: Any, kind: str | None, keywords: AbstractSet[str]
) -> Check | None:
    """Return a check of ``keywords``, which stand in ``schema``, for columns of its type ``kind``.

    Return None if there are no values that stand for all. ``validator`` is that of the whole
    schema."""
    if not keywords:
        return lambda _: True
    chosen = _choice(kind, keywords)
    if chosen is None:
        return None
    judge = validator.evolve(
        schema={name: each for name, each in schema.items() if name != "items"}
    )
    return lambda column: all(judge.is_valid(value) for value in chosen(column))


def _choice(kind: str | None, keywords: AbstractSet[str]) -> Choice | None:
    if kind == "array":
        return _lengths_alone if keywords <= _OF_ARRAYS else None
    if kind not in PLAIN or not keywords <= _OF_VALUES:
        return None
    if kind in ("integer", "number") and keywords <= _BOUNDS:
        return _extremes
    return _shortest_and_longest if kind == "string" and keywords <= _LENGTHS else _different


def _different(column: pa.Array) -> list[Any]:
    found: list[Any] = column.unique().drop_null().to_pylist()
    return found


def _extremes(numbers: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    return [each for each in pc.min_max(numbers).as_py().values() if each is not None]


def _shortest_and_longest(column: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    lengths = pc.utf8_length(column)
    return [column[pc.index(lengths, each).as_py()].as_py() for each in _extremes(lengths)]


def _lengths_alone(column: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    return [[None] * each for each in _extremes(pc.list_value_length(column))]
