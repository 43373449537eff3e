"""The verb `users`: the SCRAM credentials of users, which kafka-configs changes in Kafka.

A password is never an option: it would be in the shell's history and in the list of processes.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.security import ScramIterations
from minikafka.core.security.scram_credentials import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    Deletion,
    Upsertion,
    salted_password,
)
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError

SALT_BYTES: Final = 16
NAMES: Final = tuple(mechanism.kafka_name for mechanism in MECHANISMS.values())
OF_PASSWORDS: Final = ("password_file", "password_env", "iterations")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--create", action="store_true", help="create a user, or change the password"
    )
    action.add_argument("--delete", action="store_true", help="delete credentials of a user")
    action.add_argument("--list", action="store_true", help="list the users with credentials")
    action.add_argument("--describe", action="store_true", help="show mechanisms and iterations")
    parser.add_argument("--user", metavar="NAME", help="all users if missing with --describe")
    parser.add_argument(
        "--mechanism",
        action="append",
        default=[],
        choices=NAMES,
        help="may be repeated; both without it, with --delete those that the user has",
    )
    parser.add_argument(
        "--iterations",
        type=int,
        metavar="COUNT",
        help=f"rounds of hashing, {MIN_ITERATIONS} (the default) to {MAX_ITERATIONS}",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--password-file",
        metavar="FILE",
        help="file whose first line is the password, - for standard input; without this option "
        "and the next one you are asked for it",
    )
    source.add_argument(
        "--password-env", metavar="NAME", help="environment variable that has the password"
    )
    add_json_argument(parser, "print JSON (with --list and --describe)")


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    check(args)
    if args.create:
        password = read_password(args, os.environ)
        return run_admin(config, lambda admin: create(admin, args, password))
    if args.delete:
        return run_admin(config, lambda admin: delete(admin, args))
    show = list_users if args.list else describe
    return run_admin(config, lambda admin: show(admin, args))


# ----------------------------------------------------------------------------------------- options


def check(args: argparse.Namespace) -> None:
    """Raise ConfigError for options that do not go together."""
    if (args.create or args.delete) and not args.user:
        raise WrongUsage(f"{'--create' if args.create else '--delete'} needs a --user")
    if args.list and args.user:
        raise WrongUsage("--list shows all users; --describe takes a --user")
    if not args.create and any(getattr(args, name) is not None for name in OF_PASSWORDS):
        raise WrongUsage("--password-file, --password-env and --iterations go with --create only")
    if args.mechanism and not (args.create or args.delete):
        raise WrongUsage("--mechanism goes with --create and --delete only")
    if args.json and (args.create or args.delete):
        raise WrongUsage("--json goes with --list and --describe only")


def read_password(
    args: argparse.Namespace,
    environment: Mapping[str, str],
    ask: Callable[[str], str] = getpass.getpass,
) -> str:
    """Return the password for --create. Raises ConfigError, OSError."""
    if args.password_env is not None:
        password = environment.get(args.password_env, "")
    elif args.password_file == "-":
        password = sys.stdin.readline().rstrip("\r\n")
    elif args.password_file is not None:
        lines = Path(args.password_file).read_text(encoding="utf-8").splitlines()
        password = lines[0] if lines else ""
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", getpass.GetPassWarning)  # it would be echoed
                password = ask(f"Password of {args.user}: ")
                if password != ask("Once more: "):
                    raise ConfigError("the two passwords differ")
        except EOFError:
            password = ""
        except getpass.GetPassWarning:
            raise WrongUsage(
                "there is no terminal to ask for the password: give --password-env NAME, or "
                "--password-file FILE (- for standard input)"
            ) from None
    if not password:
        raise ConfigError("the password is empty")
    return password


def mechanisms(names: Sequence[str]) -> list[int]:
    """Return the codes of mechanisms, of all without names."""
    return [code for code, one in MECHANISMS.items() if not names or one.kafka_name in names]


# ----------------------------------------------------------------------------------------- actions


async def create(admin: Admin, args: argparse.Namespace, password: str) -> int:
    iterations = MIN_ITERATIONS if args.iterations is None else args.iterations
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise WrongUsage(f"--iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    for code in mechanisms(args.mechanism):  # a request each: KRaft refuses two of one user
        salt = admin.session.world.entropy.random_bytes(SALT_BYTES)
        salted = salted_password(MECHANISMS[code], password, salt, iterations)
        row = Upsertion(args.user, code, iterations, salt, salted)
        _raise_first(await admin.alter_scram_credentials(upsertions=[row]))
    print(f"Completed updating config for user {args.user}.")
    return 0


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    names = args.mechanism
    if not names:
        names = list((await _of_user(admin, args.user)).keys())
    for code in mechanisms(names):
        _raise_first(await admin.alter_scram_credentials(deletions=[Deletion(args.user, code)]))
    print(f"Completed updating config for user {args.user}.")
    return 0


async def list_users(admin: Admin, args: argparse.Namespace) -> int:
    found = await admin.describe_scram_credentials()
    output.show(["user"], [[user] for user in found], args.json)
    return 0


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    if args.user:
        found = {args.user: await _of_user(admin, args.user)}
    else:
        rows = await admin.describe_scram_credentials()
        found = {user: _found(row) for user, row in rows.items()}
    if args.json:
        output.show_json([facts(user, iterations) for user, iterations in found.items()])
        return 0
    if sys.stdout.isatty():
        cells = [(user, *one) for user, iterations in found.items() for one in iterations.items()]
        output.show_table(("user", "mechanism", "iterations"), cells)
        return 0
    for user, iterations in found.items():
        text = ", ".join(f"{name}=iterations={count}" for name, count in iterations.items())
        print(f"SCRAM credential configs for user-principal '{user}' are {text}")
    return 0


def facts(user: str, iterations: ScramIterations) -> dict[str, Any]:
    return {"user": user, "iterations": dict(iterations)}


async def _of_user(admin: Admin, user: str) -> ScramIterations:
    """Return the credentials of a user. Raises KafkaError."""
    return _found((await admin.describe_scram_credentials([user]))[user])


def _found(row: ScramIterations | KafkaError) -> ScramIterations:
    if isinstance(row, KafkaError):
        raise row
    return row


def _raise_first(errors: Mapping[str, KafkaError | None]) -> None:
    for error in filter(None, errors.values()):
        raise error
