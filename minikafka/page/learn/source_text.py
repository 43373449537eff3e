"""The source of a class or function of this package, as a chapter's code link names it.

Files are read as package data, since a browser tab imports the package from an archive.
"""

from __future__ import annotations

import ast
import re
from importlib import resources
from typing import Final, NamedTuple

from minikafka.page.learn.texts import CodeLink

PACKAGE: Final = "minikafka"
MAX_LINES: Final = 400

_PATH = re.compile(r"minikafka(/[a-z0-9_]+)+\.py").fullmatch

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class SourceText(NamedTuple):
    """``line`` is the number of the first line, from 1."""

    line: int
    text: str


def source_of(link: CodeLink) -> SourceText:
    """Return the source of ``link.name``, which may be dotted, or the whole file without a name; at
    most ``MAX_LINES`` lines. Raises LookupError with a sentence."""
    if not _PATH(link.path):
        raise LookupError("the path names no module of minikafka")
    file = resources.files(PACKAGE).joinpath(*link.path.split("/")[1:])
    if not file.is_file():
        raise LookupError(f"there is no file {link.path}")
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    first, last = _lines_of(ast.parse(text), link) if link.name else (1, len(lines))
    last = min(last, first + MAX_LINES - 1)
    return SourceText(first, "\n".join(lines[first - 1 : last]))


def _lines_of(module: ast.Module, link: CodeLink) -> tuple[int, int]:
    body: list[ast.stmt] = module.body
    first, last = 0, 0
    for name in link.name.split("."):
        node = next((one for one in body if _name_of(one) == name), None)
        if node is None:
            raise LookupError(f"{link.path} has no {link.name}")
        decorators = node.decorator_list if isinstance(node, Definition) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last = node.end_lineno or node.lineno
        body = node.body if isinstance(node, Definition) else []
    return first, last


def _name_of(node: ast.stmt) -> str | None:
    if isinstance(node, Definition):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None
