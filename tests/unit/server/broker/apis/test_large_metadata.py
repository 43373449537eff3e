"""Metadata of more topics than are looked up in one turn of the loop: the same, in slices."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.protocol.codec import encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics import metadata as cluster
from minikafka.server.broker.apis.topics.metadata import LARGE, MetadataHandler
from minikafka.server.broker.metadata.topic_rows import EncodedTopic, EncodedTopics
from tests.support.broker.cluster_metadata import (
    cache_with,
    live_broker,
    partition_state,
    topic_id,
    update,
)
from tests.support.world.turns import pause_at_every_element

BROKERS = [live_broker(1, ("IN", "OUT"), "r1"), live_broker(2, ("IN",))]
TOPICS = {
    "a": [partition_state(0, 1), partition_state(1, 2, (2, 3), leader_epoch=5, offline=(3,))],
    "b": [partition_state(0, 4, (4, 1), isr=(4,))],
}
ALL = None
REQUESTS: list[list[MetadataRequestTopic] | None] = [
    ALL,
    [],
    [MetadataRequestTopic(name=name) for name in ("b", "missing", "a", "a", "..", "")],
    [MetadataRequestTopic(topic_id(name), None) for name in ("b", "missing", "a", "a")],
    [MetadataRequestTopic(topic_id("b"), None), MetadataRequestTopic(name="a")],
    [MetadataRequestTopic(ZERO_UUID, None)],
]


class Creation:
    """Refuse the topics to create, at once."""

    enabled = True

    def create(self, topics: Any, respond: Any, take_permits: Any) -> None:
        respond(dict.fromkeys(topics, 3))


def served(request: MetadataRequest, version: int) -> MetadataResponse:
    handler = MetadataHandler(
        cache_with(update(TOPICS, BROKERS)), cast(Any, Creation()), "c", EncodedTopics()
    )
    context = RequestContext(RequestHeader(3, version, 1), "OUT", "h")

    async def response() -> MetadataResponse:
        replies: list[MetadataResponse] = []
        rest = handler(context, request, replies.append)
        if rest is not None:
            await rest
        return replies.pop()

    return asyncio.run(response())


@pytest.mark.mission("SCALE-2")
@pytest.mark.parametrize("operations", [False, True])
@pytest.mark.parametrize("version", [0, 1, 8, 9, 10, 12])
@pytest.mark.parametrize("topics", REQUESTS)
def test_slices_give_the_same_response(
    monkeypatch: pytest.MonkeyPatch,
    topics: list[MetadataRequestTopic] | None,
    version: int,
    operations: bool,
) -> None:
    def response(large: int) -> bytes:
        monkeypatch.setattr(cluster, "LARGE", large)
        request = MetadataRequest(topics)
        request.include_topic_authorized_operations = operations and version >= 8
        return encode(served(request, version), version)

    small = response(LARGE)
    pause_at_every_element(monkeypatch)
    assert response(-1) == small


@pytest.mark.mission("SCALE-1")
def test_many_topics_are_sent_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LARGE", 1)
    response = served(MetadataRequest(None), 12)
    assert [type(topic) for topic in response.topics] == [EncodedTopic, EncodedTopic]


def test_operations_are_set_in_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since an authorizer changes them for each client."""
    monkeypatch.setattr(cluster, "LARGE", 1)
    response = served(MetadataRequest(None, include_topic_authorized_operations=True), 12)
    assert EncodedTopic not in map(type, response.topics)


@pytest.mark.mission("SCALE-2")
@pytest.mark.parametrize(
    ("topics", "request_topics"),
    [
        (1_000, None),
        (1_000, [MetadataRequestTopic(name=f"t{n}") for n in range(1_000)]),
        (0, [MetadataRequestTopic(name=f"t{n}") for n in range(1_000)]),
        (0, [MetadataRequestTopic(topic_id(f"t{n}"), None) for n in range(1_000)]),
        (0, [MetadataRequestTopic(topic_id(f"t{n}"), "name") for n in range(1_000)]),
    ],
)
def test_the_loop_runs_between_slices(
    monkeypatch: pytest.MonkeyPatch,
    topics: int,
    request_topics: list[MetadataRequestTopic] | None,
) -> None:
    cache = cache_with(update({f"t{n}": [partition_state(0, 1)] for n in range(topics)}, BROKERS))
    handler = MetadataHandler(cache, cast(Any, Creation()), "c", EncodedTopics())
    version = 9 if request_topics and request_topics[0].name == "name" else 12
    context = RequestContext(RequestHeader(3, version, 1), "OUT", "h")

    async def turns() -> int:
        replies: list[MetadataResponse] = []
        rest = handler(context, MetadataRequest(request_topics), replies.append)
        assert rest is not None
        task = asyncio.ensure_future(rest)
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(replies[0].topics) == 1_000
        return turns

    pause_at_every_element(monkeypatch)
    assert asyncio.run(turns()) >= 1_000
