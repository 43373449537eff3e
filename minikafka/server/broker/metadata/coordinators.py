"""The lookup of coordinators by the partitions of the internal topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeAlias

from minikafka.core.coordinator_shard import partition_for
from minikafka.kernel.cluster import NO_LEADER, CoordinatorType, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.zookeeper.requests import MalformedZnode

RETRY_MS = 500

# Reads a topic's number of partitions from ZooKeeper; None if there is no such topic. Raises
# CoordinationError, MalformedZnode.
ReadPartitionCount: TypeAlias = Callable[[str], Awaitable[int | None]]


class InternalTopicSizes:
    """The numbers of partitions of the internal topics.

    A group's partition is its hash modulo this number, so that the number must be the same at all
    times on all brokers. It is read from ZooKeeper before this broker first serves a partition of
    the topic, and then kept. Do not use the metadata cache: it may be incomplete, and a lookup with
    too small a number would lose the group's commits.

    Partitions that are added later take effect after a restart, as in Kafka, which reads the number
    once (``GroupMetadataManager.retrieveGroupMetadataTopicPartitionCount``). Kafka reads it at its
    start, and misses a topic that is created by hand afterwards.

    ``configured`` has the numbers of topics that do not exist yet. ``is_known`` returns whether the
    metadata cache has a topic.
    """

    def __init__(
        self,
        configured: Mapping[str, int],
        is_known: Callable[[str], bool],
        read: ReadPartitionCount,
        clock: Clock,
        log: EventLog | None = None,
    ) -> None:
        self._configured = configured
        self._sizes = dict(configured)
        self._is_known = is_known
        self._read = read
        self._clock = clock
        self._log = log or event_log("internal-topics")

    def __getitem__(self, topic: str) -> int:
        return self._sizes[topic]

    async def learn(self, topics: Collection[str]) -> None:
        """Read the sizes of the internal topics among ``topics``, before a controller request about
        them is applied. Retries while ZooKeeper is unreachable: with a wrong number the coordinator
        would serve the wrong groups."""
        for topic in self._sizes:
            if topic in topics and not self._is_known(topic):
                self._sizes[topic] = await self._read_patiently(topic)

    async def _read_patiently(self, topic: str) -> int:
        while True:
            try:
                return await self._read(topic) or self._configured[topic]
            except NoAuth:
                raise
            except CoordinationError as error:
                self._log.warning("partition_count_read_failed", topic=topic, error=repr(error))
                await self._clock.sleep(RETRY_MS)
            except MalformedZnode as error:  # the controller has read it; it broke just now
                self._log.error("partition_count_malformed", topic=topic, error=str(error))
                return self._sizes[topic]


@dataclass(frozen=True, slots=True)
class Found:
    """The broker that coordinates a key and its address, or the error of the lookup."""

    error: ErrorCode = ErrorCode.NONE
    node_id: int = -1
    host: str = ""
    port: int = -1

    @property
    def message(self) -> str | None:
        return None if self.error is ErrorCode.NONE else self.error.name


NOT_AVAILABLE = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class CoordinatorLookup:
    """Finds coordinators. ``topics`` maps each type of coordinator to its internal topic."""

    def __init__(
        self,
        cache: MetadataCache,
        topics: Mapping[CoordinatorType, str],
        sizes: InternalTopicSizes,
    ) -> None:
        self._cache = cache
        self._topics = topics
        self._sizes = sizes

    def partition_count(self, kind: CoordinatorType) -> int:
        """Return the number of partitions of the internal topic: the configured number before the
        topic exists."""
        return self._sizes[self._topics[kind]]

    def missing_topic(self, kind: CoordinatorType) -> str | None:
        """Return the internal topic of this type if the metadata cache lacks it, otherwise None."""
        topic = self._topics[kind]
        return None if self._cache.contains_topic(topic) else topic

    def broker(self, kind: CoordinatorType, key: str) -> int | None:
        """Return the broker that coordinates ``key``; None while none is known."""
        partition = TopicPartition(
            self._topics[kind], partition_for(key, self.partition_count(kind))
        )
        leadership = self._cache.partition_leader(partition)
        return None if leadership is None or leadership[0] == NO_LEADER else leadership[0]

    def find(self, kind: CoordinatorType, key: str, listener: str) -> Found:
        """Find the broker that coordinates ``key``, with its address on ``listener``."""
        broker = self.broker(kind, key)
        endpoint = None if broker is None else self._cache.endpoint(broker, listener)
        if broker is None or endpoint is None:
            return NOT_AVAILABLE
        return Found(ErrorCode.NONE, broker, endpoint.host, endpoint.port)
