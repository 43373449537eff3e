"""A request or response as a tree of rows: what each leaf names, and a copy without some leaves.

The file of each API's messages says where they name topics, partitions, groups and transactional
ids (``protocol/places``). What an element names is part of the ``Row`` of all leaves below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, TypeAlias
from uuid import UUID

from minikafka.core.faults.rules import Row
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.places import Level, Places

TOPIC_RESOURCE: Final = 2  # Kafka's ConfigResource.Type
GROUP_KEY: Final = 0  # of FindCoordinator: the key is a group, otherwise a transactional id

# Returns the name of a topic with this id; None if no such topic is known.
TopicName: TypeAlias = Callable[[UUID], str | None]


def places(api_key: ApiKey, version: int) -> Places:
    """Return the places of an API in a version."""
    return [each for each in REQUESTS[api_key].SPEC.places if each.since <= version][-1]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a message: its row, and the elements from the first level down to it. The path is
    shorter than the levels where a list is empty or null."""

    row: Row
    path: tuple[Any, ...]


class Tree:
    """A request or response as a tree. ``top`` is the row of the request without its lists."""

    def __init__(
        self, levels: Sequence[Level], top: Row, topic_name: TopicName, key_type: int = GROUP_KEY
    ) -> None:
        self._levels = levels
        self._top = top
        self._topic_name = topic_name
        self._key_type = key_type

    def leaves(self, message: Any) -> Iterator[Leaf]:
        """Yield the leaves; a message without elements is a leaf with an empty path."""
        yield from self._leaves(message, 0, self._top, ())

    def without(self, message: Any, rows: frozenset[Row]) -> Any | None:
        """Return a copy without the leaves of these rows, or None if none is left. The message is
        not changed; it shares the other elements with the copy."""
        return self._without(message, 0, self._top, rows)

    def top_row(self, element: Any) -> Row:
        """Return the row of an element of the first level."""
        return self._below(0, element, self._top)

    def _below(self, depth: int, element: Any, above: Row) -> Row:
        return _row(self._levels[depth], element, above, self._topic_name, self._key_type)

    def _leaves(self, node: Any, depth: int, row: Row, path: tuple[Any, ...]) -> Iterator[Leaf]:
        has_elements = False
        if depth < len(self._levels):
            for element in self._levels[depth].elements(node):
                has_elements = True
                below = self._below(depth, element, row)
                yield from self._leaves(element, depth + 1, below, (*path, element))
        if not has_elements:
            yield Leaf(row, path)

    def _without(self, node: Any, depth: int, row: Row, rows: frozenset[Row]) -> Any | None:
        if depth == len(self._levels):
            return None if row in rows else node
        level = self._levels[depth]
        rest = copy(node)
        had = left = False
        for attribute in level.lists.split("|"):
            elements = getattr(node, attribute)
            if not elements:
                continue
            had = True
            kept: list[Any] = []
            for element in elements:
                below = self._without(element, depth + 1, self._below(depth, element, row), rows)
                if below is not None:
                    kept.append(below)
            left = left or bool(kept)
            setattr(rest, attribute, kept)
        if not had:
            return None if row in rows else node
        return rest if left else None


def _row(level: Level, element: Any, above: Row, topic_name: TopicName, key_type: int) -> Row:
    """Return the row of an element, from the row of the elements above it."""
    if not level.names or level.key is None:
        return above
    named = level.name(element)
    if level.names == "topic":
        if not named and "topic_id" in level.also:
            named = topic_name(element.topic_id) if element.topic_id != ZERO_UUID else None
        return above._replace(topic=named)
    if level.names == "partition":
        return above._replace(partition=named)
    if level.names == "group" or (level.names == "coordinator" and key_type == GROUP_KEY):
        return above._replace(group=named)
    if level.names == "resource":
        is_topic = element.resource_type == TOPIC_RESOURCE
        return above._replace(topic=named) if is_topic else above
    return above._replace(transactional_id=named)
