"""New offsets of groups for `groups reset-offsets` and `streams-groups reset-offsets`, by the
scenarios of kafka-consumer-groups."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from minikafka.cli.groups.group_actions import EMPTY, NO_STATE, complain
from minikafka.cli.groups.group_text import parse_reset_csv, reset_csv, reset_table
from minikafka.cli.usage import WrongUsage
from minikafka.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndMetadata
from minikafka.client.admin.admin import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError

Offsets: TypeAlias = dict[TopicPartition, int]

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def add_scenarios(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--to-earliest", action="store_true", help="the log start offset")
    which.add_argument("--to-latest", action="store_true", help="the log end offset")
    which.add_argument(
        "--to-current",
        action="store_true",
        help="keep the committed offset; the log end offset for partitions without one",
    )
    which.add_argument("--to-offset", type=int, metavar="OFFSET", help="this offset")
    which.add_argument(
        "--shift-by", type=int, metavar="N", help="the committed offset plus N; N may be negative"
    )
    which.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="the first record at most this old"
    )
    which.add_argument(
        "--to-datetime",
        metavar="YYYY-MM-DDTHH:MM:SS.sss",
        help="the first record at or after this time; UTC unless it has a zone",
    )
    which.add_argument(
        "--from-file", metavar="FILE", help="the offsets in a CSV file, as --export prints them"
    )


async def partitions_named(admin: Admin, words: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that ``--topic`` options name, sorted, without duplicates.

    ``flights`` names all partitions of the topic, ``flights:0,2`` names two. Raises ConfigError for
    a malformed option, KafkaError for an unknown topic.
    """
    named: list[TopicPartition] = []
    whole: list[str] = []
    for word in words:
        topic, colon, numbers = word.partition(":")
        if not colon:
            whole.append(topic)
            continue
        try:
            named += [TopicPartition(topic, int(number)) for number in numbers.split(",")]
        except ValueError:
            raise WrongUsage(f"--topic needs NAME or NAME:0,1,..., not {word}") from None
    if whole:
        for topic, found in (await admin.describe_topics(whole)).items():
            if isinstance(found, KafkaError):
                raise found
            named += [TopicPartition(topic, number) for number in found.partitions]
    return sorted(dict.fromkeys(named))


def planned_in_file(args: argparse.Namespace) -> dict[str, Offsets]:
    """Return the offsets in the ``--from-file`` CSV by group; empty without that option.

    Raises ConfigError for a malformed line, OSError if the file cannot be read.
    """
    if args.from_file is None:
        return {}
    return parse_reset_csv(Path(args.from_file).read_text(), args.group)


async def reset_groups(
    admin: Admin,
    args: argparse.Namespace,
    states: Mapping[str, str | KafkaError],
    offsets_of: Callable[[str], Awaitable[Offsets]],
) -> tuple[list[str], int]:
    """Commit, with ``--execute``, the offsets that ``offsets_of`` returns for each group without
    active members, and print them. ``states`` has the state of each group, or why it is not known.

    Return the groups whose offsets are all reset, and the number of groups and partitions that
    failed.
    """
    plan: dict[str, Offsets] = {}
    reset: list[str] = []
    failed = 0
    for group_id, state in states.items():
        if isinstance(state, KafkaError):
            failed += complain(f"group {group_id}: {state}")
        elif state not in (EMPTY, NO_STATE):
            failed += complain(
                f"Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {state}."
            )
        else:
            plan[group_id] = await offsets_of(group_id)
            refused = await _commit(admin, group_id, plan[group_id]) if args.execute else 0
            failed += refused
            reset += [] if refused else [group_id]
    if args.export:
        print(reset_csv(plan, len(args.group) != 1), end="")
    elif plan:
        print(reset_table(plan))
    return reset, failed


async def _commit(admin: Admin, group_id: str, offsets: Offsets) -> int:
    """Commit the offsets; return the number of partitions that failed.

    Each failure is printed, and its partition removed from ``offsets``.
    """
    if not offsets:
        return 0
    wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
    outcomes = await admin.alter_group_offsets(group_id, wanted)
    refused = {partition: error for partition, error in outcomes.items() if error is not None}
    for partition, error in refused.items():
        del offsets[partition]
        complain(f"group {group_id}, {partition}: {error}")
    return len(refused)


async def committed_offsets(admin: Admin, group_id: str) -> Offsets:
    found = await admin.group_offsets(group_id)
    return {partition: committed.offset for partition, committed in found.items()}


async def offsets_in_plan(admin: Admin, group_id: str, planned: Mapping[str, Offsets]) -> Offsets:
    """Return the offsets of ``--from-file`` for a group. Raises ConfigError if it has none."""
    if group_id not in planned:
        raise ConfigError(f"No reset plan for group {group_id} found")
    return await within_logs(admin, planned[group_id])


async def new_offsets(
    admin: Admin,
    args: argparse.Namespace,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> Offsets:
    """Return the offsets to commit for partitions of a group, by the scenario in ``args``.

    Raises ConfigError if ``--shift-by`` concerns a partition without a committed offset; KafkaError
    if a request fails.
    """
    if args.to_offset is not None:
        return await within_logs(admin, dict.fromkeys(partitions, args.to_offset))
    if args.shift_by is not None:
        for partition in partitions:
            if partition not in committed:
                raise ConfigError(
                    f"Cannot shift offset for partition {partition} since there is no current "
                    "committed offset"
                )
        return await within_logs(admin, {p: committed[p] + args.shift_by for p in partitions})
    if args.to_current:
        ends = await looked_up(admin, [p for p in partitions if p not in committed])
        return {p: committed[p] if p in committed else ends[p] for p in partitions}
    if args.to_earliest:
        return await looked_up(admin, partitions, EARLIEST_TIMESTAMP)
    if args.to_latest:
        return await looked_up(admin, partitions)
    return await at_time(admin, partitions, timestamp_ms(args, datetime.now(UTC)))


async def looked_up(
    admin: Admin, partitions: Iterable[TopicPartition], timestamp: int = LATEST_TIMESTAMP
) -> Offsets:
    found = await admin.list_offsets(dict.fromkeys(partitions, timestamp))
    return {partition: at.offset for partition, at in found.items()}


async def at_time(admin: Admin, partitions: Sequence[TopicPartition], timestamp: int) -> Offsets:
    """Return the offset of the first record at or after ``timestamp`` (ms) in each partition.

    For a partition without such a record: the log end offset, with Kafka's warning on standard
    error.
    """
    offsets = await looked_up(admin, partitions, timestamp)
    without = [partition for partition, offset in offsets.items() if offset < 0]
    for topic, number in without:
        print(
            f"\nWarn: Partition {number} from topic {topic} is empty. "
            "Falling back to latest known offset.",
            file=sys.stderr,
        )
    return {**offsets, **await looked_up(admin, without)}


async def within_logs(admin: Admin, wanted: Offsets) -> Offsets:
    """Move offsets outside of a log to its start or end, and report each on standard error."""
    starts = await looked_up(admin, wanted, EARLIEST_TIMESTAMP)
    ends = await looked_up(admin, wanted)
    offsets: Offsets = {}
    for partition, offset in wanted.items():
        offsets[partition] = max(starts[partition], min(offset, ends[partition]))
        if offsets[partition] != offset:
            side = "higher than latest" if offset > ends[partition] else "lower than earliest"
            print(
                f"New offset ({offset}) is {side} offset for topic partition {partition}. "
                f"Value will be set to {offsets[partition]}",
                file=sys.stderr,
            )
    return offsets


# -- times


def timestamp_ms(args: argparse.Namespace, now: datetime) -> int:
    """Return the Unix time in ms of ``--to-datetime``, or of ``now`` minus ``--by-duration``.

    Raises ConfigError if the option is malformed.
    """
    if args.by_duration is not None:
        return int(now.timestamp() * 1000) - duration_ms(args.by_duration)
    return datetime_ms(args.to_datetime)


def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration such as ``P1DT2H``. Raises ConfigError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise WrongUsage(f"--by-duration needs PnDTnHnMnS, not {text}")
    parts = found.groupdict(default="0")
    return round(1000 * sum(float(parts[unit]) * seconds for unit, seconds in _SECONDS.items()))


def datetime_ms(text: str) -> int:
    """Parse an ISO 8601 time, in UTC unless it has a zone. Raises ConfigError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUsage(f"--to-datetime needs YYYY-MM-DDTHH:MM:SS.sss, not {text}") from None
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
