"""Pages of the lists of topics and groups: a part by name, never all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from minikafka.core.client.admin.groups import GroupListing
from minikafka.core.client.cluster_view import TopicView
from minikafka.page.dashboard.cluster_facts import is_offline, is_under_replicated
from minikafka.page.dashboard.messages import Facts

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000

V = TypeVar("V")


class ListQuery(NamedTuple):
    """``search`` is a part of the names, in any case; the page begins after the name ``after``."""

    search: str = ""
    after: str = ""
    limit: int = DEFAULT_LIMIT


def topic_list(topics: Mapping[str, TopicView], query: ListQuery) -> dict[str, Any]:
    return _page("topics", topics, query, topic_row)


def group_list(groups: Mapping[str, tuple[int, GroupListing]], query: ListQuery) -> dict[str, Any]:
    """``groups`` has the coordinator and the listing of each group."""
    return _page("groups", groups, query, group_row)


def topic_row(name: str, topic: TopicView) -> Facts:
    partitions = topic.partitions.values()
    return {
        "name": name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in partitions), default=0),
        "under_replicated": sum(map(is_under_replicated, partitions)),
        "offline": sum(map(is_offline, partitions)),
    }


def group_row(name: str, group: tuple[int, GroupListing]) -> Facts:
    coordinator, listing = group
    return {
        "group": name,
        "state": listing.state,
        "protocol_type": listing.protocol_type,
        "type": listing.group_type,
        "coordinator": coordinator,
    }


def _page(
    name: str, rows: Mapping[str, V], query: ListQuery, row: Callable[[str, V], Facts]
) -> dict[str, Any]:
    """Build facts for the rows of one page only."""
    wanted = query.search.lower()
    matching = sorted(key for key in rows if wanted in key.lower())
    first = bisect_right(matching, query.after) if query.after else 0
    shown = list(islice(matching, first, first + query.limit))
    return {
        name: [row(key, rows[key]) for key in shown],
        "matching": len(matching),
        "total": len(rows),
        "more": first + len(shown) < len(matching),
    }
