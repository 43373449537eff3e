"""The verb `configs`: describes and alters settings of topics, brokers, loggers, and quotas."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from minikafka.cli.cluster.config_text import entry_line, facts, parse_added
from minikafka.cli.cluster.quota_configs import (
    QUOTA_TYPES,
    add_short_forms,
    quota_entity,
    quota_work,
)
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.options import add_bootstrap_argument, add_json_argument
from minikafka.cli.output import show_json
from minikafka.cli.usage import WrongUsage
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import CLUSTER_DEFAULT, ConfigAlteration, ConfigValue
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.config import ConfigError, parse_properties

TYPES: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
}
# Entity types that Kafka has and that have no configuration here.
OTHER_TYPES = ("client-metrics",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_true", help="show settings")
    action.add_argument("--alter", action="store_true", help="change settings")
    parser.add_argument(
        "--entity-type",
        choices=[*TYPES, *QUOTA_TYPES, *OTHER_TYPES],
        metavar="|".join([*TYPES, *QUOTA_TYPES]),
        dest="entity_types",
        action="append",
        default=[],
        help="may be given twice, for users and clients",
    )
    parser.add_argument(
        "--entity-name",
        metavar="NAME",
        dest="entity_names",
        action="append",
        default=[],
        help="a topic, a broker's id, a user, a client id or an address; of several types, in "
        "the same order",
    )
    parser.add_argument(
        "--entity-default",
        dest="entity_names",
        action="append_const",
        const=None,
        help="the defaults of all brokers, users, clients or addresses",
    )
    add_short_forms(parser)
    name = parser.add_mutually_exclusive_group()
    name.add_argument("--topic", metavar="NAME", help="short for --entity-type topics ...")
    name.add_argument("--broker", metavar="ID", help="short for --entity-type brokers ...")
    name.add_argument(
        "--broker-logger", metavar="ID", help="short for --entity-type broker-loggers ..."
    )
    name.add_argument(
        "--broker-defaults",
        action="store_true",
        help="short for --entity-type brokers --entity-default",
    )
    parser.add_argument("--all", action="store_true", help="describe default values as well")
    add_json_argument(parser)
    parser.add_argument(
        "--add-config",
        metavar="K=V,...",
        help="settings to add or change; put a value with commas in brackets: K=[V1,V2]",
    )
    parser.add_argument(
        "--add-config-file", metavar="FILE", help="a .properties file of settings to add or change"
    )
    parser.add_argument(
        "--delete-config",
        metavar="K,...",
        action="append",
        default=[],
        help="settings to remove; the default applies again",
    )


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    quotas = quota_entity(args)
    resource_type, name = entity(args) if quotas is None else (ResourceType.TOPIC, None)
    changes = alterations(args)
    if args.alter and not changes:
        raise WrongUsage("--alter needs --add-config, --add-config-file or --delete-config")
    if args.describe and changes:
        raise WrongUsage("--describe changes nothing; use --alter")
    if quotas is not None:
        return run_admin(config, quota_work(quotas, changes, args.json))
    if args.alter and name is None:
        raise WrongUsage("--alter needs an entity name")
    if resource_type is ResourceType.BROKER_LOGGER and name is None:
        raise WrongUsage("an entity name must be specified with --describe of broker-loggers")

    async def work(admin: Admin) -> int:
        if name is not None and args.alter:
            return await alter(admin, resource_type, name, changes)
        names = [name] if name is not None else await all_names(admin, resource_type)
        return await describe(admin, resource_type, names, args.all, args.json)

    return run_admin(config, work)


def entity(args: argparse.Namespace) -> tuple[ResourceType, str | None]:
    """Return the entities that the options name; without a name all of the type. Raises
    ConfigError."""
    short = (
        (args.topic is not None, "topics", args.topic),
        (args.broker is not None, "brokers", args.broker),
        (args.broker_logger is not None, "broker-loggers", args.broker_logger),
        (args.broker_defaults, "brokers", CLUSTER_DEFAULT),
    )
    for given, long_form, name in short:
        if given:
            if args.entity_types:
                raise WrongUsage("--entity-type cannot be combined with its short form")
            if args.entity_names:
                raise WrongUsage("an entity has one name")
            return TYPES[long_form], _checked(TYPES[long_form], name)
    if not args.entity_types:
        raise WrongUsage("name an entity: --entity-type, --topic, --broker or --broker-defaults")
    if len(args.entity_types) > 1 or len(args.entity_names) > 1:
        raise WrongUsage("only users and clients can be combined")
    (entity_type,) = args.entity_types
    if entity_type in OTHER_TYPES:
        raise WrongUsage(
            f"{entity_type} cannot be configured with this verb; use "
            f"{', '.join([*TYPES, *QUOTA_TYPES])}"
        )
    kind = TYPES[entity_type]
    is_default = args.entity_names == [None]
    name = args.entity_names[0] if args.entity_names else None
    if is_default and kind is ResourceType.TOPIC:
        raise WrongUsage(
            "defaults of topics are settings of the brokers (log.*): use --broker-defaults"
        )
    if is_default and kind is ResourceType.BROKER_LOGGER:
        raise WrongUsage("log levels belong to one broker: name it with --entity-name")
    return kind, CLUSTER_DEFAULT if is_default else _checked(kind, name)


def _checked(kind: ResourceType, name: str | None) -> str | None:
    if name and kind is not ResourceType.TOPIC and not name.isdecimal():
        long_form = next(given for given, meant in TYPES.items() if meant is kind)
        raise WrongUsage(
            f"The entity name for {long_form} must be a valid integer broker id, but it is: {name}"
        )
    if name == "" and kind is not ResourceType.BROKER:
        raise WrongUsage(f"a {label(kind)} has a name")
    return name


def alterations(args: argparse.Namespace) -> list[ConfigAlteration]:
    """Return the settings to change and to remove by the options.

    Raises ConfigError for malformed or contradicting options, OSError for an unreadable file.
    """
    added: dict[str, str] = {}
    if args.add_config_file is not None:
        added |= parse_properties(Path(args.add_config_file).read_text(encoding="utf-8"))
    if args.add_config is not None:
        added |= parse_added(args.add_config)
    gone = [key.strip() for given in args.delete_config for key in given.split(",")]
    both = sorted(added.keys() & set(gone))
    if both:
        raise WrongUsage(f"to be set and to be deleted: {', '.join(both)}")
    return [
        *(ConfigAlteration(key, value) for key, value in added.items()),
        *(ConfigAlteration(key, None, AlterOperation.DELETE) for key in dict.fromkeys(gone)),
    ]


async def all_names(admin: Admin, kind: ResourceType) -> list[str]:
    if kind is ResourceType.TOPIC:
        return sorted(topic.name for topic in await admin.list_topics(include_internal=True))
    cluster = await admin.describe_cluster()
    return [*(str(node.id) for node in cluster.nodes), CLUSTER_DEFAULT]


async def describe(
    admin: Admin, kind: ResourceType, names: Iterable[str], everything: bool, as_json: bool
) -> int:
    shown: list[Any] = []
    for name in names:
        found = await admin.describe_configs(kind, name)
        rows = sorted(found.values(), key=lambda row: row.name)
        rows = [row for row in rows if everything or row.source is own_source(kind, name)]
        if as_json:
            shown.append(facts(label(kind), name, rows))
            continue
        if kind is ResourceType.BROKER and name == CLUSTER_DEFAULT:
            print("Default configs for brokers in the cluster are:")
        else:
            print(f"{'All' if everything else 'Dynamic'} configs for {label(kind)} {name} are:")
        for row in rows:
            print(entry_line(row))
    if as_json:
        show_json(shown)
    return 0


def own_source(kind: ResourceType, name: str) -> ConfigSource:
    """Return the source of a value that was set for this entity itself."""
    if kind is ResourceType.TOPIC:
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    if name == CLUSTER_DEFAULT:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if kind is ResourceType.BROKER_LOGGER:
        return ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return ConfigSource.DYNAMIC_BROKER_CONFIG


def label(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", "-")


async def alter(
    admin: Admin, kind: ResourceType, name: str, changes: list[ConfigAlteration]
) -> int:
    """Change settings of a resource; return the exit status.

    Raises ConfigError for keys to delete that are not set, KafkaError if a request fails.
    """
    gone = {change.name for change in changes if change.operation is AlterOperation.DELETE}
    if kind is ResourceType.BROKER_LOGGER:
        known = await admin.describe_configs(kind, name)
        unknown = [change.name for change in changes if change.name not in known]
        if unknown:
            raise ConfigError(f"Invalid broker logger(s): {','.join(unknown)}")
    elif gone:
        check_set(gone, await admin.describe_configs(kind, name), own_source(kind, name))
    await admin.incremental_alter_configs(kind, name, changes)
    if name == CLUSTER_DEFAULT:
        print("Completed updating default config for brokers in the cluster.")
    else:
        print(f"Completed updating config for {label(kind)} {name}.")
    return 0


def check_set(gone: set[str], found: Mapping[str, ConfigValue], source: ConfigSource) -> None:
    there = {
        row.name
        for row in found.values()
        if any(origin is source for _, _, origin in row.synonyms) or row.source is source
    }
    if gone - there:
        raise ConfigError(f"Invalid config(s): {','.join(sorted(gone - there))}")
