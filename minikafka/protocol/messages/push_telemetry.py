"""PushTelemetry (key 72): the metrics of a client (KIP-714)."""

from __future__ import annotations

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class PushTelemetryRequest(Message):
    """``metrics`` are an OTLP ``MetricsData``, compressed by ``compression_type``. The last push of
    a client that closes is ``terminating``."""

    SPEC = request(ApiKey.PUSH_TELEMETRY, WHOLE, max_elements=ORDINARY)

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@dataclass(slots=True)
class PushTelemetryResponse(Message):
    SPEC = response(ApiKey.PUSH_TELEMETRY)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
