"""UpdateMetadata (key 6): the controller fills this broker's metadata cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from minikafka.broker.context import RequestContext
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


class EpochCheck(Protocol):
    """The one door for requests of controllers."""

    def __call__(
        self, api: str, controller_id: int, controller_epoch: int, broker_epoch: int
    ) -> ErrorCode: ...


class UpdateMetadataHandler:
    """A TaskHandler. ``topic_changed`` is called for every topic that the request says something
    of, after the cache has taken it over: who waits for a topic to come or go looks again.
    ``brokers_changed`` hears of brokers that came or went. ``drop_strays`` removes what this broker
    still hosts of partitions that went elsewhere while it was away."""

    def __init__(
        self,
        cache: MetadataCache,
        check_epochs: EpochCheck,
        topic_changed: Callable[[str], None],
        partitions_deleted: PartitionsDeleted | None = None,
        brokers_changed: Callable[[], None] | None = None,
        drop_strays: Callable[[UpdateMetadataRequest], Awaitable[None]] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._cache = cache
        self._check_epochs = check_epochs
        self._topic_changed = topic_changed
        self._partitions_deleted = partitions_deleted
        self._brokers_changed = brokers_changed
        self._drop_strays = drop_strays
        self._log = log or event_log("state-change")

    async def __call__(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        error = self._check_epochs(
            "UpdateMetadata", request.controller_id, request.controller_epoch, request.broker_epoch
        )
        if error is not ErrorCode.NONE:
            return UpdateMetadataResponse(error_code=error)
        alive = self._cache.image.brokers.keys()
        deleted = self._cache.update(request)
        topics = topics_of(request)
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
