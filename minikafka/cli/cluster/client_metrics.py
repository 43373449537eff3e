"""The verb `client-metrics`: what clients push to the brokers (KIP-714).

Options and output are those of kafka-client-metrics.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Sequence

from minikafka.cli.cluster.configs import MISSING, entities_of, facts, label, show_entries
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import show_json
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.kernel.client_metrics_settings import INTERVAL_MS, MATCH, METRICS
from minikafka.kernel.cluster import topic_id_text

KIND = ResourceType.CLIENT_METRICS
# The options that set a key.
KEYS = {"interval": INTERVAL_MS, "metrics": METRICS, "match": MATCH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_true", help="list the resources")
    action.add_argument("--describe", action="store_true", help="show the keys of resources")
    action.add_argument("--alter", action="store_true", help="make or change a resource")
    action.add_argument("--delete", action="store_true", help="remove a resource")
    parser.add_argument("--name", metavar="NAME", help="the resource")
    parser.add_argument(
        "--generate-name", action="store_true", help="make a resource with a random name"
    )
    parser.add_argument(
        "--interval", metavar="MS", help="milliseconds between two pushes; empty to reset them"
    )
    parser.add_argument(
        "--metrics",
        metavar="PREFIX,...",
        help="prefixes of the names of metrics, or * for all; empty to reset them",
    )
    parser.add_argument(
        "--match",
        metavar="NAME=REGEX,...",
        help="which clients: client_id, client_instance_id, client_software_name, "
        "client_software_version, client_source_address, client_source_port; empty for all",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    _check(args)
    if args.alter:
        name = topic_id_text(uuid.uuid4()) if args.generate_name else args.name
        changes = alterations(args)
        return run_admin(config, lambda admin: alter(admin, name, changes))
    if args.delete:
        return run_admin(config, lambda admin: delete(admin, args.name))
    if args.list:
        return run_admin(config, lambda admin: list_names(admin, args.json))
    return run_admin(config, lambda admin: describe(admin, args.name, args.json))


def _check(args: argparse.Namespace) -> None:
    """Raises WrongUsage."""
    if args.alter:
        if args.generate_name == (args.name is not None):
            raise WrongUsage("One of --name or --generate-name must be specified with --alter.")
        if args.interval and not args.interval.lstrip("-").isdecimal():
            raise WrongUsage("Invalid interval value. Enter an integer, or leave empty to reset.")
        return
    if args.generate_name or any(getattr(args, option) is not None for option in KEYS):
        raise WrongUsage("--generate-name, --interval, --metrics and --match need --alter")
    if args.list and args.name is not None:
        raise WrongUsage("--list shows all resources; use --describe for one")
    if args.delete and args.name is None:
        raise WrongUsage("A client metrics resource name must be specified with --delete.")


def alterations(args: argparse.Namespace) -> list[ConfigAlteration]:
    """Return the keys to set; an empty text removes one."""
    given = {key: getattr(args, option) for option, key in KEYS.items()}
    return [
        ConfigAlteration(key, text) if text else ConfigAlteration(key, None, AlterOperation.DELETE)
        for key, text in given.items()
        if text is not None
    ]


async def alter(admin: Admin, name: str, changes: Sequence[ConfigAlteration]) -> int:
    """Raises KafkaError."""
    await admin.incremental_alter_configs(KIND, name, changes)
    print(f"Altered client metrics config for {name}.")
    return 0


async def delete(admin: Admin, name: str) -> int:
    """Raises KafkaError."""
    changes = [ConfigAlteration(key, None, AlterOperation.DELETE) for key in KEYS.values()]
    await admin.incremental_alter_configs(KIND, name, changes)
    print(f"Deleted client metrics config for {name}.")
    return 0


async def list_names(admin: Admin, as_json: bool) -> int:
    """Raises KafkaError."""
    names = await entities_of(admin, KIND)
    if as_json:
        show_json(names)
    else:
        print("\n".join(names))
    return 0


async def describe(admin: Admin, name: str | None, as_json: bool) -> int:
    """Raises KafkaError."""
    names = await entities_of(admin, KIND)
    if name is not None and name not in names:
        print(f"The client metric resource {name} {MISSING}")
        return 0
    shown = []
    for each in names if name is None else [name]:
        rows = await admin.describe_configs(KIND, each)
        if as_json:
            shown.append(facts(label(KIND), each, rows.values()))
            continue
        print(f"Client metrics configs for {each} are:")
        if sys.stdout.isatty():
            show_entries(list(rows.values()))
            continue
        for row in rows.values():
            print(f"  {row.name}={row.value}")
    if as_json:
        show_json(shown)
    return 0
