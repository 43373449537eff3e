"""ElectLeaders: the controller's election, and the wait until the metadata cache shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from minikafka.core.metadata_image import MetadataImage, Partitions
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.server.broker.admin.metadata_waits import DelayedUntilVisible, missing_after
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.purgatories import Reaper


class DelayedElectLeader(DelayedUntilVisible[TopicPartition]):
    """A delayed operation that waits until the metadata cache has shown each partition's new leader
    at least once; a later change of leader does not matter.

    An election may name every partition of a cluster, and is tried for each topic that an
    UpdateMetadata names. So an image is looked at once, and in it only the topics that changed."""

    __slots__ = ("_cache", "_image", "_seen", "_waiting")

    def __init__(
        self, delay_ms: int, leaders: Mapping[TopicPartition, int], cache: MetadataCache
    ) -> None:
        self._waiting: dict[str, dict[int, int]] = {}  # the leaders by topic and partition
        for (topic, partition), leader in leaders.items():
            self._waiting.setdefault(topic, {})[partition] = leader
        super().__init__(delay_ms, sorted(self._waiting))
        self._cache = cache
        self._image: MetadataImage | None = None  # the last one that was looked at
        self._seen: dict[str, Partitions] = {}  # the waiting topics as they were in it

    def try_complete(self) -> bool:
        self._look()
        return not self._waiting and self.force_complete()

    def _missing(self) -> list[TopicPartition]:
        self._look()
        return [TopicPartition(topic, p) for topic, left in self._waiting.items() for p in left]

    def _look(self) -> None:
        image = self._cache.image
        if image is self._image:
            return
        self._image = image
        for topic, leaders in list(self._waiting.items()):
            partitions = image.topics.get(topic)
            if partitions is None or partitions is self._seen.get(topic):
                continue
            self._seen[topic] = partitions
            for partition, leader in list(leaders.items()):
                known = partitions.get(partition)
                if known is not None and known.leader == leader:
                    del leaders[partition]
            if not leaders:
                del self._waiting[topic]


class LeaderElectionAdmin:
    """Kafka's ``ReplicaManager.electLeaders``, with the ``ElectLeader`` purgatory."""

    def __init__(
        self,
        controller: Controller,
        cache: MetadataCache,
        reaper: Reaper[DelayedOperation],
    ) -> None:
        self._controller = controller
        self._cache = cache
        self._reaper = reaper

    def topic_changed(self, topic: str) -> None:
        """Try the delayed operations that wait for ``topic``, after the metadata cache changed."""
        self._reaper.check_and_complete(topic)

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Yield all partitions that are now in the metadata cache, sorted."""
        topics = self._cache.image.topics
        return (
            TopicPartition(topic, number)
            for topic in sorted(topics)
            for number in sorted(topics[topic])
        )

    async def elect(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, timeout_ms: int
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders, and wait until the metadata cache shows them.

        Returns the error of each partition, None after a success. REQUEST_TIMED_OUT means that the
        leader was elected, but is not in the cache after ``timeout_ms``."""
        try:
            elected = await self._controller.elect_leaders(partitions, election_type)
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        results: dict[TopicPartition, KafkaError | None] = {}
        leaders: dict[TopicPartition, int] = {}
        async for tp, outcome in in_slices(elected.items()):
            if isinstance(outcome, KafkaError):
                results[tp] = outcome
            else:
                results[tp] = None
                leaders[tp] = outcome
        if leaders:
            operation = DelayedElectLeader(max(0, timeout_ms), leaders, self._cache)
            late = await missing_after(self._reaper, operation)
            results.update(dict.fromkeys(late, KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
        return results
