"""Pages of the manual about the verbs of the command line, made from their parsers."""

from __future__ import annotations

import argparse
import importlib
import os.path
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from minikafka.cli.main import VERBS
from minikafka.cli.usage import KAFKA_FORMS
from minikafka.cli.verb_parser import VerbParser

COLUMNS: Final = 100
_USAGE: Final = "usage: "
_COMMAND: Final = re.compile(r"^(?: {4}|\$ )?(?:.*\| )?minikafka ([a-z-]+)", re.MULTILINE)


def write_verb_pages(pages: Path) -> None:
    """Write a page for each verb below ``pages``, the folder of all documents, and link the table
    of verbs to them."""
    reference = pages / "docs" / "reference"
    folder = reference / "verbs"
    folder.mkdir()
    used = _used_on(pages)
    for verb in VERBS:
        (folder / f"{verb}.md").write_text(verb_page(verb, used.get(verb, {}), folder))
    table = reference / "verbs.md"
    table.write_text("".join(map(_linked, table.read_text().splitlines(keepends=True))))


def verb_page(verb: str, used: dict[Path, str], folder: Path) -> str:
    """Return the page of a verb. ``used`` are titles of the pages that show it, by their path."""
    module, text = VERBS[verb]
    parser = VerbParser(
        prog=f"minikafka {verb}",
        description=text,
        epilog=KAFKA_FORMS.get(verb),
        formatter_class=partial(argparse.HelpFormatter, width=COLUMNS),
    )
    importlib.import_module(module).add_arguments(parser)
    lines = [f"# minikafka {verb}", "", *_described(parser)]
    for name, below in _actions_of(parser):
        lines += [f"## {verb} {name}", "", *_described(below)]
    if used:
        links = [f"- [{title}]({os.path.relpath(path, folder)})" for path, title in used.items()]
        lines += ["## Used in", "", *links, ""]
    return "\n".join(lines)


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of a parser without its actions: what it is for, its usage, its options."""
    if parser.description:
        yield from (f"{_sentence(parser.description)}", "")
    usage = (
        parser.format_usage().removeprefix(_USAGE).rstrip().replace("\n" + " " * len(_USAGE), "\n")
    )
    yield from ("```", usage, "```", "")
    formatter = argparse.HelpFormatter(parser.prog, width=COLUMNS)
    rows = [
        f"| `{_cell(formatter._format_action_invocation(action))}` | "
        f"{_cell(formatter._expand_help(action))} |"
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        and action.help != argparse.SUPPRESS
    ]
    if rows:
        yield from ("| option | what it does |", "|---|---|", *rows, "")
    if parser.epilog:
        yield from (parser.epilog, "")


def _actions_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            descriptions = {each.dest: each.help for each in action._choices_actions}
            for name, below in action.choices.items():
                below.description = below.description or descriptions.get(name)
                yield name, below


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}".rstrip(".") + "."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _used_on(pages: Path) -> dict[str, dict[Path, str]]:
    """Return the titles of the pages with a command of each verb, by their path."""
    found: dict[str, dict[Path, str]] = {}
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text()
        for verb in _COMMAND.findall(text):
            title = re.search(r"^# (.+)", text, re.MULTILINE)
            found.setdefault(verb, {})[page] = title[1] if title else page.stem
    return found


def _linked(row: str) -> str:
    """Link the verbs in the first column of a row of the table to their pages."""
    first, rest, more = row.partition(" | ")
    if not row.startswith("| `"):
        return row

    def link(found: re.Match[str]) -> str:
        verb = found[1].split()[0]
        return f"[{found[0]}](verbs/{verb}.md)" if verb in VERBS else found[0]

    return re.sub(r"`([^`]+)`", link, first) + rest + more
