"""The positions of a consumer in its partitions, and its buffer of fetched records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from minikafka.core.client.consumer.fetched import (
    BatchRun,
    ConsumerRecord,
    FetchedChunk,
    ReadPosition,
)
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

R = TypeVar("R")

# Per partition: one chunk is returned to the application while the next one is fetched.
MAX_CHUNKS = 2


class Doubt(NamedTuple):
    """A position to be validated with a new leader, whose log may be truncated below it
    (KIP-320)."""

    place: ReadPosition
    leader_epoch: int


@dataclass(slots=True)
class _State:
    """The state of one assigned partition.

    ``place`` is the position of the next record to return. It is None while it is looked up:
    first in the group's committed offsets (``committed_wanted``), then by ``reset_timestamp``.
    ``fetch_place`` is the position after the last of ``chunks``, where the next fetch begins.
    ``leader_epoch`` is the newest epoch with which ``fetch_place`` was or has to be validated;
    while ``doubted``, no fetch begins before the validation.
    """

    place: ReadPosition | None = None
    committed_wanted: bool = False
    reset_timestamp: int | None = None
    fetch_place: ReadPosition | None = None
    chunks: deque[FetchedChunk] = field(default_factory=deque)
    paused: bool = False
    fetching: bool = False
    doubted: bool = False
    leader_epoch: int = NO_EPOCH
    high_watermark: int = -1
    last_stable_offset: int = -1


class Positions:
    """The partitions assigned to one consumer, with positions and buffered chunks.

    At most ``MAX_CHUNKS`` responses of a partition are buffered, and no fetch begins while
    ``max_buffered_bytes`` or more are buffered. Paused partitions do not count towards the
    bytes, because they would block the other ones. Kafka: ``SubscriptionState`` and
    ``FetchBuffer``.
    """

    def __init__(self, max_buffered_bytes: int = 1 << 62) -> None:
        self._max_buffered_bytes = max_buffered_bytes
        self._states: dict[TopicPartition, _State] = {}
        self._arrived: deque[TopicPartition] = deque()  # those with chunks
        self.buffered_bytes = 0
        # Records taken for an iteration. Places do not count them as consumed.
        self.unread: deque[ConsumerRecord] = deque()

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self._states)

    @property
    def paused(self) -> list[TopicPartition]:
        return [tp for tp, state in self._states.items() if state.paused]

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        reset_timestamp: int | None,
        committed_wanted: bool = False,
    ) -> None:
        """Replace the assignment. Partitions that remain keep their positions and buffers.

        New partitions start at the group's committed offset if ``committed_wanted``, otherwise
        at the offset of ``reset_timestamp``.
        """
        old = self._states
        wait = committed_wanted
        self._states = {
            tp: old.get(tp)
            or _State(committed_wanted=wait, reset_timestamp=None if wait else reset_timestamp)
            for tp in partitions
        }
        for tp, state in old.items():
            if tp not in self._states:
                self.buffered_bytes -= sum(chunk.size_bytes for chunk in state.chunks)
        self._arrived = deque(tp for tp in self._arrived if tp in self._states)
        if self.unread:
            self.unread = deque(r for r in self.unread if (r.topic, r.partition) in self._states)

    # -- where to read. All raise KeyError for a partition that is not assigned.

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset of the next record to return to the application; None while unknown."""
        place = self.place(topic_partition)
        return None if place is None else place.offset

    def place(self, topic_partition: TopicPartition) -> ReadPosition | None:
        """Return the position of the next record to return, with the leader epoch of the one
        before."""
        state = self._states[topic_partition]
        for record in self.unread:
            if (record.topic, record.partition) == topic_partition:
                return ReadPosition(record.offset, record.leader_epoch)
        return state.place

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark of the last Fetch response; -1 before the first one."""
        return self._states[topic_partition].high_watermark

    def last_stable_offset(self, topic_partition: TopicPartition) -> int:
        """Return the last stable offset of the last Fetch response.

        It is -1 before the first response, and with brokers older than 0.11.
        """
        return self._states[topic_partition].last_stable_offset

    def seek(self, topic_partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Set the position to ``offset`` and drop the buffered records."""
        self._move(topic_partition, ReadPosition(offset, epoch), None)

    def reset(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Have the position looked up by ``timestamp``, and drop the buffered records.

        ``timestamp`` is EARLIEST, LATEST, or milliseconds since 1970.
        """
        self._move(topic_partition, None, timestamp)

    def pause(self, topic_partition: TopicPartition) -> None:
        """Stop fetching and returning records of a partition; its chunks stay buffered.

        If an iteration has taken records that are unread, the buffer is dropped: they are
        fetched again.
        """
        self._drop_unread(topic_partition)
        self._states[topic_partition].paused = True

    def resume(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].paused = False

    # -- looking positions up

    def to_initialize(self) -> list[TopicPartition]:
        """Return the partitions whose committed offsets have to be fetched."""
        return [tp for tp, state in self._states.items() if state.committed_wanted]

    def initialize(
        self,
        topic_partition: TopicPartition,
        found: ReadPosition | None,
        reset_timestamp: int | None,
    ) -> None:
        """Set the position to a committed offset, or reset it if ``found`` is None.

        Ignored if the partition is no longer assigned, or has got a position in the meantime.
        """
        state = self._states.get(topic_partition)
        if state is not None and state.committed_wanted:
            self._move(topic_partition, found, reset_timestamp if found is None else None)

    def to_reset(self) -> dict[TopicPartition, int]:
        """Return the partitions whose positions have to be looked up, with the timestamps to
        look up."""
        return {
            tp: state.reset_timestamp
            for tp, state in self._states.items()
            if state.reset_timestamp is not None
        }

    def resolve(self, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Set positions from a lookup; ``found`` maps partitions to timestamp and offset.

        Ignored for a partition that no longer waits for a lookup of that timestamp.
        """
        for tp, (timestamp, offset) in found.items():
            state = self._states.get(tp)
            if state is not None and state.reset_timestamp == timestamp:
                self._move(tp, ReadPosition(offset), None)

    # -- new leaders

    def note_leader_epoch(self, topic_partition: TopicPartition, epoch: int) -> None:
        """Process the leader epoch of new metadata.

        After a newer epoch the position is in doubt, unless the epoch of its last record is
        unknown.
        """
        state = self._states.get(topic_partition)
        if state is None or epoch <= state.leader_epoch or state.fetch_place is None:
            return
        state.leader_epoch = epoch
        state.doubted = state.fetch_place.epoch != NO_EPOCH

    def to_validate(self) -> dict[TopicPartition, Doubt]:
        """Return the positions in doubt, by partition."""
        return {
            tp: Doubt(state.fetch_place, state.leader_epoch)
            for tp, state in self._states.items()
            if state.doubted and state.fetch_place is not None
        }

    def validated(
        self, topic_partition: TopicPartition, doubt: Doubt, end: ReadPosition | None
    ) -> int:
        """Process the end of a position's epoch in the new leader's log (OffsetForLeaderEpoch).

        ``end`` is None if the leader does not know the epoch; then the position stays. If the
        log ends before the position, buffered records are dropped. Returns the number of records
        that the application has got and the leader does not have, 0 if there are none, or if the
        position has changed since ``doubt``.
        """
        state = self._states.get(topic_partition)
        if state is None or (state.fetch_place, state.leader_epoch) != doubt:
            return 0
        state.doubted = False
        if end is None or end.offset >= doubt.place.offset:
            return 0
        place = self.place(topic_partition)
        assert place is not None
        lost = place.offset - end.offset
        self._move(topic_partition, end if lost > 0 else place, None)
        return max(0, lost)

    def unvalidated(self, topic_partition: TopicPartition) -> None:
        """Continue without validation: the broker does not support OffsetForLeaderEpoch for
        consumers."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.doubted = False

    # -- fetching

    def fetchable(self) -> dict[TopicPartition, int]:
        """Return the partitions to fetch now, with the offsets to fetch from.

        A partition is fetched if its position is known and not in doubt, its buffer has room, it
        is not paused and no fetch of it is in flight.
        """
        most = self._max_buffered_bytes
        if self.buffered_bytes >= most and self.buffered_bytes - self._paused_bytes() >= most:
            return {}
        return {
            tp: state.fetch_place.offset
            for tp, state in self._states.items()
            if state.fetch_place is not None
            and not state.paused
            and not state.fetching
            and not state.doubted
            and len(state.chunks) < MAX_CHUNKS
        }

    def _paused_bytes(self) -> int:
        chunks = (
            chunk for state in self._states.values() if state.paused for chunk in state.chunks
        )
        return sum(chunk.size_bytes for chunk in chunks)

    def fetch_sent(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].fetching = True

    def fetch_done(self, topic_partition: TopicPartition) -> None:
        """Note that a fetch of the partition has ended, with or without success."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.fetching = False

    def is_at(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether the response to a fetch from ``offset`` may be buffered: the position is still
        there."""
        state = self._states.get(topic_partition)
        return (
            state is not None
            and state.fetch_place is not None
            and state.fetch_place.offset == offset
            and not state.doubted
        )

    def fetch_place(self, topic_partition: TopicPartition) -> ReadPosition:
        """Return the position at which the next chunk begins. The partition must have one: see
        ``is_at``."""
        place = self._states[topic_partition].fetch_place
        assert place is not None
        return place

    def fetched(
        self,
        topic_partition: TopicPartition,
        chunk: FetchedChunk,
        high_watermark: int,
        last_stable_offset: int = -1,
    ) -> None:
        """Buffer a chunk that begins at ``fetch_place``. Call it only if ``is_at``."""
        state = self._states[topic_partition]
        state.high_watermark = high_watermark
        state.last_stable_offset = last_stable_offset
        state.fetch_place = chunk.end
        if chunk.is_used_up:  # it is empty: its end is its start
            return
        if not state.chunks:
            self._arrived.append(topic_partition)
        state.chunks.append(chunk)
        self.buffered_bytes += chunk.size_bytes
        # Move it to the end: others come first in the next request, which max_bytes may cut short.
        self._states[topic_partition] = self._states.pop(topic_partition)

    # -- returning records

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Remove and return up to ``max_records`` buffered records, partition by partition.

        The partition whose chunk arrived first comes first, until its buffer is empty.

        Raises KafkaError for a record that cannot be decoded or converted, once no records are
        left before it. The position stays at that record, so it is fetched again and raises
        again; ``seek`` passes it.
        """
        taken: list[ConsumerRecord] = []
        while self.unread and len(taken) < max_records:
            taken.append(self.unread.popleft())

        def take_from(chunk: FetchedChunk) -> ReadPosition | None:
            records, place = chunk.take(max_records - len(taken))
            taken.extend(records)
            return place

        self._take(taken, take_from, lambda: len(taken) >= max_records)
        return taken

    def take_runs(
        self, decode: Callable[[BatchRun], R], max_records: int, max_bytes: int
    ) -> list[R]:
        """Remove whole batches from the buffer, ``max_records`` at most in all, decode them in
        runs of one partition each, and return the results that are not empty.

        ``max_bytes`` is exceeded by a first batch that is larger. Records that an iteration has
        taken and not returned are fetched again. Order and errors are those of ``take``.
        """
        for tp in {TopicPartition(record.topic, record.partition) for record in self.unread}:
            self._drop_unread(tp)
        taken: list[R] = []
        left_records, left_bytes = max_records, max_bytes

        def take_from(chunk: FetchedChunk) -> ReadPosition | None:
            nonlocal left_records, left_bytes
            run = chunk.take_run(decode, left_records, left_bytes)
            if run.decoded:
                taken.append(run.decoded)
            left_records -= run.record_count
            left_bytes -= run.size_bytes
            return run.place

        self._take(taken, take_from, lambda: left_records <= 0 or left_bytes <= 0)
        return taken

    def _take(
        self,
        taken: list[Any],
        take_from: Callable[[FetchedChunk], ReadPosition | None],
        is_full: Callable[[], bool],
    ) -> None:
        """Call ``take_from`` for buffered chunks, which it empties, until ``is_full``."""
        waiting: list[TopicPartition] = []
        try:
            while self._arrived and not is_full():
                tp = self._arrived[0]
                state = self._states[tp]
                if state.paused:
                    waiting.append(self._arrived.popleft())
                    continue
                try:
                    self._take_from(state, take_from, is_full)
                except KafkaError:
                    if taken:
                        break
                    self._drop_chunks(tp, state)  # fetched again, and raised again
                    raise
                if not state.chunks:
                    self._arrived.popleft()
        finally:
            self._arrived.extendleft(reversed(waiting))

    def _take_from(
        self,
        state: _State,
        take_from: Callable[[FetchedChunk], ReadPosition | None],
        is_full: Callable[[], bool],
    ) -> None:
        while state.chunks and not is_full():
            chunk = state.chunks[0]
            place = take_from(chunk)
            if place is not None:
                state.place = place
            if chunk.is_used_up:
                state.chunks.popleft()
                self.buffered_bytes -= chunk.size_bytes

    def _drop_unread(self, topic_partition: TopicPartition) -> None:
        """Have records fetched again that an iteration has taken and not returned."""
        place = self.place(topic_partition)
        if place != self._states[topic_partition].place:
            self._move(topic_partition, place, None)

    def _move(
        self, topic_partition: TopicPartition, place: ReadPosition | None, timestamp: int | None
    ) -> None:
        state = self._states[topic_partition]
        self._drop_chunks(topic_partition, state)
        if self.unread:
            self.unread = deque(r for r in self.unread if (r.topic, r.partition) != topic_partition)
        state.place = state.fetch_place = place
        state.committed_wanted = False
        state.reset_timestamp = timestamp
        state.doubted = False
        if place is not None and place.epoch != NO_EPOCH:
            state.leader_epoch = NO_EPOCH  # validate again, with any leader

    def _drop_chunks(self, topic_partition: TopicPartition, state: _State) -> None:
        if state.chunks:
            self.buffered_bytes -= sum(chunk.size_bytes for chunk in state.chunks)
            state.chunks.clear()
            self._arrived.remove(topic_partition)
        state.fetch_place = state.place
