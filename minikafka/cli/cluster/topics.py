"""The verb `topics`: create, list, describe, grow and delete topics, as kafka-topics does.

It prints topics in the shape of Kafka's describe, and reads the replica assignments that users
write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from minikafka.cli import output
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.output import Sick
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import (
    add_action,
    add_bootstrap_argument,
    add_json_argument,
    add_pairs_argument,
    pairs,
)
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.client.cluster_view import PartitionView, TopicView
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import (
    NO_LEADER,
    ReplicaAssignment,
    TopicPartition,
    parse_topic_id,
    topic_id_text,
)
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

# Partitions that are being reassigned.
Moving: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
NOTHING_MOVES: Moving = MappingProxyType({})


def parse_replica_assignment(text: str) -> dict[int, list[int]]:
    """``"1:2,2:3"``: brokers of partition 0, then of partition 1, leader first.

    Raises WrongUsage."""
    assignments: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",")):
        try:
            replicas = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise WrongUsage(f"--replica-assignment needs B:B,B:B,..., not {text}") from None
        if len(set(replicas)) < len(replicas):
            raise WrongUsage(f"--replica-assignment names a broker twice in {part}")
        assignments[partition] = replicas
    if len({len(replicas) for replicas in assignments.values()}) > 1:
        raise WrongUsage("--replica-assignment needs as many replicas for each partition")
    return assignments


def topic_facts(
    topic: TopicView, configs: Mapping[str, str], moving: Moving = NOTHING_MOVES
) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "topic": topic.name,
        "topicId": topic_id_text(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": topic_replication_factor(topic, moving),
        "configs": dict(configs),
        "partitions": [
            {
                "partition": view.partition,
                "leader": view.leader,
                "leaderEpoch": view.leader_epoch,
                "replicas": list(view.replicas),
                "isr": list(view.isr),
            }
            for _, view in sorted(topic.partitions.items())
        ],
    }


def describe_text(
    topic: TopicView, configs: Mapping[str, str], moving: Moving = NOTHING_MOVES
) -> str:
    """Return Kafka's description of a topic and all its partitions, tabs and all."""
    partitions = [
        partition_text(topic.name, view, moving) for _, view in sorted(topic.partitions.items())
    ]
    return "\n".join([topic_text(topic, configs, moving), *partitions])


def describe_table(topic: TopicView, configs: Mapping[str, str], moving: Moving) -> str:
    """Return a topic for a terminal: a head, its settings, and a table of its partitions."""
    count, factor = len(topic.partitions), topic_replication_factor(topic, moving)
    head = f"{topic.name}: partitions {count}, replication factor {factor}"
    settings = [f"  {key}={value}" for key, value in sorted(configs.items())]
    rows = [_cells(topic.name, view, moving) for _, view in sorted(topic.partitions.items())]
    return "\n".join([head, *settings, output.terminal_table(COLUMNS, rows)])


COLUMNS = ("partition", "leader", "replicas", "in sync", "state")


def _cells(topic: str, view: PartitionView, moving: Moving) -> tuple[object, ...]:
    return (
        view.partition,
        Sick("none") if view.leader == NO_LEADER else str(view.leader),
        _ids(view.replicas),
        _ids(view.isr),
        partition_state(topic, view, moving),
    )


def partition_state(topic: str, view: PartitionView, moving: Moving) -> str:
    """Return what is the matter with a partition, in words."""
    if view.leader == NO_LEADER:
        return Sick("offline")
    late = sorted(set(view.replicas) - set(view.isr))
    assignment = moving.get(TopicPartition(topic, view.partition))
    if assignment is not None:
        added, removed = _ids(assignment.adding), _ids(assignment.removing)
        return f"moving: to {added or 'none'}, away from {removed or 'none'}"
    return Sick(f"not in sync: {_ids(late)}") if late else "ok"


def topic_text(topic: TopicView, configs: Mapping[str, str], moving: Moving) -> str:
    settings = ",".join(f"{key}={value}" for key, value in sorted(configs.items()))
    return (
        f"Topic: {topic.name}\tTopicId: {topic_id_text(topic.topic_id)}"
        f"\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic_replication_factor(topic, moving)}\tConfigs: {settings}"
    )


def partition_text(topic: str, view: PartitionView, moving: Moving) -> str:
    """Return one line; a partition on the move also says which replicas come and which go."""
    leader = "none" if view.leader < 0 else str(view.leader)
    line = (
        f"\tTopic: {topic}\tPartition: {view.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(view.replicas)}\tIsr: {_ids(view.isr)}"
    )
    assignment = moving.get(TopicPartition(topic, view.partition))
    if assignment is None:
        return line
    return (
        f"{line}\tAdding Replicas: {_ids(assignment.adding)}"
        f"\tRemoving Replicas: {_ids(assignment.removing)}"
    )


def replication_factor(topic: str, view: PartitionView, moving: Moving) -> int:
    """Count the replicas of a partition without those that a reassignment is adding."""
    assignment = moving.get(TopicPartition(topic, view.partition))
    adding = assignment.adding if assignment is not None else ()
    return len([replica for replica in view.replicas if replica not in adding])


def topic_replication_factor(topic: TopicView, moving: Moving) -> int:
    """Return the replication factor of the first partition, as Kafka does."""
    views = sorted(topic.partitions.items())
    return replication_factor(topic.name, views[0][1], moving) if views else 0


def _ids(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, broker_ids))


MAX_REPLICATION_FACTOR = 32767


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts besides a partition's own that the filters of ``describe`` test."""

    topic: str
    moving: Moving
    live: Collection[int]
    min_isr: int


def _under_replicated(view: PartitionView, facts: Facts) -> bool:
    return replication_factor(facts.topic, view, facts.moving) > len(view.isr)


def _unavailable(view: PartitionView, facts: Facts) -> bool:
    return view.leader not in facts.live


def _under_min_isr(view: PartitionView, facts: Facts) -> bool:
    return view.leader == NO_LEADER or len(view.isr) < facts.min_isr


def _at_min_isr(view: PartitionView, facts: Facts) -> bool:
    return len(view.isr) == facts.min_isr


# Option of describe: which partitions it shows, and whether one is among them.
Report: TypeAlias = Callable[[PartitionView, Facts], bool]
REPORTS: Mapping[str, tuple[str, Report]] = {
    "under-replicated-partitions": ("with replicas out of sync", _under_replicated),
    "unavailable-partitions": ("whose leader is not available", _unavailable),
    "under-min-isr-partitions": ("with fewer in sync than min.insync.replicas", _under_min_isr),
    "at-min-isr-partitions": ("with min.insync.replicas in sync, no more", _at_min_isr),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="create|list|describe|alter|delete"
    )
    create = _action(actions, "create", "create a topic", topic="one")
    create.add_argument("--partitions", type=_partition_count, help="default: num.partitions")
    create.add_argument(
        "--replication-factor", type=_replica_count, help="default: default.replication.factor"
    )
    create.add_argument(
        "--replica-assignment",
        metavar="B:B,B:B,...",
        help="brokers of each partition, leader first",
    )
    add_pairs_argument(create, "--config", "a setting of the topic; repeatable")
    create.add_argument(
        "--if-not-exists", action="store_true", help="do nothing if the topic exists"
    )
    listing = _action(actions, "list", "list the names of topics", topic="none")
    _add_matching(listing)
    listing.add_argument(
        "--exclude-internal",
        action="store_true",
        help="leave out the topics that Kafka makes for itself",
    )
    add_json_argument(listing)
    describe = _action(
        actions, "describe", "show partitions, leaders, replicas and ISR", topic="any"
    )
    for name, (text, _) in REPORTS.items():
        describe.add_argument(f"--{name}", action="store_true", help=f"only partitions {text}")
    describe.add_argument(
        "--topics-with-overrides",
        action="store_true",
        help="only topics that override broker settings",
    )
    describe.add_argument(
        "--exclude-internal",
        action="store_true",
        help="leave out the topics that Kafka makes for itself",
    )
    describe.add_argument("--if-exists", action="store_true", help="fine if it is not there")
    add_json_argument(describe)
    alter = _action(actions, "alter", "add partitions to topics", topic="some")
    alter.add_argument("--partitions", type=_partition_count, required=True, help="the new total")
    alter.add_argument(
        "--replica-assignment",
        metavar="B:B,B:B,...",
        help="brokers of each partition, leader first; existing partitions keep theirs",
    )
    alter.add_argument("--if-exists", action="store_true", help="fine if it is not there")
    delete = _action(actions, "delete", "delete topics and their data", topic="some")
    delete.add_argument("--if-exists", action="store_true", help="fine if it is not there")


def _partition_count(text: str) -> int:
    """Parse --partitions for argparse; the error message is Kafka's."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("The partitions must be greater than 0")
    return count


def _replica_count(text: str) -> int:
    """Parse --replication-factor for argparse; the error message is Kafka's."""
    count = int(text)
    if not 1 <= count <= MAX_REPLICATION_FACTOR:
        raise argparse.ArgumentTypeError(
            f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive"
        )
    return count


def _action(actions: Any, name: str, text: str, topic: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, text)
    add_bootstrap_argument(parser)
    if topic == "one":
        parser.add_argument("--topic", required=True, help="the name of the topic")
    elif topic != "none":
        names = parser.add_mutually_exclusive_group(required=topic == "some")
        names.add_argument(
            "--topic", action="append", default=[], help="may be given several times"
        )
        _add_matching(names)
        if name == "describe":
            names.add_argument("--topic-id", metavar="ID", type=_topic_id, help="in base64")
    return parser


def _topic_id(text: str) -> UUID:
    try:
        return parse_topic_id(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not 16 bytes in base64") from None


def _add_matching(options: Any) -> None:
    options.add_argument(
        "--matching",
        metavar="PATTERN,...",
        help="topics whose whole name matches a regular expression, as --topic of kafka-topics",
    )


def run(args: argparse.Namespace) -> int:
    action = {
        "create": create,
        "list": list_names,
        "describe": describe,
        "alter": alter,
        "delete": delete,
    }
    config = client_config(args)
    return run_admin(config, lambda admin: action[args.action](admin, args))


async def create(admin: Admin, args: argparse.Namespace) -> int:
    assignments: dict[int, list[int]] = {}
    if args.replica_assignment:
        if args.partitions is not None or args.replication_factor is not None:
            raise WrongUsage("--replica-assignment already says how many partitions and replicas")
        assignments = parse_replica_assignment(args.replica_assignment)
    topic = NewTopic(
        args.topic,
        args.partitions or -1,
        args.replication_factor or -1,
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
    names = await _matching(admin, args.matching, args.exclude_internal)
    output.show(("topic",), [(name,) for name in names], args.json)
    return 0


async def _matching(admin: Admin, pattern: str | None, exclude_internal: bool = False) -> list[str]:
    """Return the names of existing topics, in order; with a pattern those that match it wholly.
    Raises ConfigError for an invalid pattern."""
    topics = await admin.list_topics(include_internal=not exclude_internal)
    names = sorted(topic.name for topic in topics)
    if pattern is None:
        return names
    try:
        matcher = re.compile(pattern.replace(",", "|").replace(" ", ""))
    except re.error as error:
        raise WrongUsage(f"{pattern} is no regular expression: {error}") from None
    return [name for name in names if matcher.fullmatch(name)]


async def _chosen(
    admin: Admin, args: argparse.Namespace, exclude_internal: bool = False
) -> list[str]:
    """Return the topics that --topic names or --matching finds. Raises ConfigError if nothing
    matches, unless --if-exists is given."""
    if args.topic:
        return list(args.topic)
    names = await _matching(admin, args.matching, exclude_internal)
    if args.matching is not None and not names and not args.if_exists:
        raise ConfigError(f"Topic '{args.matching}' does not exist as expected")
    return names


async def _with_id(admin: Admin, topic_id: UUID, if_exists: bool) -> list[str]:
    """Return the name of the topic with this id. Raises ConfigError if there is none."""
    topics = await admin.list_topics(include_internal=True)
    names = [topic.name for topic in topics if topic.topic_id == topic_id]
    if not names and not if_exists:
        raise ConfigError(f"TopicId '{topic_id_text(topic_id)}' does not exist as expected")
    return names


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    reports = [reported for name, (_, reported) in REPORTS.items() if _given(args, name)]
    if reports and args.topics_with_overrides:
        raise WrongUsage("--topics-with-overrides shows topics, the other filters partitions")
    if args.topic_id is not None:
        names = await _with_id(admin, args.topic_id, args.if_exists)
    else:
        names = await _chosen(admin, args, args.exclude_internal)
    outcomes = await admin.describe_topics(names) if names else {}
    found: Sequence[TopicView] = [t for t in outcomes.values() if not isinstance(t, KafkaError)]
    missing = {name: o for name, o in outcomes.items() if isinstance(o, KafkaError)}
    configs = await admin.topic_configs([topic.name for topic in found])
    moving = await _moving(admin, found)
    if reports:
        _show_partitions(await _reported(admin, found, reports, moving), moving)
    elif args.topics_with_overrides:
        _show_overrides([topic for topic in found if configs[topic.name]], configs, moving)
    elif args.json:
        output.show_json([topic_facts(t, configs[t.name], moving) for t in found])
    elif found and sys.stdout.isatty():
        print("\n\n".join(describe_table(t, configs[t.name], moving) for t in found))
    else:
        for topic in found:
            print(describe_text(topic, configs[topic.name], moving))
    return _report({} if args.if_exists else missing)


async def _reported(
    admin: Admin, topics: Sequence[TopicView], reports: Sequence[Report], moving: Moving
) -> list[tuple[str, PartitionView]]:
    """Return the partitions, with their topics, that one of the filters reports."""
    live = {node.id for node in (await admin.describe_cluster()).nodes}
    found = []
    for topic in topics:
        facts = Facts(topic.name, moving, live, await _min_isr(admin, topic.name))
        found += [
            (topic.name, view)
            for _, view in sorted(topic.partitions.items())
            if any(reported(view, facts) for reported in reports)
        ]
    return found


def _show_partitions(found: Sequence[tuple[str, PartitionView]], moving: Moving) -> None:
    if found and sys.stdout.isatty():
        output.show_table(
            ("topic", *COLUMNS), [(topic, *_cells(topic, view, moving)) for topic, view in found]
        )
        return
    for topic, view in found:
        print(partition_text(topic, view, moving))


def _show_overrides(
    found: Sequence[TopicView], configs: Mapping[str, Mapping[str, str]], moving: Moving
) -> None:
    if found and sys.stdout.isatty():
        rows = [
            (
                topic.name,
                len(topic.partitions),
                topic_replication_factor(topic, moving),
                "\n".join(f"{key}={value}" for key, value in sorted(configs[topic.name].items())),
            )
            for topic in found
        ]
        output.show_table(("topic", "partitions", "replicas", "settings"), rows)
        return
    for topic in found:
        print(topic_text(topic, configs[topic.name], moving))


def _given(args: argparse.Namespace, option: str) -> bool:
    return bool(vars(args)[option.replace("-", "_")])


async def _moving(admin: Admin, topics: Sequence[TopicView]) -> Moving:
    """Return the reassignments in progress; empty for brokers before 2.4, which cannot list
    them."""
    partitions = [
        TopicPartition(topic.name, number) for topic in topics for number in topic.partitions
    ]
    try:
        return await admin.list_partition_reassignments(partitions) if partitions else {}
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}


async def _min_isr(admin: Admin, topic: str) -> int:
    key = "min.insync.replicas"
    found = await admin.describe_configs(ResourceType.TOPIC, topic, [key])
    return int(found[key].value or 1)


async def alter(admin: Admin, args: argparse.Namespace) -> int:
    """Add partitions; the verb ``configs`` changes settings. Raises KafkaError, ConfigError."""
    for name in await _chosen(admin, args):
        await _grow(admin, name, args)
    return 0


async def _grow(admin: Admin, name: str, args: argparse.Namespace) -> None:
    told = None
    if args.replica_assignment:
        assignments = parse_replica_assignment(args.replica_assignment)
        if len(assignments) != args.partitions:
            raise WrongUsage(
                f"--replica-assignment says {len(assignments)} partitions, "
                f"--partitions {args.partitions}"
            )
        topic = (await admin.describe_topics([name]))[name]
        if not isinstance(topic, KafkaError):
            told = {name: list(assignments.values())[len(topic.partitions) :]}
    error = (await admin.create_partitions({name: args.partitions}, told))[name]
    if error is not None:
        if args.if_exists and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        raise error
    print(f"Topic {name} has {args.partitions} partitions.")


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    names = await _chosen(admin, args)
    outcomes = await admin.delete_topics(names) if names else {}
    failed = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if args.if_exists:
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        failed = {name: error for name, error in failed.items() if error.code is not gone}
    return _report(failed)


def _report(failed: dict[str, KafkaError]) -> int:
    for name, error in failed.items():
        print(f"minikafka: topic {name}: {error}", file=sys.stderr)
    return 1 if failed else 0
