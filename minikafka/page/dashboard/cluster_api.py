"""Routes that read the cluster: lists and details of topics and groups, metrics of lag."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.core.client.admin.configs import ConfigValue
from minikafka.core.config_resources import ConfigSource, ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.page.dashboard.cluster_facts import FailedCall, group_facts, topic_facts
from minikafka.page.dashboard.cluster_reader import ClusterReader
from minikafka.page.dashboard.context import PageContext, ShownCluster
from minikafka.page.dashboard.errors import HttpError
from minikafka.page.dashboard.lag_metrics import LagMetrics
from minikafka.page.dashboard.lists import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    ListQuery,
    group_list,
    topic_list,
)
from minikafka.page.dashboard.messages import Facts

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
    coordinator, listing = found
    coordinators = {name: coordinator}
    description = (await reader.describe_groups(coordinators, errors)).get(name)
    committed = (await reader.committed(coordinators, errors)).get(name)
    ends = await reader.ends(sorted(committed or {}), errors)
    facts = group_facts(listing, coordinator, description, committed, ends)
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
    limit = query.get("limit", str(DEFAULT_LIMIT))
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 6):
        raise HttpError(BAD_REQUEST, f"limit must be a number up to {MAX_LIMIT}, not {limit}.")
    return ListQuery(query.get("search", ""), query.get("after", ""), min(int(limit), MAX_LIMIT))
