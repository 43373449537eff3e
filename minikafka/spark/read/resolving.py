"""Resolves the starting and ending offsets of options to numbers."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import AtOffsets, AtTimestamp, AtTimestamps, Edge, Limit, ReadOptions
from minikafka.spark.read.offsets import EARLIEST, LATEST, Offsets
from minikafka.spark.read.planning import (
    OffsetRange,
    check_same_partitions,
    check_start_within,
    split_ranges,
)


def resolve(
    cluster: Cluster,
    limit: Limit,
    partitions: Sequence[TopicPartition],
    starting: bool,
    no_match_is_latest: bool = False,
) -> Offsets:
    """Return the offset that ``limit`` stands for in each of ``partitions``.

    Raises ValueError where ``limit`` names other partitions, or where no record has a starting
    timestamp or a later one and ``no_match_is_latest`` is False; KafkaError."""
    edge = "starting" if starting else "ending"
    if isinstance(limit, Edge):
        return cluster.list_offsets(
            dict.fromkeys(partitions, EARLIEST if limit is Edge.EARLIEST else LATEST)
        )
    if isinstance(limit, AtOffsets):
        check_same_partitions(limit.offsets, partitions, f"{edge}Offsets")
        found = dict(limit.offsets)
        edges = {each: offset for each, offset in found.items() if offset < 0}
        return found | cluster.list_offsets(edges) if edges else found
    if isinstance(limit, AtTimestamps):
        check_same_partitions(limit.timestamps_ms, partitions, f"{edge}OffsetsByTimestamp")
        timestamps = dict(limit.timestamps_ms)
    else:
        assert isinstance(limit, AtTimestamp), limit
        timestamps = dict.fromkeys(partitions, limit.timestamp_ms)
    found = cluster.list_offsets(timestamps)
    unmatched = [each for each, offset in found.items() if offset < 0]
    if unmatched and starting and not no_match_is_latest:
        raise ValueError(
            f"no offset of {unmatched[0]} is of timestamp {timestamps[unmatched[0]]} or later "
            "(startingOffsetsByTimestampStrategy=latest starts at the end then)"
        )
    return found | cluster.list_offsets(dict.fromkeys(unmatched, LATEST)) if unmatched else found


def may_start_at_latest(options: ReadOptions) -> bool:
    """Whether the starting offsets depend on the time at which they are resolved."""
    starting = options.starting
    if isinstance(starting, AtOffsets):
        return LATEST in starting.offsets.values()
    return starting is Edge.LATEST or (
        options.no_match_is_latest and isinstance(starting, AtTimestamp | AtTimestamps)
    )


def batch_ranges(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """Plan the ranges that a batch query reads, one per task. Raises ValueError, KafkaError."""
    partitions = cluster.partitions(options.subscription)
    start = resolve(cluster, options.starting, partitions, True, options.no_match_is_latest)
    end = resolve(cluster, options.ending, partitions, False)
    check_start_within(start, end)
    ranges = [OffsetRange(*each, start[each], end[each]) for each in partitions]
    return split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
