"""How far a partition is committed, and from where on it is held: high and low watermark."""

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
    """The smallest end offset among the replicas that count; never below ``current``.

    Every member of the maximal ISR counts, and so does a live (``eligible``) follower that is
    caught up without being a member: it is about to join, and a high watermark that ran away from
    it would keep it out for ever (Kafka's Partition.maybeIncrementLeaderHW).
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
    """``min.insync.replicas``, but never more than there are replicas."""
    return min(min_insync_replicas, len(followers) + 1)


def bounded_high_watermark(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """A high watermark from a checkpoint or from the leader, brought into the range of the log."""
    return max(log_start_offset, min(offset, log_end_offset))


def low_watermark(
    leader_start_offset: int, followers: Mapping[int, FollowerState], live: Container[int]
) -> int:
    """The smallest start offset among the live replicas: what lies below it is gone on all of them.

    A follower that has not fetched yet counts with -1. One that is down does not count: it learns
    of the new start before it is in sync again (Kafka's Partition.lowWatermarkIfLeader).
    """
    lowest = leader_start_offset
    for replica, state in followers.items():
        if state.log_start_offset < lowest and replica in live:
            lowest = state.log_start_offset
    return lowest
