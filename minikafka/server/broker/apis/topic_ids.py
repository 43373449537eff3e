"""Topics that requests name by id (KIP-516)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.server.broker.metadata.cache import MetadataCache

FIRST_VERSION_WITH_TOPIC_IDS: Final = 10  # of OffsetCommit and OffsetFetch (KIP-848)


class TopicById(Protocol):
    """A topic in a request."""

    name: str
    topic_id: UUID


def name_topics(topics: Iterable[TopicById], cluster: MetadataCache) -> None:
    """Set the names of topics that have ids; the name of an unknown id is empty.

    Topics are authorized and served by name. A topic of this broker's metadata
    keeps its id and its name for its whole life, so guards and handlers may call this in turn."""
    for topic in topics:
        named = None if topic.topic_id == ZERO_UUID else cluster.topic_name(topic.topic_id)
        topic.name = named or ""
