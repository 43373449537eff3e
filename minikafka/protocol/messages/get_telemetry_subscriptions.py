"""GetTelemetrySubscriptions (key 71): which metrics a client shall push (KIP-714)."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class GetTelemetrySubscriptionsRequest(Message):
    """``client_instance_id`` is zero in a client's first request."""

    SPEC = request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, WHOLE, max_elements=ORDINARY)

    client_instance_id: Uuid = ZERO_UUID


@dataclass(slots=True)
class GetTelemetrySubscriptionsResponse(Message):
    """What the client shall push, and how often.

    ``requested_metrics`` are prefixes of names; ``*`` stands for all metrics, an empty list for
    none. ``accepted_compression_types`` are in the order of preference. With ``delta_temporality``
    counters are pushed as what was added since the last push."""

    SPEC = response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String] = field(default_factory=list)
