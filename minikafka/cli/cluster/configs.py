"""The verb `configs`: settings of topics, brokers, loggers, client metrics and groups; quotas.

Options and output are those of kafka-configs; quotas are of users, clients and addresses.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from minikafka.cli.cluster.quotas import show_quotas
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import show_json, show_table
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import (
    ANY_NAME,
    CLUSTER_DEFAULT,
    OF_ONE_BROKER,
    AnyName,
    ConfigAlteration,
    ConfigValue,
    DescribedQuota,
    EntityNames,
)
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.core.security.client_quotas import CLIENT_ID, IP, USER, java_double
from minikafka.kernel.config import ConfigError, parse_properties

_OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")
_KEY = re.compile(r"[a-zA-Z0-9._-]+")


def parse_added(text: str) -> dict[str, str]:
    """Parse ``a=1,b=[x,y],c=``. Raises WrongUsage."""
    added: dict[str, str] = {}
    for part in _OUTSIDE_BRACKETS.split(text):
        key, separator, value = part.partition("=")
        if not separator:
            raise WrongUsage(
                'Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        key, value = key.strip(), value.strip()
        if not _KEY.fullmatch(key):
            raise WrongUsage(f"Invalid character found for config key: {key}")
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        added[key] = value.strip()
    return added


def entry_line(row: ConfigValue) -> str:
    """Format entries as kafka-configs does."""
    synonyms = ", ".join(
        f"{source.name}:{name}={_text(value)}" for name, value, source in row.synonyms
    )
    sensitive = str(row.sensitive).lower()
    return f"  {row.name}={_text(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def show_entries(rows: Sequence[ConfigValue]) -> None:
    """Print entries as a table, with the value that would apply if the shown one was removed."""
    cells = []
    for row in rows:
        value = "(hidden)" if row.sensitive else _text(row.value)
        source = row.source.name.removesuffix("_CONFIG").lower().replace("_", " ")
        beneath = _text(row.synonyms[1][1]) if len(row.synonyms) > 1 else None
        cells.append((row.name, value, source, beneath))
    show_table(("setting", "value", "set as", "otherwise"), cells)


def facts(kind: str, name: str, rows: Iterable[ConfigValue]) -> dict[str, Any]:
    """Return entries as JSON values."""
    return {
        "type": kind,
        "name": name,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "source": row.source.name,
                "readOnly": row.read_only,
                "sensitive": row.sensitive,
                "synonyms": [
                    {"name": key, "value": value, "source": source.name}
                    for key, value, source in row.synonyms
                ],
            }
            for row in rows
        ],
    }


# The types of the options, and those of the protocol.
QUOTA_TYPES: Final[Mapping[str, str]] = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_LABELS: Final[Mapping[str, str]] = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
_SHORT: Final[Mapping[str, str]] = {"user": "users", "client": "clients", "ip": "ips"}

MISSING: Final = "doesn't exist and doesn't have dynamic config."

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
    if sys.stdout.isatty():
        show_quotas(found)
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


TYPES: Mapping[str, ResourceType] = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
# Named resources: there are those that have a setting. Values that were set have these sources.
NAMED: Mapping[ResourceType, ConfigSource] = {
    ResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_true", help="show settings")
    action.add_argument("--alter", action="store_true", help="change settings")
    parser.add_argument(
        "--entity-type",
        choices=[*TYPES, *QUOTA_TYPES],
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
        help="a topic, a broker's id, a client metrics resource, a group, a user, a client id or "
        "an address; of several types, in the same order",
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
        "--client-metrics", metavar="NAME", help="short for --entity-type client-metrics ..."
    )
    name.add_argument("--group", metavar="ID", help="short for --entity-type groups ...")
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
        there = await all_names(admin, resource_type) if resource_type in NAMED else [name]
        if name is not None and name not in there:
            print(f"The {label(resource_type)} '{name}' {MISSING}")
            return 0
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
        (args.client_metrics is not None, "client-metrics", args.client_metrics),
        (args.group is not None, "groups", args.group),
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
    kind = TYPES[entity_type]
    is_default = args.entity_names == [None]
    name = args.entity_names[0] if args.entity_names else None
    if is_default and kind is ResourceType.TOPIC:
        raise WrongUsage(
            "defaults of topics are settings of the brokers (log.*): use --broker-defaults"
        )
    if is_default and kind is ResourceType.BROKER_LOGGER:
        raise WrongUsage("log levels belong to one broker: name it with --entity-name")
    if is_default and kind in NAMED:
        raise WrongUsage(f"{entity_type} have no defaults: name one with --entity-name")
    return kind, CLUSTER_DEFAULT if is_default else _checked(kind, name)


def _checked(kind: ResourceType, name: str | None) -> str | None:
    if name and kind in OF_ONE_BROKER and not name.isdecimal():
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


async def entities_of(admin: Admin, kind: ResourceType) -> list[str]:
    """Return the named resources of a kind. Raises KafkaError."""
    return [resource.name for resource in await admin.list_config_resources([kind])]


async def all_names(admin: Admin, kind: ResourceType) -> list[str]:
    if kind in NAMED:
        return await entities_of(admin, kind)
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
        if sys.stdout.isatty():
            show_entries(rows)
            continue
        for row in rows:
            print(entry_line(row))
    if as_json:
        show_json(shown)
    return 0


def own_source(kind: ResourceType, name: str) -> ConfigSource:
    """Return the source of a value that was set for this entity itself."""
    if kind is ResourceType.TOPIC:
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    if kind in NAMED:
        return NAMED[kind]
    if name == CLUSTER_DEFAULT:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if kind is ResourceType.BROKER_LOGGER:
        return ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return ConfigSource.DYNAMIC_BROKER_CONFIG


def label(kind: ResourceType) -> str:
    """Return what kafka-configs calls one resource: client metrics are a ``client-metric``."""
    return kind.name.lower().replace("_", "-").removesuffix("s")


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
