"""Internal topics of streams groups: created as heartbeats need them, with a pause after a
refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from minikafka.core.group.streams.heartbeat import StreamsHeartbeatResult
from minikafka.core.group.streams.topology import InternalTopic
from minikafka.core.security.authorizer import Authorizer
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.create_topics import CreatableTopic
from minikafka.protocol.messages.streams_group_heartbeat import (
    Status,
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from minikafka.server.broker.admin import streams_topics
from minikafka.server.broker.admin.streams_topics import StreamsTopicCreation
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.streams_group_heartbeat import (
    StreamsGroupHeartbeatHandler,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import take_freely
from tests.support.world.manual_clock import ManualClock

MISSING = {
    "r": InternalTopic("r", 4, 0, {"cleanup.policy": "delete"}),
    "c": InternalTopic("c", 4, 2, {"cleanup.policy": "compact"}),
}
BACK_OFF_MS = 10_000


class Creation:
    """Settles the creation of topics when ``settle`` is called."""

    def __init__(self) -> None:
        self.topics: list[CreatableTopic] = []
        self._settled: Callable[[str, KafkaError | None], None] = lambda _, __: None

    def begin_shaped(self, topics: Iterable[CreatableTopic], _: Any, settled: Any) -> None:
        self.topics, self._settled = list(topics), settled

    def settle(self, error: KafkaError | None) -> None:
        for topic in self.topics:
            self._settled(topic.name, error)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def creation() -> Creation:
    return Creation()


@pytest.fixture
def topics(creation: Creation, clock: ManualClock) -> StreamsTopicCreation:
    return StreamsTopicCreation(cast(Any, creation), clock)


def create(topics: StreamsTopicCreation) -> None:
    topics.create(MISSING, BACK_OFF_MS, take_freely)


def test_topics_have_the_shape_that_the_topology_needs(
    topics: StreamsTopicCreation, creation: Creation
) -> None:
    create(topics)
    shapes = [(t.name, t.num_partitions, t.replication_factor) for t in creation.topics]
    assert shapes == [("r", 4, -1), ("c", 4, 2)]
    assert [t.configs[0].value for t in creation.topics] == ["delete", "compact"]


@pytest.mark.mission("STR-5")
def test_a_topic_that_was_refused_is_not_tried_again_for_a_while(
    topics: StreamsTopicCreation, creation: Creation, clock: ManualClock
) -> None:
    create(topics)
    creation.settle(KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers"))
    assert topics.problems(MISSING) == {"r": "too few brokers", "c": "too few brokers"}
    create(topics)
    assert creation.topics == []
    clock.advance(BACK_OFF_MS)
    assert topics.problems(MISSING) == {}
    create(topics)
    assert len(creation.topics) == 2
    creation.settle(None)
    assert topics.problems(MISSING) == {}


def test_only_so_many_reasons_are_kept(
    topics: StreamsTopicCreation, creation: Creation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_topics, "MOST_PROBLEMS", 1)
    create(topics)
    creation.settle(KafkaError(ErrorCode.POLICY_VIOLATION))
    assert topics.problems(MISSING) == {"c": "POLICY_VIOLATION"}


# -- the handler


class Groups:
    """Answers each heartbeat that internal topics are missing."""

    def streams_heartbeat(
        self, facts: Any, respond: Callable[[StreamsHeartbeatResult], None]
    ) -> None:
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")
        response = StreamsGroupHeartbeatResponse(heartbeat_interval_ms=5_000, status=[status])
        respond(StreamsHeartbeatResult(response, MISSING))


class Features:
    def __init__(self, level: int = 1) -> None:
        self._level = level

    def level(self, _: str) -> int:
        return self._level


class Denying:
    """Allows nothing, or everything but what is on the cluster."""

    def __init__(self, topics: bool) -> None:
        self._topics = topics

    def authorize(self, requester: Any, actions: Any) -> list[bool]:
        return [self._topics and action.resource.name != "kafka-cluster" for action in actions]


async def heartbeat(
    topics: StreamsTopicCreation, authorizer: Denying | None = None, level: int = 1
) -> StreamsGroupHeartbeatResponse:
    authorization = None
    if authorizer is not None:
        authorization = Authorization(cast(Authorizer, authorizer))
    handler = StreamsGroupHeartbeatHandler(
        cast(Any, Groups()), cast(Any, Features(level)), topics, authorization
    )
    header = RequestHeader(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 1, "c")
    context = RequestContext(header, "PLAINTEXT", "10.0.0.1")
    return await handler(context, StreamsGroupHeartbeatRequest("g", "m", 1))


def detail(response: StreamsGroupHeartbeatResponse) -> str:
    assert response.status is not None
    return response.status[0].status_detail


@pytest.mark.mission("STR-5")
async def test_a_heartbeat_begins_the_creation_and_a_later_one_has_the_refusal(
    topics: StreamsTopicCreation, creation: Creation
) -> None:
    assert detail(await heartbeat(topics)) == "Internal topics are missing: c, r"
    creation.settle(KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few"))
    assert detail(await heartbeat(topics)) == (
        "Internal topics are missing: c, r; Creation failed: r (too few), c (too few)."
    )


@pytest.mark.mission("STR-5")
async def test_who_may_not_create_topics_learns_it(
    topics: StreamsTopicCreation, creation: Creation
) -> None:
    refused = await heartbeat(topics, Denying(topics=False))
    assert detail(refused) == (
        "Internal topics are missing: c, r; Unauthorized to CREATE on topics r, c."
    )
    assert creation.topics == []
    await heartbeat(topics, Denying(topics=True))
    assert len(creation.topics) == 2


@pytest.mark.mission("STR-9")
async def test_without_the_feature_a_heartbeat_is_refused(topics: StreamsTopicCreation) -> None:
    response = await heartbeat(topics, level=0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
