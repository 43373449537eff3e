"""Topic creations and deletions that wait for the metadata cache to show them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.broker.metadata_cache import MetadataCache
from minikafka.broker.timer_driver import Reaper
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition

# Topics that had not got there when time ran out; empty when all is well.
Done: TypeAlias = Callable[[list[str]], None]


class DelayedCreatePartitions(DelayedOperation):
    """Complete when (A) every partition of every topic has a leader here; or, by expiry, (B) the
    topics that lack one are named. Watches the topics' names.

    ``topics``: how many partitions each must have, from 0 on.
    """

    __slots__ = ("_cache", "_done", "_topics")

    def __init__(
        self, delay_ms: int, topics: Mapping[str, int], cache: MetadataCache, done: Done
    ) -> None:
        super().__init__(delay_ms)
        self._topics = topics
        self._cache = cache
        self._done = done

    def try_complete(self) -> bool:
        return not self._lacking() and self.force_complete()  # case A

    def on_complete(self) -> None:
        self._done(self._lacking())

    def on_expiration(self) -> None:
        """Case B: ``on_complete`` has said it."""

    def watched_keys(self) -> Iterable[str]:
        return self._topics

    def _lacking(self) -> list[str]:
        return [
            topic
            for topic, partitions in self._topics.items()
            if not all(self._has_leader(topic, p) for p in range(partitions))
        ]

    def _has_leader(self, topic: str, partition: int) -> bool:
        state = self._cache.partition(TopicPartition(topic, partition))
        return state is not None and state.has_leader


class DelayedDeleteTopics(DelayedOperation):
    """Complete when (A) none of the topics is here any more; or, by expiry, (B) those still here
    are named. Watches the topics' names."""

    __slots__ = ("_cache", "_done", "_topics")

    def __init__(self, delay_ms: int, topics: list[str], cache: MetadataCache, done: Done) -> None:
        super().__init__(delay_ms)
        self._topics = topics
        self._cache = cache
        self._done = done

    def try_complete(self) -> bool:
        return not self._remaining() and self.force_complete()  # case A

    def on_complete(self) -> None:
        self._done(self._remaining())

    def on_expiration(self) -> None:
        """Case B: ``on_complete`` has said it."""

    def watched_keys(self) -> Iterable[str]:
        return self._topics

    def _remaining(self) -> list[str]:
        return [topic for topic in self._topics if self._cache.contains_topic(topic)]


def parked(
    reaper: Reaper[DelayedOperation],
    make: Callable[[Done], DelayedOperation],
    topics: Sequence[str],
) -> Awaitable[list[str]]:
    """Park what ``make`` makes, watching these topics; ends with what its ``Done`` is told."""
    ended: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    def done(not_there: list[str]) -> None:
        if not ended.done():  # cancelled with the node
            ended.set_result(not_there)

    reaper.try_complete_else_watch(make(done), topics)
    return ended


async def await_leaders(
    reaper: Reaper[DelayedOperation],
    cache: MetadataCache,
    topics: Mapping[str, int],
    timeout_ms: int,
) -> list[str]:
    """Those of the topics (with their numbers of partitions) that did not get all their leaders in
    time; with 0 or less nobody waits, and it is all of them."""
    if timeout_ms <= 0:
        return list(topics)
    return await parked(
        reaper,
        lambda done: DelayedCreatePartitions(timeout_ms, topics, cache, done),
        list(topics),
    )
