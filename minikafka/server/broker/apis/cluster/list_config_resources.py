"""ListConfigResources (key 74): the resources that have configurations (KIP-714, KIP-1142)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from minikafka.core.config_resources import ResourceType
from minikafka.core.security.acls import AclOperation
from minikafka.core.security.client_quotas import desanitized
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import CoordinationError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from minikafka.server.broker.admin.named_resources import NAMED_RESOURCES
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota
from minikafka.server.zookeeper.store import ZkStore

# What each version may list, in the order of Kafka's response.
_ONLY_CLIENT_METRICS: Final = (ResourceType.CLIENT_METRICS,)
_ALL: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


class ListConfigResourcesHandler:
    """Serves ListConfigResources (a ``TaskHandler``). Named resources are those in ZooKeeper, so
    that one which was just made is in the list of every broker."""

    def __init__(self, cache: MetadataCache, store: Callable[[], ZkStore]) -> None:
        self._cache = cache
        self._store = store

    async def __call__(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        """Raises KafkaError: UNSUPPORTED_VERSION for a type that the version does not have."""
        supported = _ALL if context.version > 0 else _ONLY_CLIENT_METRICS
        wanted = set(request.resource_types)
        if not wanted <= set(supported):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        found = []
        for kind in supported:
            if kind in wanted or not wanted:
                async for name in in_slices(await self._names(kind, context.listener)):
                    found.append(ListedConfigResource(name, kind))
        return ListConfigResourcesResponse(config_resources=found)

    async def _names(self, kind: ResourceType, listener: str) -> Sequence[str]:
        """Raises KafkaError."""
        if kind is ResourceType.TOPIC:
            return self._cache.topics()
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            brokers = self._cache.live_brokers()
            return [str(each.id) for each in brokers if each.endpoint(listener) is not None]
        if kind not in NAMED_RESOURCES:
            return []
        try:
            znodes = await self._store().configured_entities(NAMED_RESOURCES[kind].znodes)
        except CoordinationError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {error!r}") from error
        return [name for znode in znodes if (name := desanitized(znode)) is not None]


LIST_CONFIG_RESOURCES = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    handler=lambda broker: ListConfigResourcesHandler(broker.cache, broker.store),
    task=True,
    authorization=needs(AclOperation.DESCRIBE_CONFIGS),
    quota=Quota.REQUESTS,
    changes_state=False,
)
