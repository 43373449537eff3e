"""The partitions this broker hosts, and why it does not serve the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.replication.partition import Partition
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


class HostedPartitions:
    """A partition is online here, offline (its disk failed), or not here. ``on_offline`` hears of
    those whose disk failed: nobody else tells that this broker leads them no more."""

    def __init__(self, cluster: MetadataCache) -> None:
        self.on_offline: Callable[[TopicPartition], None] | None = None
        self._cluster = cluster
        self._online: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, UUID | None] = {}  # and the ids of their topics
        self._topics: dict[UUID, set[TopicPartition]] = {}  # never empty sets

    def __iter__(self) -> Iterator[Partition]:
        """The online ones, in the order in which they came."""
        return iter(list(self._online.values()))

    def __len__(self) -> int:
        return len(self._online)

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._online.get(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def error_for(self, topic_partition: TopicPartition) -> ErrorCode:
        """What to answer where ``get`` returns None. A partition that exists elsewhere is
        NOT_LEADER_OR_FOLLOWER: the client has to look for it anew."""
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._cluster.contains(topic_partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """0 for a partition that is not served here."""
        partition = self._online.get(topic_partition)
        return 0 if partition is None else partition.high_watermark

    def stable_offset(self, topic_partition: TopicPartition) -> int | None:
        """Up to where it is committed and decided; None for one that is not served here."""
        partition = self._online.get(topic_partition)
        return None if partition is None else partition.last_stable_offset

    def require(self, topic_partition: TopicPartition) -> Partition:
        """Raises KafkaError with ``error_for``."""
        partition = self._online.get(topic_partition)
        if partition is None:
            raise KafkaError(self.error_for(topic_partition))
        return partition

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic hosted here or known of. A leader may be asked by its followers
        before it has heard of the topic by UpdateMetadata; it knows its own partitions."""
        for topic_partition in self._topics.get(topic_id, ()):
            return topic_partition.topic
        return self._cluster.topic_name(topic_id)

    def add(self, partition: Partition) -> None:
        self._online[partition.topic_partition] = partition

    def identify(self, partition: Partition, topic_id: UUID) -> None:
        """``partition`` belongs to the topic of this id."""
        partition.topic_id = topic_id
        self._topics.setdefault(topic_id, set()).add(partition.topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Forget a partition, online or offline; returns the online one, which is closed."""
        topic_id = self._offline.pop(topic_partition, None)
        partition = self._online.pop(topic_partition, None)
        if partition is not None:
            topic_id = partition.topic_id
            partition.close()
        if topic_id is not None:
            of_topic = self._topics[topic_id]
            of_topic.discard(topic_partition)
            if not of_topic:
                del self._topics[topic_id]
        return partition

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Its disk failed: nothing of it is served until the broker is restarted."""
        partition = self._online.pop(topic_partition, None)
        if partition is not None:
            partition.close()
            self._offline[topic_partition] = partition.topic_id
        self._offline.setdefault(topic_partition, None)
        if self.on_offline is not None:
            self.on_offline(topic_partition)
