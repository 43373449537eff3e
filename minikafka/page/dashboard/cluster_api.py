"""Routes that read the cluster: lists and details of topics and groups, metrics of lag.

A response has a part of a list, in the order of names, and never all of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
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
from minikafka.page.dashboard.history.end_times import LagTime
from minikafka.page.dashboard.history.figures import GroupNow, TopicNow, lag_time
from minikafka.page.dashboard.history.sampler import Sampler
from minikafka.page.dashboard.lag_metrics import LagMetrics
from minikafka.page.dashboard.messages import Facts

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
MAX_SKIP: Final = 1_000_000
# States of groups in which nobody consumes what is written.
SICK_GROUPS: Final = frozenset({"Dead", "PreparingRebalance", "CompletingRebalance"})
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
UNKNOWN_TOPIC: Final = TopicNow()
UNKNOWN_GROUP: Final = GroupNow()

V = TypeVar("V")
# The value of a row, by its name and what is known of it.
Column: TypeAlias = Callable[[str, V], Any]


class ListQuery(NamedTuple):
    """``search`` is a part of the names, in any case. The part begins ``skip`` rows after the
    name ``after``. Rows are sorted by a column, rows that are alike by name; those of which
    the column is not known come last. ``sick`` selects rows that are not as they should be."""

    search: str = ""
    after: str = ""
    limit: int = DEFAULT_LIMIT
    skip: int = 0
    sort: str = ""
    descending: bool = False
    sick: bool = False


def topic_list(
    topics: Mapping[str, TopicView], query: ListQuery, now: Mapping[str, TopicNow] = NOTHING
) -> dict[str, Any]:
    """``now`` has the rates and sizes of topics, as far as they are known. Raises HttpError for a
    column that does not exist."""

    def row(name: str, topic: TopicView) -> Facts:
        return {**topic_row(name, topic), **now.get(name, UNKNOWN_TOPIC)._asdict()}

    columns: dict[str, Column[TopicView]] = {
        "partitions": lambda name, topic: len(topic.partitions),
        "replication_factor": lambda name, topic: _replication_factor(topic),
        "health": lambda name, topic: _sick_partitions(topic),
        "records_per_s": lambda name, topic: now.get(name, UNKNOWN_TOPIC).records_per_s,
        "size_bytes": lambda name, topic: now.get(name, UNKNOWN_TOPIC).size_bytes,
    }
    return _part("topics", topics, query, row, _is_sick_topic, columns)


def group_list(
    groups: Mapping[str, tuple[int, GroupListing]],
    query: ListQuery,
    now: Mapping[str, GroupNow] = NOTHING,
) -> dict[str, Any]:
    """``groups`` has the coordinator and the listing of each group, ``now`` the lag of those that
    commit. Raises HttpError for a column that does not exist."""

    def row(name: str, group: tuple[int, GroupListing]) -> Facts:
        return {**group_row(name, group), **now.get(name, UNKNOWN_GROUP)._asdict()}

    columns: dict[str, Column[tuple[int, GroupListing]]] = {
        "state": lambda name, group: group[1].state,
        "type": lambda name, group: group[1].group_type,
        "protocol_type": lambda name, group: group[1].protocol_type,
        "coordinator": lambda name, group: group[0],
        "lag": lambda name, group: now.get(name, UNKNOWN_GROUP).lag,
        "lag_ms": lambda name, group: now.get(name, UNKNOWN_GROUP).lag_ms,
    }
    is_sick = SICK_GROUPS.__contains__
    return _part("groups", groups, query, row, lambda group: is_sick(group[1].state), columns)


def topic_row(name: str, topic: TopicView) -> Facts:
    offline, under_replicated = _sick_partitions(topic)
    return {
        "name": name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "under_replicated": under_replicated,
        "offline": offline,
    }


def _replication_factor(topic: TopicView) -> int:
    return max((len(each.replicas) for each in topic.partitions.values()), default=0)


def _is_sick_topic(topic: TopicView) -> bool:
    return any(is_offline(each) or is_under_replicated(each) for each in topic.partitions.values())


def _sick_partitions(topic: TopicView) -> tuple[int, int]:
    """Return how many partitions are offline, and how many are under-replicated."""
    partitions = topic.partitions.values()
    return sum(map(is_offline, partitions)), sum(map(is_under_replicated, partitions))


def group_row(name: str, group: tuple[int, GroupListing]) -> Facts:
    coordinator, listing = group
    return {
        "group": name,
        "state": listing.state,
        "protocol_type": listing.protocol_type,
        "type": listing.group_type,
        "coordinator": coordinator,
    }


def _part(
    name: str,
    rows: Mapping[str, V],
    query: ListQuery,
    row: Callable[[str, V], Facts],
    is_sick: Callable[[V], bool],
    columns: Mapping[str, Column[V]],
) -> dict[str, Any]:
    """Build facts for the rows of one part only. ``columns`` are those by which the list is sorted,
    beside the name. Raises HttpError."""
    wanted = query.search.lower()
    matching = sorted(key for key in rows if wanted in key.lower())
    if query.sick:
        matching = [key for key in matching if is_sick(rows[key])]
    if query.sort and query.sort != "name":
        if query.sort not in columns:
            text = f"This list cannot be sorted by {query.sort[:50]}."
            raise HttpError(BAD_REQUEST, text)
        matching = _sorted_by(columns[query.sort], query.descending, matching, rows)
    elif query.descending:
        matching.reverse()
    first = query.skip + (bisect_right(matching, query.after) if query.after else 0)
    shown = list(islice(matching, first, first + query.limit))
    return {
        name: [row(key, rows[key]) for key in shown],
        "matching": len(matching),
        "total": len(rows),
        "more": first + len(shown) < len(matching),
    }


def _sorted_by(
    column: Column[V], descending: bool, names: Sequence[str], rows: Mapping[str, V]
) -> list[str]:
    """Rows that are alike stay in the order of ``names``; those without a value come last."""
    values = {name: column(name, rows[name]) for name in names}
    known = [name for name, value in values.items() if value is not None]
    known.sort(key=values.__getitem__, reverse=descending)
    return known + [name for name, value in values.items() if value is None]


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
        Route("/api/groups/{name:path}", _group(context, cluster)),
        Route("/metrics", scrape),
    ]


def _topics(cluster: ShownCluster) -> Endpoint:
    async def topics(request: Request) -> Response:
        query = list_query(request)
        view = await cluster.follow.reader.listed_topics()
        return JSONResponse(topic_list(view.topics, query, cluster.sampler.now.topics))

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
        now = cluster.sampler.now.groups
        listed = group_list(await reader.list_groups(errors), query, now)
        return JSONResponse({**listed, "errors": [error.facts() for error in errors]})

    return groups


def _group(context: PageContext, cluster: ShownCluster) -> Endpoint:
    async def group(request: Request) -> Response:
        """Describe a group with the exact committed offsets and ends of logs."""
        facts = await described(cluster.follow.reader, request.path_params["name"])
        return JSONResponse(with_lag_times(facts, cluster.sampler, context.world.clock.wall_ms()))

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


def with_lag_times(facts: Facts, sampler: Sampler, now_ms: int) -> Facts:
    """Return the facts of a group, in whose ``offsets`` each row has for how long its next record
    has waited; None where that is not known."""
    rows = []
    longest: LagTime | None = LagTime(0, True)
    for row in facts["offsets"]:
        tp = TopicPartition(row["topic"], row["partition"])
        end = row["log_end_offset"]
        known = lag_time(tp, row["committed"], sampler.end_times, now_ms, end)
        if row["lag"] == 0:
            known = LagTime(0, True)
        rows.append({**row, **lag_facts(known)})
        longest = None if known is None or longest is None else max(longest, known)
    return {**facts, "offsets": rows, **lag_facts(longest if rows else None)}


def lag_facts(lag: LagTime | None) -> Facts:
    return {"lag_ms": lag and lag.ms, "lag_exact": lag is None or lag.exact}


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
    return ListQuery(
        query.get("search", ""),
        query.get("after", ""),
        _number(query, "limit", DEFAULT_LIMIT, MAX_LIMIT),
        _number(query, "skip", 0, MAX_SKIP),
        query.get("sort", ""),
        query.get("descending") == "1",
        query.get("sick") == "1",
    )


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SKIP))):
        raise HttpError(BAD_REQUEST, f"{name} must be a number up to {most}, not {text}.")
    return min(int(text), most)
