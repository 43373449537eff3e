"""Pages name only options, scripts and modules that exist, also where no test runs the command."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from minikafka.cli.main import VERBS
from tests.support.pages import EXCEPTIONS, PAGES, blocks, code_spans, is_not_run, unknown_names
from tests.support.sources import ROOT

HISTORY = ("CHANGELOG.md", "plan.md")  # they name what is no more, or not yet


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verbs_have_the_options_and_actions_of_a_page(page: Path) -> None:
    texts = [] if page.name in HISTORY else list(code_spans(page))
    for block in blocks(page):
        texts += [(command.line, command.text) for command in block.commands if is_not_run(command)]
    for line, text in texts:
        first, *words = [*text.split("  #")[0].removeprefix("minikafka ").split(), ""]
        if first in VERBS and (len(words) > 1 or text.startswith("minikafka ")):
            assert unknown_names(first, words[:-1]) == [], f"line {line}: {text}"
        if re.match(r"scripts/[\w-]+$", first):
            assert (ROOT / first).exists(), f"line {line}: {text}"


@pytest.mark.parametrize("beginning", EXCEPTIONS)
def test_a_command_that_is_not_run_is_on_a_page(beginning: str) -> None:
    """Remove it from ``NOT_RUN`` otherwise."""
    commands = [command for page in PAGES for block in blocks(page) for command in block.commands]
    assert any(command.text.startswith(beginning) for command in commands)


def test_the_table_of_verbs_has_every_verb() -> None:
    rows = (ROOT / "docs" / "reference" / "verbs.md").read_text().splitlines()
    named = {
        span.split()[0]
        for row in rows
        if row.startswith("| `")
        for span in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    }
    assert named == set(VERBS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_compiles_and_its_imports_exist(page: Path) -> None:
    for block in blocks(page):
        if block.info.startswith("python"):
            tree = ast.parse(block.text)
            ours = [
                node
                for node in tree.body
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("minikafka")
            ]
            exec(compile(ast.Module(list(ours), []), str(page), "exec"), {})
