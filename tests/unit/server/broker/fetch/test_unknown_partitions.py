"""A Fetch that names unknown partitions or topics waits for the others, as in Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.server.broker.fetch import record_fetches
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster, values_in

UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
NOT_HERE = UUID(int=99)
MAX_WAIT_MS = 500


def fetching(
    partitions: Sequence[int] = (), unknown_id: Sequence[int] = (), **fields: Any
) -> FetchRequest:
    """Fetch partitions of the topic, of which 9 does not exist, and of an unknown topic."""
    topics = [
        FetchTopic(name, topic_id, [FetchPartition(i, partition_max_bytes=1 << 20) for i in rows])
        for name, topic_id, rows in (
            ("unknown", NOT_HERE, unknown_id),
            (TOPIC, TOPIC_ID, partitions),
        )
        if rows
    ]
    given: dict[str, Any] = {"max_wait_ms": MAX_WAIT_MS, "min_bytes": 1, **fields}
    return FetchRequest(topics=topics, **given)


def rows(response: FetchResponse) -> list[tuple[int, int, list[str]]]:
    return [
        (p.partition_index, p.error_code, values_in(p.records))
        for topic in response.responses
        for p in topic.partitions
    ]


async def alone(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
    return cluster[1]


@pytest.mark.parametrize("version", [4, 12, 13, 17, 18])
async def test_a_fetch_waits_up_to_max_wait_ms_for_its_known_partitions(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        responses = node.ask(fetching([0, 9, 1], [3]), version)
        await cluster.clock.advance(MAX_WAIT_MS - 1)
        assert responses == []
        await cluster.clock.advance(2)
        topic_error = UNKNOWN if version < 13 else UNKNOWN_ID
        assert rows(responses[0]) == [
            (3, topic_error, []),
            (0, 0, []),
            (9, UNKNOWN, []),
            (1, 0, []),
        ]


async def test_records_of_a_known_partition_complete_the_fetch() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        responses = node.ask(fetching([9, 0, 1]), 12)
        node.produce("a", topic_partition=TP._replace(partition=1))
        assert rows(responses[0]) == [(9, UNKNOWN, []), (0, 0, []), (1, 0, ["a"])]


@pytest.mark.parametrize("version", [12, 13])
async def test_a_fetch_of_unknown_partitions_alone_does_not_wait(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        (response,) = node.ask(fetching([9], [0]), version)
        assert {error for _, error, _ in rows(response)} <= {UNKNOWN, UNKNOWN_ID}


async def test_other_errors_end_the_wait() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        await cluster.elect(2, isr=[2], replicas=[2], partitions=[5], tell=[1])
        (elsewhere,) = node.ask(fetching([9, 0, 5]), 12)
        assert rows(elsewhere)[2][1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        request = fetching([9, 0, 1])
        request.topics[0].partitions[2].fetch_offset = 7
        (beyond,) = node.ask(request, 12)
        assert rows(beyond)[2][1] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [12, 17, 18])
async def test_a_session_waits_in_each_request_and_repeats_the_error(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        (first,) = node.ask(fetching([0, 9], max_wait_ms=0, session_epoch=0), version)
        for epoch in (1, 2):
            request = fetching(session_id=first.session_id, session_epoch=epoch)
            responses = node.ask(request, version)
            await cluster.clock.advance(MAX_WAIT_MS - 1)
            assert responses == []
            await cluster.clock.advance(2)
            assert rows(responses[0]) == [(9, UNKNOWN, [])]


async def test_a_fetch_that_is_read_in_slices_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_fetches, "ENTRIES_AT_ONCE", 1)
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        responses = node.ask(fetching([9, 0, 1]), 12)
        await cluster.clock.advance(MAX_WAIT_MS - 1)
        assert responses == []
        node.produce("a", topic_partition=TP)
        assert rows(responses[0]) == [(9, UNKNOWN, []), (0, 0, ["a"]), (1, 0, [])]


async def test_a_fetch_of_many_bytes_is_parked_without_a_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a", topic_partition=TP)
        log, reads = node.replicas.hosted.require(TP).log, []
        real_read = log.read

        def read(*args: Any) -> Any:
            reads.append(args)
            return real_read(*args)

        monkeypatch.setattr(log, "read", read)
        responses = node.ask(fetching([9, 0], min_bytes=1 << 20, max_bytes=1 << 21), 12)
        assert (responses, reads) == ([], [])
        await cluster.clock.advance(MAX_WAIT_MS + 1)
        assert rows(responses[0]) == [(9, UNKNOWN, []), (0, 0, ["a"])]


async def test_a_follower_does_not_wait() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        (response,) = cluster[1].ask(fetching([0, 9], replica_id=2), 12)
        assert rows(response) == [(0, 0, []), (9, UNKNOWN, [])]


async def test_a_leader_that_moves_ends_the_wait() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        responses = node.ask(fetching([0, 9, 1]), 10)
        await cluster.elect(2, isr=[2], replicas=[1, 2], partitions=[1], epoch=1, tell=[1])
        assert [error for _, error, _ in rows(responses[0])] == [
            0,
            UNKNOWN,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]


class OneTopic:
    """An authorization that lets clients read ``name`` alone."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def readable(self, context: Any, topics: Any) -> frozenset[str]:
        return frozenset({self._name})


async def test_a_refused_topic_does_not_end_the_wait_either() -> None:
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        handler: Any = node.handlers[ApiKey.FETCH]
        handler._authorization = OneTopic(TOPIC)
        responses = node.ask(fetching([9, 0], [3]), 12)
        await cluster.clock.advance(MAX_WAIT_MS - 1)
        assert responses == []
        await cluster.clock.advance(2)
        assert rows(responses[0]) == [(3, refused, []), (9, UNKNOWN, []), (0, 0, [])]
        (at_once,) = node.ask(fetching([9], [3]), 12)
        assert rows(at_once) == [(3, refused, []), (9, UNKNOWN, [])]
