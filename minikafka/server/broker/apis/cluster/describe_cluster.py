"""DescribeCluster (key 60): brokers, controller and cluster id (KIP-700)."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import CLUSTER_OPERATIONS, Authorization
from minikafka.server.broker.apis.guards import Serve, around
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota

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


async def _filter_cluster(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeClusterRequest,
    serve: Serve,
) -> DescribeClusterResponse:
    wants_operations = request.include_cluster_authorized_operations
    request.include_cluster_authorized_operations = False
    response: DescribeClusterResponse = await serve(request)
    if wants_operations and response.error_code == ErrorCode.NONE:
        response.cluster_authorized_operations = await authorization.cluster_operations(context)
    return response


DESCRIBE_CLUSTER = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    handler=lambda broker: DescribeClusterHandler(broker.cache, broker.cluster_id),
    task=False,
    authorization=around(_filter_cluster),
    quota=Quota.REQUESTS,
    changes_state=False,
)
