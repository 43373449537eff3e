"""Truncation of a follower's log before it fetches from a leader.

A follower truncates by leader epoch (KIP-101, KIP-279). Its high watermark alone is not enough: it
lags behind the leader's, so that truncating to it would remove committed records, or keep records
that the leader does not have.
"""

from __future__ import annotations

from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEnd(NamedTuple):
    """The largest epoch of a log not above a requested one, and the offset after its last record.

    Both are -1 if the requested epoch is above all epochs of the log. If it is below all of them,
    they are the requested epoch and the offset at which the log's first epoch starts.
    """

    epoch: int = UNDEFINED_EPOCH
    end_offset: int = UNDEFINED_EPOCH_OFFSET

    @property
    def is_undefined(self) -> bool:
        return self.epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_EPOCH_OFFSET


class Truncation(NamedTuple):
    """The offset to truncate to. ``completed`` is False if epochs have to be compared again."""

    offset: int
    completed: bool = True


def truncation_by_epoch(
    leader: EpochEnd, local: EpochEnd, high_watermark: int, log_end_offset: int
) -> Truncation:
    """Return where to truncate the follower's log, by one comparison of leader epochs.

    ``leader`` is the end of the follower's last epoch in the leader's log. ``local`` is the end of
    ``leader.epoch`` in the follower's log. The cases (Kafka's
    ``AbstractFetcherThread.getOffsetTruncationState``):

    A. The leader has no end offset for that epoch: truncate to the high watermark.
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

    ``leader`` is the end of ``fetched_epoch`` in the leader's log. It must be defined: otherwise
    the logs have no epoch in common, and the caller refuses the fetch with OFFSET_OUT_OF_RANGE.
    """
    return leader.epoch < fetched_epoch or leader.end_offset < fetch_offset


class Restart(NamedTuple):
    """The follower's next step after OFFSET_OUT_OF_RANGE: truncate to ``truncate_to``, or drop all
    records and start at ``start_at``, or (both None) fetch from ``fetch_offset`` again."""

    fetch_offset: int
    truncate_to: int | None = None
    start_at: int | None = None


def restart_below_leader_end(log_end_offset: int, leader_end_offset: int) -> Restart | None:
    """Truncate to the leader's log end if it is below the follower's (an unclean election).

    None if it is not. Then the leader's log start decides, see ``restart_at_leader_start``.
    """
    if leader_end_offset < log_end_offset:
        return Restart(leader_end_offset, truncate_to=leader_end_offset)
    return None


def restart_at_leader_start(log_end_offset: int, leader_start_offset: int) -> Restart:
    """Start at the leader's log start if it is above the follower's log end.

    Then the leader has deleted all records that the follower has, and the next one too. Otherwise
    the follower's log end is within the leader's log by now, and the fetch is repeated."""
    if leader_start_offset > log_end_offset:
        return Restart(leader_start_offset, start_at=leader_start_offset)
    return Restart(log_end_offset)
