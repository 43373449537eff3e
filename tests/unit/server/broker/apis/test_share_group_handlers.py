"""The APIs of share groups: without the feature, and who may send what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS
from minikafka.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from minikafka.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.table import ApiTable
from tests.support.broker.api_rows import services
from tests.support.coordinator.group_lab import GROUP, GroupLab

E = ErrorCode
TOPICS = ("a", "secret")


class DeniesSecrets:
    """An authorizer that denies everything on what is named ``secret``."""

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        return [action.resource.name != "secret" for action in actions]

    def authorize_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        return True


@pytest.fixture
def lab() -> Iterator[GroupLab]:
    lab = GroupLab()
    lab.make_topics(a=1, secret=1)
    yield lab
    lab.tasks.drop_states()


async def send(lab: GroupLab, request: Any, level: int = 1) -> Any:
    """Send a request in its newest version to a broker with the authorizer."""
    key = request.SPEC.api_key
    api = ApiTable()[key]
    broker = services(
        authorization=Authorization(cast(Authorizer, DeniesSecrets())),
        groups=lab.coordinator,
        features=SimpleNamespace(level={SHARE_VERSION: level}.__getitem__),
        cache=SimpleNamespace(image=lab.image),
    )
    handler: Any = api.authorization(broker, api.handler(broker), api.task)
    context = RequestContext(RequestHeader(key, key.max_version, 1, "client"), "OUT", "127.0.0.1")
    if api.task:
        return await handler(context, request)
    reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    rest = handler(context, request, reply.set_result)
    if rest is not None:
        await rest
    return await reply


def heartbeat(group: str = GROUP, member_id: str = "m", *topics: str) -> Any:
    return ShareGroupHeartbeatRequest(group, member_id, JOINS, None, list(topics) or None)


def described(*groups: str, topics: Sequence[str] | None = TOPICS) -> Any:
    rows = None
    if topics is not None:
        rows = [DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in topics]
    return DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(name, rows) for name in groups]
    )


def altered(group: str) -> Any:
    rows = [AlterShareGroupOffsetsRequestPartition(0, 7)]
    topics = [AlterShareGroupOffsetsRequestTopic(name, rows) for name in TOPICS]
    return AlterShareGroupOffsetsRequest(group, topics)


def deleted(group: str) -> Any:
    topics = [DeleteShareGroupOffsetsRequestTopic(name) for name in TOPICS]
    return DeleteShareGroupOffsetsRequest(group, topics)


@pytest.mark.mission("SHR-9")
@pytest.mark.parametrize(
    "request_",
    [
        heartbeat("secret"),
        ShareGroupDescribeRequest(["secret"]),
        described("secret"),
        altered("secret"),
        deleted("secret"),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_without_the_feature_nobody_is_served(lab: GroupLab, request_: Any) -> None:
    response = await send(lab, request_, level=0)
    (row,) = getattr(response, "groups", [response])
    assert row.error_code == E.UNSUPPORTED_VERSION


@pytest.mark.mission("SHR-9")
async def test_a_group_that_one_may_not_use(lab: GroupLab) -> None:
    refused = E.GROUP_AUTHORIZATION_FAILED
    assert (await send(lab, heartbeat("secret", "m", "a"))).error_code == refused
    groups = (await send(lab, ShareGroupDescribeRequest(["secret", GROUP]))).groups
    assert [row.error_code for row in groups] == [refused, E.GROUP_ID_NOT_FOUND]
    groups = (await send(lab, described("secret", GROUP))).groups
    assert [row.error_code for row in groups] == [refused, E.NONE]
    for request in (altered("secret"), deleted("secret")):
        with pytest.raises(KafkaError, match=refused.name):
            await send(lab, request)


@pytest.mark.mission("SHR-9")
async def test_topics_that_one_may_not_see(lab: GroupLab) -> None:
    refused = E.TOPIC_AUTHORIZATION_FAILED
    assert (await send(lab, heartbeat(GROUP, "m", *TOPICS))).error_code == refused
    rows = (await send(lab, altered(GROUP))).responses
    codes = {row.topic_name: row.partitions[0].error_code for row in rows}
    assert codes == {"a": E.NONE, "secret": refused}
    (group,) = (await send(lab, described(GROUP))).groups
    codes = {row.topic_name: row.partitions[0].error_code for row in group.topics}
    assert codes == {"a": E.NONE, "secret": refused}
    rows = (await send(lab, deleted(GROUP))).responses
    assert {row.topic_name: row.error_code for row in rows} == {"a": E.NONE, "secret": refused}


@pytest.mark.mission("SHR-9")
async def test_members_that_read_what_one_may_not_see(lab: GroupLab) -> None:
    lab.share_beat("m", JOINS, topics=TOPICS)
    await lab.settle_states()
    lab.share_beat("m", 1)
    (group,) = (await send(lab, described(GROUP, topics=None))).groups
    assert [row.topic_name for row in group.topics] == ["a"]
    (group,) = (await send(lab, ShareGroupDescribeRequest([GROUP]))).groups
    assert group.error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert group.members == []


@pytest.mark.mission("SHR-9")
@pytest.mark.parametrize("member_id", ["", 37 * "x"])
async def test_a_member_id_is_at_most_a_uuid(lab: GroupLab, member_id: str) -> None:
    response = await send(lab, heartbeat(GROUP, member_id, "a"))
    assert response.error_code == E.INVALID_REQUEST


def test_early_versions_are_not_served() -> None:
    keys = {key for key in ApiKey if key.first_version}
    assert {ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE} <= keys
    assert all(key.first_version == 1 for key in keys)
