"""The verb `secure`: keys, users and client configurations for brokers that others start."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.cli.secured.folder import PRIVATE_UMASK, write_private
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import pairs, zookeeper_servers
from minikafka.client.config import parse_bootstrap_servers
from minikafka.kernel import events
from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import CoordinationError

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        required=True,
        type=Path,
        help="where keys, passwords and configurations are; made if it does not exist",
    )
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        metavar="ID=HOST,...",
        help="a broker, and the hosts of its certificate besides localhost; repeatable",
    )
    parser.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="NAME",
        help="a SASL_SSL listener of the brokers, the first one for brokers too (SASL_SSL); "
        "repeatable",
    )
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT,...",
        help="the brokers in the client configurations",
    )
    parser.add_argument(
        "--zookeeper",
        required=True,
        type=zookeeper_servers,
        metavar="HOST:PORT,...",
        help="where users and ACLs are",
    )


def run(args: argparse.Namespace) -> int:
    from minikafka.cli.secured.folder import SecurityFolder
    from minikafka.cli.secured.users import set_up_users
    from minikafka.world.real.loop import run as run_real
    from minikafka.world.real.world import real_world

    hosts = brokers(pairs(args.broker, "--broker"))
    try:
        parse_bootstrap_servers(args.bootstrap_server)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    events.configure("ERROR")
    os.umask(PRIVATE_UMASK)
    folder = SecurityFolder(args.folder.absolute(), datetime.datetime.now(datetime.UTC))
    for broker_id, names in hosts.items():
        settings = folder.broker_settings(broker_id, names, args.listener or ["SASL_SSL"])
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        write_private(folder.path / f"broker-{broker_id}.properties", text)
    folder.write_client_files(args.bootstrap_server)

    async def write_users() -> bool:
        try:
            return await set_up_users(real_world(), args.zookeeper, folder.passwords)
        except CoordinationError as error:
            text = str(error) or type(error).__name__
            raise ConfigError(f"users cannot be written at {args.zookeeper}: {text}") from error

    written = run_real(write_users())
    print("users and ACLs were written" if written else "users and ACLs were there already")
    print("\n".join(folder.summary()))
    return 0


def brokers(given: Mapping[str, str]) -> dict[int, Sequence[str]]:
    """Return the hosts of each broker, always with those of loopback. Raises ConfigError."""
    if not given:
        raise WrongUsage("name each broker with --broker ID=HOST,...")
    found: dict[int, Sequence[str]] = {}
    for number, text in given.items():
        if not number.isdecimal():
            raise WrongUsage(f"--broker {number}={text}: a broker's id is a number")
        names = [name.strip() for name in text.split(",") if name.strip()]
        found[int(number)] = list(dict.fromkeys([*names, *LOOPBACK]))
    return found
