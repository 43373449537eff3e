"""The positions of a consumer in its partitions, and the fetched records not yet returned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.core.client.consumer.fetched import ConsumerRecord, FetchedChunk, Place
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError

# Per partition: one chunk is returned to the application while the next one is fetched.
MAX_CHUNKS = 2


class Doubt(NamedTuple):
    """A place to be validated with a new leader, whose log may be truncated below it (KIP-320)."""

    place: Place
    leader_epoch: int


@dataclass(slots=True)
class _State:
    """One partition. ``place`` is the next record to return, None while it is looked up: in the
    group's committed offsets (``committed_wanted``), then by ``reset_timestamp``. ``fetch_place``
    follows the last of ``chunks``. ``leader_epoch`` is the newest one that ``place`` has been
    validated with. ``doubted``: it has to be validated before the next fetch."""

    place: Place | None = None
    committed_wanted: bool = False
    reset_timestamp: int | None = None
    fetch_place: Place | None = None
    chunks: deque[FetchedChunk] = field(default_factory=deque)
    paused: bool = False
    fetching: bool = False
    doubted: bool = False
    leader_epoch: int = NO_EPOCH
    high_watermark: int = -1
    last_stable_offset: int = -1


class Positions:
    """The partitions assigned to one consumer (Kafka's ``SubscriptionState`` and fetch buffer).

    Buffered are at most ``MAX_CHUNKS`` fetches of a partition, and no fetch begins while
    ``max_buffered_bytes`` or more are buffered. Chunks of paused partitions do not count, since
    they would stop the others.
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
        """Replace the assignment. Kept partitions continue; new ones start at the group's committed
        offset if ``committed_wanted``, otherwise by ``reset_timestamp``."""
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
        """Return the next offset to return to the application, None while it is not known."""
        place = self.place(topic_partition)
        return None if place is None else place.offset

    def place(self, topic_partition: TopicPartition) -> Place | None:
        """As ``position``, with the leader epoch of the record before."""
        state = self._states[topic_partition]
        for record in self.unread:
            if (record.topic, record.partition) == topic_partition:
                return Place(record.offset, record.leader_epoch)
        return state.place

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark as of the last fetch; -1 before it."""
        return self._states[topic_partition].high_watermark

    def last_stable_offset(self, topic_partition: TopicPartition) -> int:
        """Return the last stable offset as of the last fetch; -1 before it, and from brokers before
        0.11."""
        return self._states[topic_partition].last_stable_offset

    def seek(self, topic_partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at ``offset``, and drop the buffer."""
        self._move(topic_partition, Place(offset, epoch), None)

    def reset(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Continue at the offset of ``timestamp``: EARLIEST, LATEST, or milliseconds since 1970."""
        self._move(topic_partition, None, timestamp)

    def pause(self, topic_partition: TopicPartition) -> None:
        state = self._states[topic_partition]
        place = self.place(topic_partition)
        if place != state.place:  # unread records are fetched again
            self._move(topic_partition, place, None)
        state.paused = True

    def resume(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].paused = False

    # -- looking positions up

    def to_initialize(self) -> list[TopicPartition]:
        """Return the partitions whose committed offsets are to be fetched."""
        return [tp for tp, state in self._states.items() if state.committed_wanted]

    def initialize(
        self, topic_partition: TopicPartition, found: Place | None, reset_timestamp: int | None
    ) -> None:
        """Set a committed position; None: nothing is committed. Ignored if it is no longer
        wanted."""
        state = self._states.get(topic_partition)
        if state is not None and state.committed_wanted:
            self._move(topic_partition, found, reset_timestamp if found is None else None)

    def to_reset(self) -> dict[TopicPartition, int]:
        """Return the partitions whose positions are to be looked up, with their timestamps."""
        return {
            tp: state.reset_timestamp
            for tp, state in self._states.items()
            if state.reset_timestamp is not None
        }

    def resolve(self, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Set positions that were looked up, as (timestamp, offset). Those no longer wanted are
        ignored."""
        for tp, (timestamp, offset) in found.items():
            state = self._states.get(tp)
            if state is not None and state.reset_timestamp == timestamp:
                self._move(tp, Place(offset), None)

    # -- new leaders

    def note_leader_epoch(self, topic_partition: TopicPartition, epoch: int) -> None:
        """Note a leader epoch of the metadata. After a newer one the place has to be validated."""
        state = self._states.get(topic_partition)
        if state is None or epoch <= state.leader_epoch or state.fetch_place is None:
            return
        state.leader_epoch = epoch
        state.doubted = state.fetch_place.epoch != NO_EPOCH

    def to_validate(self) -> dict[TopicPartition, Doubt]:
        return {
            tp: Doubt(state.fetch_place, state.leader_epoch)
            for tp, state in self._states.items()
            if state.doubted and state.fetch_place is not None
        }

    def validated(self, topic_partition: TopicPartition, doubt: Doubt, end: Place | None) -> int:
        """Process where the epoch of a place ends in the leader's log (None: the leader does not
        know the epoch).

        Returns by how many records the log is shorter than what the application has got of it,
        which the caller reports. Buffered records beyond the end are dropped. Returns 0 for a
        result that is no longer wanted.
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
        """Continue without validation: the broker is too old."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.doubted = False

    # -- fetching

    def fetchable(self) -> dict[TopicPartition, int]:
        """Return the partitions to fetch, with their offsets: those with a known and validated
        place and room in the buffer, neither paused nor being fetched."""
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
        """Note that a fetch has ended, successfully or not."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.fetching = False

    def is_at(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether the response to a fetch from ``offset`` is still wanted."""
        state = self._states.get(topic_partition)
        return (
            state is not None
            and state.fetch_place is not None
            and state.fetch_place.offset == offset
            and not state.doubted
        )

    def fetch_place(self, topic_partition: TopicPartition) -> Place:
        """Return where the next chunk begins, of a partition that ``is_at`` or in ``fetchable``."""
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
        """Buffer a chunk that begins at the fetch place; see ``is_at``."""
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
        """Return records, partition by partition in the order of their arrival.

        Raises KafkaError for records that cannot be decoded, when none are before them: the place
        stays, and a seek passes them.
        """
        taken: list[ConsumerRecord] = []
        while self.unread and len(taken) < max_records:
            taken.append(self.unread.popleft())
        waiting: list[TopicPartition] = []
        try:
            while self._arrived and len(taken) < max_records:
                tp = self._arrived[0]
                state = self._states[tp]
                if state.paused:
                    waiting.append(self._arrived.popleft())
                    continue
                try:
                    self._take_from(state, max_records, taken)
                except KafkaError:
                    if taken:
                        break
                    self._drop_chunks(tp, state)  # fetched again, and raised again
                    raise
                if not state.chunks:
                    self._arrived.popleft()
        finally:
            self._arrived.extendleft(reversed(waiting))
        return taken

    def _take_from(self, state: _State, max_records: int, taken: list[ConsumerRecord]) -> None:
        while state.chunks and len(taken) < max_records:
            chunk = state.chunks[0]
            records, place = chunk.take(max_records - len(taken))
            taken.extend(records)
            if place is not None:
                state.place = place
            if not chunk.is_used_up:
                return
            state.chunks.popleft()
            self.buffered_bytes -= chunk.size_bytes

    def _move(
        self, topic_partition: TopicPartition, place: Place | None, timestamp: int | None
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
