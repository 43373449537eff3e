"""The verb `reassign`: moves partitions to other replicas, as kafka-reassign-partitions does.

It reads and writes that tool's JSON files and output lines, moves replicas to the log directories
that a file names, and sets and clears replication throttles of the replicas concerned.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from minikafka.cli.connect import client_config, run_client
from minikafka.cli.output import Sick, show
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_bootstrap_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.client.admin.move_progress import (
    MoveMeter,
    MoveProgress,
    brokers_of,
    replica_sizes,
)
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.core.controller.placement import BrokerRack, assign_replicas
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Entropy, World

ASK_AGAIN_MS: Final = 100
MEASURED_MS: Final = 2_000


class Replica(NamedTuple):
    broker: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker}"


class ReplicaDirectories(NamedTuple):
    """The log directory of a replica, and the one to which it is being moved."""

    current: str | None = None
    future: str | None = None


async def begin_moves(
    admin: Admin, clock: Clock, wanted: Mapping[Replica, str], timeout_ms: int
) -> None:
    """Start the moves of replicas to the ``wanted`` log directories.

    A broker cannot move a replica that it does not have yet: such requests are retried. Raises
    KafkaError if a request fails otherwise, ConfigError after ``timeout_ms``.
    """
    waiting = dict(wanted)
    deadline_ms = clock.monotonic_ms() + timeout_ms
    while True:
        for replica in sorted(await _begun(admin, waiting)):
            path, (topic, partition) = waiting.pop(replica), replica.partition
            print(
                f"Successfully started moving log directory to {path} for replica "
                f"{topic}-{partition} with broker {replica.broker}",
                flush=True,
            )
        if not waiting:
            return
        if clock.monotonic_ms() >= deadline_ms:
            raise ConfigError(
                "Timed out before log directory moves could be started for "
                + ",".join(map(str, sorted(waiting)))
            )
        await clock.sleep(ASK_AGAIN_MS)


async def _begun(admin: Admin, wanted: Mapping[Replica, str]) -> list[Replica]:
    begun: list[Replica] = []
    for broker in sorted({replica.broker for replica in wanted}):
        paths = {r.partition: path for r, path in wanted.items() if r.broker == broker}
        for partition, error in (await admin.alter_replica_log_dirs(broker, paths)).items():
            if error is None:
                begun.append(Replica(broker, partition))
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise KafkaError(error.code, f"Failed to alter dir for {broker}: {error}")
    return begun


async def places(admin: Admin, replicas: Iterable[Replica]) -> dict[Replica, ReplicaDirectories]:
    """Return the present log directories of the replicas. Raises KafkaError."""
    found = dict.fromkeys(replicas, ReplicaDirectories())
    described = await admin.describe_log_dirs({replica.broker for replica in found})
    for broker, directories in described.items():
        for path, directory in directories.items():
            for partition, held in directory.replicas.items():
                replica = Replica(broker, partition)
                if replica in found:
                    place = found[replica]
                    found[replica] = (
                        place._replace(future=path)
                        if held.is_future
                        else place._replace(current=path)
                    )
    return found


def move_line(replica: Replica, place: ReplicaDirectories, target: str) -> str:
    """Return the line of ``reassign --verify`` about one replica."""
    where = f"Partition {replica.partition} on broker {replica.broker}"
    if place.current is None:
        return (
            f"Partition {replica.partition} is not found in any live log dir on broker "
            f"{replica.broker}. There is likely an offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if place.future is not None:
        return f"{where} is being moved to log dir {place.future} instead of {target}."
    if place.current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return f"{where} is not being moved from log dir {place.current} to {target}."


ACTIONS = ("generate", "execute", "verify", "cancel", "list", "progress")
NEEDS = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
    "progress": (),
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
        ("progress", "show how far all reassignments are, and the time to go"),
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
    plan = ReassignmentFile({}, {})
    if "reassignment_json_file" in NEEDS[args.action]:
        plan = parse_reassignment(Path(args.reassignment_json_file).read_text())
    topics: list[str] = []
    brokers: list[int] = []
    if args.action == "generate":
        topics = parse_topics(Path(args.topics_to_move_json_file).read_text())
        brokers = parse_brokers(args.broker_list)

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
                case "progress":
                    await progress(admin, world.clock)
                case _:
                    found = await admin.list_partition_reassignments()
                    print("\n".join(under_way_lines(found)))
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
    print(f"Current partition replica assignment\n{reassignment_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{reassignment_json(proposed)}")


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
    admin: Admin, clock: Clock, plan: ReassignmentFile, args: argparse.Namespace
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
    print(f"Current partition replica assignment\n\n{reassignment_json(current)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if args.throttle is not None or args.replica_alter_log_dirs_throttle is not None:
        print(REMINDER)
    if args.throttle is not None:
        moving = moves(under_way, targets, current)
        await throttle_moves(admin, moving, args.throttle)
    if args.replica_alter_log_dirs_throttle is not None:
        brokers = {replica.broker for replica in directories}
        await throttle_log_dirs(admin, brokers, args.replica_alter_log_dirs_throttle)
    outcomes = await admin.alter_partition_reassignments(targets)
    _raise_for_failed("Error reassigning partition(s):", outcomes)
    started = plural("Successfully started partition reassignment(s) for ", list(targets))
    print(started, flush=True)  # moves between log directories may take a while
    await begin_moves(admin, clock, directories, _timeout_ms(args))


async def verify(admin: Admin, plan: ReassignmentFile, args: argparse.Namespace) -> int:
    """Print the status of each reassignment in the plan; return 0 if all are complete.

    The throttles are removed unless a reassignment is under way in the cluster, planned or not.
    """
    targets = plan.targets
    moving = await admin.list_partition_reassignments()
    current = await _current(admin, targets)
    print("Status of partition reassignment:")
    for tp in sorted(targets):
        print(status_line(tp, targets[tp], current[tp], tp in moving))
    found = await places(admin, plan.directories)
    for replica in sorted(found):
        print(move_line(replica, found[replica], plan.directories[replica]))
    at_rest = all(place.current and not place.future for place in found.values())
    if not moving and at_rest and not args.preserve_throttles:
        await clear_throttles(admin, targets)
    done = all(is_done(targets[tp], current[tp], tp in moving) for tp in targets)
    there = all(found[r] == ReplicaDirectories(path) for r, path in plan.directories.items())
    return 0 if done and there else 1


async def cancel(
    admin: Admin, clock: Clock, plan: ReassignmentFile, args: argparse.Namespace
) -> None:
    moving = await admin.list_partition_reassignments(plan.targets)
    if moving:
        outcomes = await admin.alter_partition_reassignments(dict.fromkeys(moving))
        _raise_for_failed("Error cancelling partition reassignment(s) for:", outcomes)
        print(plural("Successfully cancelled partition reassignment(s) for: ", list(moving)))
    else:
        print("None of the specified partition reassignments are active.")
    found = await places(admin, plan.directories)
    back = {r: place.current for r, place in found.items() if place.current and place.future}
    await begin_moves(admin, clock, back, _timeout_ms(args))
    if not args.preserve_throttles:
        await clear_throttles(admin, plan.targets)


async def progress(admin: Admin, clock: Clock) -> None:
    """Print how far reassignments are. The rate is that of ``MEASURED_MS``. Raises KafkaError."""
    meter, found = MoveMeter(), list[MoveProgress]()
    for looks in range(2):
        if looks:
            await clock.sleep(MEASURED_MS)
        moves = await admin.list_partition_reassignments()
        if not moves:
            break
        described = await admin.describe_log_dirs(brokers_of(moves))
        found = meter.measure(clock.monotonic_ms(), moves, replica_sizes(moves, described))
    if not found or not moves:
        print("No partition reassignments found.")
        return
    show(PROGRESS_COLUMNS, [progress_row(each) for each in found], as_json=False)


PROGRESS_COLUMNS: Final = ("partition", "to", "from", "copied", "of", "percent", "B/s", "to go")


def progress_row(found: MoveProgress) -> tuple[object, ...]:
    """Return the cells of a partition on the move; one that does not advance is sick."""
    left = found.seconds_left
    stands = found.bytes_per_s == 0 and left is None
    to_go = Sick("stands still") if stands else "" if left is None else f"{left:.0f} s"
    return (
        str(found.partition),
        numbers(found.adding),
        numbers(found.removing),
        found.copied,
        found.total,
        f"{found.percent:.0f}%",
        None if found.bytes_per_s is None else round(found.bytes_per_s),
        to_go,
    )


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
        raise ConfigError(f"no such brokers: {numbers(unknown)}")


def _raise_for_failed(head: str, outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    failed = {tp: error for tp, error in outcomes.items() if error is not None}
    if failed:
        first = failed[min(failed)]
        raise KafkaError(first.code, error_lines(head, failed))


VERSION = 1
ANY_DIRECTORY = "any"

Replicas = Sequence[int]


# ------------------------------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class ReassignmentFile:
    """The contents of a reassignment file.

    ``targets``: new replicas by partition. ``directories``: target log directories, of the replicas
    whose entry is not ``any``.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    directories: Mapping[Replica, str]


def parse_reassignment(text: str) -> ReassignmentFile:
    """Parse the file of ``--reassignment-json-file``. Raises ConfigError."""
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    directories: dict[Replica, str] = {}
    for row in _rows(text, "reassignment", "partitions"):
        match row:
            case {"topic": str(topic), "partition": int(number), "replicas": [*replicas]} if all(
                type(replica) is int for replica in replicas
            ):
                tp = TopicPartition(topic, number)
            case _:
                raise ConfigError(f"not topic, partition and replicas: {json.dumps(row)}")
        if tp in targets:
            raise ConfigError(f"the reassignment file names {tp} twice")
        if len(set(replicas)) < len(replicas):
            raise ConfigError(f"the reassignment file names a broker twice for {tp}")
        targets[tp] = tuple(replicas)
        directories |= _directories(row, tp, replicas)
    if not targets:
        raise ConfigError("the reassignment file names no partition")
    return ReassignmentFile(targets, directories)


def _directories(row: Any, tp: TopicPartition, replicas: Replicas) -> dict[Replica, str]:
    """Parse ``log_dirs`` of a row, one entry for each replica. Raises ConfigError."""
    given = row.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if not isinstance(given, list) or not all(isinstance(path, str) for path in given):
        raise ConfigError(f"{tp}: log_dirs is no list of directories")
    if len(given) != len(replicas):
        raise ConfigError(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list "
            f"{given} for partition {tp}"
        )
    pairs = zip(replicas, given, strict=True)
    return {Replica(broker, tp): path for broker, path in pairs if path != ANY_DIRECTORY}


def parse_topics(text: str) -> list[str]:
    """Parse the file of ``--topics-to-move-json-file``. Raises ConfigError."""
    topics: list[str] = []
    for row in _rows(text, "topics", "topics"):
        match row:
            case {"topic": str(topic)} if topic not in topics:
                topics.append(topic)
            case {"topic": str(topic)}:
                raise ConfigError(f"the topics file names {topic} twice")
            case _:
                raise ConfigError(f"not a topic: {json.dumps(row)}")
    if not topics:
        raise ConfigError("the topics file names no topic")
    return topics


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the partitions file of kafka-leader-election. Raises ConfigError."""
    partitions: list[TopicPartition] = []
    for row in _rows(text, "partitions", "partitions"):
        match row:
            case {"topic": str(topic), "partition": int(number)}:
                partitions.append(TopicPartition(topic, number))
            case _:
                raise ConfigError(f"not topic and partition: {json.dumps(row)}")
    if len(set(partitions)) < len(partitions):
        raise ConfigError("the partitions file names a partition twice")
    return partitions


def parse_brokers(text: str) -> list[int]:
    """Parse the broker ids of ``--broker-list``. Raises ConfigError."""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise WrongUsage(f"--broker-list needs ID,ID,..., not {text}") from None
    if len(set(brokers)) < len(brokers):
        raise WrongUsage(f"--broker-list names a broker twice: {text}")
    return brokers


def _rows(text: str, file: str, key: str) -> list[Any]:
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the {file} file is not JSON: {error}") from None
    rows = data.get(key) if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f'the {file} file has no list "{key}"')
    if data.get("version", VERSION) != VERSION:
        raise ConfigError(f"the {file} file has version {data['version']}, known is {VERSION}")
    return rows


def reassignment_json(replicas: Mapping[TopicPartition, Replicas]) -> str:
    """Format replicas as a reassignment file on one line, as Kafka does."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas[tp]),
            "log_dirs": [ANY_DIRECTORY] * len(replicas[tp]),
        }
        for tp in sorted(replicas)
    ]
    return json.dumps({"version": VERSION, "partitions": rows}, separators=(",", ":"))


# ------------------------------------------------------------------------------------------ lines


def numbers(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


def plural(text: str, partitions: Sequence[TopicPartition]) -> str:
    """Return ``text`` with ``(s)`` resolved to singular or plural, then the partitions."""
    names = numbers_of(partitions)
    return text.replace("(s)", "" if len(partitions) == 1 else "s") + names


def numbers_of(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(str(tp) for tp in sorted(partitions))


def under_way_lines(found: Mapping[TopicPartition, ReplicaAssignment]) -> list[str]:
    """Return the output lines of ``reassign --list``."""
    if not found:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for tp in sorted(found):
        line = f"{tp}: replicas: {numbers(found[tp].replicas)}."
        if found[tp].adding:
            line += f" adding: {numbers(found[tp].adding)}."
        if found[tp].removing:
            line += f" removing: {numbers(found[tp].removing)}."
        lines.append(line)
    return lines


def is_done(target: Replicas, current: Replicas, moving: bool) -> bool:
    return not moving and tuple(target) == tuple(current)


def status_line(tp: TopicPartition, target: Replicas, current: Replicas, moving: bool) -> str:
    """Return the line of ``reassign --verify`` about one partition."""
    if moving:
        return f"Reassignment of partition {tp} is still in progress."
    if tuple(target) == tuple(current):
        return f"Reassignment of partition {tp} is completed."
    return (
        f"There is no active reassignment of partition {tp}, but replica set is "
        f"{numbers(current)} rather than {numbers(target)}."
    )


def error_lines(head: str, failed: Mapping[TopicPartition, KafkaError]) -> str:
    return "\n".join([head, *(f"{tp}: {failed[tp]}" for tp in sorted(failed))])


LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REMINDER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class Move(NamedTuple):
    """The brokers from which a partition is copied, and those to which it is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    under_way: Mapping[TopicPartition, ReplicaAssignment],
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Return the moves under way once the reassignment to ``targets`` has started.

    The reassignments under way are included, since one throttle limits all moves of a broker.
    ``current``: the present replicas of the partitions in ``targets``.
    """
    found = {
        tp: Move(frozenset(plan.replicas) - frozenset(plan.adding), frozenset(plan.adding))
        for tp, plan in under_way.items()
    }
    for tp, replicas in targets.items():
        sources = found[tp].sources if tp in found else frozenset(current[tp])
        found[tp] = Move(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(found: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Return the throttled leader and follower replicas of each topic, as its settings list them.

    All sources are listed as leaders, since any of them may become the leader.
    """
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, partition), move in sorted(found.items()):
        for lists, brokers in ((leaders, move.sources), (followers, move.destinations)):
            listed = lists.setdefault(topic, [])
            listed += [f"{partition}:{broker}" for broker in sorted(brokers)]
    return {topic: (",".join(leaders[topic]), ",".join(followers[topic])) for topic in leaders}


async def throttle_moves(
    admin: Admin, found: Mapping[TopicPartition, Move], bytes_per_second: int
) -> None:
    """Throttle moves that have not started, on their topics and brokers. Raises KafkaError."""
    for topic, (leaders, followers) in throttled_replicas(found).items():
        listed = _to_set({LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers})
        await admin.incremental_alter_configs(ResourceType.TOPIC, topic, listed)
    brokers = {broker for move in found.values() for broker in move.sources | move.destinations}
    rate = str(bytes_per_second)
    away = await _alter_brokers(admin, brokers, _to_set({LEADER_RATE: rate, FOLLOWER_RATE: rate}))
    print(f"The inter-broker throttle limit was set to {bytes_per_second} B/s")
    _tell_of(away, "No limit could be set on")


async def throttle_log_dirs(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Throttle moves between log directories on these brokers. Raises KafkaError."""
    limit = _to_set({LOG_DIRS_RATE: str(bytes_per_second)})
    away = await _alter_brokers(admin, brokers, limit)
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")
    _tell_of(away, "No limit could be set on")


async def clear_throttles(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Remove the throttles from the topics of ``targets`` and from all brokers.

    A completed reassignment no longer shows which brokers were sources. Raises KafkaError.
    """
    brokers = {broker for replicas in targets.values() for broker in replicas}
    brokers |= {node.id for node in (await admin.describe_cluster()).nodes}
    print(f"Clearing broker-level throttles on {_brokers(brokers)}")
    limits = _to_delete(LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
    away = await _alter_brokers(admin, brokers, limits)
    topics = sorted({tp.topic for tp in targets})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    lists = _to_delete(LEADER_REPLICAS, FOLLOWER_REPLICAS)
    for topic in topics:
        await admin.incremental_alter_configs(ResourceType.TOPIC, topic, lists)
    _tell_of(away, "Limits stay on")


async def _alter_brokers(
    admin: Admin, brokers: Iterable[int], changes: Sequence[ConfigAlteration]
) -> set[int]:
    """Alter the settings of each broker; return the brokers that are not available.

    Only a broker itself can alter its settings. Kafka's tool fails if one is unavailable; here the
    others are still altered, since no replica is copied from or to such a broker.
    """
    away: set[int] = set()
    for broker in sorted(brokers):
        try:
            await admin.incremental_alter_configs(ResourceType.BROKER, str(broker), changes)
        except KafkaError as error:
            if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            away.add(broker)
    return away


def _to_set(values: Mapping[str, str]) -> list[ConfigAlteration]:
    return [ConfigAlteration(name, value) for name, value in values.items()]


def _to_delete(*names: str) -> list[ConfigAlteration]:
    return [ConfigAlteration(name, None, AlterOperation.DELETE) for name in names]


def _tell_of(away: set[int], what: str) -> None:
    if away:
        print(f"{what} {_brokers(away)}, not available now")


def _brokers(ids: set[int]) -> str:
    return f"broker{_s(ids)} {numbers(sorted(ids))}"


def _s(several: Collection[object]) -> str:
    return "" if len(several) == 1 else "s"
