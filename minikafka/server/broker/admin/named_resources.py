"""``NAMED_RESOURCES``: the config resource types CLIENT_METRICS and GROUP, one row each.

A topic or a broker exists without settings. A named resource exists as long as one of its keys is
set. Its znode is ``/config/<znodes>/<sanitized name>``, and brokers read it again when a change
notification names it (``ConfigEffects``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from minikafka.core.config_resources import ConfigSource, ResourceType
from minikafka.core.telemetry.subscriptions import parse_subscription
from minikafka.kernel.client_metrics_settings import CLIENT_METRICS_CONFIG
from minikafka.kernel.config import Config, ConfigDef
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.group_limits import check_group
from minikafka.kernel.group_settings import BROKER_KEYS, GROUP_CONFIG
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.server.zookeeper import paths


@dataclass(frozen=True, slots=True)
class NamedResource:
    """A resource type: its znodes, its keys, and the config source of a key that is set.

    ``check`` raises KafkaError or ConfigError for settings that do not go together, or not with
    those of the broker. ``unnamed`` and ``unnamed_altered`` are Kafka's messages for an empty name,
    in a description and in a change. ``broker_keys`` maps a key of the resource to the broker's key
    that applies where it is not set."""

    type: ResourceType
    znodes: str
    rows: ConfigDef
    source: ConfigSource
    check: Callable[[Mapping[str, str], Config], object]
    unnamed: str
    unnamed_altered: str
    broker_keys: Mapping[str, str] = field(default_factory=dict)

    def require_name(self, name: str, message: str) -> None:
        """Raise KafkaError(INVALID_REQUEST) with ``message`` if the name is empty."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)


NAMED_RESOURCES: Final[Mapping[int, NamedResource]] = MappingProxyType(
    {
        row.type: row
        for row in (
            NamedResource(
                ResourceType.CLIENT_METRICS,
                paths.CLIENT_METRICS_CONFIGS,
                CLIENT_METRICS_CONFIG,
                ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
                lambda given, broker: parse_subscription(given),
                "Client metrics subscription name must not be empty",
                "Subscription name can't be empty",
            ),
            NamedResource(
                ResourceType.GROUP,
                paths.GROUP_CONFIGS,
                GROUP_CONFIG,
                ConfigSource.DYNAMIC_GROUP_CONFIG,
                check_group,
                "Group name must not be empty",
                "Default group resources are not allowed.",
                BROKER_KEYS,
            ),
        )
    }
)
