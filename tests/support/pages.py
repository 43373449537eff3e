"""The pages of the documentation: their commands with the output, files, and code spans."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from minikafka.cli.main import VERBS
from minikafka.cli.usage import ACTIONS, translate
from tests.support.sources import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHELLS = ("", "console", "sh", "bash", "shell")
# How a command begins. Other lines of a block that has commands are output.
COMMAND = re.compile(
    r"[A-Z_]+=|(export|until|for|echo|kill|minikafka|git|pip|python3|source|curl|docker-compose|prometheus"
    r"|spark-submit|kafka-[\w-]+\.sh) |scripts/"
)
# Beginnings of commands that the tests of the pages do not run, by the reason.
NOT_RUN = {
    "CI runs them, or tests/unit/scripts": ("scripts/",),
    "make the environment of this test": (
        "git clone ",
        "python3 -m venv ",
        "source ",
        "pip install ",
    ),
    "need Docker: tests/docker": (
        "docker-compose ",
        "minikafka topics list --bootstrap-server localhost:9192 ",
    ),
    "need Apache Kafka: tests/kafka": (
        "kafka-server-stop.sh",
        "minikafka migrate plan ... --way add ",
    ),
    "is not installed: tests/unit/cli/processes reads the file": ("prometheus ",),
    "needs a cluster of Spark: tests/spark": ("spark-submit ",),
    "start Spark: tests/spark": tuple(
        f"minikafka pipeline {action} " for action in ("check", "run", "status", "replay")
    ),
    "takes 20 s of CPU: tests/browser": ("minikafka learn --site ",),
}
EXCEPTIONS = tuple(chain.from_iterable(NOT_RUN.values()))
FENCE = re.compile(r"( *)```(.*)")


@dataclass
class Command:
    """A command of a page, with the output that the page shows below it."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


@dataclass
class Block:
    """A fenced block, or an indented one, which has no info string."""

    line: int
    info: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def file(self) -> str | None:
        """The name of the file that the block shows: ```json name=recipe.json."""
        found = re.search(r"name=(\S+)", self.info)
        return found[1] if found else None

    @cached_property
    def commands(self) -> list[Command]:
        """Raises ValueError for output without a command."""
        found: list[Command] = []
        if self.info not in SHELLS or not any(COMMAND.match(_typed(each)) for each in self.lines):
            return found
        is_open = False
        for number, line in enumerate(self.lines, self.line):
            if is_open:
                found[-1].text += f"\n{line}"
            elif COMMAND.match(_typed(line)):
                found.append(Command(number, _typed(line)))
            elif not line.strip() or line.lstrip().startswith("#"):
                continue
            elif found:
                found[-1].output.append(line)
                continue
            else:
                raise ValueError(f"line {number} is output of no command: {line}")
            is_open = not _is_complete(found[-1].text)
        return found


def is_not_run(command: Command) -> bool:
    return command.text.startswith(EXCEPTIONS)


def _typed(line: str) -> str:
    return line.removeprefix("$ ")


def _is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    if not re.search(r"['\"(<|&]|^(until|for) ", command):
        return True  # nothing is open that bash would look for
    return not subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True).stderr


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of code in the order of the page. ``line`` is that of the first one."""
    fenced: tuple[str, Block] | None = None
    indented: Block | None = None
    before = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.fullmatch(line)
        if fenced is not None:
            margin, block = fenced
            if fence:
                yield block
                fenced = None
            else:
                block.lines.append(line.removeprefix(margin))
        elif indented and (line.startswith("    ") or not line):
            indented.lines.append(line[4:])
        elif fence:
            fenced = fence[1], Block(number + 1, fence[2], [])
        elif line.startswith("    ") and not before:
            indented = Block(number, "", [line[4:]])
        if indented and line and not line.startswith("    "):
            yield indented
            indented = None
        before = line
    if indented:
        yield indented


def code_spans(page: Path) -> Iterator[tuple[int, str]]:
    """Yield what stands in backticks, by line. A `|` in a table is written with a backslash."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for span in re.findall(r"`([^`]+)`", line):
            yield number, span.replace("\\|", "|")


def parser_of(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"minikafka {verb}", exit_on_error=False)
    importlib.import_module(VERBS[verb][0]).add_arguments(parser)
    return parser


def parse(verb: str, words: Sequence[str]) -> argparse.Namespace:
    """Parse as the command line does. Raises ArgumentError, SystemExit."""
    return parser_of(verb).parse_args(translate(verb, words))


def unknown_names(verb: str, words: Sequence[str]) -> list[str]:
    """Return the options and actions among ``words`` that the verb does not have. ``|`` separates
    alternatives, brackets mark what may be left out, and values are not looked at."""
    names, actions = _names(parser_of(verb))
    names |= {f"--{action}" for action in ACTIONS.get(verb, ())} | {"--help"}
    unknown = []
    alternative = True
    for word in (word.strip("[]") for word in words):
        name = word.split("=")[0].split("[")[0]
        if name.startswith("--"):
            unknown += [] if name in names else [name]
        elif alternative and actions and word not in ("|", "..."):
            unknown += [] if word in actions else [word]
        alternative = word == "|"
    return unknown


def _names(parser: argparse.ArgumentParser) -> tuple[set[str], set[str]]:
    """Return all options of a parser and of its actions, and the names of the actions."""
    names: set[str] = set()
    actions: set[str] = set()
    for each in parser._actions:
        names |= set(each.option_strings)
        if isinstance(each, argparse._SubParsersAction):
            actions |= set(each.choices)
            names.update(*(_names(below)[0] for below in each.choices.values()))
    return names, actions
