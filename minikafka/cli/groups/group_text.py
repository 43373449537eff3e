"""Consumer groups as text (the tables of kafka-consumer-groups, the CSV of reset-offsets) and as
JSON, as `groups list --json` and `groups describe --json` print it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minikafka.cli.output import MISSING, Sick, kafka_table, terminal_table
from minikafka.client import OffsetAndMetadata
from minikafka.core.client.admin.groups import (
    ConsumerGroupEpochs,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.config import ConfigError

NARROWEST = 15

# The group states that describe warns about, with Kafka's messages.
WARNINGS = {
    "Empty": "Consumer group '{}' has no active members.",
    "PreparingRebalance": "Warning: Consumer group '{}' is rebalancing.",
    "CompletingRebalance": "Warning: Consumer group '{}' is rebalancing.",
    "Assigning": "Warning: Consumer group '{}' is rebalancing.",
    "Reconciling": "Warning: Consumer group '{}' is rebalancing.",
}


REBALANCES = frozenset(WARNINGS) - {"Empty"}


class LagRow(NamedTuple):
    """Offsets and owner of one partition of a group.

    ``current`` is None without a committed offset, ``end`` is None for a partition that
    does not exist or has no leader. The last three are ``MISSING`` if no member owns the partition.
    """

    partition: TopicPartition
    current: int | None
    end: int | None
    member_id: str = MISSING
    host: str = MISSING
    client_id: str = MISSING

    @property
    def lag(self) -> int | None:
        return None if self.current is None or self.end is None else self.end - self.current


def lag_rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
) -> list[LagRow]:
    """Return the rows of assigned partitions, then of partitions with only a committed offset.

    Members with the most partitions come first. ``ends``: log end offsets.
    """
    rows: list[LagRow] = []
    owned: set[TopicPartition] = set()

    def row(partition: TopicPartition, *who: str) -> LagRow:
        offset = committed.get(partition)
        current = None if offset is None else offset.offset
        return LagRow(partition, current, ends.get(partition), *who)

    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        owned.update(member.assignment)
        rows += [row(p, member.member_id, member.host, member.client_id) for p in member.assignment]
    rows += [row(partition) for partition in sorted(committed) if partition not in owned]
    return rows


def state_cell(state: str) -> str:
    return Sick(state) if state == "Dead" or state in REBALANCES else state


def warn(group: GroupDescription) -> None:
    """Print Kafka's warning about a group without members or in a rebalance, on standard error."""
    if group.state in WARNINGS:
        print("\n" + WARNINGS[group.state].format(group.group_id), file=sys.stderr)


def offsets_table(group_id: str, rows: Iterable[LagRow]) -> str:
    """Format the offsets of a group. A terminal is too narrow for all of Kafka's columns: it shows
    the group above the others, and of its members the client ids."""
    if sys.stdout.isatty():
        columns = ("topic", "partition", "committed", "end", "lag", "client id")
        cells = [
            (*row.partition, row.current, row.end, _lag_cell(row), row.client_id) for row in rows
        ]
        return f"{group_id}\n{terminal_table(columns, cells)}"
    return kafka_table(
        (
            ("GROUP", NARROWEST),
            ("TOPIC", NARROWEST),
            ("PARTITION", 10),
            ("CURRENT-OFFSET", 15),
            ("LOG-END-OFFSET", 15),
            ("LAG", 15),
            ("CONSUMER-ID", NARROWEST),
            ("HOST", NARROWEST),
            ("CLIENT-ID", 0),
        ),
        [(group_id, *row.partition, row.current, row.end, row.lag, *row[3:]) for row in rows],
    )


def _lag_cell(row: LagRow) -> int | str:
    """Return the lag, or why there is none."""
    if row.lag is not None:
        return row.lag
    return "no offset" if row.current is None else Sick("no end: no leader, or deleted")


def members_table(group: GroupDescription, verbose: bool) -> str:
    """Format the members of a group. ``verbose`` adds their assignments.

    Consumer groups have Kafka 4's columns for that. It has them for classic groups too, without
    values; those keep the one column of Kafka 3.
    """
    static = any(member.group_instance_id for member in group.members)
    columns = [("GROUP", NARROWEST), ("CONSUMER-ID", NARROWEST)]
    columns += [("GROUP-INSTANCE-ID", 17)] if static else []
    columns += [("HOST", NARROWEST), ("CLIENT-ID", NARROWEST), ("#PARTITIONS", 15)]
    mixed = any(m.consumer and m.consumer.is_upgraded is False for m in group.members)
    if verbose and group.epochs is not None:
        columns += [("CURRENT-EPOCH", 15), ("CURRENT-ASSIGNMENT", 20)]
        columns += [("TARGET-EPOCH", 15), ("TARGET-ASSIGNMENT", 20 if mixed else 0)]
        columns += [("UPGRADED", 0)] if mixed else []
    elif verbose:
        columns += [("ASSIGNMENT", 0)]
    rows: list[list[object]] = []
    for member in group.members:
        row: list[object] = [group.group_id, member.member_id]
        row += [member.group_instance_id or ""] if static else []
        row += [member.host, member.client_id, len(member.assignment)]
        if verbose and group.epochs is not None:
            row += _reconciliation(member, group.epochs)[: 5 if mixed else 4]
        elif verbose:
            row += [partitions_text(member.assignment)]
        rows.append(row)
    return kafka_table(columns, rows)


def _reconciliation(member: MemberDescription, epochs: ConsumerGroupEpochs) -> list[object]:
    """Return the cells from CURRENT-EPOCH to UPGRADED of a member of a consumer group."""
    facts = member.consumer
    assert facts is not None
    return [
        facts.epoch,
        one_word(member.assignment),
        epochs.target_assignment,
        one_word(facts.target_assignment),
        None if facts.is_upgraded is None else str(facts.is_upgraded).lower(),
    ]


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions as ``flights(0,2), trains(1)``. Kafka 3 leaves out the topics."""
    topics = grouped(sorted(partitions))
    return ", ".join(f"{t}({','.join(map(str, ns))})" for t, ns in topics.items()) or MISSING


def one_word(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions as Kafka 4 does: ``flights:0,2;trains:1``."""
    topics = grouped(sorted(partitions))
    return ";".join(f"{t}:{','.join(map(str, ns))}" for t, ns in topics.items()) or MISSING


def state_table(group: GroupDescription, eviction: str | None = None) -> str:
    """Format the state of a group.

    ``eviction`` says why the coordinator last removed a member. It is given with ``--verbose``,
    which also shows the epochs of a consumer group; LAST-EVICTION is not one of Kafka's columns.
    """
    node, epochs = group.coordinator, None if eviction is None else group.epochs
    columns = [
        ("GROUP", 25),
        ("COORDINATOR (ID)", 25),
        ("ASSIGNMENT-STRATEGY", 20),
        ("STATE", NARROWEST),
    ]
    row: list[object] = [
        group.group_id,
        f"{node.host}:{node.port} ({node.id})",
        group.assignor,
        state_cell(group.state),
    ]
    if epochs is not None:
        columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [epochs.group, epochs.target_assignment]
    columns.append(("#MEMBERS", 0 if eviction is None else 10))
    row.append(len(group.members))
    if eviction is not None:
        columns.append(("LAST-EVICTION", 0))
        row.append(eviction)
    return kafka_table(columns, [row])


def listing_table(groups: Iterable[GroupListing], with_type: bool, with_state: bool) -> str:
    columns = [("GROUP", 25)]
    columns += [("TYPE", 20)] if with_type else []
    columns += [("STATE", 20)] if with_state else []
    rows = [
        [
            group.group_id,
            *([group.group_type.capitalize()] if with_type else []),
            *([group.state] if with_state else []),
        ]
        for group in groups
    ]
    return kafka_table(columns, rows)


# -- offsets to reset to


def reset_table(plan: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    return kafka_table(
        (("GROUP", 30), ("TOPIC", 30), ("PARTITION", 10), ("NEW-OFFSET", 0)),
        [
            (group_id, *partition, offset)
            for group_id, offsets in plan.items()
            for partition, offset in sorted(offsets.items())
        ],
    )


def reset_csv(plan: Mapping[str, Mapping[TopicPartition, int]], with_group: bool) -> str:
    """Format rows ``topic,partition,offset``; ``with_group`` puts the group id before them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id, offsets in plan.items():
        for partition, offset in sorted(offsets.items()):
            writer.writerow([*([group_id] if with_group else []), *partition, offset])
    return text.getvalue()


def parse_reset_csv(text: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Parse the CSV of ``reset_csv`` into offsets by group.

    Rows without a group id belong to the only group in ``groups``; with several groups each row
    needs one. Raises ConfigError for a malformed row.
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        match row:
            case []:
                continue
            case [topic, partition, offset] if len(groups) == 1:
                group_id = groups[0]
            case [group_id, topic, partition, offset]:
                pass
            case _:
                wanted = (
                    "[group,]topic,partition,offset"
                    if len(groups) == 1
                    else ("group,topic,partition,offset")
                )
                raise ConfigError(f"line {number} of the file is not {wanted}")
        try:
            plan.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ConfigError(f"line {number} of the file: not numbers: {row}") from None
    return plan


def listing_json(group: GroupListing) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocolType": group.protocol_type,
    }


def group_json(
    group: GroupDescription, rows: Sequence[LagRow] | None, eviction: str | None
) -> dict[str, Any]:
    """Return a group with its members; with ``rows`` also its offsets, and the sum of their lags,
    which is null if no lag is known."""
    shown: dict[str, Any] = {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocolType": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": {
            "id": group.coordinator.id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "members": [_member_json(member) for member in group.members],
    }
    if group.epochs is not None:
        shown["groupEpoch"] = group.epochs.group
        shown["targetAssignmentEpoch"] = group.epochs.target_assignment
    if rows is not None:
        lags = [row.lag for row in rows if row.lag is not None]
        shown["lag"] = sum(lags) if lags else None
        shown["offsets"] = [_offset_json(row) for row in rows]
    if eviction is not None:
        shown["lastEviction"] = eviction
    return shown


def _member_json(member: MemberDescription) -> dict[str, Any]:
    """Return a member; one of a consumer group also has its epoch and its target assignment."""
    shown: dict[str, Any] = {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "assignment": grouped(sorted(member.assignment)),
    }
    if member.consumer is not None:
        shown["memberEpoch"] = member.consumer.epoch
        shown["targetAssignment"] = grouped(sorted(member.consumer.target_assignment))
        shown["upgraded"] = member.consumer.is_upgraded
    return shown


def _offset_json(row: LagRow) -> dict[str, Any]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "currentOffset": row.current,
        "logEndOffset": row.end,
        "lag": row.lag,
        "memberId": None if row.member_id == MISSING else row.member_id,
    }
