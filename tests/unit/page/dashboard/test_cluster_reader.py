"""Reads of a large cluster: few requests, and each broker that is silent gets one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.core.client.calls import Call
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.page.dashboard.cluster_facts import FailedCall
from minikafka.page.dashboard.cluster_reader import (
    LARGE,
    LARGE_MAX_AGE_MS,
    LIST_MAX_AGE_MS,
    MEDIUM,
    MEDIUM_MAX_AGE_MS,
    STALE_MS,
    ClusterReader,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.schema import Message

COUNT = LARGE + 1
NAMES = [f"t{number:05}" for number in range(COUNT)]


class Session:
    """A session with brokers 1 and 2, of which those in ``silent`` do not respond."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.world = self.clock = self.connections = self.workers = self
        self.epochs = dict.fromkeys(NAMES, 0)
        self.silent: set[int] = set()
        self.requests: list[Message] = []

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def deadline_ms(self, timeout_ms: int) -> int:
        return self.now_ms + timeout_ms

    def set_nodes(self, nodes: object) -> None:
        pass

    async def call_any(self, call: Call[Any], deadline_ms: int) -> Any:
        return await self.call_within(1, call, 0)

    async def call_within(self, broker_id: int, call: Call[Any], timeout_ms: int) -> Any:
        self.requests.append(call.request)
        if broker_id in self.silent:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "connection refused")
        if not isinstance(call.request, MetadataRequest):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        topics = call.request.topics
        names = self.epochs if topics is None else [topic.name or "" for topic in topics]
        return call.read(
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=number) for number in (1, 2)],
                controller_id=2,
                topics=[self._topic(name) for name in names],
            )
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.epochs:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(error_code=code, name=name)
        epoch = self.epochs[name]
        row = MetadataResponsePartition(leader_id=1, leader_epoch=epoch, replica_nodes=[1])
        return MetadataResponseTopic(name=name, partitions=[row])

    def named(self) -> list[int | None]:
        """How many topics each Metadata request has named since the last call; None is all."""
        requests, self.requests = self.requests, []
        return [
            None if request.topics is None else len(request.topics)
            for request in requests
            if isinstance(request, MetadataRequest)
        ]


def reader_of(session: Session) -> ClusterReader:
    class FakeAdmin:
        pass

    admin = FakeAdmin()
    admin.session = session  # type: ignore[attr-defined]
    return ClusterReader(cast(Admin, admin))


@pytest.mark.mission("GLASS-15", "GLASS-19")
async def test_a_large_cluster_is_read_whole_only_now_and_then() -> None:
    session = Session()
    reader = reader_of(session)
    for now_ms in range(0, 2 * LARGE_MAX_AGE_MS, 1000):
        session.now_ms = now_ms
        view = await reader.topics(NAMES[:100])
        assert len(view.topics) == COUNT
    requests = session.named()
    assert requests.count(None) == 2
    assert set(requests) == {None, 100}
    assert len((await reader.all_topics(LARGE_MAX_AGE_MS)).topics) == COUNT
    assert session.named() == []


@pytest.mark.mission("GLASS-15")
async def test_a_list_of_a_large_cluster_does_not_wait_for_the_next_read() -> None:
    session = Session()
    reader = reader_of(session)
    await reader.listed_topics()
    session.now_ms += LIST_MAX_AGE_MS + 1
    del session.epochs[NAMES[0]]
    assert NAMES[0] in (await reader.listed_topics()).topics
    assert session.named() == [None]  # the first one: the next one has not begun
    await asyncio.sleep(0)
    assert session.named() == [None]
    assert NAMES[0] not in (await reader.listed_topics()).topics
    session.now_ms += STALE_MS + 1
    del session.epochs[NAMES[1]]
    assert NAMES[1] not in (await reader.listed_topics()).topics


async def test_the_topics_that_are_named_are_those_of_now() -> None:
    session = Session()
    reader = reader_of(session)
    await reader.topics([])
    session.epochs[NAMES[0]] = session.epochs[NAMES[1]] = 7
    view = await reader.topics([NAMES[0]])
    assert view.topics[NAMES[0]].partitions[0].leader_epoch == 7
    assert view.topics[NAMES[1]].partitions[0].leader_epoch == 0
    del session.epochs[NAMES[0]]
    gone = (await reader.topics([NAMES[0]])).topics[NAMES[0]]
    assert gone.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_small_cluster_is_read_whole_each_time() -> None:
    session = Session()
    session.epochs = {"a": 0, "b": 0}
    reader = reader_of(session)
    for now_ms in range(3):
        session.now_ms = now_ms
        await reader.topics(["a"])
    assert session.named() == [None] * 3


@pytest.mark.mission("GLASS-15")
async def test_hundreds_of_topics_are_read_less_often_unless_something_happened() -> None:
    session = Session()
    session.epochs = dict.fromkeys(NAMES[:MEDIUM], 0)
    reader = reader_of(session)
    for now_ms in range(0, 2 * MEDIUM_MAX_AGE_MS, 500):
        session.now_ms = now_ms
        await reader.topics([])
    assert session.named() == [None] * 2
    session.epochs[NAMES[0]] = 1
    reader.expect_changes()
    view = await reader.topics([])
    assert view.topics[NAMES[0]].partitions[0].leader_epoch == 1
    await reader.topics([])
    assert session.named() == [None]


@pytest.mark.mission("GLASS-12")
async def test_a_silent_broker_gets_no_further_calls_in_the_same_look() -> None:
    session = Session()
    reader = reader_of(session)
    await reader.all_topics(0)
    session.silent = {2}
    session.requests = []
    errors: list[FailedCall] = []
    await reader.list_groups(errors)
    await reader.list_transactions(errors)
    await reader.reassignments(errors)
    assert [(error.call, error.broker) for error in errors] == [("ListGroups", 2)]
    assert len(session.requests) == 3  # two of broker 1, which has no such APIs: no errors


@pytest.mark.mission("GLASS-12")
async def test_metadata_come_from_another_broker_where_the_controller_is_silent() -> None:
    session = Session()
    reader = reader_of(session)
    await reader.all_topics(0)
    session.silent = {2}
    session.now_ms = 1
    session.requests = []
    await reader.all_topics(0)
    assert session.named() == [None, None]
