"""Subscriptions: client metrics resources, and the one subscription that they make for a client.

Kafka's ``ClientMetricsConfigs``, and ``ClientMetricsManager.createClientInstance``. The expressions
of ``match`` have RE2's syntax, not Java's, so that none takes more than linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.regexes import Pattern, compile_regex
from minikafka.kernel.client_metrics_settings import (
    CLIENT_METRICS_CONFIG,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
)
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_module import LazyModule

if TYPE_CHECKING:
    import crc32c
else:
    crc32c = LazyModule("crc32c")

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
SOFTWARE_NAME: Final = "client_software_name"
SOFTWARE_VERSION: Final = "client_software_version"
SOURCE_ADDRESS: Final = "client_source_address"
SOURCE_PORT: Final = "client_source_port"
ATTRIBUTES: Final = frozenset(
    {
        CLIENT_INSTANCE_ID,
        CLIENT_ID,
        SOFTWARE_NAME,
        SOFTWARE_VERSION,
        SOURCE_ADDRESS,
        SOURCE_PORT,
    }
)
ALL_METRICS: Final = "*"
LEAST_INTERVAL_MS: Final = 100
LONGEST_INTERVAL_MS: Final = 60 * 60 * 1000

# What is known of a client, by the names of ``ATTRIBUTES``.
Attributes: TypeAlias = Mapping[str, str]


class MetricsSubscription(NamedTuple):
    """The metrics that matching clients push. ``metrics`` are prefixes of names, in order;
    ``ALL_METRICS`` stands for every metric."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS
    patterns: Mapping[str, Pattern] = {}

    def matches(self, attributes: Attributes) -> bool:
        """Whether each pattern matches all of an attribute that the client has."""
        return all(
            name in attributes and pattern.fullmatch(attributes[name]) is not None
            for name, pattern in self.patterns.items()
        )


def parse_subscription(given: Mapping[str, str]) -> MetricsSubscription:
    """Return the subscription of a client metrics resource.

    Raises KafkaError: INVALID_REQUEST for unknown keys and intervals out of range, INVALID_CONFIG
    for other invalid values (Kafka's ``ClientMetricsConfigs.validate``)."""
    for name in given:
        if name not in CLIENT_METRICS_CONFIG.settings:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
    try:
        config = CLIENT_METRICS_CONFIG.parse(given)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = config.integer(INTERVAL_MS)
    if not LEAST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between "
            f"{LEAST_INTERVAL_MS} and {LONGEST_INTERVAL_MS} (1 hour)",
        )
    return MetricsSubscription(config.list(METRICS), interval_ms, _patterns(config.list(MATCH)))


def _patterns(texts: Iterable[str]) -> Mapping[str, Pattern]:
    """Raises KafkaError: INVALID_CONFIG."""
    found = {}
    for text in texts:
        name, _, expression = (part.strip() for part in text.partition("="))
        refused = f"Illegal client matching pattern: {text}"
        if name not in ATTRIBUTES or not expression or "=" in expression:
            raise KafkaError(ErrorCode.INVALID_CONFIG, refused)
        try:
            found[name] = compile_regex(expression, MATCH)
        except KafkaError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{refused}. {error.message}") from None
    return found


def subscription_of(
    attributes: Attributes, resources: Iterable[MetricsSubscription]
) -> MetricsSubscription:
    """Return the subscription of a client: the metrics of all resources that match it, sorted, at
    the shortest of their intervals, but at least every ``DEFAULT_INTERVAL_MS``."""
    metrics: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    for resource in resources:
        if resource.matches(attributes):
            metrics.update(resource.metrics)
            interval_ms = min(interval_ms, resource.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    return MetricsSubscription(tuple(sorted(metrics)), interval_ms)


def subscription_id(subscription: MetricsSubscription, client_instance_id: UUID) -> int:
    """Return Kafka's id of what a client pushes, a signed number of 32 bits: the CRC-32C of the
    metrics and the interval, xored with Java's hash of the client's id."""
    text = f"[{', '.join(subscription.metrics)}]{subscription.interval_ms}"
    folded = (client_instance_id.int >> 64) ^ (client_instance_id.int & (1 << 64) - 1)
    number: int = crc32c.crc32c(text.encode()) ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return number - (1 << 32) if number >= 1 << 31 else number
