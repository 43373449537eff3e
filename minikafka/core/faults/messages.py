"""Where each API names topics, partitions, groups and transactional ids, and where its errors are.

A message is seen as a tree. Each ``Level`` is a list in the elements of the level before it; the
first list belongs to the message. What an element names is part of the ``Row`` of all leaves below
it. The lists of a response mirror the last lists of its request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import UUID

from minikafka.core.faults.rules import Row
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import NEVER, ApiKey

TOPIC_RESOURCE: Final = 2  # Kafka's ConfigResource.Type
GROUP_KEY: Final = 0  # of FindCoordinator: the key is a group, otherwise a transactional id

# Returns the name of a topic with this id; None if no such topic is known.
TopicName: TypeAlias = Callable[[UUID], str | None]
Named: TypeAlias = Literal[
    "topic", "partition", "group", "transactional_id", "resource", "coordinator", ""
]


@dataclass(frozen=True, slots=True)
class Level:
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

    def row(self, element: Any, above: Row, topic_name: TopicName, key_type: int) -> Row:
        """Return the row of an element, from the row of the elements above it."""
        if not self.names or self.key is None:
            return above
        named = self.name(element)
        if self.names == "topic":
            if not named and "topic_id" in self.also:
                named = topic_name(element.topic_id) if element.topic_id != ZERO_UUID else None
            return above._replace(topic=named)
        if self.names == "partition":
            return above._replace(partition=named)
        if self.names == "group" or (self.names == "coordinator" and key_type == GROUP_KEY):
            return above._replace(group=named)
        if self.names == "resource":
            is_topic = element.resource_type == TOPIC_RESOURCE
            return above._replace(topic=named) if is_topic else above
        return above._replace(transactional_id=named)


@dataclass(frozen=True, slots=True)
class Places:
    """The levels of a request and of its response in some versions of an API.

    ``group`` and ``transactional_id`` are attributes of the request. If all rows of an element of
    level ``error_level`` have failed, its error is set instead of theirs (0: that of the response;
    None: errors are set in the rows), but never an error of ``row_errors``. ``values`` are what
    rows with an error have in other fields than Kafka's defaults."""

    request: tuple[Level, ...] = ()
    response: tuple[Level, ...] = ()
    versions: tuple[int, int] = (0, NEVER)
    group: str | None = None
    transactional_id: str | None = None
    error_level: int | None = None
    row_errors: frozenset[ErrorCode] = frozenset()
    values: Mapping[str, Any] = field(default_factory=dict)


def _partitions(
    topics: str,
    key: str,
    partitions: str,
    index: str,
    also: tuple[str, ...] = (),
) -> tuple[Level, Level]:
    return Level(topics, key, "topic", also), Level(partitions, index, "partition")


_OFFSETS_OF_ROWS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
_RESULTS = _partitions("topics", "name", "partitions", "partition_index")
_RESOURCES = Level("resources", "resource_name", "resource", ("resource_type",))
_FETCH_RESPONSE = _partitions("responses", "topic", "partitions", "partition_index", ("topic_id",))
_NO_OFFSET: Final = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}
_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}
_IN_GROUP = Places(group="group_id")
_IN_TRANSACTION = Places(transactional_id="transactional_id")
_ALTERED = Places(
    (_RESOURCES,), (Level("responses", "resource_name", "resource", ("resource_type",)),)
)

_PLACES: Final[Mapping[ApiKey, Sequence[Places]]] = {
    ApiKey.PRODUCE: [
        Places(
            _partitions("topic_data", "name", "partition_data", "index"),
            _partitions("responses", "name", "partition_responses", "index"),
            transactional_id="transactional_id",
            values={"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
        )
    ],
    ApiKey.FETCH: [
        Places(
            _partitions("topics", "topic", "partitions", "partition", ("topic_id",)),
            _FETCH_RESPONSE,
            values={"high_watermark": -1, "records": b""},
        )
    ],
    ApiKey.LIST_OFFSETS: [
        Places(_RESULTS, _RESULTS, (0, 0)),
        Places(_RESULTS, _RESULTS, (1, NEVER), values={"timestamp": -1, "offset": -1}),
    ],
    ApiKey.METADATA: [
        Places((Level("topics", also=("topic_id",)),), (Level("topics", also=("topic_id",)),))
    ],
    ApiKey.OFFSET_COMMIT: [Places(_RESULTS, _RESULTS, group="group_id")],
    ApiKey.OFFSET_FETCH: [
        Places(
            _partitions("topics", "name", "partition_indexes", ""),
            _RESULTS,
            (0, 1),
            group="group_id",
            values=_NO_OFFSET,
        ),
        Places(
            _partitions("topics", "name", "partition_indexes", ""),
            _RESULTS,
            (2, 7),
            group="group_id",
            error_level=0,
            row_errors=_OFFSETS_OF_ROWS,
            values=_NO_OFFSET,
        ),
        Places(
            (
                Level("groups", "group_id", "group"),
                *_partitions("topics", "name", "partition_indexes", ""),
            ),
            (Level("groups", "group_id", "group"), *_RESULTS),
            (8, NEVER),
            error_level=1,
            row_errors=_OFFSETS_OF_ROWS,
            values=_NO_OFFSET,
        ),
    ],
    ApiKey.FIND_COORDINATOR: [
        Places(versions=(0, 3), values=_NO_NODE),
        Places(
            (Level("coordinator_keys", "", "coordinator"),),
            (Level("coordinators", "key", "coordinator"),),
            (4, NEVER),
            values=_NO_NODE,
        ),
    ],
    ApiKey.JOIN_GROUP: [
        Places(
            versions=(0, 6),
            group="group_id",
            values={"generation_id": -1, "protocol_name": ""},
        ),
        Places(
            versions=(7, NEVER),
            group="group_id",
            values={"generation_id": -1, "protocol_name": None},
        ),
    ],
    ApiKey.HEARTBEAT: [_IN_GROUP],
    ApiKey.LEAVE_GROUP: [_IN_GROUP],
    ApiKey.SYNC_GROUP: [_IN_GROUP],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [_IN_GROUP],
    ApiKey.DESCRIBE_GROUPS: [
        Places((Level("groups", "", "group"),), (Level("groups", "group_id", "group"),))
    ],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [
        Places((Level("group_ids", "", "group"),), (Level("groups", "group_id", "group"),))
    ],
    ApiKey.DELETE_GROUPS: [
        Places((Level("groups_names", "", "group"),), (Level("results", "group_id", "group"),))
    ],
    ApiKey.OFFSET_DELETE: [
        Places(
            _RESULTS,
            _RESULTS,
            group="group_id",
            error_level=0,
            row_errors=_OFFSETS_OF_ROWS | {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        )
    ],
    ApiKey.CREATE_TOPICS: [Places((Level("topics"),), (Level("topics"),))],
    ApiKey.DELETE_TOPICS: [
        Places((Level("topic_names", ""),), (Level("responses"),), (0, 5)),
        Places(
            (Level("topics", also=("topic_id",)),),
            (Level("responses", also=("topic_id",)),),
            (6, NEVER),
        ),
    ],
    ApiKey.CREATE_PARTITIONS: [Places((Level("topics"),), (Level("results"),))],
    ApiKey.DELETE_RECORDS: [Places(_RESULTS, _RESULTS, values={"low_watermark": -1})],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        Places(
            _partitions("topics", "topic", "partitions", "partition"),
            _partitions("topics", "topic", "partitions", "partition"),
            values={"leader_epoch": -1, "end_offset": -1},
        )
    ],
    ApiKey.INIT_PRODUCER_ID: [
        Places(
            transactional_id="transactional_id", values={"producer_id": -1, "producer_epoch": -1}
        )
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        Places(
            _partitions("v3_and_below_topics", "name", "partitions", ""),
            _partitions(
                "results_by_topic_v3_and_below", "name", "results_by_partition", "partition_index"
            ),
            (0, 3),
            transactional_id="v3_and_below_transactional_id",
        ),
        Places(
            (
                Level("transactions", "transactional_id", "transactional_id"),
                *_partitions("topics", "name", "partitions", ""),
            ),
            (
                Level("results_by_transaction", "transactional_id", "transactional_id"),
                *_partitions("topic_results", "name", "results_by_partition", "partition_index"),
            ),
            (4, NEVER),
        ),
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [Places(group="group_id", transactional_id="transactional_id")],
    ApiKey.END_TXN: [_IN_TRANSACTION],
    ApiKey.WRITE_TXN_MARKERS: [
        Places(
            (
                Level("markers", "producer_id", ""),
                *_partitions("topics", "name", "partition_indexes", ""),
            ),
            (Level("markers", "producer_id", ""), *_RESULTS),
        )
    ],
    ApiKey.TXN_OFFSET_COMMIT: [
        Places(_RESULTS, _RESULTS, group="group_id", transactional_id="transactional_id")
    ],
    ApiKey.CREATE_ACLS: [Places((Level("creations", None),), (Level("results", None),))],
    ApiKey.DELETE_ACLS: [Places((Level("filters", None),), (Level("filter_results", None),))],
    ApiKey.DESCRIBE_CONFIGS: [
        Places((_RESOURCES,), (Level("results", "resource_name", "resource", ("resource_type",)),))
    ],
    ApiKey.ALTER_CONFIGS: [_ALTERED],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [_ALTERED],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        Places(
            (Level("dirs", "path", ""), *_partitions("topics", "name", "partitions", "")),
            _partitions("results", "topic_name", "partitions", "partition_index"),
        )
    ],
    ApiKey.ELECT_LEADERS: [
        Places(
            _partitions("topic_partitions", "topic", "partitions", ""),
            _partitions("replica_election_results", "topic", "partition_result", "partition_id"),
        )
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [
        Places(
            _RESULTS,
            _partitions("responses", "name", "partitions", "partition_index"),
            error_level=0,
            row_errors=_OFFSETS_OF_ROWS,
        )
    ],
    ApiKey.ALTER_CLIENT_QUOTAS: [
        Places((Level("entries", "entity", ""),), (Level("entries", "entity", ""),))
    ],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        Places((Level("deletions|upsertions", "name", ""),), (Level("results", "user", ""),))
    ],
    ApiKey.DESCRIBE_PRODUCERS: [
        Places(_partitions("topics", "name", "partition_indexes", ""), _RESULTS)
    ],
    ApiKey.DESCRIBE_TRANSACTIONS: [
        Places(
            (Level("transactional_ids", "", "transactional_id"),),
            (Level("transaction_states", "transactional_id", "transactional_id"),),
        )
    ],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [Places(values={"entries": None})],
}
_WHOLE: Final = Places()  # of an API whose requests have no rows


def places(api_key: ApiKey, version: int) -> Places:
    """Return the places of an API in a version."""
    for found in _PLACES.get(api_key, ()):
        if found.versions[0] <= version <= found.versions[1]:
            return found
    return _WHOLE


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
        return self._levels[depth].row(element, above, self._topic_name, self._key_type)

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
