"""Partitions that moved while a sticky assignment was balanced, so that none moves for nothing."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition


class PartitionMovements:
    """Net movements from member to member, by topic.

    Partitions of one topic are as good as each other: where one went from A to B, another need not
    come from B to A; the first goes home instead. Kafka: ``PartitionMovements``.
    """

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}  # from its first owner to the last
        self._by_way: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def best_to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """What to move from ``source`` to ``target``: one that came the other way, if there is."""
        came = self._by_way.get((partition.topic, target, source))
        return next(iter(came)) if came else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._moved.pop(partition, None)
        if earlier is not None:
            assert earlier[1] == source, "a partition moves on from where it is"
            way = (partition.topic, *earlier)
            del self._by_way[way][partition]
            if not self._by_way[way]:
                del self._by_way[way]
            source = earlier[0]
            if source == target:
                return
        self._moved[partition] = (source, target)
        self._by_way.setdefault((partition.topic, source, target), {})[partition] = None

    @property
    def is_sticky(self) -> bool:
        """No two partitions of a topic changed places."""
        return not any((topic, b, a) in self._by_way for topic, a, b in self._by_way)
