"""The cluster: Metadata, DescribeCluster, FindCoordinator (keys 3, 60, 10)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from minikafka.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.metadata.coordinators import NOT_AVAILABLE, CoordinatorLookup, Found
from minikafka.broker.requests.apis import Reply, RequestContext
from minikafka.broker.requests.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import INTERNAL_TOPICS, NO_LEADER, ZERO_UUID, CoordinatorType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class _Rules:
    """The differences in meaning between versions of Metadata.

    With ``empty_is_all`` an empty list requests all topics. With ``live_replicas_only`` dead
    replicas are left out, with an error. With ``tells_listener`` the error is LISTENER_NOT_FOUND
    rather than LEADER_NOT_AVAILABLE if the leader is alive but lacks the listener. With
    ``topic_ids`` topics may be requested by id."""

    empty_is_all: bool
    live_replicas_only: bool
    tells_listener: bool
    topic_ids: bool

    @classmethod
    def of(cls, version: int) -> _Rules:
        return cls(version == 0, version == 0, version >= 6, version >= 12)


class MetadataHandler:
    """Serves Metadata. The response is sent at once, unless this broker is the controller and
    creates a missing topic first."""

    def __init__(
        self, cache: MetadataCache, creation: AutoTopicCreation, cluster_id: str | None
    ) -> None:
        self._cache = cache
        self._creation = creation
        self._cluster_id = cluster_id

    def __call__(self, context: RequestContext, request: MetadataRequest, reply: Reply) -> None:
        rules = _Rules.of(context.version)
        image = self._cache.image
        topics: list[MetadataResponseTopic]
        if request.topics is None or (rules.empty_is_all and not request.topics):
            topics = [_topic(image, t, context.listener, rules) for t in sorted(image.topics)]
            self._reply(context, request, topics, reply)
            return
        if not rules.topic_ids and any(
            topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics
        ):
            topics = [
                _failed(t.name or "", ErrorCode.INVALID_REQUEST, t.topic_id) for t in request.topics
            ]
            self._reply(context, request, topics, reply)
            return
        ids = {topic.topic_id: None for topic in request.topics if topic.topic_id != ZERO_UUID}
        if ids:  # then topics requested by name are ignored, as in Kafka
            topics = [_topic_by_id(image, i, context.listener, rules) for i in ids]
            self._reply(context, request, topics, reply)
            return
        names = list(dict.fromkeys(topic.name or "" for topic in request.topics))
        topics = [
            _topic(image, name, context.listener, rules) for name in names if name in image.topics
        ]
        missing = [name for name in names if name not in image.topics]
        if missing and request.allow_auto_topic_creation and self._creation.enabled:
            self._creation.create(
                missing,
                lambda errors: self._reply(
                    context, request, topics + _failed_topics(errors), reply
                ),
                context.auto_creation(),
            )
            return
        self._reply(context, request, topics + [_unknown(name) for name in missing], reply)

    def _reply(
        self,
        context: RequestContext,
        request: MetadataRequest,
        topics: list[MetadataResponseTopic],
        reply: Reply,
    ) -> None:
        """Send the response. Its brokers are those in the metadata cache now, which may be newer
        than the topics."""
        response = MetadataResponse(cluster_id=self._cluster_id, topics=topics)
        for broker in self._cache.live_brokers():
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None:
                response.brokers.append(
                    MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                )
        controller = self._cache.controller_id
        response.controller_id = NO_CONTROLLER if controller is None else controller
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for topic in topics:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
        reply(response)


def _topic(image: MetadataImage, name: str, listener: str, rules: _Rules) -> MetadataResponseTopic:
    partitions = image.topics[name]
    return MetadataResponseTopic(
        name=name,
        topic_id=image.topic_ids.get(name, ZERO_UUID),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            _partition(image, index, partitions[index], listener, rules)
            for index in sorted(partitions)
        ],
    )


def _topic_by_id(
    image: MetadataImage, topic_id: UUID, listener: str, rules: _Rules
) -> MetadataResponseTopic:
    name = image.topic_names.get(topic_id)
    if name is None:
        return _failed(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    return _topic(image, name, listener, rules)


def _partition(
    image: MetadataImage, index: int, state: PartitionMetadata, listener: str, rules: _Rules
) -> MetadataResponsePartition:
    replicas, isr = list(state.replicas), list(state.isr)
    if rules.live_replicas_only:
        replicas = [r for r in replicas if image.endpoint(r, listener) is not None]
        isr = [r for r in isr if image.endpoint(r, listener) is not None]
    leader = state.leader
    error = ErrorCode.NONE
    if image.endpoint(leader, listener) is None:
        alive = leader in image.brokers
        missing_listener = alive and rules.tells_listener
        error = ErrorCode.LISTENER_NOT_FOUND if missing_listener else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=list(state.offline_replicas),
    )


def _failed(
    name: str | None, error: ErrorCode, topic_id: UUID = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _unknown(name: str) -> MetadataResponseTopic:
    bad = name_problem(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _failed(name, error)


def _failed_topics(errors: Mapping[str, ErrorCode]) -> list[MetadataResponseTopic]:
    return [_failed(name, error) for name, error in errors.items()]


BROKERS, CONTROLLERS = 1, 2  # endpoint types (KIP-919)
NO_KNOWN_CONTROLLER = -1


class DescribeClusterHandler:
    def __init__(self, cache: MetadataCache, cluster_id: str) -> None:
        self._cache = cache
        self._cluster_id = cluster_id

    def __call__(
        self, context: RequestContext, request: DescribeClusterRequest, reply: Reply
    ) -> None:
        if request.endpoint_type != BROKERS:
            known = request.endpoint_type == CONTROLLERS
            reply(
                DescribeClusterResponse(
                    error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                    if known
                    else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    error_message=f"endpoint type {request.endpoint_type} requested of a broker",
                )
            )
            return
        response = DescribeClusterResponse(cluster_id=self._cluster_id)
        for broker in self._cache.live_brokers():
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None:
                response.brokers.append(
                    DescribeClusterBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                )
        controller = self._cache.controller_id
        # Name the controller only if it is in the list, where clients look up its address.
        if controller in {broker.broker_id for broker in response.brokers}:
            response.controller_id = NO_KNOWN_CONTROLLER if controller is None else controller
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        reply(response)


FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
NO_ERROR = "NONE"  # Kafka's message of a success


class FindCoordinatorHandler:
    """Serves FindCoordinator. The first request creates the internal topic, and its error
    COORDINATOR_NOT_AVAILABLE makes the client retry."""

    def __init__(self, lookup: CoordinatorLookup, creation: AutoTopicCreation) -> None:
        self._lookup = lookup
        self._creation = creation

    def __call__(
        self, context: RequestContext, request: FindCoordinatorRequest, reply: Reply
    ) -> None:
        if context.version >= FIRST_VERSION_WITH_MANY_KEYS:
            keys = request.coordinator_keys
            found_by_key = {
                key: self._find(context, request.key_type, key) for key in dict.fromkeys(keys)
            }
            coordinators = [_coordinator(key, found_by_key[key]) for key in keys]
            reply(FindCoordinatorResponse(coordinators=coordinators))
            return
        found = self._find(context, request.key_type, request.key)
        reply(
            FindCoordinatorResponse(
                error_code=found.error,
                error_message=found.message if found.error else NO_ERROR,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )

    def _find(self, context: RequestContext, key_type: int, key: str) -> Found:
        if key_type not in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            share = key_type == CoordinatorType.SHARE
            if share and context.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
                return NOT_AVAILABLE
            return Found(ErrorCode.INVALID_REQUEST)
        kind = CoordinatorType(key_type)
        missing = self._lookup.missing_topic(kind)
        if missing is not None:
            self._creation.create([missing], lambda errors: None, context.auto_creation())
            return NOT_AVAILABLE
        return self._lookup.find(kind, key, context.listener)


def _coordinator(key: str, found: Found) -> Coordinator:
    """Return the row of a key. As in Kafka it has no message."""
    return Coordinator(key, found.node_id, found.host, found.port, found.error)
