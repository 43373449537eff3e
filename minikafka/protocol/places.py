"""Where the messages of an API name topics, partitions, groups and ids, and where errors are.

A message is seen as a tree. Each ``Level`` is a list in the elements of the level before it; the
first list belongs to the message. A response may have fewer levels than its request: they are the
innermost ones. ``core/faults`` makes the rows of a request, and responses that refuse some of them,
from this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast
from uuid import UUID

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode

Named: TypeAlias = Literal[
    "topic", "partition", "group", "transactional_id", "resource", "coordinator", ""
]


class Level(NamedTuple):
    """A list: the attribute that holds it (or several, joined by ``|``), the attribute ``key`` of
    its elements ("": the element itself, None: they have no key), and what the key names.
    ``also`` are further attributes that identify an element, such as the topic's id."""

    lists: str
    key: str | None = "name"
    names: Named = "topic"
    also: tuple[str, ...] = ()

    def elements(self, node: Any) -> Iterator[Any]:
        for attribute in self.lists.split("|"):
            yield from getattr(node, attribute) or ()

    def name(self, element: Any) -> Any:
        """Return what the key of an element is, or the element if it is the name itself."""
        return getattr(element, self.key) if self.key else element

    def identity(self, element: Any) -> Hashable:
        """Return what makes this element differ from the others of its list."""
        if self.key is None:
            return id(element)
        if "topic_id" in self.also and element.topic_id != ZERO_UUID:
            return cast(UUID, element.topic_id)
        others = [getattr(element, attribute) for attribute in self.also]
        named = self.name(element)
        return (repr(named) if isinstance(named, list) else named, *others)


class Places(NamedTuple):
    """The levels of a request and of its response, from version ``since`` of the API on.

    ``group`` and ``transactional_id`` are attributes of the request. ``error_level`` says where one
    error may replace those of all rows below: 0 in the response, n in an element of level n, None
    nowhere. Errors in ``row_errors`` always stay in the rows. ``values`` are what rows with an
    error have in other fields, where these are not Kafka's defaults."""

    request: tuple[Level, ...] = ()
    response: tuple[Level, ...] = ()
    since: int = 0
    group: str | None = None
    transactional_id: str | None = None
    error_level: int | None = None
    row_errors: frozenset[ErrorCode] = frozenset()
    values: Mapping[str, Any] = MappingProxyType({})


class Addresses(NamedTuple):
    """Addresses of brokers in a response: the list whose elements have a host and a port ("": the
    response itself has), the attribute beside them that is the node id, and the first version."""

    elements: str
    node_id: str = "node_id"
    since: int = 0


def topic_partitions(
    topics: str = "topics",
    key: str = "name",
    partitions: str = "partitions",
    index: str = "partition_index",
    also: tuple[str, ...] = (),
) -> tuple[Level, Level]:
    """Return the levels of topics, and of the partitions in them."""
    return Level(topics, key, "topic", also), Level(partitions, index, "partition")


def resources(lists: str) -> tuple[Level]:
    """Return the level of resources that have configs, some of which are topics."""
    return (Level(lists, "resource_name", "resource", ("resource_type",)),)


TOPIC_PARTITIONS: Final = topic_partitions()
# Errors that partitions have themselves, where a group or the response has the others.
PARTITION_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
WHOLE: Final = Places()  # of an API whose requests have no rows
IN_GROUP: Final = Places(group="group_id")
IN_TRANSACTION: Final = Places(transactional_id="transactional_id")
