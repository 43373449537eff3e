"""UpdateMetadata (key 6): the controller changes what this broker knows of the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias
from uuid import UUID

from minikafka.core.metadata_image import MetadataUpdate, update_steps
from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.slices import in_slices, run_in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence, EntryRefusals
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota

# Called with partitions that were deleted.
PartitionsDeleted: TypeAlias = Callable[[Sequence[TopicPartition]], None]


class UpdateMetadataHandler:
    """Serves UpdateMetadata (a ``TaskHandler``).

    ``get_ready`` is awaited with the topics of the request before the cache is updated. The next
    image of the cache is computed in slices, between which other requests are served from the
    current one, and replaces it at once unless a newer order has been applied meanwhile.
    Afterwards ``topic_changed`` is called for each of them, to complete operations that wait for
    a topic, and ``brokers_changed`` if other brokers are live than before. ``drop_strays``
    removes replicas that were reassigned while this broker was away."""

    def __init__(
        self,
        cache: MetadataCache,
        fence: ControllerFence,
        topic_changed: Callable[[str], None],
        partitions_deleted: PartitionsDeleted | None = None,
        brokers_changed: Callable[[], None] | None = None,
        drop_strays: Callable[[UpdateMetadataRequest], Awaitable[None]] | None = None,
        get_ready: Callable[[Collection[str]], Awaitable[None]] | None = None,
        topics_deleted: Callable[[Collection[UUID]], None] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._cache = cache
        self._fence = fence
        self._topic_changed = topic_changed
        self._partitions_deleted = partitions_deleted
        self._brokers_changed = brokers_changed
        self._drop_strays = drop_strays
        self._get_ready = get_ready
        self._topics_deleted = topics_deleted
        self._log = log or event_log("state-change")
        self._refusals = EntryRefusals(self._fence.broker_id)

    async def __call__(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        order = self._fence.arrived("UpdateMetadata", request, context.client_host)
        stale = order.staleness()
        if stale is not ErrorCode.NONE:  # before the entries are read: there may be 100,000
            return UpdateMetadataResponse(error_code=stale)
        topics = await self._refusals.drop_metadata(request)
        if self._get_ready is not None:
            await self._get_ready(topics)
        while True:
            steps = update_steps(self._cache.image, request)
            update = await run_in_slices(steps)
            error = order.refusal()
            if error is not ErrorCode.NONE:
                return UpdateMetadataResponse(error_code=error)
            if update.before is self._cache.image:
                break  # otherwise an earlier order has been applied meanwhile
        self._cache.replace(update, request)
        await self._after(update, request, topics)
        return UpdateMetadataResponse()

    async def _after(
        self, update: MetadataUpdate, request: UpdateMetadataRequest, topics: Sequence[str]
    ) -> None:
        self._log.info(
            "metadata_updated",
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            brokers=len(request.live_brokers),
            topics=len(topics),
            deleted_partitions=len(update.deleted),
        )
        if update.deleted and self._partitions_deleted is not None:
            self._partitions_deleted(update.deleted)
        if update.deleted and self._topics_deleted is not None:
            self._topics_deleted(update.deleted_topic_ids)
        if (
            self._brokers_changed is not None
            and update.after.brokers.keys() != update.before.brokers.keys()
        ):
            self._brokers_changed()
        await run_in_slices(self._cache.report_different_listeners())
        async for topic in in_slices(topics):
            self._topic_changed(topic)
        if self._drop_strays is not None:
            await self._drop_strays(request)


UPDATE_METADATA = Api(
    key=ApiKey.UPDATE_METADATA,
    handler=lambda broker: UpdateMetadataHandler(
        broker.cache,
        broker.fence,
        broker.topic_changed,
        broker.groups.partitions_deleted,
        brokers_changed=broker.replicas.deletion.brokers_changed,
        drop_strays=broker.stray_replicas.drop,
        get_ready=broker.internal_sizes.learn,
        topics_deleted=broker.share_states.topics_deleted,
    ),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.EXEMPT,
    changes_state=True,
    senders=Senders.BROKERS,
)
