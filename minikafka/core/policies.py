"""The interface of policies: Python classes that may refuse new topics and configurations.

``create.topic.policy.class.name`` or ``alter.config.policy.class.name`` names a class as
``package.module.Class``. It has a method ``validate``, which raises ``PolicyViolation`` with the
reason. Its constructor is called with the broker's configuration, a mapping of keys to texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from minikafka.core.config_resources import ResourceType


class PolicyViolation(Exception):
    """Refuses a topic or a configuration; the client gets the text."""


class TopicProposal(NamedTuple):
    """A topic that is to be created, by a client or automatically. Either ``assignments`` (the
    replicas of each partition) is None, or the two numbers are. ``configs`` are those of the
    request."""

    name: str
    num_partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


class ConfigProposal(NamedTuple):
    """The configuration of a topic or broker that is to be changed. ``configs`` are the keys of the
    request; a value of None deletes the key."""

    resource_type: ResourceType
    name: str
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    """Kafka's ``CreateTopicPolicy``."""

    def validate(self, topic: TopicProposal) -> None:
        """Raise PolicyViolation unless the topic may be created. Called on the event loop, also if
        the request only validates."""
        ...


class AlterConfigPolicy(Protocol):
    """Kafka's ``AlterConfigPolicy``."""

    def validate(self, alteration: ConfigProposal) -> None:
        """Raise PolicyViolation unless the configuration may be changed so. Called on the event
        loop, also if the request only validates."""
        ...
