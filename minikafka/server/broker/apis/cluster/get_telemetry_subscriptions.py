"""GetTelemetrySubscriptions (key 71): which metrics a client shall push (KIP-714)."""

from __future__ import annotations

from typing import Final

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from minikafka.protocol.records.compression import Compression
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.cluster.telemetry_clients import attributes_of, origin_of
from minikafka.server.broker.apis.guards import OPEN
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.client_telemetry import ClientTelemetry
from minikafka.server.broker.quotas import Quota

# In Kafka's order of preference.
ACCEPTED: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


class GetTelemetrySubscriptionsHandler:
    """Serves GetTelemetrySubscriptions. As in Kafka, every client may send it."""

    def __init__(self, telemetry: ClientTelemetry) -> None:
        self._telemetry = telemetry

    def __call__(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest, reply: Reply
    ) -> None:
        """Raises KafkaError: THROTTLING_QUOTA_EXCEEDED."""
        instance = self._telemetry.subscription(
            request.client_instance_id, origin_of(context), attributes_of(context)
        )
        reply(
            GetTelemetrySubscriptionsResponse(
                client_instance_id=instance.client_instance_id,
                subscription_id=instance.subscription_id,
                accepted_compression_types=list(ACCEPTED),
                push_interval_ms=instance.subscription.interval_ms,
                telemetry_max_bytes=self._telemetry.max_bytes,
                delta_temporality=True,
                requested_metrics=list(instance.subscription.metrics),
            )
        )


GET_TELEMETRY_SUBSCRIPTIONS = Api(
    key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    handler=lambda broker: GetTelemetrySubscriptionsHandler(broker.telemetry),
    task=False,
    authorization=OPEN,
    quota=Quota.REQUESTS,
    changes_state=False,
)
