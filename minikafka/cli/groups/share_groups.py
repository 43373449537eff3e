"""The verb `share-groups`: show share groups and change where they read (kafka-share-groups)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.groups import group_text as text
from minikafka.cli.groups.group_actions import (
    EMPTY,
    NO_STATE,
    add_group_action,
    add_state_filter,
    add_topic,
    chosen,
    complain,
    delete_empty_groups,
    named_groups,
    show_deletion,
    show_listing,
)
from minikafka.cli.groups.group_reset import (
    Offsets,
    at_time,
    datetime_ms,
    looked_up,
    partitions_named,
)
from minikafka.cli.output import MISSING, kafka_table, show_json
from minikafka.cli.verb_parser import add_json_argument
from minikafka.client import EARLIEST_TIMESTAMP
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.groups import SHARE
from minikafka.core.client.admin.share_groups import (
    ShareGroupDescription,
    SharePartitionStart,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

# None for a partition that has not begun.
ShareOffsets: TypeAlias = Mapping[TopicPartition, SharePartitionStart | KafkaError | None]

STATES = ("Empty", "Stable", "Dead")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list|describe|reset-offsets|delete|delete-offsets"
    actions = parser.add_subparsers(dest="action", required=True, metavar=names)
    listing = add_group_action(actions, "list", "list the ids of share groups")
    add_state_filter(listing)
    add_json_argument(listing)
    describe = add_group_action(
        actions, "describe", "show offsets and lag, members or state", several=True
    )
    what = describe.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="show start offsets and lag (default)")
    what.add_argument("--members", action="store_true", help="show the members")
    what.add_argument("--state", action="store_true", help="show the state of the group")
    describe.add_argument(
        "--verbose",
        action="store_true",
        help="with --members: their epochs; with --state: the epochs of the group; with --offsets: "
        "the leader epochs of the partitions",
    )
    add_json_argument(describe, "print JSON: state and members, and offsets by default")
    reset = add_group_action(
        actions, "reset-offsets", "let a group without active members read elsewhere"
    )
    reset.add_argument("--group", required=True, help="the group; it may not exist yet")
    scope = reset.add_mutually_exclusive_group(required=True)
    scope.add_argument("--all-topics", action="store_true", help="all topics that the group reads")
    add_topic(scope, required=False)
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="the log start offset")
    where.add_argument("--to-latest", action="store_true", help="the log end offset")
    where.add_argument(
        "--to-datetime",
        metavar="YYYY-MM-DDTHH:MM:SS.sss",
        help="the first record at or after this time; UTC unless it has a zone",
    )
    how = reset.add_mutually_exclusive_group(required=True)
    how.add_argument("--dry-run", action="store_true", help="print the new offsets only")
    how.add_argument("--execute", action="store_true", help="alter the offsets")
    add_group_action(actions, "delete", "delete groups without active members", several=True)
    offsets = add_group_action(
        actions, "delete-offsets", "forget what one group has read of topics"
    )
    offsets.add_argument("--group", required=True, help="the group whose offsets go")
    offsets.add_argument(
        "--topic", action="append", required=True, help="may be given several times"
    )


def run(args: argparse.Namespace) -> int:
    actions = {
        "list": list_groups,
        "describe": describe,
        "reset-offsets": reset_offsets,
        "delete": delete,
        "delete-offsets": delete_offsets,
    }
    config = client_config(args)
    return run_admin(config, lambda admin: actions[args.action](admin, args))


async def list_groups(admin: Admin, args: argparse.Namespace) -> int:
    groups = await admin.list_groups(chosen(args.state, STATES, "state"), [SHARE])
    if args.json:
        show_json([text.listing_json(group) for group in groups])
    else:
        show_listing(groups, args.state is not None)
    return 0


# -- describe


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    failed = 0
    shown: list[dict[str, Any]] = []
    for group_id, group in sorted(
        (await admin.describe_share_groups(await named_groups(admin, args, SHARE))).items()
    ):
        if isinstance(group, KafkaError):
            if group.code is ErrorCode.GROUP_ID_NOT_FOUND:
                failed += complain(f"Share group '{group_id}' does not exist.")
            else:
                failed += complain(f"group {group_id}: {group}")
            continue
        of_all = not (args.members or args.state)
        offsets = await admin.share_group_offsets(group_id) if of_all else None
        if args.json:
            shown.append(group_json(group, offsets))
        else:
            _show(group, offsets, args)
    if args.json:
        show_json(shown)
    return min(failed, 1)


def _show(
    group: ShareGroupDescription,
    offsets: ShareOffsets | None,
    args: argparse.Namespace,
) -> None:
    if offsets is not None:
        if offsets:
            print("\n" + offsets_table(group.group_id, offsets, args.verbose))
        else:
            print(f"\nShare group '{group.group_id}' has no offset information.")
        return
    if not group.members:
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr)
    if args.state:
        print("\n" + state_table(group, args.verbose))
    elif group.members:
        print("\n" + members_table(group, args.verbose))


def offsets_table(
    group_id: str,
    offsets: ShareOffsets,
    verbose: bool,
) -> str:
    columns = [("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10)]
    columns += [("LEADER-EPOCH", 13)] if verbose else []
    columns += [("START-OFFSET", 13), ("LAG", 0)]
    rows = []
    for (topic, partition), found in sorted(offsets.items()):
        cells: list[object] = [MISSING, MISSING, MISSING]
        if isinstance(found, SharePartitionStart):
            lag = MISSING if found.lag is None else found.lag
            cells = [found.leader_epoch, found.start_offset, lag]
        rows.append((group_id, topic, partition, *(cells if verbose else cells[1:])))
    return kafka_table(columns, rows)


def state_table(group: ShareGroupDescription, verbose: bool) -> str:
    node = group.coordinator
    columns = [("GROUP", 15), ("COORDINATOR (ID)", 25), ("STATE", 15)]
    columns += [("GROUP-EPOCH", 12), ("ASSIGNMENT-EPOCH", 17)] if verbose else []
    cells: list[object] = [group.group_id, f"{node.host}:{node.port}  ({node.id})", group.state]
    cells += [group.epoch, group.target_epoch] if verbose else []
    return kafka_table([*columns, ("#MEMBERS", 0)], [(*cells, len(group.members))])


def members_table(group: ShareGroupDescription, verbose: bool) -> str:
    columns = [("GROUP", 15), ("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 15)]
    columns += [("#PARTITIONS", 12)]
    columns += [("MEMBER-EPOCH", 13)] if verbose else []
    rows = [
        (
            group.group_id,
            member.member_id,
            member.host,
            member.client_id,
            len(member.assignment),
            *([member.epoch] if verbose else []),
            text.one_word(member.assignment),
        )
        for member in sorted(group.members, key=lambda each: each.member_id)
    ]
    return kafka_table([*columns, ("ASSIGNMENT", 0)], rows)


def group_json(
    group: ShareGroupDescription,
    offsets: ShareOffsets | None,
) -> dict[str, Any]:
    """Return a group as `describe --json` prints it; ``offsets`` None: without them."""
    shown: dict[str, Any] = {
        "group": group.group_id,
        "state": group.state,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator.id,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "rack": member.rack_id,
                "epoch": member.epoch,
                "partitions": [list(partition) for partition in member.assignment],
            }
            for member in group.members
        ],
    }
    if offsets is not None:
        shown["offsets"] = [
            {
                "topic": topic,
                "partition": partition,
                "start_offset": found.start_offset,
                "leader_epoch": found.leader_epoch,
                "lag": found.lag,
            }
            if isinstance(found, SharePartitionStart)
            else {"topic": topic, "partition": partition, "error": found and str(found)}
            for (topic, partition), found in sorted(offsets.items())
        ]
    return shown


# -- changes


async def reset_offsets(admin: Admin, args: argparse.Namespace) -> int:
    group_id = args.group
    found = (await admin.describe_share_groups([group_id]))[group_id]
    if isinstance(found, KafkaError) and found.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return complain(f"group {group_id}: {found}")
    if isinstance(found, ShareGroupDescription) and found.state not in (EMPTY, NO_STATE):
        return complain(f"Share group '{group_id}' is not empty.")
    if args.all_topics:
        partitions: Iterable[TopicPartition] = await admin.share_group_offsets(group_id)
    else:
        partitions = await partitions_named(admin, args.topic)
    offsets = await _new_offsets(admin, list(partitions), args)
    failed = 0
    if args.execute and offsets:
        outcomes = await admin.alter_share_group_offsets(group_id, offsets)
        for partition, error in outcomes.items():
            if error is not None:
                del offsets[partition]
                failed += complain(f"group {group_id}, {partition}: {error}")
    print(text.reset_table({group_id: offsets}))
    return min(failed, 1)


async def _new_offsets(
    admin: Admin, partitions: list[TopicPartition], args: argparse.Namespace
) -> Offsets:
    """Return the offsets of a scenario. Raises KafkaError, WrongUsage."""
    if args.to_earliest:
        return await looked_up(admin, partitions, EARLIEST_TIMESTAMP)
    if args.to_latest:
        return await looked_up(admin, partitions)
    return await at_time(admin, partitions, datetime_ms(args.to_datetime))


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    return show_deletion(await delete_empty_groups(admin, args, SHARE, _refusal), SHARE)


def _refusal(group_id: str, state: str | None) -> str | None:
    if state is None:
        return f"Group '{group_id}' is not a share group."
    return None if state == EMPTY else f"Share group '{group_id}' is not EMPTY."


async def delete_offsets(admin: Admin, args: argparse.Namespace) -> int:
    try:
        outcomes = await admin.delete_share_group_offsets(args.group, dict.fromkeys(args.topic))
    except KafkaError as error:
        return complain(error.message or str(error))
    rows = [
        (topic, "Successful" if error is None else f"Error: {error.message or error}")
        for topic, error in sorted(outcomes.items())
    ]
    print("\n" + kafka_table((("TOPIC", 15), ("STATUS", 0)), rows))
    return 1 if any(error is not None for error in outcomes.values()) else 0
