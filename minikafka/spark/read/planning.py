"""Decisions about the offset ranges of a batch: start, end, splitting, rate limit, data losses.

A limit (``earliest``, a timestamp, ...) is resolved to an offset for each partition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, topic_id_text
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import AtOffsets, AtTimestamp, AtTimestamps, Edge, ReadOptions
from minikafka.spark.read.offsets import EARLIEST, LARGEST, LATEST, Offsets, names

# A task that reads has fixed costs like those of decoding some ten thousand records.
RECORDS_OF_SMALL_TASK: Final = 500
ADVICE_FAIL = (
    "It was aged out, or the topic was deleted, before it was read. "
    'Set the option "failOnDataLoss" to "false" if the query shall go on without it.'
)


ADVICE_RECREATED = (
    'Set the option "failOnDataLoss" to "false" if a stream shall read the new topic from its '
    "beginning, or start it with a new checkpoint. Run a batch again."
)


class DataLossError(RuntimeError):
    """Records to be read do not exist any more, and ``failOnDataLoss`` is true."""


class OffsetRange(NamedTuple):
    """The offsets ``start <= offset < end`` of one partition.

    ``topic_id`` is the id of the topic when the range was planned, zero if it is not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID = ZERO_UUID

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def recreated_text(topic: str, old: UUID, new: UUID) -> str:
    return (
        f"topic {topic} was deleted and created again: its id was {topic_id_text(old)} and is "
        f"{topic_id_text(new)} now"
    )


class Recreated(NamedTuple):
    """The start of a batch without topics that were deleted and created again, and a message for
    each of these. Their partitions are new to the query."""

    start: Offsets
    losses: list[str]


def without_recreated(
    start: Mapping[TopicPartition, int], known: Mapping[str, UUID], current: Mapping[str, UUID]
) -> Recreated:
    """Drop the partitions of topics whose ``current`` id differs from the ``known`` one.

    A topic that lacks one of the two ids is kept."""
    other = {topic for topic in known.keys() & current.keys() if known[topic] != current[topic]}
    return Recreated(
        {each: offset for each, offset in start.items() if each.topic not in other},
        [recreated_text(topic, known[topic], current[topic]) for topic in sorted(other)],
    )


class RangePlan(NamedTuple):
    """The ranges to read, and a message for each data loss that was found."""

    ranges: list[OffsetRange]
    losses: list[str]


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest_of_new: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, UUID],
) -> RangePlan:
    """Plan the ranges between two offsets of a stream, in topics with these ids.

    A partition that is only in ``end`` is new and is read from its offset in ``earliest_of_new``. A
    new partition that is missing there was deleted meanwhile, which is a data loss, as are a new
    partition that does not start at 0, one that is missing in ``end``, and an end before the start.
    """
    losses = []
    new = end.keys() - start.keys()
    if gone := new - earliest_of_new.keys():
        losses.append(f"new partitions were deleted: {names(gone)}")
    for partition in sorted(new & earliest_of_new.keys()):
        if earliest_of_new[partition] != 0:
            losses.append(f"added partition {partition} starts at {earliest_of_new[partition]}")
    if deleted := start.keys() - end.keys():
        losses.append(f"partitions were deleted: {names(deleted)}")
    ranges = []
    for partition in sorted(end):
        first = start.get(partition, earliest_of_new.get(partition))
        if first is None:
            continue
        last = end[partition]
        if last < first:
            losses.append(f"the end of {partition} went back from {first} to {last}")
        else:
            topic_id = topic_ids.get(partition.topic, ZERO_UUID)
            ranges.append(OffsetRange(*partition, first, last, topic_id))
    return RangePlan(ranges, losses)


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Split the ranges so that there is one for each task. Empty ranges are dropped.

    No range has more than ``max_records`` offsets, and there are about ``min_partitions`` ranges.
    Kafka connector: ``KafkaOffsetRangeCalculator.getRanges``."""
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        pieces = [
            piece for each in pieces for piece in _divide(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(each.size for each in pieces)
    whole = [_parts(each.size, total, min_partitions) == 1 for each in pieces]
    rest = total - sum(each.size for each, is_whole in zip(pieces, whole, strict=True) if is_whole)
    pieces_left = max(min_partitions - sum(whole), 1)
    return [
        piece
        for each, is_whole in zip(pieces, whole, strict=True)
        for piece in _divide(each, 1 if is_whole else _parts(each.size, rest, pieces_left))
    ]


def small_ranges_together(
    ranges: Iterable[OffsetRange], max_records: int | None
) -> list[list[OffsetRange]]:
    """Return the ranges of each task: neighbours with few offsets are read by the same task.

    Together they have at most RECORDS_OF_SMALL_TASK offsets, and at most ``max_records``."""
    most = min(max_records or RECORDS_OF_SMALL_TASK, RECORDS_OF_SMALL_TASK)
    groups: list[list[OffsetRange]] = []
    size = 0
    for each in ranges:
        size += each.size
        if not groups or size > most:
            groups.append([])
            size = each.size
        groups[-1].append(each)
    return groups


def _parts(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)  # Java's Math.round


def _divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    pieces = []
    start, remaining = whole.start, whole.size
    for part in range(parts):
        size = remaining // (parts - part)  # the last part gets the remainder
        remaining -= size
        if size:
            pieces.append(whole._replace(start=start, end=start + size))
        start += size
    return pieces


def rate_limit(
    limit: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    earliest_of_new: Mapping[TopicPartition, int],
) -> Offsets:
    """Return the end offsets of a batch of about ``limit`` offsets (``maxOffsetsPerTrigger``).

    Each partition gets a share in proportion to the offsets that it has left, rounded down, but at
    least one. Kafka connector: ``KafkaMicroBatchStream.rateLimit``."""
    sizes = {}
    for partition, end in latest.items():
        begin = start.get(partition, earliest_of_new.get(partition))
        if begin is not None and end > begin:
            sizes[partition] = (begin, end - begin)
    total = sum(size for _, size in sizes.values())
    ends = dict(latest)
    for partition, (begin, size) in sizes.items():
        share = limit * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(latest[partition], begin + step, LARGEST)
    return ends


def new_records(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """Return the number of new offsets that ``minOffsetsPerTrigger`` is compared with.

    As in the Kafka connector, a new partition counts from offset 0."""
    return sum(end - start.get(partition, 0) for partition, end in latest.items())


def check_start_within(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> None:
    """Raise ValueError if the start of a partition is beyond its end.

    Kafka connector: ``KafkaExceptions.resolvedStartOffsetGreaterThanEndOffset``."""
    for partition, first in sorted(start.items()):
        last = end.get(partition, first)
        if first > last:
            raise ValueError(
                f"{partition.topic}-{partition.partition}: start offset {first} is greater than "
                f"end offset {last}. Check the starting and ending options: with such a range "
                "the partition would be skipped"
            )


def check_same_partitions(
    named: Iterable[TopicPartition], assigned: Sequence[TopicPartition], option: str
) -> None:
    """Raise ValueError unless an option names exactly the partitions that are read."""
    if set(named) != set(assigned):
        raise ValueError(
            f"{option} must specify all partitions (-1 is latest, -2 is earliest). "
            f"Specified: {names(named)}. Assigned: {names(assigned)}"
        )


def starting_offsets(
    cluster: Cluster, options: ReadOptions, partitions: Sequence[TopicPartition]
) -> Offsets:
    """Return the offset at which the read starts in each of ``partitions``.

    A partition without a record at or after its starting timestamp starts at its latest offset if
    ``startingOffsetsByTimestampStrategy`` is ``latest``. Otherwise raises ValueError, as it does if
    the options name other partitions. Raises KafkaError."""
    limit = options.starting
    if isinstance(limit, Edge | AtOffsets):
        return _fixed_offsets(cluster, limit, partitions, "startingOffsets")
    timestamps = _timestamps(limit, partitions, "startingOffsetsByTimestamp")
    found = cluster.list_offsets(timestamps)
    unmatched = [each for each, offset in found.items() if offset < 0]
    if unmatched and not options.no_match_is_latest:
        raise ValueError(
            f"{unmatched[0]} has no record with timestamp {timestamps[unmatched[0]]} or later "
            "(with startingOffsetsByTimestampStrategy=latest it is read from its latest offset)"
        )
    return _latest_for(cluster, unmatched, found)


def ending_offsets(
    cluster: Cluster, options: ReadOptions, partitions: Sequence[TopicPartition]
) -> Offsets:
    """Return the offset at which the read ends, itself excluded, in each of ``partitions``.

    A partition without a record at or after its ending timestamp is read to its latest offset.
    Raises ValueError if the options name other partitions; KafkaError."""
    limit = options.ending
    if isinstance(limit, Edge | AtOffsets):
        return _fixed_offsets(cluster, limit, partitions, "endingOffsets")
    found = cluster.list_offsets(_timestamps(limit, partitions, "endingOffsetsByTimestamp"))
    return _latest_for(cluster, [each for each, offset in found.items() if offset < 0], found)


def _fixed_offsets(
    cluster: Cluster, limit: Edge | AtOffsets, partitions: Sequence[TopicPartition], option: str
) -> Offsets:
    """Return the offsets of a limit that is not given as timestamps, with -2 and -1 looked up."""
    if isinstance(limit, Edge):
        return cluster.list_offsets(
            dict.fromkeys(partitions, EARLIEST if limit is Edge.EARLIEST else LATEST)
        )
    check_same_partitions(limit.offsets, partitions, option)
    edges = {each: offset for each, offset in limit.offsets.items() if offset < 0}
    return limit.offsets | cluster.list_offsets(edges) if edges else dict(limit.offsets)


def _timestamps(
    limit: AtTimestamps | AtTimestamp, partitions: Sequence[TopicPartition], option: str
) -> Offsets:
    """Return the timestamp (ms) for each of ``partitions``."""
    if isinstance(limit, AtTimestamp):
        return dict.fromkeys(partitions, limit.timestamp_ms)
    check_same_partitions(limit.timestamps_ms, partitions, option)
    return dict(limit.timestamps_ms)


def _latest_for(cluster: Cluster, unmatched: Sequence[TopicPartition], found: Offsets) -> Offsets:
    """Return ``found`` with the latest offsets of the ``unmatched`` partitions."""
    return found | cluster.list_offsets(dict.fromkeys(unmatched, LATEST)) if unmatched else found


def may_start_at_latest(options: ReadOptions) -> bool:
    """Return whether the starting offsets depend on the time at which they are resolved."""
    starting = options.starting
    if isinstance(starting, AtOffsets):
        return LATEST in starting.offsets.values()
    return starting is Edge.LATEST or (
        options.no_match_is_latest and isinstance(starting, AtTimestamp | AtTimestamps)
    )


def batch_ranges(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """Plan the ranges of a batch query, one for each partition.

    Raises ValueError if the options do not fit the partitions or if a start is beyond its end;
    KafkaError."""
    partitions = cluster.partitions(options.subscription)
    # Before the offsets: a task notices offsets of a topic that was created again meanwhile.
    topic_ids = cluster.topic_ids({each.topic for each in partitions})
    start = starting_offsets(cluster, options, partitions)
    end = ending_offsets(cluster, options, partitions)
    check_start_within(start, end)
    return [
        OffsetRange(*each, start[each], end[each], topic_ids.get(each.topic, ZERO_UUID))
        for each in partitions
    ]
