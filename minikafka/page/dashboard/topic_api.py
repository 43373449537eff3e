"""The route of what belongs to a topic: sizes of its replicas, its groups, and its ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.core.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.page.dashboard.cluster_api import lag_facts
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.context import HttpError, PageContext, ShownCluster
from minikafka.page.dashboard.history.figures import SampledCluster, lag_time
from minikafka.page.dashboard.history.sampler import Sampler
from minikafka.page.dashboard.messages import Facts

MAX_PARTITIONS: Final = 1_000
MAX_ROWS: Final = 200  # groups, and ACLs
ACLS_WITHIN_MS: Final = 2_000
NOT_FOUND: Final = 404


def routes(context: PageContext) -> list[BaseRoute]:
    cluster = context.cluster
    if cluster is None:  # a recording is shown
        return []

    async def use(request: Request) -> Response:
        name, errors = request.path_params["name"], list[FailedCall]()
        topic = (await cluster.follow.reader.listed_topics()).topics.get(name)
        if topic is None:
            raise HttpError(NOT_FOUND, f"There is no topic {name}.")
        partitions = [TopicPartition(name, n) for n in list(topic.partitions)[:MAX_PARTITIONS]]
        sizes, acls = await asyncio.gather(
            cluster.follow.reader.sizes(partitions, errors), _acls(cluster, name)
        )
        now = cluster.sampler.now.topics.get(name)
        facts = {
            "records_per_s": None if now is None else now.records_per_s,
            "sizes": {
                str(tp.partition): {str(broker): size for broker, size in replicas.items()}
                for tp, replicas in sizes.items()
            },
            "groups": groups_of(name, cluster.sampler, context.world.clock.wall_ms()),
            "has_registry": context.registry is not None,
            **acls,
        }
        return JSONResponse({**facts, "errors": [error.facts() for error in errors]})

    return [Route("/api/topic-use/{name:path}", use)]


def groups_of(topic: str, sampler: Sampler, now_ms: int) -> list[Facts] | None:
    """Return the groups that have committed offsets of a topic, with their lag there; None if they
    have not been read yet."""
    sample: SampledCluster | None = sampler.newest
    if sample is None:
        return None
    rows: list[Facts] = []
    for group, committed in sorted(sample.committed.items()):
        of_topic = {tp: offset for tp, offset in committed.items() if tp.topic == topic}
        if not of_topic:
            continue
        known = all(tp in sample.ends for tp in of_topic)
        lag = sum(max(0, sample.ends[tp] - at) for tp, at in of_topic.items()) if known else None
        times = [lag_time(tp, at, sampler.end_times, now_ms) for tp, at in of_topic.items()]
        longest = max(filter(None, times), default=None) if all(times) else None
        facts = {"group": group, "partitions": len(of_topic), "lag": lag}
        rows.append({**facts, **lag_facts(longest)})
    return rows[:MAX_ROWS]


async def _acls(cluster: ShownCluster, topic: str) -> Mapping[str, Any]:
    """Return the ACLs that concern a topic, those of prefixes and of all topics among them; None,
    with the reason, where there are none to read."""
    pattern = PatternFilter(AclResourceType.TOPIC, topic, PatternType.MATCH)
    entry = EntryFilter(None, None, AclOperation.ANY, PermissionType.ANY)
    try:
        found = await cluster.admin.describe_acls(
            AclFilter(pattern, entry), timeout_ms=ACLS_WITHIN_MS
        )
    except KafkaError as error:
        disabled = error.code is ErrorCode.SECURITY_DISABLED
        why = (
            "The cluster has no authorizer: anybody may do everything." if disabled else f"{error}"
        )
        return {"acls": None, "no_acls": why}
    return {"acls": [acl_facts(binding) for binding in sorted(found)[:MAX_ROWS]], "no_acls": ""}


def acl_facts(binding: AclBinding) -> Facts:
    pattern, entry = binding.pattern, binding.entry
    return {
        "pattern_type": pattern.pattern_type.name,
        "resource": pattern.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }
