"""ShareAcknowledge (key 79): a member of a share group acknowledges records without a fetch."""

from __future__ import annotations

from minikafka.core.share.session import CLOSES, ShareSessionKey
from minikafka.kernel.cluster import grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.share.acknowledging import ShareRequests, rows_by_partition
from minikafka.server.broker.quotas import Quota


class ShareAcknowledgeHandler:
    """Serves ShareAcknowledge (a ``TaskHandler``), once share.version is in force. The response is
    sent when the acknowledgements are stored."""

    def __init__(self, requests: ShareRequests) -> None:
        self._requests = requests

    async def __call__(
        self, context: RequestContext, request: ShareAcknowledgeRequest
    ) -> ShareAcknowledgeResponse:
        group_id, member_id = request.group_id or "", request.member_id or ""
        key = ShareSessionKey(group_id, member_id)
        shares = self._requests.shares
        try:
            self._requests.check(context, group_id, member_id)
            shares.sessions.acknowledge(key, request.share_session_epoch)
        except KafkaError as error:
            return ShareAcknowledgeResponse(error_code=error.code)
        rows = rows_by_partition(request.topics)
        names = (self._requests.topic_name(where.topic_id) for where in rows)
        readable = await self._requests.readable(context, filter(None, names))
        acknowledging = self._requests.acknowledge(
            key, rows, readable, context.version, request.is_renew_ack
        )
        outcomes = await acknowledging.stored()
        if request.share_session_epoch == CLOSES:
            await shares.close_session(key)
        errors = {where: failed.code for where, failed in outcomes.items() if failed is not None}
        leaders, endpoints = self._requests.leaders(errors, context.listener)
        data = []
        for where, failed in outcomes.items():
            row = PartitionData(where.partition)
            if failed is not None:
                row.error_code, row.error_message = failed.code, failed.message
            row.current_leader = leaders.get(where, row.current_leader)
            data.append((where.topic_id, row))
        return ShareAcknowledgeResponse(
            error_code=ErrorCode.NONE,
            acquisition_lock_timeout_ms=shares.settings(group_id).lock_duration_ms,
            responses=[ShareAcknowledgeTopicResponse(*topic) for topic in grouped(data).items()],
            node_endpoints=endpoints,
        )


SHARE_ACKNOWLEDGE = Api(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    handler=lambda broker: ShareAcknowledgeHandler(
        ShareRequests(broker.shares, broker.cache, broker.features, broker.authorization)
    ),
    task=True,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=True,
)
