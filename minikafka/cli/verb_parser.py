"""The parser of a verb's options, and the options that several verbs have.

It names misspelled options, and shows the defaults of all. An option that only one verb has stands
in the module of that verb.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, TypeVar

from minikafka.cli.output import terminal_columns
from minikafka.cli.usage import WrongUsage
from minikafka.kernel.spelling import did_you_mean

A = TypeVar("A", bound=argparse.Action)
_NO_DEFAULTS: Final[tuple[Any, ...]] = (
    None,
    False,
    argparse.SUPPRESS,
    "",
    [],
    (),
    -1,
)  # not shown by help


class VerbParser(argparse.ArgumentParser):
    """The parser of a verb. argparse creates the parsers of its sub-verbs from the same class."""

    def __init__(self, **options: Any) -> None:
        self._words: Sequence[str] = ()
        super().__init__(**{"formatter_class": as_wide_as_the_terminal, **options})

    def _add_action(self, action: A) -> A:
        if action.option_strings and action.default not in _NO_DEFAULTS:
            text = action.help or ""
            default = re.escape(str(action.default))
            if not re.search(rf"(?<!\w){default}(?!\w)|%\(default\)", text.replace(",", "")):
                action.help = f"{text} (default: %(default)s)".strip()
        return super()._add_action(action)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self._words = args or ()
        found, extras = super().parse_known_args(args, namespace)
        if any(word.startswith("--") for word in extras):
            self.error(f"unrecognized arguments: {' '.join(extras)}")
        return found, extras

    def error(self, message: str) -> NoReturn:
        """Exit with status 2. An unknown option replaces argparse's message, which may be that a
        required option is missing."""
        unknown = self._unknown_option()
        if unknown is not None:
            near = did_you_mean(unknown, self._option_string_actions)
            message = f"unknown option {unknown}{near}"
            if actions := self._actions_with(unknown):
                message = f"{unknown} goes after the action: {'|'.join(actions)}"
        super().error(message)

    def _actions_with(self, option: str) -> list[str]:
        """Return the actions, such as ``list``, that have an option."""
        return [
            name
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
            if option in parser._option_string_actions
        ]

    def _unknown_option(self) -> str | None:
        known = self._option_string_actions
        for word in self._words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return None  # values follow, or the options of a sub-verb
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                return name
        return None


def as_wide_as_the_terminal(prog: str) -> argparse.HelpFormatter:
    """Return a help formatter as wide as the terminal. argparse would import shutil to find the
    width, and with it bz2 and lzma."""
    return argparse.HelpFormatter(prog, width=terminal_columns() - 2)


def add_action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    """Add a sub-verb to ``actions``; ``text`` is its help in both places."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    return parser


def add_bootstrap_argument(parser: argparse.ArgumentParser, *config_names: str) -> None:
    """Add --bootstrap-server and --command-config; ``config_names`` are other names of the latter
    in the tool of Kafka's."""
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT,...",
        help="brokers to connect to first",
    )
    parser.add_argument(
        "--command-config",
        *config_names,
        metavar="FILE",
        help="client settings such as security.protocol, a .properties file",
    )


def add_json_argument(parser: argparse._ActionsContainer, text: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def add_pairs_argument(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    """Add an option of the form KEY=VALUE that may be repeated; ``pairs`` parses its values."""
    parser.add_argument(option, metavar="KEY=VALUE", action="append", default=[], help=text)


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """Parse ``KEY=VALUE`` options into a dict. Raises WrongUsage."""
    found = {}
    for value in values:
        key, separator, rest = value.partition("=")
        if not separator:
            raise WrongUsage(f"{option} needs KEY=VALUE, not {value}")
        found[key.strip()] = rest
    return found


def zookeeper_servers(text: str) -> str:
    """Check the servers of HOST:PORT,...[/CHROOT] and return the text, as an argparse type."""
    for server in text.partition("/")[0].split(","):
        host, colon, port = server.strip().rpartition(":")
        is_port = port.isdigit() and 0 < int(port) < 65536
        if not (host and is_port if colon else port):  # without a colon the host is in port
            raise argparse.ArgumentTypeError(f"{server!r} is not HOST:PORT")
    return text


def at_least(least: int) -> Callable[[str], int]:
    """Return the argparse type of an option with a number."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    return number
