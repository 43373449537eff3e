"""What guards must know about the broker, besides the request."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """Functions that read the state of the broker, and a setting. Some errors come before
    authorization, and some after it."""

    is_controller: Callable[[], bool]
    contains_topic: Callable[[str], bool]
    contains: Callable[[TopicPartition], bool]
    topic_name: Callable[[UUID], str | None]
    auto_creates_topics: Callable[[], bool]
    deletes_topics: bool  # ``delete.topic.enable``
