"""ElectLeaders: the controller's election, and the wait until the metadata cache shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minikafka.broker.admin.metadata_waits import DelayedUntilVisible, missing_after
from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.ports import Controller
from minikafka.broker.purgatories import Reaper
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


class DelayedElectLeader(DelayedUntilVisible[TopicPartition]):
    """A delayed operation that waits until the metadata cache has shown each partition's new leader
    at least once; a later change of leader does not matter."""

    __slots__ = ("_cache", "_waiting")

    def __init__(
        self, delay_ms: int, leaders: Mapping[TopicPartition, int], cache: MetadataCache
    ) -> None:
        super().__init__(delay_ms, sorted({tp.topic for tp in leaders}))
        self._waiting = dict(leaders)
        self._cache = cache

    def _missing(self) -> list[TopicPartition]:
        for partition, leader in list(self._waiting.items()):
            known = self._cache.partition_leader(partition)
            if known is not None and known[0] == leader:
                del self._waiting[partition]
        return list(self._waiting)


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

    def all_partitions(self) -> list[TopicPartition]:
        """Return all partitions in the metadata cache, sorted."""
        cache = self._cache
        return [
            TopicPartition(topic, number)
            for topic in cache.topics()
            for number in sorted(cache.partitions(topic))
        ]

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
        results: dict[TopicPartition, KafkaError | None] = {
            tp: outcome if isinstance(outcome, KafkaError) else None
            for tp, outcome in elected.items()
        }
        leaders = {
            tp: leader for tp, leader in elected.items() if not isinstance(leader, KafkaError)
        }
        if leaders:
            operation = DelayedElectLeader(max(0, timeout_ms), leaders, self._cache)
            late = await missing_after(self._reaper, operation)
            results.update(dict.fromkeys(late, KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
        return results
