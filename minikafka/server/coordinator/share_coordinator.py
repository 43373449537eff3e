"""The share coordinator: requests about states of share-partitions, snapshots, record deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeAlias
from uuid import UUID

from minikafka.core.metadata_image import MetadataImage
from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.records import SharePartitionKey, ShareRecord
from minikafka.core.share.state_requests import (
    STATE_VERBS,
    StateRequest,
    StateResponse,
    StateVerb,
)
from minikafka.core.share.state_shard import (
    MESSAGES,
    ShareStateAppend,
    ShareStateRequest,
    ShareStateShard,
)
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import Slices
from minikafka.server.coordinator.config import ShareCoordinatorConfig
from minikafka.server.coordinator.ports import InternalLog
from minikafka.server.coordinator.runtime import CoordinatorRuntime, RuntimeConfig

# Deletes the records of a partition of ``__share_group_state`` below an offset.
DeleteRecords: TypeAlias = Callable[[int, int], None]


class ShareCoordinator:
    """The share coordinator of one broker: it keeps the states of the share-partitions whose keys
    are in partitions of ``__share_group_state`` that this broker leads.

    Kafka: ``ShareCoordinatorService``.
    """

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        config: ShareCoordinatorConfig,
        partition_count: Callable[[], int],
        image: Callable[[], MetadataImage],
        delete_records: DeleteRecords,
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._config = config
        self._image = image
        self._delete_records = delete_records
        self.runtime: CoordinatorRuntime[ShareStateShard, ShareRecord, ShareStateAppend, None] = (
            CoordinatorRuntime(
                clock,
                log,
                lambda: ShareStateShard(config.state),
                lambda context, effect: None,
                partition_count,
                RuntimeConfig("share_partitions", config.load_buffer_size, config.compression),
                events,
            )
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.runtime.start(tasks)
        self.runtime.start_task(self._snapshot_forever(), "share-snapshots")
        self.runtime.start_task(self._prune_forever(), "share-state-pruning")

    def close(self) -> None:
        self.runtime.close()
        self.runtime.unload_all()

    # -- requests

    async def serve(self, request: StateRequest) -> StateResponse:
        """Serve one of the five requests about states. The response has a row for each partition.
        As in Kafka it is empty if the group id, or the list of partitions of a topic, is empty."""
        verb = STATE_VERBS[type(request)]
        response = verb.response()
        if not request.group_id or not all(topic.partitions for topic in request.topics):
            return response
        served: list[tuple[UUID, list[asyncio.Future[Any]]]] = []
        slices = Slices()
        async for topic in slices.over(request.topics):
            rows = [
                self._begin(verb, request.group_id, topic.topic_id, row)
                async for row in slices.over(topic.partitions)
            ]
            served.append((topic.topic_id, rows))
        for topic_id, awaited in served:
            response.results.append(verb.topic(topic_id, [await row for row in awaited]))
        return response

    def _begin(
        self, verb: StateVerb, group_id: str, topic_id: UUID, row: Any
    ) -> asyncio.Future[Any]:
        """Return the future row of one partition in the response."""
        settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def respond(response: Any) -> None:
            if not settled.done():  # cancelled when the node stops
                settled.set_result(response)

        key = SharePartitionKey(group_id, TopicIdPartition(topic_id, row.partition))
        try:
            context = self.runtime.require(key.coordinator_key)
        except KafkaError as error:
            message = f"Unable to {verb.act}: {MESSAGES[error.code]}"
            respond(verb.row(row.partition, error.code, message))
            return settled
        request = ShareStateRequest(key, row, self._image(), respond, verb.row)
        context.run(context.shard.handle(verb.decide, request, context.now_ms()))
        return settled

    # -- housekeeping

    def topics_deleted(self, topic_ids: Collection[UUID]) -> None:
        """Forget the states of deleted topics."""
        for context in self.runtime.active():
            context.run(context.shard.delete_topics(topic_ids))

    async def _snapshot_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.state.cold_partition_snapshot_interval_ms)
            for context in self.runtime.active():
                context.run(context.shard.snapshot_cold_partitions(context.now_ms()))

    async def _prune_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.prune_interval_ms)
            for context in self.runtime.active():
                self._delete_records(context.partition, context.shard.redundant_below)
