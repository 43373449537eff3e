"""The verb `quotas`: what limits users, client ids and addresses. `configs` has Kafka's form."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import show
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ANY_NAME, AnyName, DescribedQuota, EntityNames
from minikafka.core.security.client_quotas import CLIENT_ID, CLIENT_KEYS, IP, IP_KEYS, USER
from minikafka.kernel.config import ConfigError

TYPES: Final = (USER, CLIENT_ID, IP)
# What can have a limit: each is asked for by itself, since a filter names all types of an entity.
KINDS: Final = ((USER,), (USER, CLIENT_ID), (CLIENT_ID,), (IP,))
KEYS: Final = (*CLIENT_KEYS, *IP_KEYS)
BYTE_RATES: Final = ("producer_byte_rate", "consumer_byte_rate")
DEFAULT: Final = "<default>"
COLUMNS: Final = ("user", "client-id", "ip", "limit", "value")
_BYTES: Final = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)")
_UNITS: Final[Mapping[str, int]] = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_HELP: Final[Mapping[str, str]] = {
    "producer_byte_rate": "bytes a second of Produce requests; K, M and G are 1024 and so on",
    "consumer_byte_rate": "bytes a second of Fetch responses",
    "request_percentage": "percent of the event loop's time",
    "controller_mutation_rate": "partitions created or deleted a second",
    "connection_creation_rate": "new connections a second, of an address",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="describe|set|remove")
    shown = add_action(actions, "describe", "show limits, all of them without a name")
    add_bootstrap_argument(shown)
    _add_names(shown)
    add_json_argument(shown)
    given = add_action(actions, "set", "set limits; each broker has them for itself")
    add_bootstrap_argument(given)
    _add_names(given)
    for key in KEYS:
        kind = byte_rate if key in BYTE_RATES else rate
        given.add_argument(_option(key), dest=key, type=kind, metavar="RATE", help=_HELP[key])
    gone = add_action(actions, "remove", "remove limits, all of the entity without --limit")
    add_bootstrap_argument(gone)
    _add_names(gone)
    gone.add_argument("--limit", action="append", default=[], choices=KEYS, help="repeatable")


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _add_names(parser: argparse.ArgumentParser) -> None:
    for kind, short in ((USER, "user"), (CLIENT_ID, "client"), (IP, "ip")):
        either = parser.add_mutually_exclusive_group()
        either.add_argument(f"--{short}", dest=kind, metavar="NAME", help=f"a {kind}")
        either.add_argument(
            f"--{short}-defaults",
            dest=kind,
            action="store_const",
            const=None,
            help=f"every {kind} without a limit of its name",
        )
        parser.set_defaults(**{kind: ANY_NAME})


def byte_rate(text: str) -> float:
    found = _BYTES.fullmatch(text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"must be bytes a second such as 500K or 10M, not {text}")
    return float(found[1]) * _UNITS[found[2]]


def rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text}") from None


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    names = {kind: getattr(args, kind) for kind in TYPES}
    entity = {kind: name for kind, name in names.items() if not isinstance(name, AnyName)}
    if IP in entity and len(entity) > 1:
        raise WrongUsage("addresses cannot be combined with users or clients")
    if args.action == "describe":
        return run_admin(config, lambda admin: describe(admin, entity, args.json))
    if not entity:
        raise WrongUsage("name a user, a client or an address, or --user-defaults and so on")
    if args.action == "remove":
        return run_admin(config, lambda admin: remove(admin, entity, args.limit))
    limits = [(key, value) for key in KEYS if (value := getattr(args, key)) is not None]
    if not limits:
        raise WrongUsage(f"name a limit: {', '.join(_option(key) for key in KEYS)}")
    return run_admin(config, lambda admin: alter(admin, entity, limits))


async def find(admin: Admin, entity: EntityNames) -> list[DescribedQuota]:
    """Return the limits of all entities that contain these names: those of a user also where they
    are of the user with a client id."""
    found: list[DescribedQuota] = []
    for kinds in KINDS:
        if entity.keys() <= set(kinds):
            found += await admin.describe_client_quotas(
                {kind: entity.get(kind) if kind in entity else ANY_NAME for kind in kinds}
            )
    return found


async def describe(admin: Admin, entity: EntityNames, as_json: bool) -> int:
    show_quotas(await find(admin, entity), as_json)
    return 0


def show_quotas(found: Sequence[DescribedQuota], as_json: bool = False) -> None:
    rows = [
        [
            *(_name(row.entity, kind) for kind in TYPES),
            key,
            int(value) if value.is_integer() else value,
        ]
        for row in found
        for key, value in sorted(row.limits.items())
    ]
    show(COLUMNS, rows, as_json)


def _name(entity: EntityNames, kind: str) -> str:
    if kind not in entity:
        return ""
    name = entity[kind]
    return DEFAULT if name is None else name


async def alter(admin: Admin, entity: EntityNames, limits: Sequence[tuple[str, float]]) -> int:
    await admin.alter_client_quotas(entity, limits)
    print(f"set {', '.join(key for key, _ in limits)} of {_text(entity)}")
    return 0


async def remove(admin: Admin, entity: EntityNames, keys: Sequence[str]) -> int:
    """Raises ConfigError if the entity does not have the limits."""
    found = await admin.describe_client_quotas(entity)
    there = sorted({key for row in found for key in row.limits})
    gone = list(keys) or there
    missing = sorted(set(gone) - set(there))
    if missing or not gone:
        raise ConfigError(f"{_text(entity)} has no {', '.join(missing) or 'limits'}")
    await admin.alter_client_quotas(entity, [(key, None) for key in gone])
    print(f"removed {', '.join(gone)} of {_text(entity)}")
    return 0


def _text(entity: EntityNames) -> str:
    return ", ".join(f"{kind} {_name(entity, kind)}" for kind in TYPES if kind in entity)
