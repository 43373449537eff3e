"""Docstrings, comments and messages of the package keep to the words that the field uses.

A word is retired where it hides who does what: a broker does not "hear of" a leader, it receives a
request. Words that also have a plain use ("ask" a user, "own" as an adjective) are not listed.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minikafka"

RETIRED = re.compile(
    r"\b(hears? of|(?:is|are|was|were|be|been) told|whoever|who waits|what is wanted"
    r"|in (?:one|this|the same|a) breath|in vain|anew|at hand|has no business with"
    r"|of (?:its|their) own)\b",
    re.IGNORECASE,
)

SOURCES = sorted(PACKAGE.rglob("*.py"))


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


def retired_words(source: str) -> list[str]:
    return [
        f"{line}: {match[0]}"
        for line, text in texts(source)
        for match in RETIRED.finditer(" ".join(text.split()))
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_retired_word_is_used(path: Path) -> None:
    assert retired_words(path.read_text()) == []


def test_retired_words_are_found_across_lines_and_in_messages() -> None:
    source = '"""The follower is\ntold."""\n# read\n# anew\nfail("Whoever asked")\n'
    assert retired_words(source) == ["3: anew", "1: is told", "5: Whoever"]
