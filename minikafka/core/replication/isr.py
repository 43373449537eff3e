"""The ISR decisions of a leader: which members to remove, which followers to add."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.replication.partition_state import FollowerState, IsrState


def out_of_sync(
    isr: IsrState,
    local: int,
    followers: Mapping[int, FollowerState],
    leader_end_offset: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> tuple[int, ...]:
    """Return the members that lagged for more than ``lag_time_max_ms``, in ISR order.

    Empty while a change of the ISR is in flight. A member that is not a replica is out of sync.
    """
    if isr.in_flight:
        return ()
    return tuple(
        replica
        for replica in isr.committed
        if replica != local
        and (
            (state := followers.get(replica)) is None
            or not state.is_caught_up(leader_end_offset, now_ms, lag_time_max_ms)
        )
    )


def may_join(
    isr: IsrState,
    replica: int,
    follower: FollowerState,
    high_watermark: int,
    leader_epoch_start_offset: int,
    log_start_offset: int,
) -> bool:
    """Whether a follower that has just fetched belongs in the ISR again.

    It must hold all committed records, and must have reached this leader epoch: a follower below
    its start offset may still have to truncate. And its log must not start before the leader's:
    if it became the leader before it has received the new log start, deleted records would be back
    (Kafka does not check this). The caller checks that the broker is live.
    """
    return (
        not isr.in_flight
        and replica not in isr.committed
        and follower.log_end_offset >= high_watermark
        and follower.log_end_offset >= leader_epoch_start_offset
        and max(follower.log_start_offset, 0) >= log_start_offset
    )


def without(isr: IsrState, gone: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ISR without the members ``gone``, in the same order."""
    return tuple(replica for replica in isr.committed if replica not in gone)


def joined_by(isr: IsrState, replica: int) -> tuple[int, ...]:
    """Return the ISR with ``replica`` as its last member."""
    return (*isr.committed, replica)
