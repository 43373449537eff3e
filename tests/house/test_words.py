"""Texts of the package, and names and docstrings of tests, keep to the words that the field uses.

A word is retired where it hides which part does what: a broker does not hear about a leader, it
receives a request. Words that also have a plain use ("ask" a user, "own" as an adjective) are not
listed.

The name of a test stands alone, so more words are retired there: the name says which broker,
request, record or partition does what.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

RETIRED = re.compile(
    r"\b(hears? of|(?:is|are|was|were|be|been) told|whoever|who waits|what is wanted"
    r"|in (?:one|this|the same|a) breath|in vain|anew|at hand|has no business with"
    r"|of (?:its|their) own)\b",
    re.IGNORECASE,
)

# Whole words between underscores ("masked" is fine), except "answer" in every form.
RETIRED_IN_NAMES = re.compile(
    r"(?<![a-z])(?:what|who|whoever|nobody|told|hears|asks|asked|anew|in_vain|breath|meanwhile)"
    r"(?![a-z])|answer"
)

ALL_OF_TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEST_FILES = [path for path in ALL_OF_TESTS if path.name.startswith("test_")]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def texts(source: str, nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """Comments (each run of lines as one), docstrings and other string literals, by line."""
    found: list[tuple[int, str]] = []
    last_comment = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, text = token.start[0], token.string.lstrip("# ")
            if row == last_comment + 1 and found:
                found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
            else:
                found.append((row, text))
            last_comment = row
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, node.value))
    return found


def docstrings(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """Docstrings of the module, its classes and functions, by line."""
    found = [node for node in nodes if isinstance(node, Documented)]
    return [(node.body[0].lineno, ast.get_docstring(node) or "") for node in found if node.body]


def retired_words(found: list[tuple[int, str]]) -> list[str]:
    return [
        f"{line}: {match[0]}"
        for line, text in found
        for match in RETIRED.finditer(" ".join(text.split()))
    ]


def opaque_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Names of tests, in classes too, that contain a retired word."""
    return [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and RETIRED_IN_NAMES.search(node.name)
    ]


def nodes_in(source: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(source))


def found_in(paths: list[Path], look: Callable[[Path], list[str]]) -> dict[str, list[str]]:
    """What ``look`` finds in the files, by path; those in which it finds nothing are left out."""
    found = {path.relative_to(ROOT).as_posix(): look(path) for path in paths}
    return {path: words for path, words in found.items() if words}


def test_no_retired_word_is_used() -> None:
    def look(path: Path) -> list[str]:
        return retired_words(texts(path.read_text(), nodes_of(path)))

    assert found_in(SOURCES, look) == {}


def test_retired_words_are_found_across_lines_and_in_messages() -> None:
    source = '"""The follower is\ntold."""\n# read\n# anew\nfail("Whoever asked")\n'
    assert retired_words(texts(source, nodes_in(source))) == ["3: anew", "1: is told", "5: Whoever"]


def test_docstrings_of_tests_use_no_retired_word() -> None:
    assert found_in(ALL_OF_TESTS, lambda path: retired_words(docstrings(nodes_of(path)))) == {}


def test_retired_words_are_found_in_docstrings_and_not_in_data_of_tests() -> None:
    source = (
        'class Log:\n    """A disk of its own."""\n\n    def read(self):\n'
        '        """In\n        vain."""\n        return "anew"  # anew\n'
    )
    assert retired_words(docstrings(nodes_in(source))) == ["2: of its own", "5: In vain"]


def test_test_names_use_no_retired_word() -> None:
    assert found_in(TEST_FILES, lambda path: opaque_names(nodes_of(path))) == {}


def test_retired_words_are_found_in_names_of_tests_and_methods() -> None:
    opaque = [
        "test_what_is_kept",
        "test_the_leader_is_told",
        "test_it_answers",
        "test_waits_in_vain",
    ]
    plain = ["test_masked_values_whole", "told", "test_leader_responds"]
    source = "class TestIt:\n"
    for name in [*opaque, *plain]:
        source += f"    async def {name}(self): ...\n"
    assert opaque_names(nodes_in(source)) == opaque
    assert opaque_names(nodes_in("def test_nobody_leads(): ...")) == ["test_nobody_leads"]
