"""Sizes of functions, first lines of modules, banned calls."""

import ast
from pathlib import Path

import pytest

from tests.support.sources import ROOT, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

ALL = sorted([*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
MAX_FUNCTION_LINES = 70


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_functions_are_at_most_70_lines() -> None:
    long = {}
    for path in ALL:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long[f"{relative(path)}:{node.name}"] = lines
    assert long == {}


def test_every_module_starts_with_a_docstring() -> None:
    silent = [
        relative(p) for p in ALL if p.read_text().strip() and not p.read_text().startswith('"""')
    ]
    assert silent == []


def swallows(handler: ast.ExceptHandler) -> bool:
    """Catches everything, at most logs it, and goes on."""
    names = (
        [n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)] if handler.type else []
    )
    broad = handler.type is None or bool({"Exception", "BaseException"} & set(names))
    return broad and all(is_idle(statement) for statement in handler.body)


def is_idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass | ast.Continue):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Attribute) and "log" in ast.unparse(called.value)


def test_nothing_banned_is_used() -> None:
    found = {relative(path): banned(path) for path in SOURCES}
    assert {path: problems for path, problems in found.items() if problems} == {}


def banned(path: Path) -> list[str]:
    problems = []
    for node in nodes_of(path):
        if isinstance(node, ast.ExceptHandler) and swallows(node):
            problems.append(f"line {node.lineno}: a broad except that swallows")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in {"time.time", "time.sleep", "time.monotonic"} and "world" not in path.parts:
                problems.append(f"line {node.lineno}: {name} beside the Clock port")
        if isinstance(node, ast.Attribute) and node.attr == "_parts" and is_outside_node(path):
            problems.append(f"line {node.lineno}: a broker's parts instead of its entities")
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            problems.append(f"line {node.lineno}: NotImplementedError")
    return problems


def is_outside_node(path: Path) -> bool:
    """Whether a module has to look at a running broker through ``BrokerNode.entities``."""
    return "minikafka/server/node/" not in path.as_posix()
