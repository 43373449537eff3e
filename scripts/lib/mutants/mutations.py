"""The changes that can be made to a module, found in its syntax tree.

Each operator stands for a mistake that a test should notice. What another operator's mutant
implies is left out: a test that tells ``a and b`` from ``a`` and from ``b`` also tells it from
``a or b``, and one that notices ``if False`` notices that its only statement is gone. Error
messages, annotations, docstrings, assertions, log lines and ``__repr__`` are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scripts.lib.mutants.trees import (
    attribute,
    can_be_dropped,
    end_of,
    fields,
    head,
    is_docstring,
    is_log_line,
    is_none,
    is_text,
    other_constants,
    setter,
    text_of,
    without,
)

MODULE = "<module>"
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNMUTATED_ARGUMENTS = {"strict", "usedforsecurity"}  # an assertion, and a word for auditors
UNMUTATED_NAMES = {"__slots__", "__all__", "__match_args__"}
ERRORS, OTHER_ERROR = "ErrorCode", "UNKNOWN_SERVER_ERROR"


@dataclass(frozen=True)
class Mutation:
    """One change of a module's tree. ``apply`` makes it in place: fork first, or parse again."""

    function: str  # qualified name; a class's or MODULE for what is evaluated at import
    lines: range  # of the statement, or of a compound statement's head
    before: str
    after: str
    at_import: bool
    apply: Callable[[], None] = field(compare=False)

    @property
    def text(self) -> str:
        return f"{self.before} -> {self.after}"


@dataclass(frozen=True)
class Scope:
    """Where the walk is."""

    name: str = ""
    lines: range = range(0)
    in_function: bool = False
    returns_bool: bool = False

    def inside(self, name: str) -> str:
        if not self.name:
            return name
        return f"{self.name}.<locals>.{name}" if self.in_function else f"{self.name}.{name}"


def mutations_of(tree: ast.Module) -> list[Mutation]:
    walk = Walk()
    walk.block(tree.body, Scope())
    return walk.found


class Walk:
    """Visits statements and expressions, and collects mutations."""

    def __init__(self) -> None:
        self.found: list[Mutation] = []

    def add(
        self, old: ast.AST, new: ast.AST, put: Callable[[Any], None], scope: Scope, after: str = ""
    ) -> None:
        """``old`` and ``after`` are shown; ``new`` is what ``put`` gets."""
        for node in ast.walk(new):
            if "lineno" in node._attributes and not hasattr(node, "lineno"):
                ast.copy_location(node, old)
        self.found.append(
            Mutation(
                scope.name or MODULE,
                scope.lines,
                text_of(old),
                after or text_of(new),
                not scope.in_function,
                lambda: put(new),
            )
        )

    # Statements

    def block(self, body: list[ast.stmt], scope: Scope, only_if: bool = False) -> None:
        """``only_if``: the body of an if without else, where to drop all is ``if False``."""
        alone = only_if and len(body) == 1
        for index, statement in enumerate(body):
            if is_docstring(statement) or is_log_line(statement):
                continue
            here = Scope(scope.name, head(statement), scope.in_function, scope.returns_bool)
            if can_be_dropped(statement) and not alone and scope.in_function:
                # "if 0" keeps the names of the statement local, and a generator a generator
                gone = ast.If(ast.Constant(0), [statement], [])
                self.add(statement, gone, setter(body, index), here, "(dropped)")
            self.statement(statement, here)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, scope)
            case ast.ClassDef():
                if not any("Protocol" in ast.unparse(base) for base in node.bases):
                    self.block(node.body, Scope(scope.inside(node.name), scope.lines))
            case ast.If():
                if "TYPE_CHECKING" not in ast.unparse(node.test):
                    self.condition(node, "test", scope, (True, False))
                    self.block(node.body, scope, only_if=not node.orelse)
                    self.block(node.orelse, scope)
            case ast.While():
                if not isinstance(node.test, ast.Constant):
                    self.condition(node, "test", scope, (False,))
                self.block(node.body, scope)
            case ast.Return():
                if node.value is not None:
                    self.returned(node, scope)
                    self.expression(node.value, attribute(node, "value"), scope)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self.assignment(node, scope)
            case ast.Match():
                self.expression(node.subject, attribute(node, "subject"), scope)
                for case in node.cases:
                    if case.guard is not None:
                        lines = range(case.guard.lineno, end_of(case.guard) + 1)
                        guarded = Scope(scope.name, lines, scope.in_function, scope.returns_bool)
                        self.condition(case, "guard", guarded, (True, False))
                    self.block(case.body, scope)
            case ast.Assert() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                self.parts(node, scope)

    def parts(self, node: ast.AST, scope: Scope) -> None:
        """Statements that are a head and bodies: for, with, try; and simple ones."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                self.expression(value, attribute(node, name), scope)
            elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.block(value, scope)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        self.expression(item, setter(value, index), scope)
                    elif isinstance(item, ast.ExceptHandler | ast.withitem):
                        self.parts(item, scope)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        if node.name == "__repr__":
            return
        name = scope.inside(node.name)
        outside = Scope(name, scope.lines, scope.in_function)
        for defaults in (node.args.defaults, node.args.kw_defaults):
            for index, default in enumerate(defaults):
                if default is not None:
                    self.expression(default, setter(defaults, index), outside)
        returned = node.returns
        bool_returned = isinstance(returned, ast.Name) and returned.id == "bool"
        self.block(node.body, Scope(name, scope.lines, True, bool_returned))

    def assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, scope: Scope) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if node.value is None or names & UNMUTATED_NAMES:
            return
        if not scope.in_function:
            parts = list(ast.walk(node.value))
            slices = [part.slice for part in parts if isinstance(part, ast.Subscript)]
            arguments = [part for one in slices for part in ast.walk(one)]
            for part in parts:
                if part not in arguments:  # of a generic type
                    self.table(part, scope)
        self.expression(node.value, attribute(node, "value"), scope)

    def table(self, node: ast.AST, scope: Scope) -> None:
        """One entry less in a table that stands in a module or a class."""
        if isinstance(node, ast.Dict):
            for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
                if key is not None:
                    entry = ast.Dict([key], [value])
                    keys, values = without(node.keys, index), without(node.values, index)
                    self.add(
                        entry, node, fields(node, keys=keys, values=values), scope, "(no entry)"
                    )
        elif isinstance(node, ast.Set | ast.Tuple | ast.List) and len(node.elts) > 1:
            for index, element in enumerate(node.elts):
                put = fields(node, elts=without(node.elts, index))
                self.add(element, node, put, scope, "(no element)")

    def returned(self, node: ast.Return, scope: Scope) -> None:
        value = node.value
        assert value is not None
        if scope.returns_bool:
            others: list[bool | None] = [] if isinstance(value, ast.Constant) else [True, False]
        else:
            others = [] if is_none(value) else [None]
        for other in others:
            new = ast.Return(ast.Constant(other))
            self.add(node, new, attribute(node, "value", lambda n: n.value), scope)

    def condition(self, node: Any, name: str, scope: Scope, constants: tuple[bool, ...]) -> None:
        test = getattr(node, name)
        for constant in constants:
            self.add(test, ast.Constant(constant), attribute(node, name), scope)
        self.expression(test, attribute(node, name), scope, is_condition=True)

    # Expressions

    def expression(
        self, node: ast.expr, put: Callable[[Any], None], scope: Scope, is_condition: bool = False
    ) -> None:
        """``is_condition``: both its outcomes are forced already."""
        match node:
            case ast.JoinedStr():
                return
            case ast.Compare():
                self.comparison(node, scope, is_condition)
            case ast.BoolOp():
                for index, operand in enumerate(node.values):
                    rest = without(node.values, index)
                    new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                    neutral = str(isinstance(node.op, ast.And))
                    self.add(operand, new, put, scope, neutral)
                    self.expression(operand, setter(node.values, index), scope)
                return
            case ast.UnaryOp(op=ast.Not()):
                if not is_condition:
                    self.add(node, node.operand, put, scope)
            case ast.BinOp():
                self.arithmetic(node, put, scope)
            case ast.Constant():
                for other in other_constants(node.value):
                    self.add(node, ast.Constant(other), put, scope)
            case ast.IfExp():
                self.add(node, node.body, put, scope)
                self.add(node, node.orelse, put, scope)
            case ast.Call(func=ast.Name(id="min" | "max")):
                self.extreme(node, put, scope)
            case ast.Call(func=ast.Name(id="cast")):
                self.expression(node.args[1], setter(node.args, 1), scope)
                return
            case ast.Attribute(value=ast.Name(id=name)) if name == ERRORS:
                if node.attr != OTHER_ERROR:
                    new = ast.Attribute(ast.Name(ERRORS, ast.Load()), OTHER_ERROR, ast.Load())
                    self.add(node, new, put, scope)
                return
        self.operands(node, scope, is_condition)

    def operands(self, node: ast.expr, scope: Scope, is_condition: bool) -> None:
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                forced = (negated and is_condition) or (
                    isinstance(node, ast.IfExp) and name == "test"
                )
                self.expression(value, attribute(node, name), scope, forced)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.comprehension):
                        self.comprehension(item, scope)
                    elif isinstance(item, ast.keyword) and item.arg not in UNMUTATED_ARGUMENTS:
                        self.expression(item.value, attribute(item, "value"), scope)
                    elif isinstance(item, ast.expr):
                        self.expression(item, setter(value, index), scope)

    def comprehension(self, node: ast.comprehension, scope: Scope) -> None:
        self.expression(node.iter, attribute(node, "iter"), scope)
        for index, test in enumerate(node.ifs):
            self.add(test, ast.Constant(True), setter(node.ifs, index), scope)
            self.expression(test, setter(node.ifs, index), scope, is_condition=True)

    def comparison(self, node: ast.Compare, scope: Scope, is_condition: bool) -> None:
        for index, operator in enumerate(node.ops):
            if is_condition and len(node.ops) == 1 and not isinstance(operator, BOUNDS):
                continue
            operators = list(node.ops)
            operators[index] = COMPARISONS[type(operator)]()
            new = ast.Compare(node.left, operators, node.comparators)
            self.add(node, new, fields(node, ops=operators), scope)

    def arithmetic(self, node: ast.BinOp, put: Callable[[Any], None], scope: Scope) -> None:
        constant = isinstance(node.right, ast.Constant) and isinstance(node.op, ast.Add | ast.Sub)
        joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict)
        sides = (node.left, node.right)
        if constant or any(isinstance(side, joined) or is_text(side) for side in sides):
            return
        other = ARITHMETIC.get(type(node.op))
        if other is not None:
            self.add(node, ast.BinOp(node.left, other(), node.right), put, scope)

    def extreme(self, node: ast.Call, put: Callable[[Any], None], scope: Scope) -> None:
        if len(node.args) > 1:
            for index, argument in enumerate(node.args):
                rest = without(node.args, index)
                new = rest[0] if len(rest) == 1 else ast.Call(node.func, rest, node.keywords)
                if not isinstance(argument, ast.Starred):
                    self.add(node, new, put, scope)
        elif isinstance(node.func, ast.Name):
            name = "max" if node.func.id == "min" else "min"
            new = ast.Call(ast.Name(name, ast.Load()), node.args, node.keywords)
            self.add(node, new, put, scope)
