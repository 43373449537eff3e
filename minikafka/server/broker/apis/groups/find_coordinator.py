"""FindCoordinator (key 10): the coordinator of a group, transactional id or share-partition."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.share.records import SharePartitionKey
from minikafka.kernel.cluster import CoordinatorType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.coordinators import NOT_AVAILABLE, CoordinatorLookup, Found
from minikafka.server.broker.metadata.suspects import Suspects
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
NO_ERROR = "NONE"  # Kafka's message of a success


class FindCoordinatorHandler:
    """Serves FindCoordinator. The first request creates the internal topic, and its error
    COORDINATOR_NOT_AVAILABLE makes the client retry."""

    def __init__(
        self, lookup: CoordinatorLookup, creation: AutoTopicCreation, suspects: Suspects
    ) -> None:
        self._lookup = lookup
        self._creation = creation
        self._suspects = suspects

    def __call__(
        self, context: RequestContext, request: FindCoordinatorRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._serve(context, request, reply), reply)

    async def _serve(
        self, context: RequestContext, request: FindCoordinatorRequest, reply: Reply
    ) -> None:
        if self._suspects:
            await self._suspects.settled()
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
        if key_type not in tuple(CoordinatorType):
            return Found(ErrorCode.INVALID_REQUEST)
        kind = CoordinatorType(key_type)
        if kind is CoordinatorType.SHARE:
            share_key = SharePartitionKey.parse(key)
            if context.version < FIRST_VERSION_WITH_SHARE_GROUPS or share_key is None:
                return Found(ErrorCode.INVALID_REQUEST)
            key = share_key.coordinator_key
        missing = self._lookup.missing_topic(kind)
        if missing is not None:
            self._creation.begin([missing], context.auto_creation())
            return NOT_AVAILABLE
        return self._lookup.find(kind, key, context.listener)


def _coordinator(key: str, found: Found) -> Coordinator:
    """Return the row of a key. As in Kafka it has no message."""
    return Coordinator(key, found.node_id, found.host, found.port, found.error)


NOBODY = -1  # the node and the port of a coordinator that is not told


async def _admit_coordinator(
    authorization: Authorization, context: RequestContext, request: FindCoordinatorRequest
) -> Admitted:
    is_many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if is_many else [request.key]
    error, allowed = await _allowed_keys(authorization, context, request.key_type, keys)
    kept = [key for key in keys if key in allowed]
    if len(kept) == len(keys):
        return Admitted(request)
    if not is_many:
        refusal = FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=NOBODY, port=NOBODY
        )
        return Admitted(None, response=refusal)
    request.coordinator_keys = kept

    def join(response: Any) -> Any:
        if isinstance(response, FindCoordinatorResponse):
            found = iter(response.coordinators)
            response.coordinators = [
                next(found) if key in allowed else Coordinator(key, NOBODY, "", NOBODY, error)
                for key in keys
            ]
        return response

    return Admitted(request, join)


async def _allowed_keys(
    authorization: Authorization, context: RequestContext, key_type: int, keys: list[str]
) -> tuple[ErrorCode, set[str]]:
    """Return the error of the keys that are not allowed, and those that are."""
    if key_type == CoordinatorType.GROUP:
        error, kind = ErrorCode.GROUP_AUTHORIZATION_FAILED, AclResourceType.GROUP
    elif key_type == CoordinatorType.TRANSACTION:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        kind = AclResourceType.TRANSACTIONAL_ID
    elif key_type == CoordinatorType.SHARE and context.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
        action = AclOperation.CLUSTER_ACTION
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, {
            key for key in keys if authorization.on_cluster(context, action)
        }
    else:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, set(keys)
    return error, await authorization.allowed(context, AclOperation.DESCRIBE, kind, keys)


FIND_COORDINATOR = Api(
    key=ApiKey.FIND_COORDINATOR,
    handler=lambda broker: FindCoordinatorHandler(
        broker.coordinators, broker.topic_creation, broker.cache.suspects
    ),
    task=False,
    authorization=before(_admit_coordinator),
    quota=Quota.MUTATIONS,
    changes_state=False,
)
