"""The fetch states of the partitions of one fetcher: which are due, and which have changed."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import TopicPartition


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
