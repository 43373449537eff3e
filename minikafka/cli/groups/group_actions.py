"""Arguments, listings, deletions and errors of the verbs `groups`, `share-groups` and
`streams-groups`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from minikafka.cli.output import kafka_table
from minikafka.cli.usage import WrongUsage
from minikafka.cli.verb_parser import add_action, add_bootstrap_argument
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.groups import GroupListing
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError

EMPTY = "Empty"
NO_STATE = "Dead"  # the state in which brokers describe a group that does not exist


def add_group_action(
    actions: Any, name: str, help_text: str, several: bool = False
) -> argparse.ArgumentParser:
    """Add an action that talks to a cluster; with ``several`` about groups that are named."""
    parser = add_action(actions, name, help_text)
    add_bootstrap_argument(parser)
    if several:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--group", action="append", default=[], help="may be given several times"
        )
        which.add_argument("--all-groups", action="store_true", help="all groups of the cluster")
    return parser


def add_state_filter(listing: argparse.ArgumentParser) -> None:
    listing.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE,...",
        help="show the state of each group, and only groups in the named states",
    )


def add_topic(parser: argparse._ActionsContainer, required: bool) -> None:
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        required=required,
        metavar="TOPIC[:0,1,...]",
        help="may be given several times",
    )


def chosen(given: str | None, known: Sequence[str], what: str) -> list[str]:
    """Parse a comma-separated list of ``known`` names, in any case; empty means no filter.

    ``what`` names the list in the ConfigError for an unknown name.
    """
    names = {name.lower(): name for name in known}
    wanted = [word.strip().lower() for word in (given or "").split(",") if word.strip()]
    if any(word not in names for word in wanted):
        raise WrongUsage(f"Invalid {what} list '{given}'. Valid are: {', '.join(known)}")
    return [names[word] for word in wanted]


async def named_groups(admin: Admin, args: argparse.Namespace, group_type: str) -> list[str]:
    """Return the groups of ``--group``, each once, or with ``--all-groups`` all of a type."""
    if not args.all_groups:
        return list(dict.fromkeys(args.group))
    return [group.group_id for group in await admin.list_groups(types=[group_type])]


def show_listing(groups: Sequence[GroupListing], with_state: bool) -> None:
    """Print the ids of groups of one type, or a table of ids and states."""
    if with_state:
        rows = [(group.group_id, group.state) for group in groups]
        print(kafka_table((("GROUP", 15), ("STATE", 0)), rows))
        return
    for group in groups:
        print(group.group_id)


async def delete_empty_groups(
    admin: Admin,
    args: argparse.Namespace,
    group_type: str,
    refusal: Callable[[str, str | None], str | None],
) -> dict[str, KafkaError | str | None]:
    """Delete groups of one type. Return for each why it is not deleted, or None.

    As in Kafka's tools, ``refusal`` decides first, by the id of a group and its state, which is
    None if no group of the type has the id."""
    states = {group.group_id: group.state for group in await admin.list_groups(types=[group_type])}
    wanted = list(states) if args.all_groups else list(dict.fromkeys(args.group))
    outcomes: dict[str, KafkaError | str | None] = {
        group_id: refusal(group_id, states.get(group_id)) for group_id in wanted
    }
    accepted = [group_id for group_id, problem in outcomes.items() if problem is None]
    return outcomes | await admin.delete_groups(accepted)


def show_deletion(
    outcomes: Mapping[str, KafkaError | str | None],
    group_type: str,
    some: str = "These {} groups were deleted successfully: {}",
) -> int:
    """Print what became of each group, as Kafka's tools do; ``some`` is the sentence about those
    that were deleted if others were not. Return the exit status."""
    failed = {group_id: problem for group_id, problem in outcomes.items() if problem is not None}
    names = ", ".join(f"'{group_id}'" for group_id in outcomes if group_id not in failed)
    if not failed:
        print(f"Deletion of requested {group_type} groups ({names}) was successful.")
        return 0
    complain(f"Deletion of some {group_type} groups failed:")
    for group_id, problem in failed.items():
        print(f"* Group '{group_id}' could not be deleted due to: {problem}", file=sys.stderr)
    if names:
        print(some.format(group_type, names))
    return 1


def existing(
    partitions: Collection[TopicPartition], topics: Mapping[str, Any]
) -> list[TopicPartition]:
    """Return the partitions that exist and have a leader, by the descriptions of their topics."""
    return [
        partition
        for partition in partitions
        if not isinstance(found := topics[partition.topic], KafkaError)
        and partition.partition in found.available
    ]


def complain(sentence: str) -> int:
    """Print an error as Kafka's tools do. Return 1, the exit status."""
    print(f"\nError: {sentence}", file=sys.stderr)
    return 1
