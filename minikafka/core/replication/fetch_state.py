"""Where a follower stands with one partition it copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from minikafka.core.replication.follower import Truncation
from minikafka.kernel.cluster import TopicPartition

FIRST_BACKOFF_MS = 20


class PartitionFetchState(NamedTuple):
    """``fetch_offset`` is the next offset wanted, always the end of the follower's log.

    ``last_fetched_epoch`` is the epoch of the batch before it; None in an empty log. The leader
    compares it in every Fetch (v12+) and names the epoch at which the logs part (KIP-595; Kafka's
    ``isTruncationOnFetchSupported``). Brokers of release 2.0 ask by OffsetForLeaderEpoch instead,
    before the first Fetch. ``lag`` is None until the first answer, ``failures`` counts
    errors in a row, ``delayed_until_ms`` is when to try again. ``truncating``: the log was cut, and
    asks for nothing until that is on disk.
    """

    topic_id: UUID | None
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int | None = None
    lag: int | None = None
    failures: int = 0
    delayed_until_ms: int | None = None
    truncating: bool = False

    @property
    def in_sync(self) -> bool:
        """With what the leader had committed at the last answer."""
        return self.lag == 0

    def is_delayed(self, now_ms: int) -> bool:
        """Not to be asked for now."""
        if self.truncating:
            return True
        return self.delayed_until_ms is not None and now_ms < self.delayed_until_ms


def not_delayed(
    states: Mapping[TopicPartition, PartitionFetchState], now_ms: int
) -> dict[TopicPartition, PartitionFetchState]:
    """Those to be asked for now. Looks at thousands for every Fetch."""
    return {
        topic_partition: state
        for topic_partition, state in states.items()
        if not state.truncating
        and (state.delayed_until_ms is None or state.delayed_until_ms <= now_ms)
    }


def initial_truncation(
    log_end_offset: int, high_watermark: int, latest_epoch: int | None
) -> Truncation | None:
    """What a new follower cuts before it asks anything. A log that holds records and no epoch has
    nothing the leader could compare, and goes back to its high watermark."""
    if latest_epoch is None and high_watermark < log_end_offset:
        return Truncation(high_watermark)
    return None


def fetched(
    state: PartitionFetchState, next_offset: int, last_epoch: int | None, leader_high_watermark: int
) -> PartitionFetchState:
    """An answer was taken in, up to ``next_offset``."""
    return PartitionFetchState(
        state.topic_id,
        state.leader_epoch,
        next_offset,
        state.last_fetched_epoch if last_epoch is None else last_epoch,
        max(0, leader_high_watermark - next_offset),
    )


def truncated(
    state: PartitionFetchState, end_offset: int, latest_epoch: int | None, unflushed: bool
) -> PartitionFetchState:
    """The log was cut, or starts anew, and ends at ``end_offset``. A cut that was not the last one
    shows as another diverging epoch in the next answer."""
    return PartitionFetchState(
        state.topic_id, state.leader_epoch, end_offset, latest_epoch, truncating=unflushed
    )


def held_back(state: PartitionFetchState, now_ms: int, wait_ms: int) -> PartitionFetchState:
    """Not to be asked for yet, as too much was moved; one that waits already does so as it was."""
    return state if state.is_delayed(now_ms) else state._replace(delayed_until_ms=now_ms + wait_ms)


def failed(state: PartitionFetchState, now_ms: int, backoff_max_ms: int) -> PartitionFetchState:
    """Try again later. The first errors of a fresh follower mostly mean that the leader has not
    heard of its role yet, so the delay starts small and doubles up to ``backoff_max_ms``. It ends
    on a grid of half its length: what failed one after the other is asked for together."""
    if state.is_delayed(now_ms):
        return state
    delay_ms = min(backoff_max_ms, FIRST_BACKOFF_MS << min(state.failures, 16))
    grid_ms = max(1, delay_ms // 2)
    until_ms = (now_ms + delay_ms) // grid_ms * grid_ms
    return state._replace(failures=state.failures + 1, delayed_until_ms=until_ms)
