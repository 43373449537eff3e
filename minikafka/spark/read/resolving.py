"""Resolution of a limit (``earliest``, a timestamp, ...) to an offset for each partition."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.spark.cluster import Cluster
from minikafka.spark.options import AtOffsets, AtTimestamp, AtTimestamps, Edge, ReadOptions
from minikafka.spark.read.offsets import EARLIEST, LATEST, Offsets
from minikafka.spark.read.planning import (
    OffsetRange,
    check_same_partitions,
    check_start_within,
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
