"""Routes that read the cluster: lists and details of topics and groups, metrics of lag.

A response has a part of a list, in the order of names, and never all of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.core.client.admin.configs import ConfigValue
from minikafka.core.client.admin.groups import GroupListing
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.config_resources import ConfigSource, ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.page.dashboard.cluster_facts import (
    FailedCall,
    is_offline,
    is_under_replicated,
    topic_facts,
)
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.context import HttpError, PageContext, ShownCluster
from minikafka.page.dashboard.group_reads import read_groups
from minikafka.page.dashboard.lag_metrics import LagMetrics
from minikafka.page.dashboard.messages import Facts

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
MAX_SKIP: Final = 1_000_000

V = TypeVar("V")


class ListQuery(NamedTuple):
    """``search`` is a part of the names, in any case; the page begins ``skip`` names after the name
    ``after``."""

    search: str = ""
    after: str = ""
    limit: int = DEFAULT_LIMIT
    skip: int = 0


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
    first = query.skip + (bisect_right(matching, query.after) if query.after else 0)
    shown = list(islice(matching, first, first + query.limit))
    return {
        name: [row(key, rows[key]) for key in shown],
        "matching": len(matching),
        "total": len(rows),
        "more": first + len(shown) < len(matching),
    }


CONFIGS_WITHIN_MS: Final = 5_000
NOT_FOUND: Final = 404
BAD_REQUEST: Final = 400
BAD_GATEWAY: Final = 502

Endpoint: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def routes(context: PageContext) -> list[BaseRoute]:
    cluster = context.cluster
    if cluster is None:  # a recording is shown
        return []
    metrics = LagMetrics(context.world.clock, cluster.follow.reader)

    async def scrape(request: Request) -> Response:
        return Response(await metrics.text(), media_type="text/plain; version=0.0.4")

    return [
        Route("/api/topics", _topics(cluster)),
        Route("/api/topics/{name:path}", _topic(context, cluster)),
        Route("/api/groups", _groups(cluster)),
        Route("/api/groups/{name:path}", _group(cluster)),
        Route("/metrics", scrape),
    ]


def _topics(cluster: ShownCluster) -> Endpoint:
    async def topics(request: Request) -> Response:
        query = list_query(request)
        view = await cluster.follow.reader.listed_topics()
        return JSONResponse(topic_list(view.topics, query))

    return topics


def _topic(context: PageContext, cluster: ShownCluster) -> Endpoint:
    async def topic(request: Request) -> Response:
        """Describe a topic, and show it for a while among the others."""
        name, reader = request.path_params["name"], cluster.follow.reader
        view = await reader.topics([name])
        shown = view.topics.get(name)
        if shown is None or shown.error is not ErrorCode.NONE:
            raise HttpError(NOT_FOUND, f"There is no topic {name}.")
        context.watch(name)
        errors: list[FailedCall] = []
        partitions = [TopicPartition(name, number) for number in shown.partitions]
        facts = topic_facts(shown, await reader.offsets(partitions, errors))
        configs = await cluster.admin.describe_configs(
            ResourceType.TOPIC, name, timeout_ms=CONFIGS_WITHIN_MS
        )
        facts["configs"] = [config_facts(row) for _, row in sorted(configs.items())]
        return JSONResponse({**facts, "errors": [error.facts() for error in errors]})

    return topic


def _groups(cluster: ShownCluster) -> Endpoint:
    async def groups(request: Request) -> Response:
        query, reader = list_query(request), cluster.follow.reader
        errors: list[FailedCall] = []
        await reader.listed_topics()  # and the brokers
        listed = group_list(await reader.list_groups(errors), query)
        return JSONResponse({**listed, "errors": [error.facts() for error in errors]})

    return groups


def _group(cluster: ShownCluster) -> Endpoint:
    async def group(request: Request) -> Response:
        """Describe a group with the exact committed offsets and ends of logs."""
        return JSONResponse(await described(cluster.follow.reader, request.path_params["name"]))

    return group


async def described(reader: ClusterReader, name: str) -> Facts:
    """Return the facts of one group, whatever the bounds of the page. Raises HttpError, and
    KafkaError if no broker responds."""
    errors: list[FailedCall] = []
    await reader.listed_topics()
    found = (await reader.list_groups(errors)).get(name)
    if found is None:
        unsure = "; ".join(f"{error.call} failed at broker {error.broker}" for error in errors)
        raise HttpError(
            BAD_GATEWAY if errors else NOT_FOUND,
            f"There is no group {name}{f' that can be found: {unsure}' if errors else ''}.",
        )
    facts = (await read_groups(reader, {name: found}, {}, errors))[name]
    return {**facts, "errors": [error.facts() for error in errors]}


def config_facts(row: ConfigValue) -> Facts:
    """``value`` is None for a sensitive key; ``default`` is None where the broker does not say."""
    defaults = [value for _, value, source in row.synonyms if source is ConfigSource.DEFAULT_CONFIG]
    default = row.value if row.source is ConfigSource.DEFAULT_CONFIG else None
    return {
        "name": row.name,
        "value": row.value,
        "default": defaults[0] if defaults else default,
        "source": row.source.name,
        "sensitive": row.sensitive,
        "read_only": row.read_only,
    }


def list_query(request: Request) -> ListQuery:
    """Raises HttpError."""
    query = request.query_params
    limit = _number(query, "limit", DEFAULT_LIMIT, MAX_LIMIT)
    skip = _number(query, "skip", 0, MAX_SKIP)
    return ListQuery(query.get("search", ""), query.get("after", ""), limit, skip)


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SKIP))):
        raise HttpError(BAD_REQUEST, f"{name} must be a number up to {most}, not {text}.")
    return min(int(text), most)
