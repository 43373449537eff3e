"""The fetchers of one broker: one or more for each broker that leads something we follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.replication.follower_logs import FollowerLogs
from minikafka.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.broker.replication.replica_fetcher import ReplicaFetcher
from minikafka.core.coordinator_partition import java_string_hash
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import Endpoint, TopicPartition
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock
from minikafka.network.channel import Channel

# Opens a connection to (host, port). Raises OSError.
OpenChannel: TypeAlias = Callable[[str, int], Awaitable[Channel]]


class ReplicaFetcherManager:
    """Starts a fetcher with its first partition and ends it with its last.

    The partitions of a source are shared out among ``num.replica.fetchers`` by their names."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        broker_epoch: Callable[[], int],
        logs: FollowerLogs,
        cluster: MetadataCache,
        listener: str,
        open_channel: OpenChannel,
        config: ReplicaFetcherConfig,
    ) -> None:
        self._clock = clock
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._cluster = cluster
        self._listener = listener
        self._open_channel = open_channel
        self._config = config
        self._log = event_log("replica-fetcher", broker=broker_id)
        self._group: asyncio.TaskGroup | None = None
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}  # by source and number
        self._sources: dict[TopicPartition, int] = {}
        self._hints: dict[int, Endpoint] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._group = tasks

    def begin_no_more(self) -> None:
        """The broker is leaving. What is copied goes on; but if it also followed the partitions
        that it hands over, their new leaders would take it back into the ISR. Kafka's
        ReplicaManager looks at ``isShuttingDown`` for this."""
        self._leaving = True

    async def stop(self) -> None:
        """End all fetchers, and start none any more."""
        self._group = None
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._sources.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()  # one may be connecting, which nothing else ends
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._fetchers)

    def source_of(self, topic_partition: TopicPartition) -> int | None:
        """The broker that a partition is copied from."""
        return self._sources.get(topic_partition)

    def fetcher(self, source: int, number: int = 0) -> ReplicaFetcher | None:
        return self._fetchers.get((source, number))

    def _number(self, topic_partition: TopicPartition) -> int:
        """Which of a source's fetchers copies this partition (Kafka's getFetcherId)."""
        topic, partition = topic_partition
        spread = (31 * java_string_hash(topic) + partition) & 0xFFFFFFFF
        return min(spread, (1 << 32) - spread) % self._config.num_replica_fetchers

    def add(
        self,
        source: int,
        topic_partition: TopicPartition,
        state: PartitionFetchState,
        hint: Endpoint | None = None,
    ) -> None:
        """Copy ``topic_partition`` from broker ``source``. ``hint`` is where that one is, in case
        the metadata does not know yet. Nothing happens while shutting down."""
        if self._group is None or self._leaving:
            return
        if hint is not None:
            self._hints[source] = hint
        number = self._number(topic_partition)
        fetcher = self._fetchers.get((source, number))
        if fetcher is None:
            fetcher = self._fetchers[source, number] = ReplicaFetcher(
                source,
                self._broker_id,
                self._broker_epoch,
                self._connect,
                self._logs,
                self._clock,
                self._config,
                self._log,
            )
            task = self._group.create_task(
                fetcher.run(),
                name=f"ReplicaFetcherThread-{number}-{source}-broker-{self._broker_id}",
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._sources[topic_partition] = source
        fetcher.add(topic_partition, state)

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Copy these no longer. What is on its way for them is dropped."""
        for topic_partition in topic_partitions:
            source = self._sources.pop(topic_partition, None)
            if source is None:
                continue
            number = self._number(topic_partition)
            fetcher = self._fetchers.get((source, number))
            if fetcher is None:
                continue  # it had given this partition up by itself, and ended with its last other
            fetcher.remove(topic_partition)
            if not len(fetcher):
                fetcher.stop()
                del self._fetchers[source, number]

    def resume(self, topic_partition: TopicPartition) -> None:
        """What its log was cut by is on disk; nothing happens if it is not copied any more."""
        source = self._sources.get(topic_partition)
        if source is not None:
            fetcher = self._fetchers.get((source, self._number(topic_partition)))
            if fetcher is not None:
                fetcher.resume(topic_partition)

    async def _connect(self, source: int) -> Channel:
        broker = self._cluster.broker(source)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        endpoint = endpoint or self._hints.get(source)
        if endpoint is None:
            raise ConnectionError(f"it is not known where broker {source} is")
        return await self._open_channel(endpoint.host, endpoint.port)
