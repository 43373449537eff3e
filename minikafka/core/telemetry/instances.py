"""Client instances: which requests for subscriptions, and which pushes, a broker accepts.

Kafka's ``ClientMetricsManager`` and ``ClientMetricsInstance``. A broker has an instance for each
client that requests its subscription, until three push intervals have passed without a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.telemetry.subscriptions import (
    Attributes,
    MetricsSubscription,
    subscription_id,
    subscription_of,
)
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.compression import Compression

MAX_INSTANCES: Final = 16_384
LEAST_LIFE_MS: Final = 60_000
INTERVALS_OF_LIFE: Final = 3
_EXPIRED_EVERY_MS: Final = 10_000
_NEVER_MS: Final = -(1 << 62)
_RESERVED: Final = frozenset({ZERO_UUID, UUID(int=1)})
# After these errors a client requests its subscription at once.
_ASKS_AT_ONCE: Final = frozenset(
    {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
)

# Host and port of a connection.
Origin: TypeAlias = tuple[str, int]


class Push(NamedTuple):
    """The checked fields of a PushTelemetry. ``size`` is that of the compressed metrics, in
    bytes."""

    client_instance_id: UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    size: int


class ClientInstance:
    """A client, its subscription, and the times of its last accepted requests."""

    __slots__ = (
        "client_instance_id",
        "deadline_ms",
        "get_ms",
        "last_error",
        "origin",
        "push_ms",
        "subscription",
        "subscription_id",
        "terminating",
        "version",
    )

    def __init__(
        self,
        client_instance_id: UUID,
        origin: Origin,
        subscription: MetricsSubscription,
        version: int,
    ) -> None:
        self.client_instance_id = client_instance_id
        self.origin = origin
        self.subscription = subscription
        self.subscription_id = subscription_id(subscription, client_instance_id)
        self.version = version  # of the resources that made the subscription
        self.get_ms = self.push_ms = _NEVER_MS
        self.deadline_ms = 0
        self.terminating = False
        self.last_error = ErrorCode.NONE

    def begin_get(self, now_ms: int) -> None:
        """Accept a request for the subscription. Raises KafkaError: THROTTLING_QUOTA_EXCEEDED
        before the next push interval, unless an error made the client ask."""
        if now_ms - max(self.get_ms, self.push_ms) >= self.subscription.interval_ms:
            self.get_ms = now_ms
        elif self.last_error not in _ASKS_AT_ONCE:
            raise self._early()
        self.last_error = ErrorCode.NONE

    def begin_push(self, push: Push, now_ms: int, max_bytes: int) -> None:
        """Accept a push. Raises KafkaError. A push that follows a request for the subscription is
        never early: clients choose their first push at random."""
        try:
            self._check_push(push, now_ms, max_bytes)
        except KafkaError as error:
            self.last_error = error.code
            raise
        finally:
            self.terminating = push.terminating
        self.last_error = ErrorCode.NONE

    def _check_push(self, push: Push, now_ms: int, max_bytes: int) -> None:
        client = push.client_instance_id
        if self.terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The client {client} has sent its last push already."
            )
        if self.get_ms > self.push_ms or now_ms - self.push_ms >= self.subscription.interval_ms:
            self.push_ms = now_ms
        elif not push.terminating:
            raise self._early()
        if push.subscription_id != self.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown subscription id of client {client}."
            )
        if push.compression_type not in list(Compression):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type {push.compression_type} of client {client}.",
            )
        if push.size > max_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"{push.size} bytes of client {client} are more than telemetry.max.bytes.",
            )

    def _early(self) -> KafkaError:
        return KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"The client {self.client_instance_id} is before its next push interval.",
        )


class ClientInstances:
    """The instances of a broker, at most ``MAX_INSTANCES``: those without a request for the longest
    time go first."""

    def __init__(self) -> None:
        self._resources: dict[str, MetricsSubscription] = {}
        self._version = 0
        self._instances: dict[UUID, ClientInstance] = {}  # the last one was used last
        self._next_expiry_ms = _NEVER_MS

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def resources(self) -> Iterable[str]:
        """The names of the client metrics resources."""
        return self._resources.keys()

    def set_resource(self, name: str, subscription: MetricsSubscription | None) -> None:
        """Set the subscription of a client metrics resource; None for a deleted one. Clients get
        their new subscription with their next request."""
        if subscription is not None:
            self._resources[name] = subscription
        elif self._resources.pop(name, None) is None:
            return
        self._version += 1

    def __contains__(self, client_instance_id: UUID) -> bool:
        return client_instance_id in self._instances

    def instance(
        self, client_instance_id: UUID, origin: Origin, attributes: Attributes, now_ms: int
    ) -> ClientInstance:
        """Return the instance of a client, which is a new one for a new client or connection, and
        after a change of the resources. Kafka forgets a client when its connection is closed; here
        the next connection begins a new instance, to the same effect."""
        self._expire(now_ms)
        found = self._instances.pop(client_instance_id, None)
        if found is None or found.origin != origin or found.version < self._version:
            subscription = subscription_of(attributes, self._resources.values())
            found = ClientInstance(client_instance_id, origin, subscription, self._version)
        life_ms = max(LEAST_LIFE_MS, INTERVALS_OF_LIFE * found.subscription.interval_ms)
        found.deadline_ms = now_ms + life_ms
        self._instances[client_instance_id] = found
        if len(self._instances) > MAX_INSTANCES:
            del self._instances[next(iter(self._instances))]
        return found

    def _expire(self, now_ms: int) -> None:
        """Forget instances whose time is over; looks every ``_EXPIRED_EVERY_MS``."""
        if now_ms < self._next_expiry_ms:
            return
        self._next_expiry_ms = now_ms + _EXPIRED_EVERY_MS
        self._instances = {
            each: instance
            for each, instance in self._instances.items()
            if instance.deadline_ms > now_ms
        }


def require_client_id(client_instance_id: UUID) -> None:
    """Raise KafkaError(INVALID_REQUEST) for a push of a client without an id."""
    if client_instance_id in _RESERVED:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Invalid client instance id {client_instance_id}."
        )
