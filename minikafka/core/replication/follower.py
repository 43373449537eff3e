"""How far a follower truncates its log before it fetches from a leader.

Truncation by leader epoch (KIP-101, KIP-279): never by high watermark alone, which lags behind:
that would remove committed records or keep uncommitted ones.
"""

from __future__ import annotations

from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEnd(NamedTuple):
    """The largest epoch not above a requested one, and the offset after its last record.

    -1 and -1 if the requested epoch is above all epochs of the log. If it is below all of them: the
    requested epoch, and the offset at which the first epoch starts.
    """

    epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_EPOCH_OFFSET

    @property
    def is_undefined(self) -> bool:
        return self.epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_EPOCH_OFFSET


class Truncation(NamedTuple):
    """Truncate to ``offset``. ``completed`` is False if epochs have to be compared once more."""

    offset: int
    completed: bool = True


def truncation_by_epoch(
    leader: EpochEnd, local: EpochEnd, high_watermark: int, log_end_offset: int
) -> Truncation:
    """Where the logs diverge, by the leader's end of the follower's last epoch.

    ``local`` is the follower's own end of the epoch the leader named. The cases (Kafka's
    AbstractFetcherThread.getOffsetTruncationState):

    A. The leader knows no end, as it has no epoch so old: truncate to the high watermark.
    B. The leader sends an offset without an epoch (version 0): truncate to it.
    C. The follower has no epoch as old as the leader's: truncate to the leader's offset.
    D. The follower does not have the leader's epoch, only an older one: truncate to the end of that
       one and compare again.
    E. Both have the epoch: truncate to the smaller of the two ends.
    """
    if leader.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(high_watermark, log_end_offset))  # A
    if leader.epoch == UNDEFINED_EPOCH or local.is_undefined:
        return Truncation(min(leader.end_offset, log_end_offset))  # B, C
    if local.epoch != leader.epoch:
        return Truncation(min(local.end_offset, log_end_offset), completed=False)  # D
    return Truncation(min(local.end_offset, leader.end_offset, log_end_offset))  # E


def diverges(fetched_epoch: int, fetch_offset: int, leader: EpochEnd) -> bool:
    """Whether a log that ends at ``fetch_offset`` in ``fetched_epoch`` diverges from the leader's.

    ``leader`` is the leader's end of ``fetched_epoch``. The caller refuses an undefined one
    (OFFSET_OUT_OF_RANGE), since the logs have no epoch in common.
    """
    return leader.epoch < fetched_epoch or leader.end_offset < fetch_offset


class Restart(NamedTuple):
    """What to do after OFFSET_OUT_OF_RANGE: truncate to ``truncate_to``, or drop all records and
    start at ``start_at``, or neither and fetch from ``fetch_offset`` again."""

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
