"""The verb `tokens`: delegation tokens, with the options and output of kafka-delegation-tokens."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.security import SecretToken
from minikafka.core.security.delegation_tokens import MAX_TIMESTAMP_MS
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.principals import Principal, parse_principal

Action: TypeAlias = Callable[[Admin, argparse.Namespace], Coroutine[Any, Any, int]]
ACTIONS: Final = ("create", "renew", "expire", "describe")
NAMES_OF_TOKEN: Final = ("hmac", "token_id")  # exactly one of them
# The options that go with one action, or with some, by their names in the parsed arguments.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "create": ("max_life_time_period",),
        "renew": ("renew_time_period",),
        "expire": ("expiry_time_period",),
        "describe": (),
    }
)
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "create": ("owner_principal", "renewer_principal"),
        "renew": NAMES_OF_TOKEN,
        "expire": NAMES_OF_TOKEN,
        "describe": ("owner_principal",),
    }
)
COLUMNS: Final = (
    ("TOKENID", 15), ("HMAC", 30), ("OWNER", 15), ("REQUESTER", 15), ("RENEWERS", 25),
    ("ISSUEDATE", 15), ("EXPIRYDATE", 15), ("MAXDATE", 15),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--create", action="store_true", help="create a token")
    action.add_argument("--renew", action="store_true", help="let a token expire later")
    action.add_argument("--expire", action="store_true", help="let a token expire, or remove it")
    action.add_argument("--describe", action="store_true", help="list tokens")
    of_many: dict[str, Any] = {"action": "append", "default": [], "metavar": "TYPE:NAME"}
    parser.add_argument(
        "--owner-principal",
        **of_many,
        help="with --create the owner, if it is not the user who logs in; with --describe the "
        "owners, requesters or renewers; may be repeated; all without it",
    )
    parser.add_argument(
        "--renewer-principal", **of_many, help="who else may renew the token; may be repeated"
    )
    milliseconds: dict[str, Any] = {"type": _milliseconds, "metavar": "MS"}
    parser.add_argument(
        "--max-life-time-period",
        **milliseconds,
        help="longest life of the token; -1: delegation.token.max.lifetime.ms of the brokers",
    )
    parser.add_argument(
        "--renew-time-period",
        **milliseconds,
        help="when it expires from now on; -1: delegation.token.expiry.time.ms of the brokers",
    )
    parser.add_argument(
        "--expiry-time-period", **milliseconds, help="when it expires from now on; -1: now"
    )
    parser.add_argument("--hmac", metavar="BASE64", help="the HMAC of the token")
    parser.add_argument(
        "--token-id",
        metavar="ID",
        help="with --renew and --expire: the token, whose HMAC is then not in the command line",
    )
    add_json_argument(parser, "print JSON (with --create and --describe)")


def _milliseconds(text: str) -> int:
    number = int(text)
    if abs(number) > MAX_TIMESTAMP_MS:
        raise argparse.ArgumentTypeError("does not fit a long")
    return number


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    work = action_of(args)
    return run_admin(config, lambda admin: work(admin, args))


# ----------------------------------------------------------------------------------------- options


def action_of(args: argparse.Namespace) -> Action:
    """Return the action that the options name. Raises WrongUsage for options that
    kafka-delegation-tokens does not take together."""
    action = next(name for name in ACTIONS if getattr(args, name))
    given = {
        name
        for names in (*NEEDED.values(), *ALLOWED.values())
        for name in names
        if getattr(args, name) not in (None, [])
    }
    missing = [name for name in NEEDED[action] if name not in given]
    if missing:
        raise WrongUsage(f"--{action} needs {_option(missing[0])}")
    others = sorted(given.difference(NEEDED[action], ALLOWED[action]))
    if others:
        raise WrongUsage(f"--{action} takes no {_option(others[0])}")
    if action in ("renew", "expire") and len(given & {*NAMES_OF_TOKEN}) != 1:
        raise WrongUsage(f"--{action} needs --hmac or --token-id")
    if args.json and action not in ("create", "describe"):
        raise WrongUsage("--json goes with --create and --describe only")
    if args.create and len(args.owner_principal) > 1:
        raise WrongUsage("a token has one owner: --owner-principal may be given once")
    if args.hmac is not None:
        hmac_of(args)
    principals([*args.owner_principal, *args.renewer_principal])
    return {"create": create, "renew": renew, "expire": expire, "describe": describe}[action]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def principals(texts: Iterable[str]) -> list[Principal]:
    """Raises WrongUsage."""
    try:
        return [parse_principal(text.strip()) for text in texts]
    except ValueError as error:
        raise WrongUsage(str(error)) from None


def hmac_of(args: argparse.Namespace) -> bytes:
    """Raises WrongUsage."""
    try:
        return base64.b64decode(args.hmac, validate=True)
    except ValueError:
        raise WrongUsage("--hmac is not base64") from None


# ----------------------------------------------------------------------------------------- actions


async def secret_of(admin: Admin, args: argparse.Namespace) -> bytes:
    """Return the HMAC of the token that the options name. Raises KafkaError,
    DELEGATION_TOKEN_NOT_FOUND if this user sees no token of that id."""
    if args.token_id is None:
        return hmac_of(args)
    for one in await admin.describe_delegation_tokens():
        if one.token.token_id == args.token_id:
            return one.hmac
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"no token has the id {args.token_id}")


def _name(args: argparse.Namespace) -> str:
    return f"hmac :{args.hmac}" if args.token_id is None else f"tokenId :{args.token_id}"


async def create(admin: Admin, args: argparse.Namespace) -> int:
    renewers = principals(args.renewer_principal)
    owner = next(iter(principals(args.owner_principal)), None)
    if not args.json:
        print(
            f"Calling create token operation with renewers :{_java_list(renewers)} , "
            f"max-life-time-period :{args.max_life_time_period}",
            flush=True,
        )
    made = await admin.create_delegation_token(renewers, args.max_life_time_period, owner=owner)
    if args.json:
        output.show_json(facts(made))
        return 0
    print(f"Created delegation token with tokenId : {made.token.token_id}")
    _show([made])
    return 0


async def renew(admin: Admin, args: argparse.Namespace) -> int:
    period_ms = args.renew_time_period
    print(
        f"Calling renew token operation with {_name(args)} , renew-time-period :{period_ms}",
        flush=True,
    )
    expiry_ms = await admin.renew_delegation_token(await secret_of(admin, args), period_ms)
    print(f"Completed renew operation. New expiry date : {_date(expiry_ms)}")
    return 0


async def expire(admin: Admin, args: argparse.Namespace) -> int:
    period_ms = args.expiry_time_period
    print(
        f"Calling expire token operation with {_name(args)} , expire-time-period :{period_ms}",
        flush=True,
    )
    expiry_ms = await admin.expire_delegation_token(await secret_of(admin, args), period_ms)
    print(f"Completed expire operation. New expiry date : {_date(expiry_ms)}")
    return 0


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    owners = principals(args.owner_principal)
    on_terminal = sys.stdout.isatty()
    if not args.json and not on_terminal:
        print(
            f"Calling describe token operation for owners: {_java_list(owners)}"
            if owners
            else "Calling describe token operation for current user.",
            flush=True,
        )
    found = await admin.describe_delegation_tokens(owners or None)
    if args.json:
        output.show_json([facts(one) for one in found])
        return 0
    if on_terminal:
        show_table(found, admin.session.world.clock.wall_ms())
        return 0
    print(f"Total number of tokens : {len(found)}", end="")
    _show(found)
    return 0


def show_table(found: Iterable[SecretToken], now_ms: int) -> None:
    """Print a table without secrets. A token that has expired is sick."""
    rows = []
    for token in (one.token for one in found):
        expiry = _date(token.expiry_ms)
        rows.append(
            (
                token.token_id,
                str(token.owner),
                list(token.renewers),
                _date(token.issue_ms),
                output.Sick(expiry) if token.expiry_ms <= now_ms else expiry,
                _date(token.max_ms),
            )
        )
    output.show_table(("token", "owner", "renewers", "issued", "expires", "at the latest"), rows)


def _show(tokens: Iterable[SecretToken]) -> None:
    print()
    print(_row(name for name, _ in COLUMNS))
    for one in tokens:
        token = one.token
        print()
        print(
            _row(
                (
                    token.token_id,
                    one.password,
                    str(token.owner),
                    str(token.requester),
                    _java_list(token.renewers),
                    *(_date(at_ms) for at_ms in (token.issue_ms, token.expiry_ms, token.max_ms)),
                )
            )
        )


def _row(cells: Iterable[str]) -> str:
    return " ".join(cell.ljust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def _java_list(found: Iterable[Principal]) -> str:
    return f"[{', '.join(map(str, found))}]"


def _date(at_ms: int) -> str:
    """Return a time in the form of Kafka's tool, in the time zone of this machine."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)  # after the year 9999


def facts(one: SecretToken) -> dict[str, object]:
    token = one.token
    return {
        "tokenId": token.token_id,
        "hmac": one.password,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(renewer) for renewer in token.renewers],
        "issueTimestamp": token.issue_ms,
        "expiryTimestamp": token.expiry_ms,
        "maxTimestamp": token.max_ms,
    }
