"""What a broker needs to know of a topic's configuration, and whom it asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from minikafka.core.log.config import LogConfig
from minikafka.core.replication.throttled_replicas import NO_REPLICAS, ThrottledReplicas


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective settings of one topic: its own, else the broker's."""

    log: LogConfig = field(default_factory=LogConfig)
    min_insync_replicas: int = 1
    leader_throttled: ThrottledReplicas = NO_REPLICAS
    follower_throttled: ThrottledReplicas = NO_REPLICAS


class TopicConfigs(Protocol):
    """Topic settings, read from ZooKeeper once and then kept."""

    async def load(self, topics: Iterable[str]) -> None:
        """Make ``get`` answer for these topics. Raises CoordinationError."""
        ...

    def get(self, topic: str) -> TopicConfig:
        """The settings as last read; the broker's defaults for a topic never loaded."""
        ...

    def forget(self, topic: str) -> None:
        """The topic is being deleted: one made again under its name is read anew."""
        ...
