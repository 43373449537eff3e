"""How far a follower cuts its log back before it copies from a leader.

Truncation by leader epoch (KIP-101, KIP-279): never by high watermark alone, which lags behind and
would cut committed records or keep uncommitted ones.
"""

from __future__ import annotations

from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset after its last record.

    Asked for an epoch above all it knows, a log answers -1 and -1; for one below all it knows, that
    very epoch and the offset at which its first epoch starts.
    """

    epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_EPOCH_OFFSET

    @property
    def is_undefined(self) -> bool:
        return self.epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_EPOCH_OFFSET


class Truncation(NamedTuple):
    """Cut at ``offset``. ``completed``: False when the leader has to be asked again."""

    offset: int
    completed: bool = True


def truncation_by_epoch(
    leader: EpochEnd, local: EpochEnd, high_watermark: int, log_end_offset: int
) -> Truncation:
    """Where the logs part, from the leader's answer about the follower's last epoch.

    ``local`` is the follower's own end of the epoch the leader named. The cases (Kafka's
    AbstractFetcherThread.getOffsetTruncationState):

    A. The leader knows no end: it has nothing as old. Cut at the high watermark.
    B. The leader names an offset without an epoch (it speaks version 0): cut there.
    C. The follower tracks no epoch as old as the one named: cut at the leader's offset.
    D. The follower does not know the epoch named, only an older one: cut at the end of that one
       and ask again.
    E. Both know the epoch: cut where the shorter of the two ends.
    """
    if leader.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(high_watermark, log_end_offset))  # A
    if leader.epoch == UNDEFINED_EPOCH or local.is_undefined:
        return Truncation(min(leader.end_offset, log_end_offset))  # B, C
    if local.epoch != leader.epoch:
        return Truncation(min(local.end_offset, log_end_offset), completed=False)  # D
    return Truncation(min(local.end_offset, leader.end_offset, log_end_offset))  # E


def diverges(fetched_epoch: int, fetch_offset: int, leader: EpochEnd) -> bool:
    """Whether a log that ends at ``fetch_offset`` in ``fetched_epoch`` parts from the leader's.

    ``leader`` is the leader's end of ``fetched_epoch``. An undefined one is for the caller to
    refuse (OFFSET_OUT_OF_RANGE): there is no common ground to tell of.
    """
    return leader.epoch < fetched_epoch or leader.end_offset < fetch_offset


class Restart(NamedTuple):
    """How to go on after OFFSET_OUT_OF_RANGE: cut to ``truncate_to``, or drop everything and start
    at ``start_at``, or neither and fetch at ``fetch_offset`` again."""

    fetch_offset: int
    truncate_to: int | None = None
    start_at: int | None = None


def restart_below_leader_end(log_end_offset: int, leader_end_offset: int) -> Restart | None:
    """The leader ends before the follower does (an unclean election): go back to its end.

    None when it does not: then the leader's start decides, see ``restart_at_leader_start``.
    """
    if leader_end_offset < log_end_offset:
        return Restart(leader_end_offset, truncate_to=leader_end_offset)
    return None


def restart_at_leader_start(log_end_offset: int, leader_start_offset: int) -> Restart:
    """The leader has dropped what the follower wants next: everything here is stale. Otherwise the
    follower's own end is inside the leader's log by now, and is simply tried again."""
    if leader_start_offset > log_end_offset:
        return Restart(leader_start_offset, start_at=leader_start_offset)
    return Restart(log_end_offset)
