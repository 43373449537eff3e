"""DescribeConfigs (key 32): configurations of all resources, with their sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from minikafka.core.config_resources import ConfigSource, ResourceType
from minikafka.core.security.acls import AclOperation
from minikafka.core.security.client_quotas import sanitized
from minikafka.core.topic_names import require_valid
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import CoordinationError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from minikafka.server.broker.admin.broker_loggers import BrokerLoggers
from minikafka.server.broker.admin.config_entries import ConfigEntries, ConfigEntry
from minikafka.server.broker.admin.configs import require_this_broker
from minikafka.server.broker.admin.named_resources import NAMED_RESOURCES
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.cluster.config_requests import config_guard
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

LAST_VERSION_WITH_IS_DEFAULT = 0
UNKNOWN_TYPE = 0
# A response has about this size at most: a request of some kilobytes could name one broker a
# thousand times.
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
_ENTRY_BYTES: Final = 16  # of an entry or synonym, besides its texts
# A resource's type, its name and the keys that are described, and what identical ones get.
_Question: TypeAlias = tuple[int, str, tuple[str, ...]]


class DescribeConfigsHandler:
    """Serves DescribeConfigs (a ``TaskHandler``).

    One result per resource of the request, in its order. A broker resource with an empty name
    stands for the dynamic settings of all brokers. As in Kafka, a resource that is named twice has
    two results; they share their entries. Resources beyond ``MAX_RESPONSE_BYTES`` have
    INVALID_REQUEST."""

    def __init__(
        self,
        broker_id: int,
        cache: MetadataCache,
        entries: ConfigEntries,
        store: Callable[[], ZkStore],
        loggers: BrokerLoggers,
    ) -> None:
        self._broker_id = broker_id
        self._cache = cache
        self._entries = entries
        self._store = store
        self._loggers = loggers

    async def __call__(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        render = _Renderer(
            context.version <= LAST_VERSION_WITH_IS_DEFAULT,
            request.include_synonyms,
            request.include_documentation,
        )
        described: dict[_Question, tuple[DescribeConfigsResult, int]] = {}
        results = []
        left = MAX_RESPONSE_BYTES
        async for resource in in_slices(request.resources, look_every=1):
            keys = tuple(resource.configuration_keys or ())
            question = (resource.resource_type, resource.resource_name, keys)
            if question not in described:
                result = await self._describe(resource, render)
                described[question] = result, _size_of(result)
            result, size = described[question]
            left -= size
            results.append(result if left >= 0 else _too_large(resource))
        return DescribeConfigsResponse(results=results)

    async def _describe(
        self, resource: DescribeConfigsResource, render: _Renderer
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            entries = await self._entries_of(resource)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or ""
        except (CoordinationError, MalformedZnode) as error:
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            result.error_message = f"ZooKeeper: {error!r}"
        else:
            result.configs = render(entries, frozenset(resource.configuration_keys or ()))
        return result

    async def _entries_of(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        """Return the entries of one resource. Raises KafkaError, CoordinationError,
        MalformedZnode."""
        name = resource.resource_name
        match resource.resource_type:
            case ResourceType.TOPIC:
                require_valid(name)
                if not self._cache.contains_topic(name):
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return self._entries.topic_entries(await self._store().topic_config(name))
            case ResourceType.BROKER:
                if not name:
                    return self._entries.cluster_entries()
                require_this_broker(name, self._broker_id)
                return self._entries.broker_entries()
            case ResourceType.BROKER_LOGGER:
                return self._loggers.entries(name)
        kind = NAMED_RESOURCES.get(resource.resource_type)
        if kind is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
            )
        kind.require_name(name, kind.unnamed)
        given = await self._store().entity_config(kind.znodes, sanitized(name))
        return self._entries.named_entries(kind, given)


def _size_of(result: DescribeConfigsResult) -> int:
    """Return about how many bytes the result takes in a response."""
    size = _ENTRY_BYTES + len(result.resource_name) + len(result.error_message or "")
    for entry in result.configs:
        size += _ENTRY_BYTES + len(entry.name) + len(entry.value or "")
        size += len(entry.documentation or "")
        for synonym in entry.synonyms:
            size += _ENTRY_BYTES + len(synonym.name) + len(synonym.value or "")
    return size


def _too_large(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        ErrorCode.INVALID_REQUEST,
        f"The response would be larger than {MAX_RESPONSE_BYTES} bytes. "
        "Describe fewer resources in one request.",
        resource.resource_type,
        resource.resource_name,
    )


class _Renderer:
    """Converts configuration entries to the response of one request's version and options."""

    def __init__(self, is_default: bool, synonyms: bool, documentation: bool) -> None:
        self._is_default = is_default
        self._synonyms = synonyms
        self._documentation = documentation

    def __call__(
        self, entries: Sequence[ConfigEntry], keys: frozenset[str]
    ) -> list[DescribeConfigsResourceResult]:
        """Return the results of the entries named in ``keys``; of all if it is empty."""
        return [self._one(entry) for entry in entries if not keys or entry.name in keys]

    def _one(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        shown = entry.synonyms if self._synonyms else ()
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            is_default=self._is_default and entry.source is ConfigSource.DEFAULT_CONFIG,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
            synonyms=[DescribeConfigsSynonym(s.name, s.value, s.source) for s in shown],
            config_type=UNKNOWN_TYPE if entry.type is None else entry.type.wire,
            documentation=entry.documentation if self._documentation else None,
        )


DESCRIBE_CONFIGS = Api(
    key=ApiKey.DESCRIBE_CONFIGS,
    handler=lambda broker: DescribeConfigsHandler(
        broker.broker_id,
        broker.cache,
        broker.entries,
        broker.store,
        BrokerLoggers(broker.broker_id),
    ),
    task=True,
    authorization=config_guard(
        AclOperation.DESCRIBE_CONFIGS, "results", DescribeConfigsResult, once_only=False
    ),
    quota=Quota.REQUESTS,
    changes_state=False,
)
