"""What a consumer subscribed to, and whom it tells when partitions come and go."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


class RebalanceListener:
    """Override what you need. Called within ``poll`` (or iterating, or ``close``), so never beside
    the code that handles records of the same consumer. Kafka: ``ConsumerRebalanceListener``."""

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """These are new; with cooperative strategies others stay. The place to ``seek``."""

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """These go to others once this returns: the last chance to commit."""

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """These have gone already, to others perhaps: a commit would be refused."""
        await self.on_partitions_revoked(partitions)


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """Topics by name, or all whose whole name matches a pattern."""

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    exclude_internal: bool = True

    @classmethod
    def to(
        cls, topics: Iterable[str], pattern: str | re.Pattern[str] | None, exclude_internal: bool
    ) -> TopicSubscription:
        """Raises ValueError unless exactly one of both is given, TypeError for one bare name."""
        if isinstance(topics, str):
            raise TypeError("subscribe() takes several topics: [name]")
        names = frozenset(topics)
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe to topics or to a pattern")
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        return cls(names, compiled, exclude_internal)

    def topics(self, view: ClusterView) -> frozenset[str]:
        """As of now; a pattern follows the topics there are."""
        if self.pattern is None:
            return self.names
        return frozenset(
            name
            for name, topic in view.topics.items()
            if topic.error is ErrorCode.NONE
            and self.pattern.fullmatch(name)
            and not (self.exclude_internal and topic.is_internal)
        )
