"""StreamsGroupHeartbeat (key 88): join, reconcile and leave a streams group (KIP-1071)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from minikafka.core.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from minikafka.core.group.streams.topology import InternalTopic
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import INTERNAL_TOPICS
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import STREAMS_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from minikafka.server.broker.admin.streams_topics import StreamsTopicCreation
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.feature_guards import before_if_finalized
from minikafka.server.broker.apis.groups.member_guard import member_gate
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

_PROBLEMS_SHOWN: Final = 3


class StreamsGroupHeartbeatHandler:
    """Serves StreamsGroupHeartbeat (a ``TaskHandler``), once streams.version is in force.

    It starts to create the internal topics that the group lacks, and does not wait for them: the
    next heartbeats see them, or why they are not there. ``authorization`` is None without an
    authorizer."""

    def __init__(
        self,
        groups: GroupCoordination,
        features: FinalizedFeatures,
        topics: StreamsTopicCreation,
        authorization: Authorization | None,
    ) -> None:
        self._groups = groups
        self._features = features
        self._topics = topics
        self._authorization = authorization

    async def __call__(
        self, context: RequestContext, request: StreamsGroupHeartbeatRequest
    ) -> StreamsGroupHeartbeatResponse:
        if not self._features.level(STREAMS_VERSION):
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        refusal = None if request.topology is None else _refusal(request.topology)
        if refusal is not None:
            return refusal
        outcome: asyncio.Future[StreamsHeartbeatResult] = asyncio.get_running_loop().create_future()
        facts = StreamsHeartbeat(request, context.client_id, f"/{context.client_host}")
        self._groups.streams_heartbeat(facts, outcome.set_result)
        result = await outcome
        if result.missing:
            await self._create(context, result)
        return result.response

    async def _create(self, context: RequestContext, result: StreamsHeartbeatResult) -> None:
        """Start to create internal topics, unless the principal may not create all of them."""
        forbidden = await self._forbidden(context, result.missing)
        if forbidden:
            problem = f"Unauthorized to CREATE on topics {', '.join(forbidden)}."
        else:
            back_off_ms = 2 * result.response.heartbeat_interval_ms
            self._topics.create(result.missing, back_off_ms, context.auto_creation())
            problems = self._topics.problems(result.missing)
            if not problems:
                return
            shown = [f"{topic} ({why})" for topic, why in problems.items()][:_PROBLEMS_SHOWN]
            more = len(problems) - len(shown)
            text = ", ".join(shown) + (f" and {more} more" if more else "")
            problem = f"Creation failed: {text}."
        for status in result.response.status or ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; {problem}"

    async def _forbidden(
        self, context: RequestContext, topics: Mapping[str, InternalTopic]
    ) -> list[str]:
        authorization = self._authorization
        if authorization is None or authorization.on_cluster(
            context, AclOperation.CREATE, log_if_denied=False
        ):
            return []
        allowed = await authorization.allowed(
            context, AclOperation.CREATE, AclResourceType.TOPIC, list(topics)
        )
        return [topic for topic in topics if topic not in allowed]


def _refusal(topology: Topology) -> StreamsGroupHeartbeatResponse | None:
    """Return the response to a topology with internal topics of Kafka, or with invalid names."""
    topics = _topics_of(topology)
    internal = [topic for topic in topics if topic in INTERNAL_TOPICS]
    invalid = [topic for topic in topics if name_problem(topic) is not None]
    if internal:
        problem = (
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    elif invalid:
        problem = f"Topic names {','.join(invalid)} are not valid topic names."
    else:
        return None
    return StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=problem
    )


def _topics_of(topology: Topology) -> list[str]:
    """Return the names of all topics, each once, in the order of the topology."""
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names |= dict.fromkeys(each.source_topics)
        names |= dict.fromkeys(each.repartition_sink_topics)
        names |= dict.fromkeys(topic.name for topic in each.repartition_source_topics)
        names |= dict.fromkeys(topic.name for topic in each.state_changelog_topics)
    return list(names)


_GATE: Final = member_gate(
    StreamsGroupHeartbeatResponse,
    lambda request: () if request.topology is None else _topics_of(request.topology),
    # Kafka looks at the names before it asks for DESCRIBE.
    lambda request: None if request.topology is None else _refusal(request.topology),
)

STREAMS_GROUP_HEARTBEAT = Api(
    key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    handler=lambda broker: StreamsGroupHeartbeatHandler(
        broker.groups,
        broker.features,
        StreamsTopicCreation(broker.topic_creation, broker.world.clock),
        broker.authorization,
    ),
    task=True,
    authorization=before_if_finalized(STREAMS_VERSION, _GATE),
    quota=Quota.MUTATIONS,
    changes_state=True,
)
