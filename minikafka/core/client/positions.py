"""Where a consumer stands in each of its partitions, and what it has fetched but not handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.core.client.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


@dataclass(slots=True)
class _State:
    """One partition. ``position`` is the next offset to hand out, None while it is looked up by
    ``reset_timestamp``. ``next_position`` follows the records in ``buffered``."""

    position: int | None = None
    reset_timestamp: int | None = None
    paused: bool = False
    fetching: bool = False
    buffered: deque[ConsumerRecord] = field(default_factory=deque)
    next_position: int = 0
    high_watermark: int = -1


class Positions:
    """The partitions assigned to one consumer (Kafka's ``SubscriptionState`` and fetch buffer).

    At most one fetch's records are held per partition: it is fetched again when they are gone.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, _State] = {}
        self._completed: deque[TopicPartition] = deque()  # those with something buffered

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self._states)

    def assign(self, partitions: Iterable[TopicPartition], reset_timestamp: int | None) -> None:
        """Replace the assignment. Partitions kept go on; new ones start by ``reset_timestamp``."""
        old = self._states
        self._states = {
            tp: old.get(tp) or _State(reset_timestamp=reset_timestamp) for tp in partitions
        }
        self._completed = deque(tp for tp in self._completed if tp in self._states)

    def position(self, topic_partition: TopicPartition) -> int | None:
        """The next offset to hand out, None while unknown. Raises KeyError when not assigned."""
        return self._states[topic_partition].position

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """As of the last fetch; -1 before it. Raises KeyError when not assigned."""
        return self._states[topic_partition].high_watermark

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on from ``offset``; drops what is buffered. Raises KeyError when not assigned."""
        self._move(topic_partition, offset, None)

    def reset(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Go on from where ``timestamp`` is: EARLIEST, LATEST, or milliseconds since 1970."""
        self._move(topic_partition, None, timestamp)

    def pause(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].paused = True

    def resume(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].paused = False

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
                self._move(tp, offset, None)

    def fetchable(self) -> dict[TopicPartition, int]:
        """What to fetch from where: known position, nothing buffered, neither paused nor asked."""
        return {
            tp: state.position
            for tp, state in self._states.items()
            if state.position is not None
            and not state.paused
            and not state.fetching
            and not state.buffered
        }

    def fetch_sent(self, topic_partition: TopicPartition) -> None:
        self._states[topic_partition].fetching = True

    def fetch_done(self, topic_partition: TopicPartition) -> None:
        """The fetch is over, whatever came of it."""
        state = self._states.get(topic_partition)
        if state is not None:
            state.fetching = False

    def is_at(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether an answer to a fetch from ``offset`` still matters."""
        state = self._states.get(topic_partition)
        return state is not None and state.position == offset and not state.buffered

    def fetched(
        self,
        topic_partition: TopicPartition,
        records: Iterable[ConsumerRecord],
        next_position: int,
        high_watermark: int,
    ) -> None:
        """Buffer the records of a fetch from the current position; see ``is_at``."""
        state = self._states[topic_partition]
        assert state.position is not None
        assert not state.buffered
        state.high_watermark = high_watermark
        state.next_position = next_position
        state.buffered.extend(records)
        if state.buffered:
            self._completed.append(topic_partition)
            # To the end: others come first in the next request, which is cut at max_bytes.
            self._states[topic_partition] = self._states.pop(topic_partition)
        else:
            state.position = next_position

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Hand out buffered records, partition by partition in the order of their arrival."""
        taken: list[ConsumerRecord] = []
        waiting: list[TopicPartition] = []
        while self._completed and len(taken) < max_records:
            tp = self._completed.popleft()
            state = self._states[tp]
            if state.paused:
                waiting.append(tp)
                continue
            buffered = state.buffered
            room = max_records - len(taken)
            if len(buffered) <= room:
                taken.extend(buffered)
                buffered.clear()
                state.position = state.next_position
            else:
                taken.extend(buffered.popleft() for _ in range(room))
                state.position = buffered[0].offset
                self._completed.appendleft(tp)
        self._completed.extendleft(reversed(waiting))
        return taken

    def _move(
        self, topic_partition: TopicPartition, position: int | None, timestamp: int | None
    ) -> None:
        state = self._states[topic_partition]
        state.position = position
        state.reset_timestamp = timestamp
        if state.buffered:
            state.buffered.clear()
            self._completed.remove(topic_partition)
