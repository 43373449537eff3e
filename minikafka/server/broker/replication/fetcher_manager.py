"""The replica fetchers of one broker, and the flushes that follow truncations.

There is a fetcher for each broker that leads a partition followed here, or several
(``num.replica.fetchers``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from minikafka.core.coordinator_shard import java_string_hash
from minikafka.core.replication.fetch_session import FINAL_EPOCH
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import Endpoint, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Buffer, Clock
from minikafka.network.channel import Channel
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication.follower_logs import FollowerLogs
from minikafka.server.broker.replication.leader_session import (
    FETCH_VERSION_BY_NAME,
    ReplicaFetcherConfig,
)
from minikafka.server.broker.replication.replica_fetcher import ReplicaFetcher
from minikafka.server.storage.directories.log_manager import LogManager

# Opens a connection to (host, port). Raises OSError.
OpenChannel: TypeAlias = Callable[[str, int], Awaitable[Channel]]


class TruncationFlushes:
    """Flushes truncated logs to disk before the next append.

    Without the flush a power loss could leave truncated records next to their replacements: a log
    that no broker ever had. So a truncated follower does not fetch, and a truncated leader does not
    append, until the flush has ended. Other partitions continue. (Kafka does not wait.)

    ``flushed`` is called with each partition whose log may be appended to again."""

    def __init__(self, logs: LogManager, flushed: Callable[[TopicPartition], None]) -> None:
        self._logs = logs
        self._flushed = flushed
        self._group: asyncio.TaskGroup | None = None
        self._flushes: dict[TopicPartition, asyncio.Task[None]] = {}

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._group = tasks

    async def stop(self) -> None:
        """Cancel all flushes. ``begin`` has no effect afterwards."""
        self._group = None
        tasks = list(self._flushes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flushes.clear()

    def begin(self, topic_partition: TopicPartition) -> None:
        """Start a task that flushes the truncated log, unless one is running."""
        if self._group is not None and topic_partition not in self._flushes:
            self._flushes[topic_partition] = self._group.create_task(
                self._flush(topic_partition), name="truncation-flush"
            )

    async def _flush(self, topic_partition: TopicPartition) -> None:
        """Flush the log until it has no unflushed truncation: it may be truncated again during a
        flush. A log whose disk fails is removed from the log manager, which ends the loop."""
        while (log := self._logs.get(topic_partition)) is not None and log.cut_unflushed:
            await self._logs.flush([log])
        del self._flushes[topic_partition]
        self._flushed(topic_partition)


class ReplicaFetcherManager:
    """Starts, stops and feeds the replica fetchers (Kafka's ``ReplicaFetcherManager``).

    The source of a partition is the broker that leads it. A source's partitions are distributed
    over ``num.replica.fetchers`` fetchers by a hash of the partition's name. A fetcher starts with
    its first partition and stops after its last."""

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
        log_manager: LogManager,
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
        self._shutting_down = False
        self._flushes = TruncationFlushes(log_manager, self._resume)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._group = tasks
        self._flushes.start(tasks)

    def begin_shutdown(self) -> None:
        """Ignore further calls of ``add``; the current partitions continue to be fetched.

        If a stopping broker fetched the partitions that it hands over, their new leaders would add
        it to the ISR again (Kafka: ``ReplicaManager.isShuttingDown``)."""
        self._shutting_down = True

    async def stop(self) -> None:
        """Stop all fetchers and flushes. ``add`` has no effect afterwards."""
        self._group = None
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._sources.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()  # ``fetcher.stop`` does not interrupt a connection attempt
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._flushes.stop()

    def __len__(self) -> int:
        return len(self._fetchers)

    def min_fetch_rate(self, now_ms: int) -> float:
        """Return the responses a second of the fetcher that has the fewest; 0 without fetchers."""
        rates = (fetcher.fetches.per_second(now_ms) for fetcher in self._fetchers.values())
        return min(rates, default=0.0)

    def lag_of(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return the broker from which a partition is fetched, and how many offsets it is behind
        its high watermark; None if that is not known, or it is not fetched."""
        source = self._sources.get(topic_partition)
        if source is None:
            return None
        fetcher = self._fetchers.get((source, self._number(topic_partition)))
        state = None if fetcher is None else fetcher.state_of(topic_partition)
        return None if state is None or state.lag is None else (source, state.lag)

    def lags(self) -> Iterator[tuple[TopicPartition, int, int]]:
        """Iterate over the partitions that are fetched, with their source and how many offsets they
        are behind its high watermark; those whose lag is not known yet are left out."""
        for topic_partition in list(self._sources):
            fetched = self.lag_of(topic_partition)
            if fetched is not None:
                yield topic_partition, *fetched

    @property
    def failing_count(self) -> int:
        """The number of partitions whose last fetch has failed."""
        states = (
            fetcher.state_of(topic_partition)
            for topic_partition, source in self._sources.items()
            if (fetcher := self._fetchers.get((source, self._number(topic_partition))))
        )
        return sum(state is not None and state.failures > 0 for state in states)

    def source_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the broker from which the partition is fetched; None if it is not fetched."""
        return self._sources.get(topic_partition)

    def fetcher(self, source: int, number: int = 0) -> ReplicaFetcher | None:
        return self._fetchers.get((source, number))

    def _number(self, topic_partition: TopicPartition) -> int:
        """Return the index of the source's fetcher for this partition (``getFetcherId``)."""
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
        """Fetch ``topic_partition`` from broker ``source``, unless this broker is shutting down.
        ``hint`` is the address of the source, used while the metadata cache has none."""
        if self._group is None or self._shutting_down:
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
                self._flushes.begin,
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

    def set_topic_id(self, topic_partition: TopicPartition, topic_id: UUID | None) -> None:
        """Request this partition by its topic id from now on, or by name if it is None."""
        source = self._sources.get(topic_partition)
        if source is None:
            return
        fetcher = self._fetchers.get((source, self._number(topic_partition)))
        if fetcher is not None:
            fetcher.set_topic_id(topic_partition, topic_id)

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions. Responses in flight are ignored for them."""
        for topic_partition in topic_partitions:
            source = self._sources.pop(topic_partition, None)
            if source is None:
                continue
            number = self._number(topic_partition)
            fetcher = self._fetchers.get((source, number))
            if fetcher is None:
                continue  # the fetcher gave this partition up before, and stopped after its last
            fetcher.remove(topic_partition)
            if not len(fetcher):
                fetcher.stop()
                del self._fetchers[source, number]

    async def read_once(
        self, source: int, topic_partition: TopicPartition, leader_epoch: int, offset: int
    ) -> Buffer:
        """Return the committed records of ``source`` from ``offset`` on, at most
        ``replica.fetch.max.bytes`` or one batch. The request is a consumer's, so that the offset is
        not taken for this replica's log end. Raises OSError, also for an error response."""
        topic, number = topic_partition
        config = self._config
        wanted = FetchPartition(
            partition=number,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=config.replica_fetch_max_bytes,
        )
        request = FetchRequest(
            max_bytes=config.replica_fetch_max_bytes,
            session_epoch=FINAL_EPOCH,  # without a session
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        version = min(config.inter_broker_protocol.fetch_version, FETCH_VERSION_BY_NAME)
        channel = await self._connect(source)
        try:
            response: FetchResponse = await channel.request(
                request, version, config.replica_socket_timeout_ms
            )
        finally:
            channel.close()
        rows = [row for topic in response.responses for row in topic.partitions]
        if not rows:
            raise ConnectionError("its response lacks the partition")
        if code := response.error_code or rows[0].error_code:
            raise ConnectionError(f"it refused the fetch with {ErrorCode(code).name}")
        return rows[0].records or b""

    def flush_truncation(self, topic_partition: TopicPartition) -> None:
        """Start the flush of a truncated log. Afterwards its fetches resume, if it is fetched."""
        self._flushes.begin(topic_partition)

    def _resume(self, topic_partition: TopicPartition) -> None:
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
            raise ConnectionError(f"the address of broker {source} is not known")
        return await self._open_channel(endpoint.host, endpoint.port)
