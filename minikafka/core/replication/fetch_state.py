"""The fetch state of a followed partition: the offset of the next Fetch, its time, read-ahead.

``FetchStates`` has those of one fetcher: which partitions are due, and which have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from minikafka.core.replication.follower import Truncation
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import BATCH_OVERHEAD, LAST_DELTA_OFFSET, LOG_OVERHEAD

FIRST_BACKOFF_MS = 20


class PartitionFetchState(NamedTuple):
    """The immutable fetch state of one partition.

    ``fetch_offset`` is the offset of the next Fetch, which is always the follower's log end.
    ``last_fetched_epoch`` is the leader epoch of the batch before it; None in an empty log. The
    leader compares it in every Fetch (v12+) and responds with the epoch at which the logs diverge
    (KIP-595; Kafka's ``isTruncationOnFetchSupported``). With an inter-broker protocol before 2.7
    OffsetForLeaderEpoch is sent before the first Fetch instead.

    ``topic_id`` is the id in the LeaderAndIsr request: None if the controller gives topics none.

    ``lag`` is the distance to the leader's high watermark in offsets; None until the first
    response. ``failures`` counts errors in a row. ``delayed_until_ms`` is the time of the next
    attempt, None for now. While ``truncating``, a truncation of the log is not flushed yet and the
    partition is not fetched.
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
        """Whether the follower has all records that were committed at the last response."""
        return self.lag == 0

    def is_delayed(self, now_ms: int) -> bool:
        """Whether the partition must not be fetched now."""
        if self.truncating:
            return True
        return self.delayed_until_ms is not None and now_ms < self.delayed_until_ms


def initial_truncation(
    log_end_offset: int, high_watermark: int, latest_epoch: int | None
) -> Truncation | None:
    """Return the truncation before the first Fetch of a new follower, or None.

    A log that has records but no epochs cannot be compared with the leader's. It is truncated to
    its high watermark."""
    if latest_epoch is None and high_watermark < log_end_offset:
        return Truncation(high_watermark)
    return None


def fetched(
    state: PartitionFetchState, next_offset: int, last_epoch: int | None, leader_high_watermark: int
) -> PartitionFetchState:
    """Return the state after a response was appended up to ``next_offset``."""
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
    """Return the state after the log was truncated or restarted, and ends at ``end_offset``. If the
    logs still diverge, the next response names another diverging epoch."""
    return PartitionFetchState(
        state.topic_id, state.leader_epoch, end_offset, latest_epoch, truncating=unflushed
    )


def held_back(state: PartitionFetchState, now_ms: int, wait_ms: int) -> PartitionFetchState:
    """Delay the partition by ``wait_ms`` because of the throttle, unless it is delayed already."""
    return state if state.is_delayed(now_ms) else state._replace(delayed_until_ms=now_ms + wait_ms)


def failed(state: PartitionFetchState, now_ms: int, backoff_max_ms: int) -> PartitionFetchState:
    """Return the state after an error: delayed, unless it is delayed already.

    The delay doubles from ``FIRST_BACKOFF_MS`` up to ``backoff_max_ms``. It starts small since the
    first errors of a new follower mostly mean that the leader has not received its LeaderAndIsr
    yet. Its end is rounded down to a multiple of half the delay, so that partitions that failed
    shortly after each other are fetched together."""
    if state.is_delayed(now_ms):
        return state
    delay_ms = min(backoff_max_ms, FIRST_BACKOFF_MS << min(state.failures, 16))
    grid_ms = max(1, delay_ms // 2)
    until_ms = (now_ms + delay_ms) // grid_ms * grid_ms
    return state._replace(failures=state.failures + 1, delayed_until_ms=until_ms)


_read_prefix = Struct(">qii").unpack_from  # base offset, length, leader epoch
_read_int = Struct(">i").unpack_from


class FetchedRecords(NamedTuple):
    """The response for one partition that was fetched with ``state``."""

    topic_partition: TopicPartition
    state: PartitionFetchState
    records: Buffer
    high_watermark: int  # the leader's


def read_ahead(
    responses: Iterable[FetchedRecords],
) -> dict[TopicPartition, PartitionFetchState] | None:
    """Return the fetch states after the append, if the next Fetch may be sent before the append.

    Leader and follower then work at the same time. None if the Fetch has to wait for the append, or
    if there is nothing to append.

    A fetch offset acknowledges all records below it: by it the leader advances the high watermark
    and adds the follower to the ISR. An offset below the leader's high watermark has neither
    effect: all replicas in sync are beyond it, no follower joins the ISR from there, and the high
    watermark does not move back within the leader epoch that the request carries. So a follower far
    behind fetches ahead, and a follower in sync never does.
    """
    ahead: dict[TopicPartition, PartitionFetchState] = {}
    grows = False
    for topic_partition, state, records, high_watermark in responses:
        next_offset, epoch = state.fetch_offset, None
        if records:
            next_offset, epoch = end_of_batches(records, next_offset)
            if not state.fetch_offset < next_offset < high_watermark:
                return None
            grows = True
        ahead[topic_partition] = fetched(state, next_offset, epoch, high_watermark)
    return ahead if grows else None


def end_of_batches(records: Buffer, start: int) -> tuple[int, int | None]:
    """Return the offset after the last complete batch, and the leader epoch of that batch (None if
    it has none). ``start`` and None if no batch is complete. Headers are read, not validated."""
    position, end = 0, len(records)
    next_offset, epoch = start, None
    while end - position >= BATCH_OVERHEAD:
        base_offset, length, leader_epoch = _read_prefix(records, position)
        size = length + LOG_OVERHEAD
        if size < BATCH_OVERHEAD or size > end - position:
            break
        (last_offset_delta,) = _read_int(records, position + LAST_DELTA_OFFSET)
        next_offset = base_offset + last_offset_delta + 1
        epoch = leader_epoch if leader_epoch > NO_EPOCH else None
        position += size
    return next_offset, epoch


class FetchStates:
    """The fetch states of thousands of partitions, of which most do not change.

    A Fetch requests what is ``due``, and looks at what has ``changed`` since the last one: it costs
    as much as has changed. Partitions that made progress least recently come first, and those whose
    delay has ended come last."""

    def __init__(self) -> None:
        # Each partition is in one of the two: which one, is as of the last ``due``.
        self._due: dict[TopicPartition, PartitionFetchState] = {}
        self._delayed: dict[TopicPartition, PartitionFetchState] = {}
        self.changed: dict[TopicPartition, None] = {}  # cleared by the caller

    def __len__(self) -> int:
        return len(self._due) + len(self._delayed)

    def get(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._due.get(topic_partition) or self._delayed.get(topic_partition)

    def copy(self) -> dict[TopicPartition, PartitionFetchState]:
        """Return the states of all partitions."""
        return self._due | self._delayed

    def put(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Set the state of a partition. It moves behind the others if its fetch offset differs."""
        before = self.get(topic_partition)
        if before is not None and before.fetch_offset != state.fetch_offset:
            self.remove(topic_partition)
        if state.truncating or state.delayed_until_ms is not None:
            self._due.pop(topic_partition, None)
            self._delayed[topic_partition] = state
        else:
            self._delayed.pop(topic_partition, None)
            self._due[topic_partition] = state
        self.changed[topic_partition] = None

    def remove(self, topic_partition: TopicPartition) -> None:
        self._due.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)
        self.changed[topic_partition] = None

    def due(self, now_ms: int) -> Mapping[TopicPartition, PartitionFetchState]:
        """Return the partitions to fetch now. The mapping changes with the states."""
        if self._delayed:
            ended = [tp for tp, state in self._delayed.items() if not state.is_delayed(now_ms)]
            for topic_partition in ended:
                self._due[topic_partition] = self._delayed.pop(topic_partition)
                self.changed[topic_partition] = None
        return self._due

    def first_delay_ms(self, now_ms: int) -> int | None:
        """Return how long it takes until the first delay ends; None if none ends by itself."""
        ends = [state.delayed_until_ms for state in self._delayed.values()]
        return min((end - now_ms for end in ends if end is not None), default=None)
