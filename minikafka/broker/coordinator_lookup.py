"""Which broker coordinates a group: who leads its partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from minikafka.broker.auto_topic_creation import Answer
from minikafka.broker.handlers.find_coordinator import NOT_AVAILABLE, CoordinatorType, Found
from minikafka.broker.internal_topic_sizes import InternalTopicSizes
from minikafka.broker.metadata_cache import MetadataCache
from minikafka.core.coordinator_partition import partition_for
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


class TopicCreation(Protocol):
    def create(self, topics: Sequence[str], answer: Answer) -> None: ...


class CoordinatorLookup:
    """``topics``: the internal topic of each type that is coordinated. One that is missing is
    created; the client comes again."""

    def __init__(
        self,
        cache: MetadataCache,
        creation: TopicCreation,
        topics: Mapping[CoordinatorType, str],
        sizes: InternalTopicSizes,
    ) -> None:
        self._cache = cache
        self._creation = creation
        self._topics = topics
        self._sizes = sizes

    def partition_count(self, kind: CoordinatorType) -> int:
        """As many as the topic has; before it exists, as many as it will have."""
        return self._sizes[self._topics[kind]]

    def __call__(self, kind: CoordinatorType, key: str, listener: str) -> Found:
        if kind not in self._topics:
            return NOT_AVAILABLE
        topic = self._topics[kind]
        if not self._cache.contains_topic(topic):
            self._creation.create([topic], _ignore)
            return NOT_AVAILABLE
        partition = TopicPartition(topic, partition_for(key, self.partition_count(kind)))
        leadership = self._cache.partition_leader(partition)
        if leadership is None:
            return NOT_AVAILABLE
        endpoint = self._cache.endpoint(leadership[0], listener)
        if endpoint is None:
            return NOT_AVAILABLE
        return Found(ErrorCode.NONE, leadership[0], endpoint.host, endpoint.port)


def _ignore(errors: Mapping[str, ErrorCode]) -> None:
    """Who asks for a coordinator asks again."""
