"""The APIs of the share coordinator (keys 83 to 87): the states of share-partitions."""

from __future__ import annotations

from typing import Any

from minikafka.core.security.acls import AclOperation
from minikafka.core.share.state_requests import refused
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.authorization import denied
from minikafka.server.broker.apis.guards import needs_or
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import ShareStateCoordination
from minikafka.server.broker.quotas import Quota


class ShareGroupStateHandler:
    """Serves the requests about states of share-partitions (a ``TaskHandler``).

    As in Kafka they are served without the feature share.version, too."""

    def __init__(self, states: ShareStateCoordination) -> None:
        self._states = states

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        return await self._states.serve(request)


def _refusal(context: RequestContext, request: Any) -> Any:
    return refused(request, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def _api(key: ApiKey) -> Api:
    return Api(
        key=key,
        handler=lambda broker: ShareGroupStateHandler(broker.share_states),
        task=True,
        authorization=needs_or(AclOperation.CLUSTER_ACTION, _refusal),
        quota=Quota.EXEMPT,
        changes_state=True,
        senders=Senders.CLIENTS_AND_BROKERS,
    )


INITIALIZE_SHARE_GROUP_STATE = _api(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
READ_SHARE_GROUP_STATE = _api(ApiKey.READ_SHARE_GROUP_STATE)
WRITE_SHARE_GROUP_STATE = _api(ApiKey.WRITE_SHARE_GROUP_STATE)
DELETE_SHARE_GROUP_STATE = _api(ApiKey.DELETE_SHARE_GROUP_STATE)
READ_SHARE_GROUP_STATE_SUMMARY = _api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
