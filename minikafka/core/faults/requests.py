"""What a request names, as the rows that rules select; and a request without some of its rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from copy import copy
from typing import Any, Final

from minikafka.core.faults.messages import GROUP_KEY, Leaf, TopicName, Tree, places
from minikafka.core.faults.rules import RequestFacts, Row
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level

__all__ = ["TopicName", "facts", "has_rows", "leaves", "only", "rows_of", "tree", "without"]

NO_REPLICA: Final = -1

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
# The client ids of brokers among themselves, in requests that clients send as well.
_OWN_CLIENTS: Final = re.compile(
    r"broker-\d+-(fetcher|to-controller|shutdown|txn-marker-sender|add-partitions-to-txn)"
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
    """Whether a partition leader asks the coordinator about its transactions (KIP-890)."""
    return any(each.verify_only for each in getattr(request, "transactions", ()))


def tree(
    api_key: ApiKey, version: int, request: Any, levels: tuple[Level, ...], topic_name: TopicName
) -> Tree:
    """Return the tree of a request, or of its response: they differ in their levels."""
    found = places(api_key, version)
    group = getattr(request, found.group) if found.group else None
    transactional_id = getattr(request, found.transactional_id) if found.transactional_id else None
    key_type = GROUP_KEY
    if api_key is ApiKey.FIND_COORDINATOR:
        key_type = request.key_type
        if not levels:
            is_group = key_type == GROUP_KEY
            group, transactional_id = (request.key, None) if is_group else (None, request.key)
    top = Row(group=group, transactional_id=transactional_id)
    return Tree(levels, top, topic_name, key_type)


def leaves(
    api_key: ApiKey, version: int, request: Any, topic_name: TopicName = lambda _: None
) -> Iterator[Leaf]:
    """Yield the leaves of a request."""
    levels = places(api_key, version).request
    return tree(api_key, version, request, levels, topic_name).leaves(request)


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
    levels = places(api_key, version).request
    named = tree(api_key, version, request, levels, topic_name)
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
    levels = places(api_key, version).request
    if not others or not levels:
        return request
    return tree(api_key, version, request, levels, topic_name).without(request, others)


def has_rows(api_key: ApiKey, version: int, request: Any) -> bool:
    """Whether the error of a request is one of its rows, and not of the whole request."""
    return any(leaf.path for leaf in leaves(api_key, version, request))
