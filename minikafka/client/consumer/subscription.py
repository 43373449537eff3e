"""A consumer's subscription, and the listener that is notified of rebalances."""

from __future__ import annotations

import re
from collections.abc import Iterable

from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


class RebalanceListener:
    """Override the methods you need. They are called within ``poll`` (or iteration, or ``close``),
    so never concurrently with the code that handles records of the same consumer. Kafka:
    ``ConsumerRebalanceListener``."""

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Called with new partitions; with cooperative strategies others are kept. The place to
        ``seek``."""

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Called with partitions that other members get once this returns: the last chance to
        commit."""

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Called with partitions that other members may have already: a commit would be refused."""
        await self.on_partitions_revoked(partitions)


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression of RE2 that the group coordinator resolves, so that the consumer need
    not know all topics. It needs ``group_protocol="consumer"``. Kafka: ``SubscriptionPattern``."""

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ValueError("the pattern is empty")


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """Topics by name, or all whose whole name matches a pattern.

    The client resolves ``pattern``; the coordinator resolves ``regex``, which is "" without one.
    """

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    exclude_internal: bool = True
    regex: str = ""

    @classmethod
    def to(
        cls,
        topics: Iterable[str],
        pattern: str | re.Pattern[str] | SubscriptionPattern | None,
        exclude_internal: bool,
    ) -> TopicSubscription:
        """Raises ValueError unless exactly one of both is given, TypeError for one bare name."""
        if isinstance(topics, str):
            raise TypeError("subscribe() takes a collection of topics, for example [name]")
        names = frozenset(topics)
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe to topics or to a pattern")
        if isinstance(pattern, SubscriptionPattern):
            return cls(regex=pattern.pattern)
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        return cls(names, compiled, exclude_internal)

    def topics(self, view: ClusterView) -> frozenset[str]:
        """Return the topics that match the pattern now, or the names; none for a ``regex``."""
        if self.pattern is None:
            return self.names
        return frozenset(
            name
            for name, topic in view.topics.items()
            if topic.error is ErrorCode.NONE
            and self.pattern.fullmatch(name)
            and not (self.exclude_internal and topic.is_internal)
        )
