"""Questions about syntax trees, and how a node is put in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

LONGEST_TEXT = 110
LOG_METHODS = {"debug", "info", "warning", "error", "exception"}
LOGS = {"log", "_log", "logger", "_logger", "LOG"}


def text_of(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def without(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def setter(items: list[Any], index: int) -> Callable[[Any], None]:
    return lambda new: items.__setitem__(index, new)


def attribute(
    node: ast.AST, name: str, part: Callable[[Any], Any] = lambda new: new
) -> Callable[[Any], None]:
    return lambda new: setattr(node, name, part(new))


def fields(node: ast.AST, **values: Any) -> Callable[[Any], None]:
    def put(_: Any) -> None:
        for name, value in values.items():
            setattr(node, name, value)

    return put


def head(statement: ast.stmt) -> range:
    """The lines of a simple statement, or those before the body of a compound one."""
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not isinstance(body, list):
        return range(statement.lineno, end_of(statement) + 1)
    parts = [value for _, value in ast.iter_fields(statement) if isinstance(value, ast.expr)]
    parts += [item.context_expr for item in getattr(statement, "items", [])]
    return range(statement.lineno, max([statement.lineno, *map(end_of, parts)]) + 1)


def end_of(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


def can_be_dropped(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Break() | ast.Continue():
            return True
        case ast.Raise():
            return True
        case ast.Assign():
            return any(isinstance(t, ast.Attribute | ast.Subscript) for t in statement.targets)
        case ast.AnnAssign():
            return statement.value is not None and isinstance(statement.target, ast.Attribute)
    return False


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_log_line(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method, value=target))):
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            return method in LOG_METHODS and name in LOGS
    return False


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def other_constants(value: object) -> Iterator[bool | int | float]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value == 1:
            yield 0
    elif isinstance(value, float):
        yield value + 1.0
