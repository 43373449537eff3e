"""Elected leaders that are waited for until the metadata cache shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from minikafka.broker.metadata_cache import MetadataCache
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition

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
