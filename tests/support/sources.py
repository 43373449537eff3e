"""The modules of the package and their syntax trees, which the tests of the house share."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minikafka"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    """Return all nodes of a module's syntax tree, the root first. They stay in memory until the
    tests of the house have run, 200 MB for the package."""
    return tuple(ast.walk(ast.parse(path.read_text())))
