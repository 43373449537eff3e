"""Quotas in the verb `configs`: the users, clients and addresses that the options name."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from minikafka.cli.output import show_json
from minikafka.cli.usage import WrongUsage
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.client.admin.quotas import ANY_NAME, AnyName, DescribedQuota, EntityNames
from minikafka.core.security.client_quotas import CLIENT_ID, IP, USER, java_double
from minikafka.kernel.config import ConfigError

# The types of the options, and those of the protocol.
QUOTA_TYPES: Final[Mapping[str, str]] = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_LABELS: Final[Mapping[str, str]] = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
_SHORT: Final[Mapping[str, str]] = {"user": "users", "client": "clients", "ip": "ips"}

QuotaNames: TypeAlias = Mapping[str, str | AnyName | None]


def add_short_forms(parser: argparse.ArgumentParser) -> None:
    for short, long_form in _SHORT.items():
        parser.add_argument(
            f"--{short}", metavar="NAME", help=f"short for --entity-type {long_form} ..."
        )
        parser.add_argument(
            f"--{short}-defaults",
            action="store_true",
            help=f"short for --entity-type {long_form} --entity-default",
        )


def quota_entity(args: argparse.Namespace) -> QuotaNames | None:
    """Return the names by type of the entity whose quotas the options mean; None if they mean
    another configuration. Raises ConfigError."""
    given = [short for short in _SHORT if _is_given(args, short)]
    types = list(args.entity_types)
    if not given and not set(types) & QUOTA_TYPES.keys():
        return None
    if set(types) - QUOTA_TYPES.keys() or len(set(types)) < len(types):
        raise WrongUsage("only users and clients can be combined")
    if given and types:
        raise WrongUsage("--entity-type cannot be combined with its short form")
    if (given and args.entity_names) or len(args.entity_names) > len(types) > 0:
        raise WrongUsage("there are more entity names than types")
    found: dict[str, str | AnyName | None] = {}
    for place, kind in enumerate(types):
        named = place < len(args.entity_names)
        found[QUOTA_TYPES[kind]] = args.entity_names[place] if named else ANY_NAME
    for short in given:
        name, is_default = getattr(args, short), getattr(args, f"{short}_defaults")
        if name is not None and is_default:
            raise WrongUsage(f"--{short} and --{short}-defaults cannot be combined")
        found[QUOTA_TYPES[_SHORT[short]]] = name
    if IP in found and len(found) > 1:
        raise WrongUsage("addresses cannot be combined with users or clients")
    if args.alter and ANY_NAME in found.values():
        raise WrongUsage("--alter needs an entity name")
    return found


def _is_given(args: argparse.Namespace, short: str) -> bool:
    return getattr(args, short) is not None or getattr(args, f"{short}_defaults")


def quota_work(
    entity: QuotaNames, changes: Sequence[ConfigAlteration], as_json: bool
) -> Callable[[Admin], Awaitable[int]]:
    """Return what the verb does: alter the quotas if there are ``changes``, else describe them.
    Raises ConfigError for a limit that is no number."""
    limits = [(change.name, _limit(change)) for change in changes]

    async def work(admin: Admin) -> int:
        if limits:
            named = {kind: name for kind, name in entity.items() if not isinstance(name, AnyName)}
            await _alter(admin, named, limits)
        else:
            _show(await admin.describe_client_quotas(entity), as_json)
        return 0

    return work


def _limit(change: ConfigAlteration) -> float | None:
    if change.value is None:
        return None
    try:
        return float(change.value)
    except ValueError:
        raise WrongUsage(f"{change.name} must be a number, not {change.value!r}") from None


async def _alter(
    admin: Admin, entity: EntityNames, limits: Sequence[tuple[str, float | None]]
) -> None:
    """Raises ConfigError for keys to delete that are not set, KafkaError if a request fails."""
    gone = {key for key, limit in limits if limit is None}
    if gone:
        found = await admin.describe_client_quotas(entity)
        there = {key for row in found for key in row.limits}
        if gone - there:
            raise ConfigError(f"Invalid config(s): {','.join(sorted(gone - there))}")
    await admin.alter_client_quotas(entity, limits)
    kind, name = next(iter(entity.items()))
    plural = next(long_form for long_form, meant in QUOTA_TYPES.items() if meant == kind)
    if name is None:
        print(f"Completed updating default config for {plural} in the cluster.")
    else:
        print(f"Completed updating config for {plural[:-1]} {name}.")


def _show(found: Sequence[DescribedQuota], as_json: bool) -> None:
    if as_json:
        show_json([{"entity": dict(row.entity), "quotas": dict(row.limits)} for row in found])
        return
    for row in found:
        limits = ", ".join(f"{key}={java_double(value)}" for key, value in row.limits.items())
        print(f"Quota configs for {entity_text(row.entity)} are {limits}")


def entity_text(entity: EntityNames) -> str:
    """Return an entity as Kafka's tool shows it."""
    return ", ".join(
        f"the default {label}" if entity[kind] is None else f"{label} '{entity[kind]}'"
        for kind, label in _LABELS.items()
        if kind in entity
    )
