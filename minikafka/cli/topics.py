"""The verb `topics`: create, list, describe, grow and delete topics."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from minikafka.cli import output
from minikafka.cli.connect import add_bootstrap_argument, client_config, pairs, run_client
from minikafka.cli.topic_text import describe_text, parse_replica_assignment, topic_facts
from minikafka.client.admin import Admin, NewTopic
from minikafka.core.client.cluster_view import TopicView
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="create|list|describe|alter|delete"
    )
    create = _action(actions, "create", "make a topic", topic="one")
    create.add_argument("--partitions", type=int, default=-1, help="default: num.partitions")
    create.add_argument(
        "--replication-factor", type=int, default=-1, help="default: default.replication.factor"
    )
    create.add_argument(
        "--replica-assignment",
        metavar="B:B,B:B,...",
        help="brokers of each partition, leader first",
    )
    create.add_argument("--config", metavar="KEY=VALUE", action="append", default=[])
    create.add_argument("--if-not-exists", action="store_true", help="fine if it is there")
    listing = _action(actions, "list", "names of topics", topic="none")
    listing.add_argument("--exclude-internal", action="store_true")
    output.add_json_argument(listing)
    describe = _action(actions, "describe", "partitions, leaders, replicas", topic="any")
    output.add_json_argument(describe)
    alter = _action(actions, "alter", "let a topic grow to more partitions", topic="one")
    alter.add_argument("--partitions", type=int, required=True, help="how many in all")
    alter.add_argument(
        "--replica-assignment",
        metavar="B:B,B:B,...",
        help="brokers of each partition, leader first; of those that are there it changes nothing",
    )
    alter.add_argument("--if-exists", action="store_true", help="fine if it is not there")
    delete = _action(actions, "delete", "remove topics with their data", topic="many")
    delete.add_argument("--if-exists", action="store_true", help="fine if it is not there")


def _action(actions: Any, name: str, text: str, topic: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    add_bootstrap_argument(parser)
    if topic == "one":
        parser.add_argument("--topic", required=True)
    elif topic != "none":
        parser.add_argument(
            "--topic",
            action="append",
            default=[],
            required=topic == "many",
            help="may be given several times",
        )
    return parser


def run(args: argparse.Namespace) -> int:
    action = {
        "create": create,
        "list": list_names,
        "describe": describe,
        "alter": alter,
        "delete": delete,
    }
    config = client_config(args)

    async def work(world: World) -> int:
        async with Admin(world, config) as admin:
            return await action[args.action](admin, args)

    return run_client(work)


async def create(admin: Admin, args: argparse.Namespace) -> int:
    assignments: dict[int, list[int]] = {}
    if args.replica_assignment:
        if args.partitions != -1 or args.replication_factor != -1:
            raise ConfigError("--replica-assignment already says how many partitions and replicas")
        assignments = parse_replica_assignment(args.replica_assignment)
    topic = NewTopic(
        args.topic,
        args.partitions,
        args.replication_factor,
        assignments,
        pairs(args.config, "--config"),
    )
    outcome = (await admin.create_topics([topic]))[args.topic]
    if isinstance(outcome, KafkaError):
        if args.if_not_exists and outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return 0
        raise outcome
    print(f"Created topic {args.topic}.")
    return 0


async def list_names(admin: Admin, args: argparse.Namespace) -> int:
    topics = await admin.list_topics()
    names = [t.name for t in topics if not (args.exclude_internal and t.is_internal)]
    output.show(("topic",), [(name,) for name in sorted(names)], args.json)
    return 0


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    names = args.topic or sorted(topic.name for topic in await admin.list_topics())
    outcomes = await admin.describe_topics(names) if names else {}
    found: Sequence[TopicView] = [t for t in outcomes.values() if not isinstance(t, KafkaError)]
    missing = {name: o for name, o in outcomes.items() if isinstance(o, KafkaError)}
    configs = await admin.topic_configs([topic.name for topic in found])
    if args.json:
        print(json.dumps([topic_facts(t, configs[t.name]) for t in found], indent=2))
    else:
        for topic in found:
            print(describe_text(topic, configs[topic.name]))
    return _report(missing)


async def alter(admin: Admin, args: argparse.Namespace) -> int:
    """More partitions; settings are the verb configs' business. Raises KafkaError, ConfigError."""
    name, told = args.topic, None
    if args.replica_assignment:
        assignments = parse_replica_assignment(args.replica_assignment)
        if len(assignments) != args.partitions:
            raise ConfigError(
                f"--replica-assignment says {len(assignments)} partitions, "
                f"--partitions {args.partitions}"
            )
        topic = (await admin.describe_topics([name]))[name]
        if not isinstance(topic, KafkaError):
            told = {name: list(assignments.values())[len(topic.partitions) :]}
    error = (await admin.create_partitions({name: args.partitions}, told))[name]
    if error is not None:
        if args.if_exists and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return 0
        raise error
    print(f"Topic {name} has {args.partitions} partitions.")
    return 0


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    outcomes = await admin.delete_topics(args.topic)
    failed = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if args.if_exists:
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        failed = {name: error for name, error in failed.items() if error.code is not gone}
    return _report(failed)


def _report(failed: dict[str, KafkaError]) -> int:
    for name, error in failed.items():
        print(f"minikafka: topic {name}: {error}", file=sys.stderr)
    return 1 if failed else 0
