"""The verb `groups`: show consumer groups and change their offsets (kafka-consumer-groups).

`groups timeline` shows the history of a group: its events in the brokers' logs, and the last
eviction of a member.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from minikafka.cli.cluster.debug import eviction_text, fetch
from minikafka.cli.connect import client_config, run_admin
from minikafka.cli.groups import group_text as text
from minikafka.cli.groups.group_actions import (
    NO_STATE,
    add_group_action,
    add_state_filter,
    add_topic,
    chosen,
    complain,
    existing,
    show_deletion,
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
from minikafka.cli.groups.group_text import group_json, listing_json
from minikafka.cli.output import MISSING, kafka_table, show_json
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_json_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupDescription,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.listeners import DEBUG_LISTENER, debug_listener

COMPONENT = "group-coordinator"
STDIN = "-"

_LINE = re.compile(r"(\S+) \[(\w+) *\] (.*)")
_PAIR = re.compile(r"(?<= )(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|\S*)")


class Event(NamedTuple):
    """One line of an event log."""

    at: str
    name: str
    facts: dict[str, Any]


def show_timeline(group_id: str, names: Sequence[str]) -> int:
    """Print the events of a group in the logs ``names``, ordered by time; return the exit status.

    The status is 1 if the logs hold no event of the group. Raises OSError if a log cannot be read.
    """
    events = [event for name in names for event in read_log(name)]
    found = timeline(group_id, events)
    if not found:
        print(f"\nError: nothing about group '{group_id}'.", file=sys.stderr)
        return 1
    rows = [
        (event.at, event.facts.get("broker"), event.name.strip(), details(event)) for event in found
    ]
    print(kafka_table((("TIME", 10), ("BROKER", 6), ("EVENT", 20), ("DETAILS", 0)), rows))
    return 0


def timeline(group_id: str, events: Iterable[Event]) -> list[Event]:
    """Return the events of a group, and those of its whole offsets partition, ordered by time.

    Events without a group concern all groups of a partition: its coordinator has loaded it or
    resigned from it.
    """
    ours = [event for event in events if event.facts.get("component") == COMPONENT]
    partitions = {
        event.facts.get("partition") for event in ours if event.facts.get("group") == group_id
    }
    found = [
        event
        for event in ours
        if event.facts.get("group") == group_id
        or ("group" not in event.facts and event.facts.get("partition", MISSING) in partitions)
    ]
    return sorted(found, key=lambda event: when(event.at))


def when(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def details(event: Event) -> str:
    hidden = ("component", "broker", "group", "partition")
    return " ".join(f"{key}={value}" for key, value in event.facts.items() if key not in hidden)


def read_log(name: str) -> list[Event]:
    """Return the group coordinator's events in a log file, or in standard input for ``-``.

    The log may be plain or JSON; other lines are skipped. Raises OSError.
    """
    if name == STDIN:
        lines: Iterable[str] = sys.stdin
    else:
        lines = Path(name).read_text(errors="replace").splitlines()
    return [event for line in lines if COMPONENT in line and (event := parse(line))]


def parse(line: str) -> Event | None:
    """Parse an event in a plain or a JSON log line; return None for any other line."""
    if line.startswith("{"):
        try:
            facts = json.loads(line)
        except ValueError:
            return None
        at, name = str(facts.pop("timestamp", "")), str(facts.pop("event", ""))
        facts.pop("level", None)
        return Event(at, name, facts)
    found = _LINE.match(line)
    if found is None:
        return None
    at, _, rest = found.groups()
    pairs = list(_PAIR.finditer(rest))
    name = rest[: pairs[0].start()] if pairs else rest
    return Event(at, name.strip(), {pair[1]: value_of(pair[2]) for pair in pairs})


def value_of(text: str) -> Any:
    """Parse a value of a plain log line: a Python literal, or else an unquoted text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


# -- evictions


async def last_evictions(admin: Admin, groups: Sequence[GroupDescription]) -> dict[str, str]:
    """Return the last eviction of each group, from the debug listener of its coordinator.

    ``(unknown)`` stands for a coordinator that has no debug listener or runs on another machine.
    """
    found = {group.group_id: "(unknown)" for group in groups}
    for group in groups:
        broker_id = group.coordinator.id
        try:
            configs = await admin.broker_configs(broker_id, [DEBUG_LISTENER])
            endpoint = debug_listener(configs.get(DEBUG_LISTENER))
            if endpoint is None:
                raise ConfigError("no debug listener")
            path = f"/groups.json?group={quote(group.group_id, safe='')}"
            (shown,) = fetch(endpoint, broker_id, path)["groups"] or [{"last_eviction": None}]
            if "last_eviction" in shown:
                found[group.group_id] = eviction_text(shown["last_eviction"]) or MISSING
        except (ConfigError, KafkaError):
            continue
    return found


STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
    "Dead",
)
TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = "list|describe|reset-offsets|delete|delete-offsets|timeline"
    actions = parser.add_subparsers(dest="action", required=True, metavar=names)
    listing = add_group_action(actions, "list", "list the ids of consumer groups")
    add_state_filter(listing)
    listing.add_argument(
        "--type",
        nargs="?",
        const="",
        metavar="TYPE,...",
        help="show the type of each group, and only groups of the named types",
    )
    add_json_argument(listing)
    describe = add_group_action(actions, "describe", "show offsets, members or state", several=True)
    what = describe.add_mutually_exclusive_group()
    what.add_argument(
        "--offsets", action="store_true", help="show committed offsets and lag (default)"
    )
    what.add_argument("--members", action="store_true", help="show the members")
    what.add_argument("--state", action="store_true", help="show the state of the group")
    describe.add_argument(
        "--verbose",
        action="store_true",
        help="with --members: their assignments; with --state: the last eviction of a member; of a "
        "consumer group also the epochs, and with --members the target assignments",
    )
    add_json_argument(describe, "print JSON: state and members, and offsets by default")
    reset = add_group_action(
        actions, "reset-offsets", "reset the offsets of groups without active members", several=True
    )
    reset.add_argument(
        "--all-topics", action="store_true", help="all topics with a committed offset"
    )
    add_topic(reset, required=False)
    add_scenarios(reset)
    how = reset.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="print the new offsets only (default)")
    how.add_argument("--execute", action="store_true", help="commit the new offsets")
    reset.add_argument(
        "--export", action="store_true", help="print the new offsets as CSV, for --from-file"
    )
    add_group_action(actions, "delete", "delete groups without active members", several=True)
    offsets = add_group_action(
        actions, "delete-offsets", "delete the offsets of one group for topics"
    )
    offsets.add_argument("--group", required=True, help="the group whose offsets go")
    add_topic(offsets, required=True)
    of_life = "show the history of a group from the event logs of brokers"
    timeline = add_action(actions, "timeline", of_life)
    timeline.add_argument("--group", required=True, help="the group whose history is shown")
    timeline.add_argument(
        "log", nargs="+", metavar="LOG", help="event log of a broker; - for standard input"
    )


def run(args: argparse.Namespace) -> int:
    if args.action == "timeline":
        return show_timeline(args.group, args.log)
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
    states = chosen(args.state, STATES, "state")
    types = chosen(args.type, TYPES, "type")
    groups = await admin.list_groups(states, types)
    if args.json:
        show_json([listing_json(group) for group in groups])
    elif args.state is None and args.type is None:
        for group in groups:
            print(group.group_id)
    else:
        print(text.listing_table(groups, args.type is not None, args.state is not None))
    return 0


async def _wanted(admin: Admin, args: argparse.Namespace) -> list[str]:
    if not args.all_groups:
        return list(dict.fromkeys(args.group))
    groups = await admin.list_groups()
    names = [group.group_id for group in groups if group.group_type not in (SHARE, STREAMS)]
    if not names:
        print("minikafka: there are no consumer groups", file=sys.stderr)
    return names


# -- describe


async def _why_missing(admin: Admin, group_id: str) -> str:
    """Say that there is no such group, or which verb describes groups of its type."""
    types = {group.group_id: group.group_type for group in await admin.list_groups()}
    if (found := types.get(group_id)) in (SHARE, STREAMS):
        return (
            f"Group '{group_id}' is a {found} group: "
            f"`minikafka {found}-groups describe --group {group_id}` describes it."
        )
    return f"Consumer group '{group_id}' does not exist."


async def describe(admin: Admin, args: argparse.Namespace) -> int:
    outcomes = await admin.describe_groups(await _wanted(admin, args))
    failed = 0
    groups: list[GroupDescription] = []
    for group_id, outcome in sorted(outcomes.items()):
        if isinstance(outcome, KafkaError):
            failed += complain(f"group {group_id}: {outcome}")
        elif outcome.state == NO_STATE:
            failed += complain(await _why_missing(admin, group_id))
        else:
            groups.append(outcome)
    evictions: dict[str, str] = {}
    if args.state and args.verbose:
        evictions = await last_evictions(admin, groups)
    shown: list[dict[str, Any]] = []
    for group in groups:
        text.warn(group)
        eviction = evictions.get(group.group_id)
        rows = None if args.members or args.state else await _lag_rows(admin, group)
        if args.json:
            shown.append(group_json(group, rows, eviction))
        elif shown_text := table(group, rows, args, eviction):
            print("\n" + shown_text)
    if args.json:
        show_json(shown)
    return min(failed, 1)


def table(
    group: GroupDescription,
    rows: Sequence[text.LagRow] | None,
    args: argparse.Namespace,
    eviction: str | None,
) -> str:
    """Return what is shown of a group. As in Kafka's tool, that is nothing without rows, but a
    terminal gets the empty table."""
    if args.state:
        return text.state_table(group, eviction)
    if not (group.members if args.members else rows) and not sys.stdout.isatty():
        return ""
    if args.members:
        return text.members_table(group, args.verbose)
    return text.offsets_table(group.group_id, rows or ())


async def _lag_rows(admin: Admin, group: GroupDescription) -> list[text.LagRow]:
    committed = await admin.group_offsets(group.group_id)
    partitions = set(committed).union(*(member.assignment for member in group.members))
    return text.lag_rows(group, committed, await _ends(admin, partitions))


async def _ends(admin: Admin, partitions: Collection[TopicPartition]) -> Offsets:
    """Return the log end offsets of the partitions that exist and have a leader.

    Committed offsets may outlive a deleted topic until they expire; its partitions are left out.
    """
    topics = await admin.describe_topics({partition.topic for partition in partitions})
    return await looked_up(admin, existing(partitions, topics))


# -- changes


async def reset_offsets(admin: Admin, args: argparse.Namespace) -> int:
    if args.from_file is None and not args.all_topics and not args.topic:
        raise WrongUsage("One of the reset scopes should be defined: --all-topics, --topic.")
    planned = planned_in_file(args)
    if not (args.execute or args.dry_run):
        print("minikafka: nothing is changed without --execute", file=sys.stderr)

    async def offsets_of(group_id: str) -> Offsets:
        if args.from_file is not None:
            return await offsets_in_plan(admin, group_id, planned)
        committed = await committed_offsets(admin, group_id)
        named = list(committed) if args.all_topics else await partitions_named(admin, args.topic)
        return await new_offsets(admin, args, named, committed)

    found = await admin.describe_groups(await _wanted(admin, args))
    states = {g: each if isinstance(each, KafkaError) else each.state for g, each in found.items()}
    _, failed = await reset_groups(admin, args, states, offsets_of)
    return min(failed, 1)


async def delete(admin: Admin, args: argparse.Namespace) -> int:
    outcomes = await admin.delete_groups(await _wanted(admin, args))
    return show_deletion(outcomes, CONSUMER) if outcomes else 0


# Why the offsets of a group as a whole are not deleted, in Kafka's words.
_REFUSALS = {
    ErrorCode.INVALID_GROUP_ID: "'{}' is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'{}' does not exist.",
    ErrorCode.NON_EMPTY_GROUP: (
        "Deleting offsets of a consumer group '{}' is forbidden if the group is not empty."
    ),
}


async def delete_offsets(admin: Admin, args: argparse.Namespace) -> int:
    partitions = await partitions_named(admin, args.topic)
    try:
        outcomes = await admin.delete_group_offsets(args.group, partitions)
    except KafkaError as error:
        refusal = _REFUSALS.get(error.code)
        return complain(refusal.format(args.group) if refusal else f"{args.group}: {error}")
    failed = any(error is not None for error in outcomes.values())
    if failed:
        complain("Encounter some partition level error, see the follow-up details:")
    else:
        topics = ", ".join(args.topic)
        print(f"Request succeed for deleting offsets with topic {topics} group {args.group}")
    rows = [
        (*partition, "Successful" if error is None else f"Error: {error}")
        for partition, error in sorted(outcomes.items())
    ]
    print("\n" + kafka_table((("TOPIC", 30), ("PARTITION", 15), ("STATUS", 0)), rows))
    return 1 if failed else 0
