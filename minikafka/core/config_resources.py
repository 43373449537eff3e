"""The vocabulary of configuration requests, which brokers and clients share."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

# In DescribeConfigs of a broker, a broker of ours has this read-only entry with its version. Kafka
# hides the value of a key that it does not know, so no file can make Kafka show one.
SOFTWARE_VERSION: Final = "minikafka.version"


class ResourceType(IntEnum):
    """Kafka's ``ConfigResource.Type``."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16  # KIP-714
    GROUP = 32  # KIP-848


class ConfigSource(IntEnum):
    """Kafka's ``ConfigEntry.ConfigSource``: where the value of a configuration comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    """Kafka's ``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
