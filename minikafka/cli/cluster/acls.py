"""The verb `acls`: adds, lists and removes ACLs, with the options and the output of kafka-acls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.kernel.principals import parse_principal

C = TypeVar("C", bound=IntEnum)

# The options that name resources.
RESOURCES: Final[Mapping[str, AclResourceType]] = MappingProxyType(
    {
        "topic": AclResourceType.TOPIC,
        "group": AclResourceType.GROUP,
        "transactional_id": AclResourceType.TRANSACTIONAL_ID,
        "delegation_token": AclResourceType.DELEGATION_TOKEN,
        "user_principal": AclResourceType.USER,
    }
)
CLUSTER_FILTER: Final = PatternFilter(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
ALL_PATTERNS: Final = PatternFilter(AclResourceType.ANY, None, PatternType.ANY)
ALL_ENTRIES: Final = EntryFilter(None, None, AclOperation.ANY, PermissionType.ANY)
PRODUCER_OF_TOPIC: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
PRODUCER_OF_TRANSACTION: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
CONSUMER_OF_TOPIC: Final = (AclOperation.READ, AclOperation.DESCRIBE)
CONSUMER_OF_GROUP: Final = (AclOperation.READ,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", action="store_true", help="add ACLs")
    action.add_argument("--remove", action="store_true", help="remove ACLs, after a question")
    action.add_argument("--list", action="store_true", help="list ACLs; all without a resource")
    of_many: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--topic", **of_many, help="a topic, or * for all; may be repeated")
    parser.add_argument("--group", **of_many, help="a consumer group, or * for all")
    parser.add_argument("--transactional-id", metavar="ID", **of_many, help="or * for all")
    parser.add_argument("--delegation-token", metavar="ID", **of_many, help="or * for all")
    parser.add_argument(
        "--user-principal",
        metavar="TYPE:NAME",
        **of_many,
        help="a user whose delegation tokens are meant",
    )
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.lower,
        default="literal",
        choices=[kind.name.lower() for kind in PatternType if kind is not PatternType.UNKNOWN],
        help="literal (the default), or prefixed: all names that begin so; to list and remove also "
        "any: patterns of this very name, and match: all patterns that affect the resource",
    )
    parser.add_argument(
        "--operation",
        **of_many,
        help="Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, "
        "AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens or All (the default)",
    )
    parser.add_argument("--allow-principal", metavar="TYPE:NAME", **of_many, help="User:* is all")
    parser.add_argument("--allow-host", metavar="ADDRESS", **of_many, help="default: * for all")
    parser.add_argument("--deny-principal", metavar="TYPE:NAME", **of_many, help="a Deny outranks")
    parser.add_argument("--deny-host", metavar="ADDRESS", **of_many, help="default: * for all")
    parser.add_argument("--principal", metavar="TYPE:NAME", **of_many, help="with --list")
    parser.add_argument(
        "--producer", action="store_true", help="Write, Describe and Create on topics"
    )
    parser.add_argument(
        "--consumer", action="store_true", help="Read and Describe on topics, Read on groups"
    )
    parser.add_argument(
        "--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster"
    )
    parser.add_argument("--force", action="store_true", help="remove without a question")
    add_json_argument(parser, "print JSON (with --list)")


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    check(args)
    if args.add:
        added = bindings_to_add(args)
        return run_admin(config, lambda admin: add(admin, added))
    if args.remove:
        entries = entries_by_filter(args)
        return run_admin(config, lambda admin: remove(admin, entries, args.force))
    return run_admin(config, lambda admin: show(admin, args))


# ----------------------------------------------------------------------------------------- options


def check(args: argparse.Namespace) -> None:
    """Raises WrongUsage for options that kafka-acls does not take together."""
    named_principals = args.allow_principal or args.deny_principal
    named_hosts = args.allow_host or args.deny_host
    if args.list and (args.producer or args.consumer or named_principals or named_hosts):
        raise WrongUsage("--list goes with resources and --principal only")
    if args.principal and not args.list:
        raise WrongUsage("--principal goes with --list only")
    if args.json and not args.list:
        raise WrongUsage("--json goes with --list only")
    if (args.producer or args.consumer) and (
        args.operation or args.deny_principal or args.deny_host
    ):
        raise WrongUsage("--producer and --consumer imply the operations, and take no --deny-...")
    if args.producer and not args.topic:
        raise WrongUsage("--producer needs a --topic")
    if args.idempotent and not args.producer:
        raise WrongUsage("--idempotent goes with --producer only")
    others = args.cluster or args.transactional_id
    if args.consumer and (not args.topic or not args.group or (others and not args.producer)):
        raise WrongUsage(
            "--consumer needs a --topic and a --group, and takes no --cluster or --transactional-id"
        )


def filters_of(args: argparse.Namespace) -> list[PatternFilter]:
    """Return the filters of the resources that the options name."""
    pattern_type = PatternType[args.resource_pattern_type.upper()]
    found = [
        PatternFilter(kind, name.strip(), pattern_type)
        for option, kind in RESOURCES.items()
        for name in getattr(args, option)
    ]
    if pattern_type is PatternType.LITERAL and (args.cluster or args.idempotent):
        found.append(CLUSTER_FILTER)
    return list(dict.fromkeys(found))


def entries_by_filter(args: argparse.Namespace) -> dict[PatternFilter, list[AclEntry]]:
    """Return the entries that the options name, for each resource; none if they name no principal.
    Raises WrongUsage."""
    filters = filters_of(args)
    if not filters:
        raise WrongUsage(
            "name a resource: --topic, --group, --cluster, --transactional-id, --delegation-token "
            "or --user-principal"
        )
    wanted: dict[PatternFilter, list[AclOperation]] = {}

    def want(kind: AclResourceType, operations: Sequence[AclOperation]) -> None:
        for found in filters:
            if found.resource_type is kind:
                wanted.setdefault(found, []).extend(operations)

    if args.producer:
        want(AclResourceType.TOPIC, PRODUCER_OF_TOPIC)
        want(AclResourceType.TRANSACTIONAL_ID, PRODUCER_OF_TRANSACTION)
        if args.idempotent:
            wanted[CLUSTER_FILTER] = [AclOperation.IDEMPOTENT_WRITE]
    if args.consumer:
        want(AclResourceType.TOPIC, CONSUMER_OF_TOPIC)
        want(AclResourceType.GROUP, CONSUMER_OF_GROUP)
    if not args.producer and not args.consumer:
        operations = [_named(AclOperation, text, "--operation") for text in args.operation]
        wanted = {found: operations or [AclOperation.ALL] for found in filters}
    return {found: _entries(args, found, dict.fromkeys(ops)) for found, ops in wanted.items()}


def _entries(
    args: argparse.Namespace, found: PatternFilter, operations: Iterable[AclOperation]
) -> list[AclEntry]:
    """Raises WrongUsage for an operation that the type of resource does not have."""
    allowed = [*SUPPORTED_OPERATIONS[found.resource_type], AclOperation.ALL]
    rows = []
    for permission, principals, hosts in (
        (PermissionType.ALLOW, args.allow_principal, args.allow_host),
        (PermissionType.DENY, args.deny_principal, args.deny_host),
    ):
        rows += [
            AclEntry(_principal(principal), host.strip(), operation, permission)
            for principal in principals
            for operation in operations
            for host in hosts or [WILDCARD]
        ]
    if any(row.operation not in allowed for row in rows):
        names = ", ".join(operation.pascal_name for operation in allowed)
        raise WrongUsage(
            f"ResourceType {found.resource_type.name} only supports operations {names}"
        )
    return rows


def bindings_to_add(args: argparse.Namespace) -> dict[ResourcePattern, list[AclEntry]]:
    """Return the entries to add to each resource. Raises WrongUsage."""
    if not PatternType[args.resource_pattern_type.upper()].is_definite:
        raise WrongUsage(
            f"--resource-pattern-type {args.resource_pattern_type} is not for --add: literal or "
            "prefixed"
        )
    found = entries_by_filter(args)
    if not all(found.values()):
        raise WrongUsage("--add needs --allow-principal or --deny-principal")
    return {
        ResourcePattern(kind, name or "", pattern_type): rows
        for (kind, name, pattern_type), rows in found.items()
    }


def _named(kind: type[C], text: str, option: str) -> C:
    by_name = {code.name.replace("_", ""): code for code in kind if code.name != "UNKNOWN"}
    found = by_name.get(text.strip().upper().replace("_", ""))
    if found is None:
        raise WrongUsage(f"{option} {text}: unknown")
    return found


def _principal(text: str) -> str:
    try:
        return str(parse_principal(text.strip()))
    except ValueError as error:
        raise WrongUsage(str(error)) from None


# ----------------------------------------------------------------------------------------- actions


async def add(admin: Admin, added: Mapping[ResourcePattern, Sequence[AclEntry]]) -> int:
    for pattern, entries in added.items():
        print(f"Adding ACLs for resource `{pattern_text(pattern)}`: \n {_lines(entries)} \n")
        outcomes = await admin.create_acls(AclBinding(pattern, entry) for entry in entries)
        for error in filter(None, outcomes.values()):
            raise error
    return 0


async def remove(
    admin: Admin, entries: Mapping[PatternFilter, Sequence[AclEntry]], force: bool
) -> int:
    for found, rows in entries.items():
        which = f"`{pattern_text(found)}`? (y/n)"
        question = f"Are you sure you want to delete all ACLs for resource filter {which}"
        if rows:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(rows)} \n "
                f"from resource filter {which}"
            )
        if not force and not _is_confirmed(question):
            continue
        selected = [
            AclFilter(found, EntryFilter(row.principal, row.host, row.operation, row.permission))
            for row in rows
        ]
        await admin.delete_acls(selected or [AclFilter(found, ALL_ENTRIES)])
    return 0


def _is_confirmed(question: str) -> bool:
    print(question)
    try:
        return input().strip().lower() == "y"
    except EOFError:
        return False


async def show(admin: Admin, args: argparse.Namespace) -> int:
    filters = filters_of(args)
    bindings: dict[AclBinding, None] = {}
    for found in filters or [ALL_PATTERNS]:
        bindings |= dict.fromkeys(await admin.describe_acls(AclFilter(found, ALL_ENTRIES)))
    principals = [_principal(text) for text in args.principal]
    chosen = [row for row in bindings if not principals or row.entry.principal in principals]
    if args.json:
        output.show_json([facts(row) for row in chosen])
        return 0
    if sys.stdout.isatty():
        columns = ("permission", "principal", "operation", "resource", "host")
        output.show_table(columns, [cells(row) for row in chosen])
        return 0
    if not principals:
        _show_bindings(bindings)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _show_bindings(row for row in bindings if row.entry.principal == principal)
    return 0


def _show_bindings(bindings: Iterable[AclBinding]) -> None:
    found: dict[ResourcePattern, list[AclEntry]] = {}
    for pattern, entry in bindings:
        found.setdefault(pattern, []).append(entry)
    for pattern, entries in found.items():
        print(f"Current ACLs for resource `{pattern_text(pattern)}`: \n {_lines(entries)} \n")


def pattern_text(pattern: ResourcePattern | PatternFilter) -> str:
    """Return the form of Kafka's ``ResourcePattern``."""
    kind, name, pattern_type = pattern
    return (
        f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern_type.name})"
    )


def _lines(entries: Iterable[AclEntry]) -> str:
    return "\n".join(
        f"\t(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
        for entry in entries
    )


def cells(binding: AclBinding) -> tuple[str, ...]:
    """Return a row of a table. A rule that denies is shown as sick: it outranks the others."""
    pattern, entry = binding
    denies = entry.permission is PermissionType.DENY
    kind = pattern.resource_type.name.lower().replace("_", " ")
    prefixed = "..." if pattern.pattern_type is PatternType.PREFIXED else ""
    return (
        output.Sick("deny") if denies else entry.permission.name.lower(),
        entry.principal,
        entry.operation.pascal_name,
        f"{kind} {pattern.name}{prefixed}",
        entry.host,
    )


def facts(binding: AclBinding) -> dict[str, str]:
    pattern, entry = binding
    return {
        "resourceType": pattern.resource_type.name,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permissionType": entry.permission.name,
    }
