"""The high watermark and the low watermark of a partition, computed from its replicas."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set

from minikafka.core.replication.partition_state import FollowerState


def leader_high_watermark(
    current: int,
    leader_end_offset: int,
    followers: Mapping[int, FollowerState],
    maximal_isr: Container[int],
    eligible: Container[int],
    now_ms: int,
    lag_time_max_ms: int,
) -> int:
    """Return the smallest log end offset of the replicas that count, but at least ``current``.

    Every member of the maximal ISR counts. So does a live (``eligible``) follower that is caught up
    and not a member: it is about to join the ISR, and it could never join if the high watermark
    kept moving ahead of it (Kafka's ``Partition.maybeIncrementLeaderHW``).
    """
    lowest = leader_end_offset
    for replica, state in followers.items():
        if state.log_end_offset < lowest and (
            replica in maximal_isr
            or (
                state.is_caught_up(leader_end_offset, now_ms, lag_time_max_ms)
                and replica in eligible
            )
        ):
            lowest = state.log_end_offset
    return max(current, lowest)


def effective_min_isr(min_insync_replicas: int, followers: Set[int]) -> int:
    """Return ``min.insync.replicas``, limited to the number of replicas."""
    return min(min_insync_replicas, len(followers) + 1)


def bounded_high_watermark(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Limit a high watermark from a checkpoint or from the leader to the range of the local log."""
    return max(log_start_offset, min(offset, log_end_offset))


def low_watermark(
    leader_start_offset: int, followers: Mapping[int, FollowerState], live: Container[int]
) -> int:
    """Return the smallest log start offset of the live replicas: all of them have deleted the
    records below it.

    -1 while a live follower has not fetched yet. A dead follower does not count: it receives the
    new log start before it is in sync again (Kafka's ``Partition.lowWatermarkIfLeader``).
    """
    lowest = leader_start_offset
    for replica, state in followers.items():
        if state.log_start_offset < lowest and replica in live:
            lowest = state.log_start_offset
    return lowest
