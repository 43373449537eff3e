"""``ClientTelemetry``: client metrics resources, subscriptions and pushed metrics (KIP-714).

In Kafka a plug-in receives the metrics. Here the broker shows them: to Prometheus with its own
metrics, and to the page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import UUID

from minikafka.core.security.client_quotas import desanitized, sanitized
from minikafka.core.telemetry.instances import (
    ClientInstance,
    ClientInstances,
    Origin,
    Push,
    require_client_id,
)
from minikafka.core.telemetry.otlp import MAX_TEXT, decode_metrics
from minikafka.core.telemetry.received import ReceivedMetrics
from minikafka.core.telemetry.subscriptions import (
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    Attributes,
    parse_subscription,
)
from minikafka.kernel.cluster import ZERO_UUID, topic_id_text
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.metrics import PUSHED, MetricKind, Metrics, tag_value
from minikafka.kernel.ports import Clock, Entropy
from minikafka.kernel.slices import run_in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.compression import (
    Compression,
    DecompressedTooLarge,
    decompress,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

MAX_DECOMPRESSED_BYTES: Final = 4 * 1024 * 1024
_OF_KAFKA: Final = "kafka.server:type=client-metrics"
_OWN: Final = "minikafka.server:type=ClientTelemetry"
_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
_IDENTITY: Final = (CLIENT_INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION)


class ClientTelemetry:
    """The client metrics of one broker (Kafka's ``ClientMetricsManager``). It is one of the
    ``NamedConfigs``: notifications of changes end in ``refresh``."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        max_bytes: int,
        log: EventLog | None = None,
    ) -> None:
        """``max_bytes`` is the size of a push at most, compressed."""
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self.max_bytes = max_bytes
        self._log = log or event_log("client-telemetry")
        self._instances = ClientInstances()
        self._received = ReceivedMetrics()
        metrics.gauge(f"{_OF_KAFKA}:instance-count", lambda: len(self._instances))
        self._unknown = metrics.counter(f"{_OF_KAFKA}:unknown-subscription-request-count")
        self._throttled = metrics.counter(f"{_OWN},name=ThrottledRequestsPerSec")
        self._pushes = metrics.counter(f"{_OWN},name=PushesPerSec")
        self._truncated = metrics.counter(f"{_OWN},name=TruncatedPushesPerSec")
        metrics.family(partial(self._samples, counters=False))
        metrics.family(partial(self._samples, counters=True), MetricKind.COUNTER)

    # -- resources

    async def refresh_all(self) -> None:
        """Read all client metrics resources. Raises CoordinationError."""
        znodes = await self._store().configured_entities(paths.CLIENT_METRICS_CONFIGS)
        known = {sanitized(name) for name in self._instances.resources}
        await self.refresh({*znodes, *known})

    async def refresh(self, znodes: Collection[str]) -> None:
        """Read these client metrics resources again. Raises CoordinationError."""
        for znode in sorted(znodes):
            name = desanitized(znode)
            if name is None:
                continue
            try:
                given = await self._store().entity_config(paths.CLIENT_METRICS_CONFIGS, znode)
                subscription = parse_subscription(given) if given else None
            except (MalformedZnode, KafkaError) as error:
                self._log.error("client_metrics_malformed", resource=name, error=str(error))
                continue
            self._instances.set_resource(name, subscription)

    @property
    def unlisted_apis(self) -> Collection[ApiKey]:
        """The APIs that ApiVersions need not list: without a resource, nobody wants metrics. A
        Kafka broker lists them if a plug-in receives metrics."""
        return () if self._instances.resources else _APIS

    # -- requests

    def subscription(
        self, client_instance_id: UUID, origin: Origin, attributes: Attributes
    ) -> ClientInstance:
        """Return the instance of a client that requests its subscription; one with a new id if it
        has none. Raises KafkaError."""
        while client_instance_id == ZERO_UUID:
            client_instance_id = UUID(bytes=self._entropy.random_bytes(16), version=4)
            if client_instance_id in self._instances:
                client_instance_id = ZERO_UUID
        known = _with_id(client_instance_id, attributes)
        instance = self._instance(client_instance_id, origin, known)
        try:
            instance.begin_get(self._clock.monotonic_ms())
        except KafkaError as error:
            self._count(error)
            raise
        return instance

    async def push(
        self, push: Push, metrics: bytes, origin: Origin, attributes: Attributes
    ) -> None:
        """Receive the metrics that a client pushes. Raises KafkaError."""
        require_client_id(push.client_instance_id)
        known = _with_id(push.client_instance_id, attributes)
        instance = self._instance(push.client_instance_id, origin, known)
        try:
            instance.begin_push(push, self._clock.monotonic_ms(), self.max_bytes)
        except KafkaError as error:
            self._count(error)
            raise
        if not metrics:
            return
        try:
            plain = _decompressed(Compression(push.compression_type), metrics)
            points, whole = await run_in_slices(decode_metrics(plain))
        except KafkaError as error:
            instance.last_error = error.code
            raise
        self._pushes.mark()
        fits = self._received.receive(
            push.client_instance_id,
            {name: known[name][:MAX_TEXT] for name in _IDENTITY if name in known},
            points,
            self._clock.monotonic_ms(),
            instance.deadline_ms,
        )
        self._truncated.mark(not (whole and fits))

    def _instance(
        self, client_instance_id: UUID, origin: Origin, attributes: Attributes
    ) -> ClientInstance:
        now_ms = self._clock.monotonic_ms()
        return self._instances.instance(client_instance_id, origin, attributes, now_ms)

    def _count(self, error: KafkaError) -> None:
        if error.code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self._unknown.mark()
        elif error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self._throttled.mark()

    # -- metrics and page

    def _samples(self, counters: bool) -> Iterator[tuple[str, float]]:
        for series, value in self._received.samples(counters, self._clock.monotonic_ms()):
            tags = "".join(f",{key}={tag_value(text)}" for key, text in series.labels)
            yield f"{PUSHED}:type=Pushed,name={series.name}{tags}", value

    def facts(self, at_most: int) -> Iterator[Mapping[str, Any]]:
        """Yield the clients that have pushed last, at most so many, with as many of their values.
        Times are those of the monotonic clock."""
        clients = list(self._received.clients(self._clock.monotonic_ms()).values())
        for client in reversed(clients[-at_most:]):
            values = islice(client.values.items(), at_most)
            yield {
                **client.identity,
                "pushed_ms": client.pushed_ms,
                "num_values": len(client.values),
                "values": [
                    {"name": series.name, "labels": dict(series.labels), "value": value.value}
                    for series, value in values
                ],
            }


def _with_id(client_instance_id: UUID, attributes: Attributes) -> Attributes:
    return {CLIENT_INSTANCE_ID: topic_id_text(client_instance_id), **attributes}


def _decompressed(codec: Compression, metrics: bytes) -> bytes:
    """Raises KafkaError: TELEMETRY_TOO_LARGE, INVALID_RECORD."""
    try:
        return decompress(codec, metrics, MAX_DECOMPRESSED_BYTES)
    except DecompressedTooLarge as error:
        raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, error.message) from None
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from None
