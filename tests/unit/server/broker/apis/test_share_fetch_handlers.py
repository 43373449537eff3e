"""ShareFetch, ShareAcknowledge and the states of share-partitions: who may send what."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from minikafka.core.metadata_image import MetadataImage, PartitionMetadata
from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.core.share.session import ShareSessions
from minikafka.core.share.settings import (
    EARLIEST,
    LATEST,
    ShareGroupSettings,
    reset_timestamp,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from minikafka.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from minikafka.protocol.messages.share_group_state import (
    ReadPartition,
    ReadShareGroupStateRequest,
    ReadTopic,
)
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.table import ApiTable
from minikafka.server.broker.share.share_partitions import SharePartitions
from tests.support.broker.api_rows import services
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog

pytestmark = pytest.mark.mission("SHR-11")

E = ErrorCode
OPEN, SECRET = UUID(int=1), UUID(int=2)
ROW = PartitionMetadata(1, 0, (1,), (1,), (), 1, 0)
IMAGE = MetadataImage(
    topics={"a": {0: ROW}, "secret": {0: ROW}},
    topic_ids={"a": OPEN, "secret": SECRET},
    topic_names={OPEN: "a", SECRET: "secret"},
)


class DeniesSecrets:
    """An authorizer that denies everything on what is named ``secret``, and on the cluster."""

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        return [action.resource.name not in ("secret", "kafka-cluster") for action in actions]


class FollowersAlone:
    """The replicas of a broker that leads no partition."""

    def get(self, topic_partition: TopicPartition) -> None:
        return None

    def require(self, topic_partition: TopicPartition) -> Any:
        raise KafkaError(E.NOT_LEADER_OR_FOLLOWER)


class Broker:
    """A broker with room for one share session."""

    def __init__(self, level: int = 1) -> None:
        self.levels = {SHARE_VERSION: level}
        shares: Any = SharePartitions(
            ManualClock(),
            cast(Any, None),
            cast(Any, FollowersAlone()),
            cast(Any, None),
            cast(Any, None),
            lambda group_id: ShareGroupSettings(),
            cast(Any, None),
            ShareSessions(1),
            RecordingLog(),
        )
        leaders = {"partition_leader": lambda _: (7, 3), "broker": lambda _: None}
        self.services = services(
            authorization=Authorization(cast(Authorizer, DeniesSecrets())),
            shares=shares,
            fetches=None,
            features=SimpleNamespace(level=self.levels.__getitem__),
            cache=SimpleNamespace(image=IMAGE, **leaders),
            config=SimpleNamespace(integer=lambda key: 1 << 20),
            share_states=None,
        )
        cast(Any, self.services.world).clock.sleep = self.sleep
        self.slept: list[int] = []

    async def sleep(self, delay_ms: int) -> None:
        self.slept.append(delay_ms)

    async def send(self, request: Any) -> Any:
        key = request.SPEC.api_key
        api = ApiTable()[key]
        handler: Any = api.authorization(self.services, api.handler(self.services), api.task)
        header = RequestHeader(key, key.max_version, 1, "client")
        return await handler(RequestContext(header, "OUT", "127.0.0.1"), request)


def fetch(group: str = "g", member: str = "m", **facts: Any) -> ShareFetchRequest:
    topics = [FetchTopic(topic_id, [FetchPartition(0)]) for topic_id in (OPEN, SECRET)]
    return ShareFetchRequest(group, member, 0, 9, 1, max_records=1, topics=topics, **facts)


def acknowledge(group: str = "g") -> ShareAcknowledgeRequest:
    rows = [AcknowledgePartition(0, [AcknowledgementBatch(0, 0, [1])])]
    topics = [AcknowledgeTopic(topic_id, rows) for topic_id in (OPEN, SECRET, UUID(int=9))]
    return ShareAcknowledgeRequest(group, "m", 1, topics=topics)


@pytest.mark.parametrize("request_", [fetch("secret"), acknowledge("secret")])
async def test_without_the_feature_nobody_fetches(request_: Any) -> None:
    assert (await Broker(level=0).send(request_)).error_code == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("request_", [fetch("secret"), acknowledge("secret")])
async def test_a_member_may_read_with_the_group(request_: Any) -> None:
    assert (await Broker().send(request_)).error_code == E.GROUP_AUTHORIZATION_FAILED


async def test_a_member_may_read_the_topics() -> None:
    broker = Broker()
    response = await broker.send(fetch())
    errors = {row.topic_id: row.partitions[0].error_code for row in response.responses}
    assert errors == {OPEN: E.NOT_LEADER_OR_FOLLOWER, SECRET: E.TOPIC_AUTHORIZATION_FAILED}
    (led,) = (row.partitions[0] for row in response.responses if row.topic_id == OPEN)
    assert (led.current_leader.leader_id, led.current_leader.leader_epoch) == (7, 3)
    response = await broker.send(acknowledge())
    errors = {row.topic_id: row.partitions[0].error_code for row in response.responses}
    assert errors == {
        OPEN: E.UNKNOWN_TOPIC_OR_PARTITION,
        SECRET: E.TOPIC_AUTHORIZATION_FAILED,
        UUID(int=9): E.UNKNOWN_TOPIC_ID,
    }


async def test_sessions_beyond_the_limit_wait_and_are_refused() -> None:
    broker = Broker()
    assert (await broker.send(fetch())).error_code == E.NONE
    response = await broker.send(fetch(member="another"))
    assert (response.error_code, broker.slept) == (E.SHARE_SESSION_LIMIT_REACHED, [9])
    assert (await broker.send(fetch())).error_code == E.NONE  # takes the place of its own


async def test_sessions_end_without_the_feature() -> None:
    broker = Broker()
    assert (await broker.send(fetch())).error_code == E.NONE
    for level, error in ((0, E.UNSUPPORTED_VERSION), (1, E.SHARE_SESSION_NOT_FOUND)):
        broker.levels[SHARE_VERSION] = level
        assert (await broker.send(acknowledge())).error_code == error


async def test_a_renewal_fetches_nothing() -> None:
    response = await Broker().send(fetch(is_renew_ack=True))
    assert response.error_code == E.INVALID_REQUEST


async def test_states_are_for_brokers() -> None:
    topics = [ReadTopic(OPEN, [ReadPartition(0), ReadPartition(5)])]
    response = await Broker().send(ReadShareGroupStateRequest("g", topics))
    errors = [row.error_code for row in response.results[0].partitions]
    assert errors == [E.CLUSTER_AUTHORIZATION_FAILED] * 2


def test_groups_begin_where_their_settings_say() -> None:
    assert reset_timestamp("latest", 9) == LATEST
    assert reset_timestamp("earliest", 9) == EARLIEST
    day_ms = 86_400_000
    assert reset_timestamp("by_duration:P1DT1H1M1.5S", 2 * day_ms) == day_ms - 3_661_500
    for text in ("", "P1D", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1"):
        with pytest.raises(ValueError, match="can begin"):
            reset_timestamp(text, 9)
