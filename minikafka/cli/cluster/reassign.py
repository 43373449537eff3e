"""The verb `reassign`: moves partitions to other replicas, as kafka-reassign-partitions does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from minikafka.cli.cluster import reassignment_text as text
from minikafka.cli.cluster import reassignment_throttles as throttles
from minikafka.cli.cluster.replica_moves import ReplicaDirectories, begin_moves, move_line, places
from minikafka.cli.connect import client_config, run_client
from minikafka.cli.options import add_bootstrap_argument
from minikafka.cli.usage import WrongUsage
from minikafka.client.admin.admin import Admin
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.controller.placement import BrokerRack, assign_replicas
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock, Entropy, World

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
NEEDS = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
ONLY_FOR = {
    "additional": ("execute",),
    "throttle": ("execute",),
    "replica_alter_log_dirs_throttle": ("execute",),
    "preserve_throttles": ("verify", "cancel"),
    "timeout": ("execute", "cancel"),
}
TIMEOUT_MS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap_argument(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("generate", "print a reassignment that spreads topics over brokers"),
        ("execute", "start a reassignment, and print the present one for rollback"),
        ("verify", "print the status of a reassignment; exit status 1 until it is complete"),
        ("cancel", "cancel the moves of a reassignment that are under way"),
        ("list", "list all reassignments under way"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=what)
    parser.add_argument(
        "--topics-to-move-json-file",
        metavar="FILE",
        help='{"topics": [{"topic": "t"}], "version": 1}',
    )
    parser.add_argument("--broker-list", metavar="ID,ID,...", help="brokers to spread them over")
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="ignore the brokers' racks"
    )
    parser.add_argument(
        "--reassignment-json-file",
        metavar="FILE",
        help='{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}], "version": 1}; '
        'with "log_dirs": ["any", "/data"] in a row, a replica is moved to that directory',
    )
    parser.add_argument(
        "--additional",
        action="store_true",
        help="execute while other reassignments are under way, or to change their throttle",
    )
    parser.add_argument(
        "--throttle",
        type=int,
        metavar="BYTES",
        help="limit the moves to this many bytes a second, in and out of each broker; --verify "
        "removes the limit after the last move",
    )
    parser.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=int,
        metavar="BYTES",
        help="limit the moves between log directories of a broker to this many bytes a second",
    )
    parser.add_argument("--preserve-throttles", action="store_true", help="do not remove throttles")
    parser.add_argument(
        "--timeout",
        type=int,
        metavar="MS",
        help=f"time-out until moves between log directories have started ({TIMEOUT_MS})",
    )


def run(args: argparse.Namespace) -> int:
    config = client_config(args)
    check(args)
    plan = text.ReassignmentFile({}, {})
    if "reassignment_json_file" in NEEDS[args.action]:
        plan = text.parse_reassignment(Path(args.reassignment_json_file).read_text())
    topics: list[str] = []
    brokers: list[int] = []
    if args.action == "generate":
        topics = text.parse_topics(Path(args.topics_to_move_json_file).read_text())
        brokers = text.parse_brokers(args.broker_list)

    async def work(world: World) -> int:
        async with Admin(world, config) as admin:
            match args.action:
                case "generate":
                    await generate(admin, topics, brokers, args.disable_rack_aware, world.entropy)
                case "execute":
                    await execute(admin, world.clock, plan, args)
                case "verify":
                    return await verify(admin, plan, args)
                case "cancel":
                    await cancel(admin, world.clock, plan, args)
                case _:
                    found = await admin.list_partition_reassignments()
                    print("\n".join(text.under_way_lines(found)))
        return 0

    return run_client(work, config.default_api_timeout_ms)


def check(args: argparse.Namespace) -> None:
    """Check the options of the action. Raises ConfigError for missing, foreign or negative ones."""
    for option in NEEDS[args.action]:
        if getattr(args, option) is None:
            raise WrongUsage(f"--{args.action} needs --{_name(option)}")
    for option, actions in ONLY_FOR.items():
        given = getattr(args, option)
        if given is not None and given is not False and args.action not in actions:
            raise WrongUsage(f"--{_name(option)} can't be used with --{args.action}")
        if not isinstance(given, bool) and given is not None and given < 0:
            raise WrongUsage(f"--{_name(option)} must be at least 0")


def _name(option: str) -> str:
    return option.replace("_", "-")


# --------------------------------------------------------------------------------------- generate


async def generate(
    admin: Admin, topics: Sequence[str], broker_ids: Sequence[int], blind: bool, dice: Entropy
) -> None:
    """Print the present and a proposed assignment of ``topics`` to brokers.

    ``blind``: ignore racks. Raises ConfigError for unknown brokers, KafkaError for unknown topics
    and for replicas that cannot be placed on these brokers.
    """
    brokers = await _racks(admin, broker_ids, blind)
    found = await _topics(admin, topics)
    current = {
        TopicPartition(topic.name, number): view.replicas
        for topic in found
        for number, view in topic.partitions.items()
    }
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in found:
        proposed.update(proposal(topic, brokers, dice))
    print(f"Current partition replica assignment\n{text.reassignment_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{text.reassignment_json(proposed)}")


def proposal(
    topic: TopicView, brokers: Sequence[BrokerRack], dice: Entropy
) -> dict[TopicPartition, tuple[int, ...]]:
    """Assign replicas as for a new topic with the same partition count and replication factor.

    Raises KafkaError if the replicas cannot be placed on these brokers.
    """
    factor = len(topic.partitions[min(topic.partitions)].replicas)
    spread = assign_replicas(
        brokers,
        len(topic.partitions),
        factor,
        start_index=dice.randrange(len(brokers)),
        replica_shift=dice.randrange(len(brokers)),
    )
    return {TopicPartition(topic.name, number): replicas for number, replicas in spread.items()}


async def _racks(admin: Admin, wanted: Sequence[int], blind: bool) -> list[BrokerRack]:
    nodes = {node.id: node for node in (await admin.describe_cluster()).nodes}
    _check_brokers(wanted, nodes)
    return [BrokerRack(b, None if blind else nodes[b].rack) for b in wanted]


# ------------------------------------------------------------------------ execute, verify, cancel


async def execute(
    admin: Admin, clock: Clock, plan: text.ReassignmentFile, args: argparse.Namespace
) -> None:
    """Set the throttles, then start the reassignment and the moves between log directories.

    Raises ConfigError for unknown brokers, for other reassignments under way without
    ``--additional``, and after a time-out of the moves; KafkaError if a request fails.
    """
    targets, directories = plan.targets, plan.directories
    under_way = await admin.list_partition_reassignments()
    if not args.additional and under_way:
        raise ConfigError(
            "other reassignments are under way; --additional starts these beside them"
        )
    nodes = (await admin.describe_cluster()).nodes
    _check_brokers({b for ids in targets.values() for b in ids}, [node.id for node in nodes])
    current = await _current(admin, targets)
    print(f"Current partition replica assignment\n\n{text.reassignment_json(current)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if args.throttle is not None or args.replica_alter_log_dirs_throttle is not None:
        print(throttles.REMINDER)
    if args.throttle is not None:
        moving = throttles.moves(under_way, targets, current)
        await throttles.throttle_moves(admin, moving, args.throttle)
    if args.replica_alter_log_dirs_throttle is not None:
        brokers = {replica.broker for replica in directories}
        await throttles.throttle_log_dirs(admin, brokers, args.replica_alter_log_dirs_throttle)
    outcomes = await admin.alter_partition_reassignments(targets)
    _raise_for_failed("Error reassigning partition(s):", outcomes)
    print(text.plural("Successfully started partition reassignment(s) for ", list(targets)))
    await begin_moves(admin, clock, directories, _timeout_ms(args))


async def verify(admin: Admin, plan: text.ReassignmentFile, args: argparse.Namespace) -> int:
    """Print the status of each reassignment in the plan; return 0 if all are complete.

    The throttles are removed unless a reassignment is under way in the cluster, planned or not.
    """
    targets = plan.targets
    moving = await admin.list_partition_reassignments()
    current = await _current(admin, targets)
    print("Status of partition reassignment:")
    for tp in sorted(targets):
        print(text.status_line(tp, targets[tp], current[tp], tp in moving))
    found = await places(admin, plan.directories)
    for replica in sorted(found):
        print(move_line(replica, found[replica], plan.directories[replica]))
    at_rest = all(place.current and not place.future for place in found.values())
    if not moving and at_rest and not args.preserve_throttles:
        await throttles.clear_throttles(admin, targets)
    done = all(text.is_done(targets[tp], current[tp], tp in moving) for tp in targets)
    there = all(found[r] == ReplicaDirectories(path) for r, path in plan.directories.items())
    return 0 if done and there else 1


async def cancel(
    admin: Admin, clock: Clock, plan: text.ReassignmentFile, args: argparse.Namespace
) -> None:
    moving = await admin.list_partition_reassignments(plan.targets)
    if moving:
        outcomes = await admin.alter_partition_reassignments(dict.fromkeys(moving))
        _raise_for_failed("Error cancelling partition reassignment(s) for:", outcomes)
        print(text.plural("Successfully cancelled partition reassignment(s) for: ", list(moving)))
    else:
        print("None of the specified partition reassignments are active.")
    found = await places(admin, plan.directories)
    back = {r: place.current for r, place in found.items() if place.current and place.future}
    await begin_moves(admin, clock, back, _timeout_ms(args))
    if not args.preserve_throttles:
        await throttles.clear_throttles(admin, plan.targets)


def _timeout_ms(args: argparse.Namespace) -> int:
    return TIMEOUT_MS if args.timeout is None else int(args.timeout)


async def _current(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the present replicas of partitions. Raises KafkaError for an unknown partition."""
    wanted = sorted(partitions)
    topics = {t.name: t for t in await _topics(admin, sorted({tp.topic for tp in wanted}))}
    current: dict[TopicPartition, tuple[int, ...]] = {}
    for tp in wanted:
        view = topics[tp.topic].partitions.get(tp.partition)
        if view is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        current[tp] = view.replicas
    return current


async def _topics(admin: Admin, names: Sequence[str]) -> list[TopicView]:
    found: list[TopicView] = []
    for outcome in (await admin.describe_topics(names)).values():
        if isinstance(outcome, KafkaError):
            raise outcome
        found.append(outcome)
    return found


def _check_brokers(wanted: Iterable[int], known: Iterable[int]) -> None:
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ConfigError(f"no such brokers: {text.numbers(unknown)}")


def _raise_for_failed(head: str, outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    failed = {tp: error for tp, error in outcomes.items() if error is not None}
    if failed:
        first = failed[min(failed)]
        raise KafkaError(first.code, text.error_lines(head, failed))
