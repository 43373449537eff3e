"""Requests that name very many partitions: their size, and their elements one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

P_co = TypeVar("P_co", covariant=True)


class TopicOfRequest(Protocol[P_co]):
    """A topic of a request, with what is requested of its partitions."""

    @property
    def partitions(self) -> Sequence[P_co]: ...


def has_more_elements(topics: Sequence[TopicOfRequest[object]], limit: int) -> bool:
    """Return whether these are more than ``limit`` topics, or have more partitions."""
    count = len(topics)
    if count <= limit:
        count = 0
        for topic in topics:
            count += len(topic.partitions)
    return count > limit


def elements_of(topics: Sequence[TopicOfRequest[P_co]]) -> Iterator[tuple[int, P_co | None]]:
    """Yield the place of each topic with None, then with each of its partitions."""
    for place, topic in enumerate(topics):
        yield place, None
        for partition in topic.partitions:
            yield place, partition
