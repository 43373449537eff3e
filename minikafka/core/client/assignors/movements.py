"""Partitions that moved while a sticky assignment was balanced, to avoid unnecessary moves."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition


class PartitionMovements:
    """Net movements from member to member, by topic.

    Partitions of one topic are interchangeable: where one moved from A to B, another one need not
    move from B to A; the first one moves back instead. Kafka: ``PartitionMovements``.
    """

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}  # from its first owner to the last
        self._by_way: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def best_to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move from ``source`` to ``target`` instead of ``partition``, or
        it.

        If another partition of the topic has moved from ``target`` to the first owner of
        ``partition``, moving that one back avoids that the two partitions change places. The first
        owner is ``source`` unless ``partition`` has moved before. Kafka:
        ``getTheActualPartitionToBeMoved``.
        """
        first_owner, _ = self._moved.get(partition, (source, target))
        came = self._by_way.get((partition.topic, target, first_owner))
        return next(iter(came)) if came else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record that ``partition`` moves. Moves of one partition are merged; a return home deletes
        them."""
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
        """Whether no two partitions of a topic have changed places between two members."""
        return not any((topic, b, a) in self._by_way for topic, a, b in self._by_way)
