"""OffsetCommit and OffsetFetch of version 10: topics are named by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast
from uuid import UUID

import pytest

from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.offset_commit import OffsetCommitHandler
from minikafka.server.broker.apis.groups.offset_fetch import OffsetFetchHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.table import ApiTable
from tests.support.broker.api_rows import services
from tests.support.broker.cluster_metadata import cache_with, partition_state, topic_id, update
from tests.support.coordinator.group_lab import GROUP, GroupLab

E = ErrorCode
STRANGE = UUID(int=77)
A, B, SECRET = topic_id("a"), topic_id("b"), topic_id("secret")
SECRETS = ("secret", "secrets")
# (topic id, partition, offset or error)
Rows: TypeAlias = list[tuple[UUID, int, int]]
Guard: TypeAlias = Callable[[ApiKey, Any], Any]


class DeniesSecrets:
    """An authorizer that denies everything on ``SECRETS``. It is never asked for a topic without
    a name."""

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        names = [action.resource.name for action in actions]
        assert "" not in names
        return [name not in SECRETS for name in names]


class Lab:
    """One coordinator, and the handlers of a broker that knows the topics a, b and secret."""

    def __init__(self, with_ids: bool = True) -> None:
        self.groups = GroupLab()
        topics = {name: [partition_state(0, 1)] for name in ("a", "b", "secret")}
        self.cache = cache_with(update(topics, with_ids=with_ids))

    def ask(self, handler: Any, api: ApiKey, request: Any, version: int, guarded: bool) -> Any:
        """Return the response to ``request``; both are encoded and decoded."""
        if guarded:
            authorization = Authorization(cast(Authorizer, DeniesSecrets()))
            broker = services(authorization=authorization, cache=self.cache)
            handler = ApiTable()[api].authorization(broker, handler, False)
        request = decode(type(request), version, encode(request, version))
        context = RequestContext(RequestHeader(api, version, 1), "L", "10.0.0.1")
        responses: list[Any] = []
        handler(context, request, responses.append)
        (response,) = responses
        return decode(type(response), version, encode(response, version))

    def commit(
        self, *topics: UUID, partition: int = 0, group: str = GROUP, guarded: bool = False
    ) -> Rows:
        """Commit offset 5 of a partition of each topic. Return the errors."""
        rows = [OffsetCommitRequestPartition(partition, 5)]
        request = OffsetCommitRequest(
            group,
            topics=[OffsetCommitRequestTopic(topic_id=each, partitions=rows) for each in topics],
        )
        handler = OffsetCommitHandler(
            self.groups.coordinator, cast(Any, None), self.cache, self.groups.clock, 4096
        )
        response = self.ask(handler, ApiKey.OFFSET_COMMIT, request, 10, guarded)
        assert isinstance(response, OffsetCommitResponse)
        return [
            (topic.topic_id, row.partition_index, row.error_code)
            for topic in response.topics
            for row in topic.partitions
        ]

    def fetch(
        self,
        *topics: UUID,
        group: str = GROUP,
        guarded: bool = False,
        whole: bool = False,
    ) -> OffsetFetchResponseGroup:
        """Fetch the offset of partition 0 of each topic, or all offsets if ``whole``."""
        named = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in topics]
        wanted = OffsetFetchRequestGroup(group, topics=None if whole else named)
        handler = OffsetFetchHandler(self.groups.coordinator, cast(Any, None), self.cache)
        request = OffsetFetchRequest(groups=[wanted])
        response = self.ask(handler, ApiKey.OFFSET_FETCH, request, 10, guarded)
        assert isinstance(response, OffsetFetchResponse)
        (found,) = response.groups
        return found


def offsets(group: OffsetFetchResponseGroup) -> Rows:
    assert group.error_code == E.NONE
    return [
        (topic.topic_id, row.error_code, row.committed_offset)
        for topic in group.topics
        for row in topic.partitions
    ]


def test_offsets_are_stored_by_the_names_of_the_topics() -> None:
    lab = Lab()
    assert lab.commit(B, A) == [(B, 0, E.NONE), (A, 0, E.NONE)]
    assert lab.groups.committed() == {("a", 0): 5, ("b", 0): 5}
    assert offsets(lab.fetch(A, B)) == [(A, E.NONE, 5), (B, E.NONE, 5)]
    assert sorted(offsets(lab.fetch(whole=True))) == sorted([(A, E.NONE, 5), (B, E.NONE, 5)])


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("unknown", [STRANGE, ZERO_UUID])
async def test_unknown_ids_are_errors_of_their_rows(unknown: UUID, guarded: bool) -> None:
    lab = Lab()
    assert lab.commit(unknown, A, guarded=guarded) == [
        (A, 0, E.NONE),
        (unknown, 0, E.UNKNOWN_TOPIC_ID),
    ]
    assert lab.groups.committed() == {("a", 0): 5}
    assert offsets(lab.fetch(unknown, A, guarded=guarded)) == [
        (A, E.NONE, 5),
        (unknown, E.UNKNOWN_TOPIC_ID, -1),
    ]
    assert lab.commit(unknown, guarded=guarded) == [(unknown, 0, E.UNKNOWN_TOPIC_ID)]


def test_a_known_topic_may_lack_the_partition() -> None:
    lab = Lab()
    assert lab.commit(A, partition=1) == [(A, 1, E.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_topics_are_authorized_by_name() -> None:
    lab = Lab()
    assert lab.commit(SECRET, STRANGE, A, guarded=True) == [
        (A, 0, E.NONE),
        (STRANGE, 0, E.UNKNOWN_TOPIC_ID),
        (SECRET, 0, E.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert lab.commit(SECRET, guarded=True) == [(SECRET, 0, E.TOPIC_AUTHORIZATION_FAILED)]
    assert lab.groups.committed() == {("a", 0): 5}
    assert lab.commit(SECRET) == [(SECRET, 0, E.NONE)]
    assert offsets(lab.fetch(SECRET, STRANGE, A, guarded=True)) == [
        (A, E.NONE, 5),
        (STRANGE, E.UNKNOWN_TOPIC_ID, -1),
        (SECRET, E.TOPIC_AUTHORIZATION_FAILED, -1),
    ]
    assert offsets(lab.fetch(whole=True, guarded=True)) == [(A, E.NONE, 5)]


async def test_the_error_of_a_group_is_that_of_all_topics() -> None:
    lab = Lab()
    assert lab.commit(STRANGE, A, group="secrets", guarded=True) == [
        (STRANGE, 0, E.GROUP_AUTHORIZATION_FAILED),
        (A, 0, E.GROUP_AUTHORIZATION_FAILED),
    ]
    refused = lab.fetch(STRANGE, A, group="secrets", guarded=True)
    assert (refused.error_code, refused.topics) == (E.GROUP_AUTHORIZATION_FAILED, [])
    lab.groups.resign()
    assert lab.commit(STRANGE, A) == [
        (A, 0, E.NOT_COORDINATOR),
        (STRANGE, 0, E.UNKNOWN_TOPIC_ID),
    ]
    found = lab.fetch(STRANGE, A)
    assert (found.error_code, found.topics) == (E.NOT_COORDINATOR, [])


def test_all_offsets_are_those_of_topics_with_ids() -> None:
    lab = Lab(with_ids=False)
    lab.groups.commit({("a", 0): 5})
    assert offsets(lab.fetch(whole=True)) == []
    assert offsets(lab.fetch(A)) == [(A, E.UNKNOWN_TOPIC_ID, -1)]


@pytest.mark.parametrize(("version", "member"), [(8, (None, -1)), (9, ("m", 3)), (10, ("m", 3))])
@pytest.mark.parametrize("whole", [False, True])
def test_the_coordinator_gets_the_epoch_of_the_member(
    version: int, member: tuple[str | None, int], whole: bool
) -> None:
    passed: list[tuple[str | None, int]] = []

    class Groups:
        def fetch(self, *_: Any, member_id: str | None, member_epoch: int) -> list[Any]:
            passed.append((member_id, member_epoch))
            return []

        fetch_all = fetch

    lab = Lab()
    named = [OffsetFetchRequestTopics("a", A, [0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(GROUP, "m", 3, None if whole else named)]
    )
    handler = OffsetFetchHandler(cast(Any, Groups()), cast(Any, None), lab.cache)
    lab.ask(handler, ApiKey.OFFSET_FETCH, request, version, guarded=False)
    assert passed == [member]
