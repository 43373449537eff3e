"""The verb `streams-groups`: show streams groups and delete them (kafka-streams-groups)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.groups.group_reset import looked_up
from minikafka.cli.groups.groups import chosen
from minikafka.cli.output import kafka_table
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument
from minikafka.client import EARLIEST_TIMESTAMP, OffsetAndMetadata
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.groups import STREAMS
from minikafka.core.client.admin.streams_groups import (
    MemberTasks,
    StreamsGroupDescription,
    Tasks,
)
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

STATES = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
NARROWEST = 15
EMPTY = "Empty"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|describe|delete")
    listing = _action(actions, "list", "list the ids of streams groups")
    listing.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE,...",
        help="show the state of each group, and only groups in the named states",
    )
    describe = _action(actions, "describe", "show lag, members or state", several=True)
    what = describe.add_mutually_exclusive_group()
    what.add_argument(
        "--offsets", action="store_true", help="show the partitions of tasks and lag (default)"
    )
    what.add_argument("--members", action="store_true", help="show the members and their tasks")
    what.add_argument("--state", action="store_true", help="show the state of the group")
    describe.add_argument(
        "--verbose",
        action="store_true",
        help="with --members: their epochs and targets; with --state: the epochs of the group; "
        "else the committed offsets",
    )
    _action(actions, "delete", "delete groups without active members", several=True)


def _action(
    actions: Any, name: str, help_text: str, several: bool = False
) -> argparse.ArgumentParser:
    parser = add_action(actions, name, help_text)
    add_bootstrap_argument(parser)
    if several:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--group", action="append", default=[], help="may be given several times"
        )
        which.add_argument("--all-groups", action="store_true", help="all streams groups")
    return parser


def run(args: argparse.Namespace) -> int:
    actions = {"list": list_groups, "describe": describe, "delete": delete}
    return run_admin(client_config(args), lambda admin: actions[args.action](admin, args))


async def list_groups(admin: Admin, args: argparse.Namespace) -> int:
    groups = await admin.list_groups(chosen(args.state, STATES, "state"), [STREAMS])
    if args.state is None:
        for group in groups:
            print(group.group_id)
    else:
        rows = [(group.group_id, group.state) for group in groups]
        print(kafka_table((("GROUP", NARROWEST), ("STATE", 0)), rows))
    return 0


async def _wanted(admin: Admin, args: argparse.Namespace) -> list[str]:
    if not args.all_groups:
        return list(dict.fromkeys(args.group))
    return [group.group_id for group in await admin.list_groups(types=[STREAMS])]


# -- describe


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    failed = 0
    outcomes = await admin.describe_streams_groups(await _wanted(admin, args))
    for group_id, group in sorted(outcomes.items()):
        if isinstance(group, KafkaError):
            failed += _complain(f"group {group_id}: {group}")
            continue
        if group.state == EMPTY:
            _complain(f"Streams group '{group_id}' has no active members.")
        if args.state:
            print(_state_table(group, args.verbose))
        elif group.members and args.members:
            print(_members_table(group, args.verbose))
        elif group.members:
            print(_offsets_table(group, await _offset_rows(admin, group), args.verbose))
    return min(failed, 1)


def _state_table(group: StreamsGroupDescription, verbose: bool) -> str:
    node = group.coordinator
    columns = [("GROUP", NARROWEST), ("COORDINATOR (ID)", 25), ("STATE", 25)]
    row: list[object] = [group.group_id, f"{node.host}:{node.port} ({node.id})", group.state]
    if verbose:
        columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [group.epoch, group.target_assignment_epoch]
    return kafka_table([*columns, ("#MEMBERS", 0)], [[*row, len(group.members)]])


def _members_table(group: StreamsGroupDescription, verbose: bool) -> str:
    columns = [("GROUP", NARROWEST)]
    if verbose:
        columns += [("TARGET-ASSIGNMENT-EPOCH", 25), ("TOPOLOGY-EPOCH", 14)]
    columns.append(("MEMBER", NARROWEST))
    if verbose:
        columns += [("MEMBER-PROTOCOL", 15), ("MEMBER-EPOCH", 15)]
    columns += [("PROCESS", NARROWEST), ("CLIENT-ID", NARROWEST), ("ASSIGNMENTS", 0)]
    rows: list[list[object]] = []
    for member in group.members:
        row: list[object] = [group.group_id]
        row += [group.target_assignment_epoch, group.topology_epoch] if verbose else []
        row.append(member.member_id)
        row += ["classic" if member.is_classic else "streams", member.epoch] if verbose else []
        tasks = _tasks_text(member.assignment)
        tasks += _tasks_text(member.target_assignment, "TARGET-") if verbose else ""
        rows.append([*row, member.process_id, member.client_id, tasks])
    return kafka_table(columns, rows)


def _tasks_text(assignment: MemberTasks, prefix: str = "") -> str:
    kinds = {
        "ACTIVE": assignment.active,
        "STANDBY": assignment.standby,
        "WARMUP": assignment.warmup,
    }
    return "".join(f"{prefix}{name}: {_ids(tasks)}" for name, tasks in kinds.items() if tasks)


def _ids(tasks: Tasks) -> str:
    return "".join(f"{name}:[{','.join(map(str, some))}]; " for name, some in tasks.items())


class OffsetRow(NamedTuple):
    """A partition that a task reads. Without a committed offset its lag is that of all records."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - (self.start if self.committed is None else self.committed.offset)

    @property
    def leader_epoch(self) -> int | None:
        if self.committed is None or self.committed.leader_epoch == NO_EPOCH:
            return None
        return self.committed.leader_epoch


async def _offset_rows(admin: Admin, group: StreamsGroupDescription) -> list[OffsetRow]:
    """Return the rows of all partitions that exist, sorted. Kafka shows them unsorted."""
    topics = await admin.describe_topics({partition.topic for partition in group.partitions})
    there = [
        partition
        for partition in sorted(group.partitions)
        if not isinstance(found := topics[partition.topic], KafkaError)
        and partition.partition in found.available
    ]
    starts: Mapping[TopicPartition, int] = await looked_up(admin, there, EARLIEST_TIMESTAMP)
    ends = await looked_up(admin, there)
    committed = await admin.group_offsets(group.group_id)
    shown = {p: offset for p, offset in committed.items() if p.topic in group.external_topics}
    return [OffsetRow(p, shown.get(p), starts[p], ends[p]) for p in there]


def _offsets_table(group: StreamsGroupDescription, rows: list[OffsetRow], verbose: bool) -> str:
    columns = [("GROUP", NARROWEST), ("TOPIC", NARROWEST), ("PARTITION", 10)]
    if not verbose:
        cells = [(group.group_id, *row.partition, row.lag) for row in rows]
        return kafka_table([*columns, ("OFFSET-LAG", 0)], cells)
    columns += [("CURRENT-OFFSET", 15), ("LEADER-EPOCH", 15), ("LOG-END-OFFSET", 15)]
    full = [
        (
            group.group_id,
            *row.partition,
            None if row.committed is None else row.committed.offset,
            row.leader_epoch,
            row.end,
            row.lag,
        )
        for row in rows
    ]
    return kafka_table([*columns, ("OFFSET-LAG", 15)], full)


# -- delete


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    """Delete groups, of which Kafka's tool looks at the type and the state first."""
    listed = {group.group_id: group for group in await admin.list_groups(types=[STREAMS])}
    wanted = await _wanted(admin, args)
    failed: dict[str, str] = {}
    for group_id in wanted:
        if group_id not in listed:
            failed[group_id] = f"Group '{group_id}' does not exist or is not a streams group."
        elif listed[group_id].state != EMPTY:
            failed[group_id] = str(KafkaError(ErrorCode.NON_EMPTY_GROUP))
    outcomes = await admin.delete_groups([name for name in wanted if name not in failed])
    failed |= {name: str(error) for name, error in outcomes.items() if error is not None}
    done = ", ".join(f"'{name}'" for name in wanted if name not in failed)
    if not failed:
        print(f"Deletion of requested streams groups ({done}) was successful.")
        return 0
    _complain("Deletion of some streams groups failed:")
    for group_id, problem in failed.items():
        print(f"* Group '{group_id}' could not be deleted due to: {problem}", file=sys.stderr)
    if done:
        print(f"\nThese streams groups were deleted successfully: {done}.")
    return 1


def _complain(sentence: str) -> int:
    print(f"\nError: {sentence}", file=sys.stderr)
    return 1
