"""The options that several verbs have, and the parsing of their values.

An option that only one verb has stands in the module of that verb.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from minikafka.cli.usage import WrongUsage


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
