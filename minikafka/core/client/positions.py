"""Where a consumer stands in each of its partitions, and what it has fetched but not handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.core.client.fetched import ConsumerRecord, FetchedChunk, Place
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError

# Per partition: what is being handed out, and what is fetched meanwhile.
MAX_CHUNKS = 2


class Doubt(NamedTuple):
    """A place that a new leader may not have: its log may have been cut (KIP-320)."""

    place: Place
    leader_epoch: int


@dataclass(slots=True)
class _State:
    """One partition. ``place`` is the next record to hand out, None while it is looked up: in the
    group's commits (``committed_wanted``), then by ``reset_timestamp``. ``fetch_place`` follows
    the last of ``chunks``. ``leader_epoch``: the newest that ``place`` has been checked against."""

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

    Fetched and not handed out are at most ``MAX_CHUNKS`` fetches of a partition, and no fetch
    begins while ``max_buffered_bytes`` or more are here; those of paused partitions do not count,
    lest the others wait for them.
    """

    def __init__(self, max_buffered_bytes: int = 1 << 62) -> None:
        self._max_buffered_bytes = max_buffered_bytes
        self._states: dict[TopicPartition, _State] = {}
        self._arrived: deque[TopicPartition] = deque()  # those with chunks
        self.buffered_bytes = 0
        # Taken for an iteration that goes record by record. Places lie before them.
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
        """Replace the assignment. Partitions kept go on; new ones start where the group has
        committed if that is wanted, else by ``reset_timestamp``."""
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
        """The next offset to hand out, None while unknown."""
        place = self.place(topic_partition)
        return None if place is None else place.offset

    def place(self, topic_partition: TopicPartition) -> Place | None:
        """As ``position``, with the leader epoch of what was read."""
        state = self._states[topic_partition]
        for record in self.unread:
            if (record.topic, record.partition) == topic_partition:
                return Place(record.offset, record.leader_epoch)
        return state.place

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """As of the last fetch; -1 before it."""
        return self._states[topic_partition].high_watermark

    def last_stable_offset(self, topic_partition: TopicPartition) -> int:
        """As of the last fetch; -1 before it, and from brokers before 0.11."""
        return self._states[topic_partition].last_stable_offset

    def seek(self, topic_partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on from ``offset``; drops what is buffered."""
        self._move(topic_partition, Place(offset, epoch), None)

    def reset(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Go on from where ``timestamp`` is: EARLIEST, LATEST, or milliseconds since 1970."""
        self._move(topic_partition, None, timestamp)

    def pause(self, topic_partition: TopicPartition) -> None:
        state = self._states[topic_partition]
        place = self.place(topic_partition)
        if place != state.place:  # unread records wait, too: they are fetched again
            self._move(topic_partition, place, None)
        state.paused = True

    def resume(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].paused = False

    # -- looking positions up

    def to_initialize(self) -> list[TopicPartition]:
        """The partitions whose committed offsets are to be fetched."""
        return [tp for tp, state in self._states.items() if state.committed_wanted]

    def initialize(
        self, topic_partition: TopicPartition, found: Place | None, reset_timestamp: int | None
    ) -> None:
        """The response to ``to_initialize``; None: nothing is committed. A late one is ignored."""
        state = self._states.get(topic_partition)
        if state is not None and state.committed_wanted:
            self._move(topic_partition, found, reset_timestamp if found is None else None)

    def to_reset(self) -> dict[TopicPartition, int]:
        """The partitions whose position has to be looked up, with the timestamp to look for."""
        return {
            tp: state.reset_timestamp
            for tp, state in self._states.items()
            if state.reset_timestamp is not None
        }

    def resolve(self, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Answers to ``to_reset``, as (timestamp asked, offset). Late ones are ignored."""
        for tp, (timestamp, offset) in found.items():
            state = self._states.get(tp)
            if state is not None and state.reset_timestamp == timestamp:
                self._move(tp, Place(offset), None)

    # -- new leaders

    def note_leader_epoch(self, topic_partition: TopicPartition, epoch: int) -> None:
        """Metadata said so. With a newer leader than before, the place is in doubt."""
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
        """A leader said where the epoch of the place ends in its log (None: it does not know).

        Returns by how many records the log is shorter than what was read of it: 0 is well. What is
        buffered beyond goes; what was handed out beyond is the caller's to tell. Late responses: 0.
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
        """The brokers cannot say: go on without."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.doubted = False

    # -- fetching

    def fetchable(self) -> dict[TopicPartition, int]:
        """What to fetch from where: place known and not in doubt, room for more of it, neither
        paused nor asked for."""
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
        """The fetch is over, whatever came of it."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.fetching = False

    def is_at(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether an response to a fetch from ``offset`` still matters."""
        state = self._states.get(topic_partition)
        return (
            state is not None
            and state.fetch_place is not None
            and state.fetch_place.offset == offset
            and not state.doubted
        )

    def fetch_place(self, topic_partition: TopicPartition) -> Place:
        """Where the next chunk begins. Only where ``is_at`` or ``fetchable`` has said yes."""
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
        """Take in a chunk that begins at the fetch place; see ``is_at``."""
        state = self._states[topic_partition]
        state.high_watermark = high_watermark
        state.last_stable_offset = last_stable_offset
        state.fetch_place = chunk.end
        if chunk.is_used_up:  # nothing came: its end is its start
            return
        if not state.chunks:
            self._arrived.append(topic_partition)
        state.chunks.append(chunk)
        self.buffered_bytes += chunk.size_bytes
        # To the end: others come first in the next request, which is cut at max_bytes.
        self._states[topic_partition] = self._states.pop(topic_partition)

    # -- handing out

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Hand out records, partition by partition in the order of their arrival.

        Raises KafkaError for bytes that cannot be read, when nothing comes before them: the place
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
                    self._drop_chunks(tp, state)  # fetched again, and told again
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
            state.leader_epoch = NO_EPOCH  # look once more, whoever leads

    def _drop_chunks(self, topic_partition: TopicPartition, state: _State) -> None:
        if state.chunks:
            self.buffered_bytes -= sum(chunk.size_bytes for chunk in state.chunks)
            state.chunks.clear()
            self._arrived.remove(topic_partition)
        state.fetch_place = state.place
