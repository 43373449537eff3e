"""DescribeTopicPartitions: pages, what is refused, and what a principal may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from minikafka.server.broker.apis.authorization import TOPIC_OPERATIONS, Authorization
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsHandler,
)
from tests.support.broker.api_rows import services
from tests.support.broker.cluster_metadata import (
    cache_with,
    live_broker,
    partition_state,
    topic_id,
    update,
)

E = ErrorCode
BROKERS = [live_broker(1, ("IN", "OUT")), live_broker(2, ("IN",))]
TOPICS = {
    "a": [partition_state(0, 1), partition_state(1, 2, (2, 3), leader_epoch=5, offline=(3,))],
    "secret": [partition_state(0, 1)],
    "z": [partition_state(0, 1), partition_state(1, 1), partition_state(2, 1)],
}


class DeniesSecrets:
    """An authorizer that denies everything on topics whose names begin with ``secret``."""

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        return [not action.resource.name.startswith("secret") for action in actions]

    def authorize_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        return True


async def send(
    *names: str,
    limit: int = 2_000,
    cursor: tuple[str, int] | None = None,
    most: int = 2_000,
    guarded: bool = False,
) -> DescribeTopicPartitionsResponse:
    """Send one request on listener OUT; encode and decode both messages."""
    start = None if cursor is None else Cursor(*cursor)
    request = DescribeTopicPartitionsRequest(
        [DescribedTopicName(name) for name in names], limit, start
    )
    request = decode(type(request), 0, encode(request, 0))
    cache = cache_with(update(TOPICS, BROKERS))
    handler: Any = DescribeTopicPartitionsHandler(cache, most)
    if guarded:
        authorization = Authorization(cast(Authorizer, DeniesSecrets()))
        broker = services(authorization=authorization, cache=cache)
        handler = DESCRIBE_TOPIC_PARTITIONS.authorization(broker, handler, True)
    header = RequestHeader(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 1)
    response = await handler(RequestContext(header, "OUT", "h"), request)
    return decode(DescribeTopicPartitionsResponse, 0, encode(response, 0))


def shown(response: DescribeTopicPartitionsResponse) -> Any:
    """Return the topics with their error or partitions, and the cursor."""
    rows = [
        (
            row.name,
            E(row.error_code) if row.error_code else [p.partition_index for p in row.partitions],
        )
        for row in response.topics
    ]
    cursor = response.next_cursor
    return rows, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_a_topic_has_what_metadata_has() -> None:
    (topic,) = (await send("a")).topics
    assert (topic.topic_id, topic.is_internal) == (topic_id("a"), False)
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    assert [
        (p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in topic.partitions
    ] == [
        (1, 0, [1, 2, 3], [1, 2, 3], []),
        (-1, 5, [2, 3], [2, 3], [3]),  # the leader does not have the client's listener
    ]
    assert {p.error_code for p in topic.partitions} == {0}
    assert [p.eligible_leader_replicas for p in topic.partitions] == [[], []]


async def test_all_topics_page_by_page() -> None:
    assert shown(await send()) == ([("a", [0, 1]), ("secret", [0]), ("z", [0, 1, 2])], None)
    assert shown(await send(limit=2)) == ([("a", [0, 1])], ("secret", 0))
    assert shown(await send(limit=2, cursor=("secret", 0))) == (
        [("secret", [0]), ("z", [0])],
        ("z", 1),
    )
    assert shown(await send(limit=2, cursor=("z", 1))) == ([("z", [1, 2])], None)
    gone = await send(cursor=("b", 1))  # a topic that was deleted between two pages
    assert shown(gone) == ([("secret", [0]), ("z", [0, 1, 2])], None)


@pytest.mark.parametrize(("limit", "most"), [(0, 2_000), (-5, 2_000), (1, 2_000), (2_000, 1)])
async def test_a_page_has_a_partition_and_at_most_the_brokers_limit(limit: int, most: int) -> None:
    assert shown(await send(limit=limit, most=most)) == ([("a", [0])], ("a", 1))


async def test_named_topics_are_sorted_and_missing_ones_have_an_error() -> None:
    response = await send("z", "no", "a", "?", "a")
    assert shown(response) == (
        [
            ("?", E.INVALID_TOPIC_EXCEPTION),
            ("a", [0, 1]),
            ("no", E.UNKNOWN_TOPIC_OR_PARTITION),
            ("z", [0, 1, 2]),
        ],
        None,
    )


@pytest.mark.parametrize("guarded", [False, True])
async def test_invalid_cursors(guarded: bool) -> None:
    invalid = [("a", E.INVALID_REQUEST), ("secret", E.INVALID_REQUEST)]
    for cursor in (("b", 0), ("a", -1)):
        response = await send("a", "secret", cursor=cursor, guarded=guarded)
        assert shown(response) == (invalid, None)
    assert shown(await send(cursor=("a", -1), guarded=guarded)) == ([], None)


async def test_topics_that_may_not_be_described() -> None:
    assert shown(await send(guarded=True)) == ([("a", [0, 1]), ("z", [0, 1, 2])], None)
    names = ("a", "secret", "secret-missing", "z")
    denied = E.TOPIC_AUTHORIZATION_FAILED
    response = await send(*names, guarded=True)
    hidden = [("secret", denied), ("secret-missing", denied)]
    assert shown(response) == ([("a", [0, 1]), ("z", [0, 1, 2]), *hidden], None)
    assert {row.topic_id for row in response.topics if row.error_code} == {ZERO_UUID}
    # Those after the end of the page are in the next one.
    assert shown(await send(*names, limit=1, guarded=True)) == ([("a", [0])], ("a", 1))
    assert shown(await send(*names, limit=2, guarded=True)) == (
        [("a", [0, 1]), *hidden],
        ("z", 0),
    )
    at_secret = await send(*names, cursor=("secret", 1), guarded=True)
    assert shown(at_secret) == ([("z", [0, 1, 2]), *hidden], None)
    assert shown(await send("secret", guarded=True)) == ([("secret", denied)], None)
