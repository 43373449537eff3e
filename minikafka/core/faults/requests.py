"""What a request names, as the rows that rules select; and a request without some of its rows.

The file of each API's messages says where they name topics, partitions, groups and transactional
ids (``protocol/places``). What an element names is part of the ``Row`` of all leaves below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from typing import Any, Final, TypeAlias
from uuid import UUID

from minikafka.core.faults.rules import RequestFacts, Row
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import REQUESTS
from minikafka.protocol.places import Level, Places

NO_REPLICA: Final = -1
TOPIC_RESOURCE: Final = 2  # Kafka's ConfigResource.Type
GROUP_KEY: Final = 0  # of FindCoordinator: the key is a group, otherwise a transactional id

# Returns the name of a topic with this id; None if no such topic is known.
TopicName: TypeAlias = Callable[[UUID], str | None]

# What only brokers send.
OF_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ENVELOPE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)
# The client ids of brokers among themselves, in requests that clients send as well.
_OWN_CLIENTS: Final = re.compile(
    r"broker-\d+-(fetcher|to-controller|shutdown|txn-marker-sender|add-partitions-to-txn|end-offsets"
    r"|share-state)"
)


def facts(
    broker: int,
    api_key: ApiKey,
    version: int,
    client_id: str,
    request: Any,
    topic_name: TopicName = lambda _: None,
) -> RequestFacts:
    """Describe a decoded request. ``broker`` is the broker that serves it."""
    rows = list(rows_of(api_key, version, request, topic_name))
    of_broker = (
        api_key in OF_BROKERS
        or _follower(request) >= 0
        or _verifies(request)
        or _OWN_CLIENTS.fullmatch(client_id) is not None
        # The controller's client id is its broker's id. It begins with ApiVersions.
        or (api_key is ApiKey.API_VERSIONS and client_id.isdecimal())
    )
    return RequestFacts(broker, api_key, version, client_id, rows, request, of_broker)


def _follower(request: Any) -> int:
    """The id of the replica that fetches, or -1."""
    found: int = getattr(request, "replica_id", NO_REPLICA)
    state = getattr(request, "replica_state", None)
    return max(found, NO_REPLICA if state is None else state.replica_id)


def _verifies(request: Any) -> bool:
    """Whether a partition leader sends its partitions of transactions to their coordinator
    (KIP-890)."""
    return bool(getattr(request, "transactions", ()))


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
    """A request, or the response to it, as a tree of ``levels``."""

    def __init__(
        self,
        api_key: ApiKey,
        version: int,
        request: Any,
        levels: Sequence[Level],
        topic_name: TopicName,
    ) -> None:
        self._levels = levels
        self._topic_name = topic_name
        self._key_type = GROUP_KEY
        found = places(api_key, version)
        group = getattr(request, found.group) if found.group else None
        own_id = getattr(request, found.transactional_id) if found.transactional_id else None
        if api_key is ApiKey.FIND_COORDINATOR:
            self._key_type = request.key_type
            if not levels:
                is_group = request.key_type == GROUP_KEY
                group, own_id = (request.key, None) if is_group else (None, request.key)
        self._top = Row(group=group, transactional_id=own_id)  # of the request without its lists

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
        if level.key == "topic_id":
            named = topic_name(named)
        elif not named and "topic_id" in level.also:
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


def request_tree(api_key: ApiKey, version: int, request: Any, topic_name: TopicName) -> Tree:
    return Tree(api_key, version, request, places(api_key, version).request, topic_name)


def leaves(
    api_key: ApiKey, version: int, request: Any, topic_name: TopicName = lambda _: None
) -> Iterator[Leaf]:
    """Yield the leaves of a request."""
    return request_tree(api_key, version, request, topic_name).leaves(request)


def rows_of(
    api_key: ApiKey, version: int, request: Any, topic_name: TopicName = lambda _: None
) -> Iterator[Row]:
    """Yield the rows of a request, each once; one row for a request without any."""
    rows = (leaf.row for leaf in leaves(api_key, version, request, topic_name))
    yield from dict.fromkeys(rows)


def without(
    api_key: ApiKey,
    version: int,
    request: Any,
    chosen: Collection[Row],
    topic_name: TopicName = lambda _: None,
) -> Any:
    """Return the request without the chosen rows; None if nothing is left. The request itself is
    not changed.

    Metadata without topics is served for the list of brokers. Where no topics mean all of them
    (version 0, or a request for all topics), or there are none, the request stays as it is."""
    named = request_tree(api_key, version, request, topic_name)
    rest = named.without(request, frozenset(chosen))
    if api_key is not ApiKey.METADATA or rest is not None:
        return rest
    if version == 0 or not request.topics:
        return request
    rest = copy(request)
    rest.topics = []
    return rest


def only(
    api_key: ApiKey,
    version: int,
    request: Any,
    chosen: Collection[Row],
    topic_name: TopicName = lambda _: None,
) -> Any:
    """Return the request with the chosen rows only; as it is if the API has no rows."""
    others = frozenset(rows_of(api_key, version, request, topic_name)) - frozenset(chosen)
    if not others or not places(api_key, version).request:
        return request
    return request_tree(api_key, version, request, topic_name).without(request, others)
