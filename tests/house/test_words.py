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
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minikafka"
TESTS = ROOT / "tests"

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

SOURCES = sorted(PACKAGE.rglob("*.py"))
TEST_FILES = sorted(TESTS.rglob("test_*.py"))
ALL_OF_TESTS = sorted(TESTS.rglob("*.py"))
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def texts(source: str) -> list[tuple[int, str]]:
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
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, node.value))
    return found


def docstrings(source: str) -> list[tuple[int, str]]:
    """Docstrings of the module, its classes and functions, by line."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Documented)]
    return [(node.body[0].lineno, ast.get_docstring(node) or "") for node in found if node.body]


def retired_words(found: list[tuple[int, str]]) -> list[str]:
    return [
        f"{line}: {match[0]}"
        for line, text in found
        for match in RETIRED.finditer(" ".join(text.split()))
    ]


def opaque_names(source: str) -> list[str]:
    """Names of tests, in classes too, that contain a retired word."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and RETIRED_IN_NAMES.search(node.name)
    ]


def found_in(paths: list[Path], look: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """What ``look`` finds in the files, by path; those in which it finds nothing are left out."""
    found = {path.relative_to(ROOT).as_posix(): look(path.read_text()) for path in paths}
    return {path: words for path, words in found.items() if words}


def test_no_retired_word_is_used() -> None:
    assert found_in(SOURCES, lambda source: retired_words(texts(source))) == {}


def test_retired_words_are_found_across_lines_and_in_messages() -> None:
    source = '"""The follower is\ntold."""\n# read\n# anew\nfail("Whoever asked")\n'
    assert retired_words(texts(source)) == ["3: anew", "1: is told", "5: Whoever"]


def test_docstrings_of_tests_use_no_retired_word() -> None:
    assert found_in(ALL_OF_TESTS, lambda source: retired_words(docstrings(source))) == {}


def test_retired_words_are_found_in_docstrings_and_not_in_data_of_tests() -> None:
    source = (
        'class Log:\n    """A disk of its own."""\n\n    def read(self):\n'
        '        """In\n        vain."""\n        return "anew"  # anew\n'
    )
    assert retired_words(docstrings(source)) == ["2: of its own", "5: In vain"]


def test_test_names_use_no_retired_word() -> None:
    assert found_in(TEST_FILES, opaque_names) == {}


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
    assert opaque_names(source) == opaque
    assert opaque_names("def test_nobody_leads(): ...") == ["test_nobody_leads"]
