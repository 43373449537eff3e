"""The verb `schemas`: subjects and versions of a schema registry, ours or Confluent's."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka.cli.output import show, show_json
from minikafka.cli.standard_streams import changes_completed
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_json_argument
from minikafka.client.rest import RestAddress
from minikafka.client.schema_registry import (
    AVRO,
    KINDS,
    LATEST,
    LEVELS,
    LOGIN_VARIABLE,
    NewSchema,
    SchemaRegistry,
    SchemaVersion,
    Version,
)
from minikafka.kernel import events


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|describe|check|register|delete|level"
    )
    for name, text in (
        ("list", "list subjects"),
        ("describe", "show the versions of a subject, or the schema of one"),
        ("check", "check whether a schema can be the next version of a subject"),
        ("register", "register a schema as the next version of a subject"),
        ("delete", "delete a version of a subject, or all of them, softly"),
        ("level", "show or set the compatibility level of a subject, or the global one"),
    ):
        action = add_action(actions, name, text)
        action.add_argument(
            "--registry",
            required=True,
            metavar="URL",
            help=f"address of the registry; {LOGIN_VARIABLE}=NAME:PASSWORD in the environment is "
            "the login",
        )
        if name != "list":
            action.add_argument("--subject", required=name != "level", help="name of the subject")
        if name in ("describe", "delete"):
            action.add_argument("--version", type=_version, help="a number, or latest")
        if name in ("check", "register"):
            _add_schema(action)
        if name == "level":
            action.add_argument("--set", choices=LEVELS, help="the new level")
        if name in ("list", "describe", "check", "register"):
            add_json_argument(action)


def _add_schema(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--schema-file", required=True, metavar="FILE", help="the text of the schema"
    )
    action.add_argument("--type", choices=KINDS, default=AVRO, help="of the schema")
    action.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="NAME=SUBJECT:VERSION",
        help="a schema that this one names; repeatable",
    )


def _version(text: str) -> Version:
    if text != LATEST and not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is no version: a number, or {LATEST}")
    return text if text == LATEST else int(text)


def run(args: argparse.Namespace) -> int:
    from minikafka.world.real.loop import run as run_loop
    from minikafka.world.real.world import real_world

    try:
        address = RestAddress.parse(args.registry, os.environ.get(LOGIN_VARIABLE))
    except ValueError as error:
        raise WrongUsage(f"--registry: {error}") from None
    schema = _schema(args) if args.action in ("check", "register") else None

    async def main() -> int:
        async with SchemaRegistry(real_world().network, address) as registry:
            if schema is not None:
                return await _offer(registry, args, schema)
            match args.action:
                case "list":
                    rows = [(name,) for name in await registry.subjects()]
                    show(("subject",), rows, args.json)
                case "describe":
                    await _describe(registry, args)
                case "delete":
                    await _delete(registry, args)
                case _:
                    await _level(registry, args)
        return 0

    with events.printed("ERROR"), changes_completed():
        return run_loop(main())


def _schema(args: argparse.Namespace) -> NewSchema:
    return NewSchema(
        Path(args.schema_file).read_text(encoding="utf-8").strip(),
        args.type,
        [_reference(text) for text in args.reference],
    )


def _reference(text: str) -> Mapping[str, Any]:
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not (equals and colon and name and subject and version.isdecimal()):
        raise WrongUsage(f"--reference needs NAME=SUBJECT:VERSION, not {text}")
    return {"name": name, "subject": subject, "version": int(version)}


async def _offer(registry: SchemaRegistry, args: argparse.Namespace, schema: NewSchema) -> int:
    """Check or register a schema. The exit status is 1 if it is not compatible."""
    if args.action == "register":
        schema_id = await registry.register(args.subject, schema)
        if args.json:
            show_json({"subject": args.subject, "id": schema_id})
        else:
            print(f"Registered with id {schema_id} in subject {args.subject}.")
        return 0
    reasons = await registry.check(args.subject, schema)
    if args.json:
        show_json({"compatible": not reasons, "first": reasons is None, "reasons": reasons or []})
    elif reasons is None:
        print(f"The subject {args.subject} has no version yet: this would be the first.")
    elif not reasons:
        level = await registry.level(args.subject)
        print(f"The schema can be the next version of {args.subject} ({level}).")
    else:
        print(f"The schema cannot be the next version of {args.subject}:")
        print("\n".join(reasons))
    return 1 if reasons else 0


async def _describe(registry: SchemaRegistry, args: argparse.Namespace) -> None:
    if args.version is not None:
        found = await registry.version(args.subject, args.version)
        if args.json:
            show_json(_facts(found))
        else:
            print(found.text)
        return
    versions = await registry.versions(args.subject)
    described = [await registry.version(args.subject, each) for each in versions]
    if args.json:
        show_json([_facts(each) for each in described])
        return
    rows = [(each.version, each.id, each.kind, len(each.references)) for each in described]
    show(("version", "id", "type", "references"), rows, False)


def _facts(found: SchemaVersion) -> dict[str, Any]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "type": found.kind,
        "schema": found.text,
        "references": list(found.references),
    }


async def _delete(registry: SchemaRegistry, args: argparse.Namespace) -> None:
    if args.version is None:
        deleted = await registry.delete_subject(args.subject)
        print(f"Deleted {len(deleted)} versions of subject {args.subject}.")
    else:
        await registry.delete_version(args.subject, args.version)
        print(f"Deleted version {args.version} of subject {args.subject}.")


async def _level(registry: SchemaRegistry, args: argparse.Namespace) -> None:
    if args.set is not None:
        await registry.set_level(args.subject, args.set)
    print(await registry.level(args.subject))
