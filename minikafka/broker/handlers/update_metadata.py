"""UpdateMetadata (key 6): the controller fills this broker's metadata cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

from minikafka.broker.context import RequestContext
from minikafka.broker.controller_fence import ControllerFence
from minikafka.broker.metadata_cache import MetadataCache
from minikafka.core.metadata_image import topics_of
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog, event_log
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

# Hears of partitions that are gone.
PartitionsDeleted: TypeAlias = Callable[[Sequence[TopicPartition]], None]


class UpdateMetadataHandler:
    """A TaskHandler. ``topic_changed`` is called for every topic that the request says something
    of, after the cache has taken it over: who waits for a topic to come or go looks again.
    ``get_ready`` is awaited, with the same topics, before that. ``brokers_changed`` hears of
    brokers that came or went. ``drop_strays`` removes what this broker still hosts of partitions
    that went elsewhere while it was away."""

    def __init__(
        self,
        cache: MetadataCache,
        fence: ControllerFence,
        topic_changed: Callable[[str], None],
        partitions_deleted: PartitionsDeleted | None = None,
        brokers_changed: Callable[[], None] | None = None,
        drop_strays: Callable[[UpdateMetadataRequest], Awaitable[None]] | None = None,
        get_ready: Callable[[Collection[str]], Awaitable[None]] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._cache = cache
        self._fence = fence
        self._topic_changed = topic_changed
        self._partitions_deleted = partitions_deleted
        self._brokers_changed = brokers_changed
        self._drop_strays = drop_strays
        self._get_ready = get_ready
        self._log = log or event_log("state-change")

    async def __call__(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        topics = topics_of(request)
        number = self._fence.arrived()
        if self._get_ready is not None:
            await self._get_ready(topics)
        error = self._fence.check(
            "UpdateMetadata",
            request.controller_id,
            request.controller_epoch,
            request.broker_epoch,
            number,
        )
        if error is not ErrorCode.NONE:
            return UpdateMetadataResponse(error_code=error)
        alive = self._cache.image.brokers.keys()
        deleted = self._cache.update(request)
        self._log.info(
            "metadata_updated",
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            brokers=len(request.live_brokers),
            topics=len(topics),
            deleted_partitions=len(deleted),
        )
        if deleted and self._partitions_deleted is not None:
            self._partitions_deleted(deleted)
        if self._brokers_changed is not None and self._cache.image.brokers.keys() != alive:
            self._brokers_changed()
        for topic in topics:
            self._topic_changed(topic)
        if self._drop_strays is not None:
            await self._drop_strays(request)
        return UpdateMetadataResponse()
