"""PushTelemetry (key 72): the metrics of a client (KIP-714)."""

from __future__ import annotations

from minikafka.core.telemetry.instances import Push
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.cluster.telemetry_clients import attributes_of, origin_of
from minikafka.server.broker.apis.guards import OPEN
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.client_telemetry import ClientTelemetry
from minikafka.server.broker.quotas import Quota


class PushTelemetryHandler:
    """Serves PushTelemetry (a ``TaskHandler``, since metrics are decoded in slices). As in Kafka,
    every client may send it."""

    def __init__(self, telemetry: ClientTelemetry) -> None:
        self._telemetry = telemetry

    async def __call__(
        self, context: RequestContext, request: PushTelemetryRequest
    ) -> PushTelemetryResponse:
        """Raises KafkaError."""
        push = Push(
            request.client_instance_id,
            request.subscription_id,
            request.terminating,
            request.compression_type,
            len(request.metrics),
        )
        await self._telemetry.push(
            push, request.metrics, origin_of(context), attributes_of(context)
        )
        return PushTelemetryResponse()


PUSH_TELEMETRY = Api(
    key=ApiKey.PUSH_TELEMETRY,
    handler=lambda broker: PushTelemetryHandler(broker.telemetry),
    task=True,
    authorization=OPEN,
    quota=Quota.REQUESTS,
    changes_state=False,
)
