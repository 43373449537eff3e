"""Elections on request: the controller holds them, the metadata cache shows when they are done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.ports import Controller
from minikafka.broker.reaper import Reaper
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

# Partitions whose new leader was not seen when time ran out; empty when all is well.
Done: TypeAlias = Callable[[list[TopicPartition]], None]


class DelayedElectLeader(DelayedOperation):
    """Complete when (A) every partition has been seen here under its new leader, be it only for a
    while; or, by expiry, (B) those that were not are named. Watches the topics' names."""

    __slots__ = ("_cache", "_done", "_topics", "_waiting")

    def __init__(
        self,
        delay_ms: int,
        leaders: Mapping[TopicPartition, int],
        cache: MetadataCache,
        done: Done,
    ) -> None:
        super().__init__(delay_ms)
        self._waiting = dict(leaders)
        self._topics = sorted({tp.topic for tp in leaders})
        self._cache = cache
        self._done = done

    def try_complete(self) -> bool:
        self._look()
        return not self._waiting and self.force_complete()  # case A

    def on_complete(self) -> None:
        self._look()
        self._done(list(self._waiting))

    def on_expiration(self) -> None:
        """Case B: ``on_complete`` has said it."""

    def watched_keys(self) -> Iterable[str]:
        return self._topics

    def _look(self) -> None:
        for partition, leader in list(self._waiting.items()):
            known = self._cache.partition_leader(partition)
            if known is not None and known[0] == leader:
                del self._waiting[partition]


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
        """The metadata cache has news of the topic: who waits for its leaders looks again."""
        self._reaper.check_and_complete(topic)

    def all_partitions(self) -> list[TopicPartition]:
        """As far as this broker knows, in order."""
        cache = self._cache
        return [
            TopicPartition(topic, number)
            for topic in cache.topics()
            for number in sorted(cache.partitions(topic))
        ]

    async def elect(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, timeout_ms: int
    ) -> dict[TopicPartition, KafkaError | None]:
        """None for those that were elected and that this broker's clients are told of;
        REQUEST_TIMED_OUT for those that were, but are not in effect within ``timeout_ms``."""
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
            late = await self._seen(leaders, max(0, timeout_ms))
            results.update(dict.fromkeys(late, KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
        return results

    def _seen(
        self, leaders: Mapping[TopicPartition, int], timeout_ms: int
    ) -> asyncio.Future[list[TopicPartition]]:
        ended: asyncio.Future[list[TopicPartition]] = asyncio.get_running_loop().create_future()

        def done(late: list[TopicPartition]) -> None:
            if not ended.done():  # cancelled with the node
                ended.set_result(late)

        operation = DelayedElectLeader(timeout_ms, leaders, self._cache, done)
        self._reaper.try_complete_else_watch(operation, list(operation.watched_keys()))
        return ended
