"""DescribeCluster (key 60): cluster id, controller, live brokers."""

from __future__ import annotations

from minikafka.broker.acl_operations import CLUSTER_OPERATIONS
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.metadata_cache import MetadataCache
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2  # endpoint types (KIP-919)
NO_CONTROLLER = -1


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
                    error_message=f"endpoint type {request.endpoint_type} asked of a broker",
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
        # Only one that is listed above: clients look its address up there.
        if controller in {broker.broker_id for broker in response.brokers}:
            response.controller_id = NO_CONTROLLER if controller is None else controller
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        reply(response)
