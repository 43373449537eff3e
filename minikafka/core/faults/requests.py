"""What a request names, as the rows that rules select; and a request without some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias
from uuid import UUID

from minikafka.core.faults.messages import ListShape, MessageShape, shape_of
from minikafka.core.faults.rules import RequestFacts, Row
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.api_keys import ApiKey

NO_REPLICA: Final = -1
GROUP_KEY: Final = 0  # the type of a FindCoordinator key

# Returns the name of a topic id; None if the id is unknown.
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
    }
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
    of_broker = api_key in OF_BROKERS or _follower(request) >= 0 or _verifies(request)
    return RequestFacts(broker, api_key, version, client_id, rows, request, of_broker)


def _follower(request: Any) -> int:
    """The id of the replica that fetches, or -1."""
    found: int = getattr(request, "replica_id", NO_REPLICA)
    state = getattr(request, "replica_state", None)
    return max(found, NO_REPLICA if state is None else state.replica_id)


def _verifies(request: Any) -> bool:
    """Whether a partition leader asks the coordinator about its transactions (KIP-890)."""
    return any(each.verify_only for each in getattr(request, "transactions", ()))


def rows_of(
    api_key: ApiKey, version: int, request: Any, topic_name: TopicName = lambda _: None
) -> Iterator[Row]:
    """Yield the rows of a request, in its order; one row for a request without any."""
    whole = Row(
        group=getattr(request, "group_id", None) or None,
        transactional_id=_transactional_id(request),
    )
    if api_key is ApiKey.FIND_COORDINATOR:
        whole = _with_name(whole, "coordinator", request.key, request)
    shape = shape_of(api_key, version)
    found = False
    if shape is not None:
        for row in _rows(request, request, shape.lists, whole, topic_name):
            found = True
            yield row
    if not found:
        yield whole


def _transactional_id(request: Any) -> str | None:
    found: str | None = getattr(request, "transactional_id", None)
    return found or getattr(request, "v3_and_below_transactional_id", None) or None


def _rows(
    request: Any, element: Any, lists: Sequence[ListShape], outer: Row, topic_name: TopicName
) -> Iterator[Row]:
    if not lists:
        yield outer
        return
    first, *inner = lists
    for each in getattr(element, first.requested) or ():
        row = _with_name(outer, first.named, name_of(each, first, topic_name), request)
        yield from _rows(request, each, inner, row, topic_name)


def name_of(element: Any, shape: ListShape, topic_name: TopicName) -> Any:
    """Return the name of an element of a request, or the number of a partition."""
    if shape.name is None:
        return element
    name = getattr(element, shape.name)
    if not name and shape.topic_id and element.topic_id != ZERO_UUID:
        return topic_name(element.topic_id)
    return name


def _with_name(row: Row, named: str, name: Any, request: Any) -> Row:
    if named == "coordinator":
        named = "group" if request.key_type == GROUP_KEY else "transactional_id"
    return row._replace(**{named: name})


def without(
    api_key: ApiKey,
    version: int,
    request: Any,
    chosen: Collection[Row],
    topic_name: TopicName = lambda _: None,
) -> Any:
    """Return the request without the chosen rows; None if nothing is left."""
    shape = shape_of(api_key, version)
    if shape is None:
        return None
    kept = _selected(api_key, version, request, shape, lambda row: row not in chosen, topic_name)
    return kept if getattr(kept, shape.lists[0].requested) else None


def only(
    api_key: ApiKey,
    version: int,
    request: Any,
    chosen: Collection[Row],
    topic_name: TopicName = lambda _: None,
) -> Any:
    """Return the request with the chosen rows only; as it is if the API has no rows."""
    shape = shape_of(api_key, version)
    if shape is None:
        return request
    return _selected(api_key, version, request, shape, lambda row: row in chosen, topic_name)


def has_rows(api_key: ApiKey, version: int, request: Any) -> bool:
    """Whether the error of a request is one of its rows, and not of the whole request."""
    shape = shape_of(api_key, version)
    return shape is not None and bool(getattr(request, shape.lists[0].requested))


def _selected(
    api_key: ApiKey,
    version: int,
    request: Any,
    shape: MessageShape,
    fits: Callable[[Row], bool],
    topic_name: TopicName,
) -> Any:
    whole = next(
        rows_of(api_key, version, replace(request, **{shape.lists[0].requested: []}), topic_name)
    )

    def selected(element: Any, lists: Sequence[ListShape], outer: Row) -> Any:
        first, *inner = lists
        kept = []
        for each in getattr(element, first.requested) or ():
            row = _with_name(outer, first.named, name_of(each, first, topic_name), request)
            if inner:
                each = selected(each, inner, row)
                if getattr(each, inner[0].requested):
                    kept.append(each)
            elif fits(row):
                kept.append(each)
        return replace(element, **{first.requested: kept})

    return selected(request, shape.lists, whole)
