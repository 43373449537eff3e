"""The verb `streams-groups`: show streams groups, change their offsets and delete them, with their
internal topics (kafka-streams-groups)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.groups.group_actions import (
    EMPTY,
    NO_STATE,
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
from minikafka.cli.groups.group_reset import (
    Offsets,
    add_scenarios,
    committed_offsets,
    looked_up,
    new_offsets,
    offsets_in_plan,
    partitions_named,
    planned_in_file,
    reset_groups,
)
from minikafka.cli.output import kafka_table
from minikafka.cli.usage import WrongUsage
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

# The names that Kafka Streams gives to internal topics, after the application's id and a hyphen.
_INTERNAL: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-(registration|response)-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list|describe|reset-offsets|delete|delete-offsets"
    actions = parser.add_subparsers(dest="action", required=True, metavar=names)
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
    reset = add_group_action(
        actions, "reset-offsets", "reset the offsets of groups without active members", several=True
    )
    _add_input_topics(reset, "all source topics with a committed offset", required=False)
    add_scenarios(reset)
    how = reset.add_mutually_exclusive_group(required=True)
    how.add_argument("--dry-run", action="store_true", help="print the new offsets only")
    how.add_argument("--execute", action="store_true", help="commit the new offsets")
    reset.add_argument(
        "--export", action="store_true", help="print the new offsets as CSV, for --from-file"
    )
    which = reset.add_mutually_exclusive_group()
    which.add_argument(
        "--delete-internal-topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="with --execute: delete this topic then; may be given several times",
    )
    _add_delete_internal(which, "with --execute: delete the group's internal topics then")
    deletion = add_group_action(
        actions, "delete", "delete groups without active members", several=True
    )
    _add_delete_internal(deletion, "delete the groups' internal topics as well")
    offsets = add_group_action(
        actions, "delete-offsets", "delete the offsets of one group for source topics"
    )
    offsets.add_argument("--group", required=True, help="the group whose offsets go")
    _add_input_topics(offsets, "all source topics with a committed offset", required=True)


def _add_input_topics(parser: argparse.ArgumentParser, of_all: str, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument(
        "--input-topic",
        dest="topic",
        action="append",
        default=[],
        metavar="TOPIC[:0,1,...]",
        help="may be given several times",
    )
    which.add_argument("--all-input-topics", dest="all_topics", action="store_true", help=of_all)


def _add_delete_internal(parser: argparse._ActionsContainer, text: str) -> None:
    parser.add_argument("--delete-all-internal-topics", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    actions = {
        "list": list_groups,
        "describe": describe,
        "reset-offsets": reset_offsets,
        "delete": delete,
        "delete-offsets": delete_offsets,
    }
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


# -- changes


async def reset_offsets(admin: Admin, args: argparse.Namespace) -> int:
    if args.from_file is None and not args.all_topics and not args.topic:
        raise WrongUsage(
            "One of the reset scopes should be defined: --all-input-topics, --input-topic."
        )
    if not args.execute and (args.delete_all_internal_topics or args.delete_internal_topic):
        raise WrongUsage("Internal topics are deleted with --execute only.")
    planned = planned_in_file(args)
    groups = await admin.describe_streams_groups(await named_groups(admin, args, STREAMS))

    async def offsets_of(group_id: str) -> Offsets:
        if args.from_file is not None:
            return await offsets_in_plan(admin, group_id, planned)
        committed = await committed_offsets(admin, group_id)
        of_sources = _of_sources(groups[group_id], committed)
        named = (
            list(of_sources)
            if args.all_topics
            else await _named(admin, group_id, args.topic, committed)
        )
        return await new_offsets(admin, args, named, of_sources)

    states = {group_id: _state(group) for group_id, group in groups.items()}
    reset, failed = await reset_groups(admin, args, states, offsets_of)
    for group_id in reset:
        topics: Collection[str] = args.delete_internal_topic
        if args.delete_all_internal_topics:
            topics = _internal_topics([groups[group_id]]).get(group_id, ())
        errors = await admin.delete_topics(topics) if topics else {}
        if first := next(filter(None, errors.values()), None):
            why = f"due to {first}"
            if first.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                why = "because the topics do not exist."
            failed += complain(f"Deleting internal topics for group '{group_id}' failed {why}")
    return min(failed, 1)


def _state(group: StreamsGroupDescription | KafkaError) -> str | KafkaError:
    if isinstance(group, StreamsGroupDescription):
        return group.state
    return NO_STATE if group.code is ErrorCode.GROUP_ID_NOT_FOUND else group


def _of_sources(group: StreamsGroupDescription | KafkaError, committed: Offsets) -> Offsets:
    """Return the offsets of source topics that are not internal. Raises the KafkaError."""
    if isinstance(group, KafkaError):
        raise group
    return {p: offset for p, offset in committed.items() if p.topic in group.external_topics}


async def _named(
    admin: Admin, group_id: str, words: Iterable[str], committed: Offsets
) -> list[TopicPartition]:
    """Return the partitions of ``--input-topic``, or none, with an error, if the group has not
    committed an offset of each. Raises KafkaError if one does not exist or has no leader."""
    named = await partitions_named(admin, words)
    topics = await admin.describe_topics({partition.topic for partition in named})
    if missing := sorted({*named} - {*existing(named, topics)}):
        which = ",".join(map(str, missing))
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{which}: no leader")
    if {*named} <= {*committed}:
        return named
    complain(f"One or more topics are not part of the group '{group_id}'.")
    return []


def _internal_topics(
    groups: Iterable[StreamsGroupDescription | KafkaError],
) -> dict[str, list[str]]:
    """Return the internal topics that may be deleted, by group. A topic whose name does not begin
    with the group's id, or is not one that Kafka Streams makes, is left out, with an error."""
    found: dict[str, list[str]] = {}
    for group in groups:
        if isinstance(group, KafkaError):
            continue
        for topic in sorted(group.internal_topics):
            if topic.startswith(f"{group.group_id}-") and _INTERNAL.fullmatch(topic):
                found.setdefault(group.group_id, []).append(topic)
            else:
                complain(
                    f"The internal topic '{topic}' is not inferred as internal "
                    f"and thus will not be deleted with the group '{group.group_id}'."
                )
    return found


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    internal: dict[str, list[str]] = {}
    if args.delete_all_internal_topics:
        names = await named_groups(admin, args, STREAMS)
        internal = _internal_topics((await admin.describe_streams_groups(names)).values())
    outcomes = await delete_empty_groups(admin, args, STREAMS, _refusal)
    some = "\nThese {} groups were deleted successfully: {}."
    failed = show_deletion(outcomes, STREAMS, some)
    deleted = [group_id for group_id in internal if outcomes.get(group_id, "") is None]
    return max(failed, await _delete_internal(admin, internal, deleted)) if deleted else failed


async def _delete_internal(
    admin: Admin, internal: Mapping[str, list[str]], group_ids: list[str]
) -> int:
    """Delete the internal topics of groups, and print what became of them. Return the exit
    status: topics that do not exist are no failure."""
    failed: dict[str, KafkaError] = {}
    for group_id in group_ids:
        for topic, error in (await admin.delete_topics(internal[group_id])).items():
            if error is not None:
                print(f"Failed to delete internal topic: {topic}")
                failed.setdefault(group_id, error)
    if not failed:
        names = ", ".join(f"'{group_id}'" for group_id in group_ids)
        print(
            "Deletion of associated internal topics of the streams groups "
            f"({names}) was successful."
        )
        return 0
    print("Deletion of some associated internal topics failed:")
    for group_id, error in failed.items():
        print(
            f"* Internal topics of the streams group '{group_id}' could not be deleted due to: "
            f"{error}"
        )
    return int(any(e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for e in failed.values()))


def _refusal(group_id: str, state: str | None) -> str | None:
    if state is None:
        return f"Group '{group_id}' does not exist or is not a streams group."
    return None if state == EMPTY else str(KafkaError(ErrorCode.NON_EMPTY_GROUP))


# What Kafka says of the errors that concern a group as a whole.
_WHOLE_GROUP: Final = {
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
}


async def delete_offsets(admin: Admin, args: argparse.Namespace) -> int:
    outcomes: dict[TopicPartition, KafkaError | None]
    if args.all_topics:
        group = (await admin.describe_streams_groups([args.group]))[args.group]
        partitions = list(_of_sources(group, await committed_offsets(admin, args.group)))
        outcomes = {}
    else:
        partitions, outcomes = await _existing_or_error(admin, args.topic)
    complaint: str | None = None
    try:
        outcomes |= await admin.delete_group_offsets(args.group, partitions)
    except KafkaError as error:
        complaint = _WHOLE_GROUP.get(error.code, f"Encountered some unknown error: {error}")
        outcomes |= dict.fromkeys(partitions, error)
    if complaint is None and any(outcomes[each] is not None for each in partitions):
        complaint = "Encountered some partition-level error, see the follow-up details."
    if complaint is None:
        print(f"Request succeeded for deleting offsets from group {args.group}.")
    else:
        complain(complaint)
    rows = [
        (
            partition.topic,
            partition.partition if partition.partition >= 0 else None,
            "Successful" if error is None else f"Error: {error}",
        )
        for partition, error in sorted(outcomes.items())
    ]
    columns = (("TOPIC", NARROWEST), ("PARTITION", 10), ("STATUS", 0))
    print("\n" + kafka_table(columns, rows))
    return int(any(error is not None for error in outcomes.values()))


async def _existing_or_error(
    admin: Admin, words: Iterable[str]
) -> tuple[list[TopicPartition], dict[TopicPartition, KafkaError | None]]:
    """Return the partitions that ``--input-topic`` options name, and the error of each topic that
    does not exist, under the partition -1."""
    partitions: list[TopicPartition] = []
    errors: dict[TopicPartition, KafkaError | None] = {}
    for word in words:
        try:
            partitions += await partitions_named(admin, [word])
        except KafkaError as error:
            errors[TopicPartition(word, -1)] = error
    return sorted({*partitions}), errors
