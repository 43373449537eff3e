"""The verb `streams-groups`: show streams groups and delete them (kafka-streams-groups)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.groups.group_actions import (
    EMPTY,
    add_group_action,
    add_state_filter,
    chosen,
    complain,
    delete_empty_groups,
    existing,
    named_groups,
    show_deletion,
    show_listing,
)
from minikafka.cli.groups.group_reset import looked_up
from minikafka.cli.output import kafka_table
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|describe|delete")
    listing = add_group_action(actions, "list", "list the ids of streams groups")
    add_state_filter(listing)
    describe = add_group_action(actions, "describe", "show lag, members or state", several=True)
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
    add_group_action(actions, "delete", "delete groups without active members", several=True)


def run(args: argparse.Namespace) -> int:
    actions = {"list": list_groups, "describe": describe, "delete": delete}
    return run_admin(client_config(args), lambda admin: actions[args.action](admin, args))


async def list_groups(admin: Admin, args: argparse.Namespace) -> int:
    groups = await admin.list_groups(chosen(args.state, STATES, "state"), [STREAMS])
    show_listing(groups, args.state is not None)
    return 0


# -- describe


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    failed = 0
    outcomes = await admin.describe_streams_groups(await named_groups(admin, args, STREAMS))
    for group_id, group in sorted(outcomes.items()):
        if isinstance(group, KafkaError):
            failed += complain(f"group {group_id}: {group}")
            continue
        if group.state == EMPTY:
            complain(f"Streams group '{group_id}' has no active members.")
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
    there = existing(sorted(group.partitions), topics)
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
    outcomes = await delete_empty_groups(admin, args, STREAMS, _refusal)
    some = "\nThese {} groups were deleted successfully: {}."
    return show_deletion(outcomes, STREAMS, some)


def _refusal(group_id: str, state: str | None) -> str | None:
    if state is None:
        return f"Group '{group_id}' does not exist or is not a streams group."
    return None if state == EMPTY else str(KafkaError(ErrorCode.NON_EMPTY_GROUP))
