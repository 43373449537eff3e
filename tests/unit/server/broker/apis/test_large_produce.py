"""A Produce request to thousands of existing partitions is served in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.server.broker.apis.records import produce
from minikafka.server.broker.apis.records.produce import ProduceHandler
from minikafka.server.broker.apis.request import RequestContext
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster
from tests.support.storage.logs import NOW
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element
from tests.unit.server.broker.replication.test_append_order import Verifications, batch

E = ErrorCode
COUNT = 1_000
VERSION = 9


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)
    for size in ("SERVED_AT_ONCE", "APPENDED_AT_ONCE"):
        monkeypatch.setattr(produce, size, 5)


def plain(value: str = "a") -> bytes:
    return build_batch([(NOW, None, value.encode(), ())])


def request_of(
    topics: Sequence[Sequence[tuple[int, bytes]]], acks: int = 1, **fields: Any
) -> ProduceRequest:
    """``topics`` has pairs of partition and records for each entry of the request."""
    data = [
        TopicProduceData(
            TOPIC, partition_data=[PartitionProduceData(p, records) for p, records in rows]
        )
        for rows in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data, **fields)


async def serve(node: Node, request: ProduceRequest) -> Any:
    """Return the handler's response."""
    replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    node.serve(request, VERSION, replied.set_result)
    return await replied


async def led(cluster: ReplicaCluster, partitions: int) -> Node:
    await cluster.elect(1, [1], replicas=[1], partitions=range(partitions))
    return cluster[1]


def rows_of(response: Any) -> list[Any]:
    return [row for topic in response.responses for row in topic.partition_responses]


def ends_of(node: Node, partitions: int) -> list[int]:
    """Return the log end offset of each partition."""
    return [node.partition(TopicPartition(TOPIC, p)).log.log_end_offset for p in range(partitions)]


ONE_TOPIC = [[(p, plain()) for p in range(COUNT + 1)]]
MANY_TOPICS = [[(p, plain())] for p in range(COUNT + 1)]


@pytest.mark.mission("SAFE-75")
@pytest.mark.parametrize("topics", [ONE_TOPIC, MANY_TOPICS], ids=["one topic", "many topics"])
async def test_the_loop_runs_between_slices(topics: Sequence[Sequence[tuple[int, bytes]]]) -> None:
    """The last partition is unknown. Only the copy of the records, a call each, is not sliced."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, COUNT)
        await serve(
            node, request_of([[(0, plain())]])
        )  # pays what the first one of a process costs
        response, most = await most_calls_in_a_turn(serve(node, request_of(topics)))
        assert ends_of(node, COUNT) == [2] + [1] * (COUNT - 1)
    rows = rows_of(response)
    assert len(response.responses) == 1
    assert [row.index for row in rows] == list(range(COUNT + 1))
    errors = [row.error_code for row in rows]
    assert errors == [E.NONE] * COUNT + [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert most < 3 * COUNT


@pytest.mark.mission("SAFE-75")
async def test_the_records_of_each_partition_are_copied_before_the_first_pause() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, 12)
        lent = [bytearray(plain(str(p))) for p in range(12)]
        request = request_of([[(p, cast(Any, memoryview(lent[p]))) for p in range(12)]])
        served = asyncio.ensure_future(serve(node, request))
        await asyncio.sleep(0)
        for records in lent:
            records[:] = bytes(len(records))  # the connection reads on
        response = await served
        assert [row.error_code for row in rows_of(response)] == [E.NONE] * 12
        assert [node.held(TopicPartition(TOPIC, p)) for p in range(12)] == [
            [str(p)] for p in range(12)
        ]


@pytest.mark.mission("SAFE-75")
async def test_slices_wait_for_the_replicas_of_all_partitions() -> None:
    count = 12
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, partitions=range(count))
        await cluster.clock.settle()
        replies = cluster[1].ask(request_of([[(p, plain()) for p in range(count)]], -1), VERSION)
        await cluster.clock.advance(500)
        rows = [(row.index, row.error_code, row.base_offset) for row in rows_of(replies[0])]
        assert rows == [(p, E.NONE, 0) for p in range(count)]
        cluster.freeze(2, 3)
        replies = cluster[1].ask(request_of([[(p, plain()) for p in range(count)]], -1), VERSION)
        await cluster.clock.advance(900)
        assert replies == []
        await cluster.clock.advance(200)
        errors = [row.error_code for row in rows_of(replies[0])]
        assert errors == [E.REQUEST_TIMED_OUT] * count


@pytest.mark.mission("SAFE-75")
async def test_a_partition_in_two_slices_is_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, 8)
        rows = [(p, plain()) for p in range(8)]
        response = await serve(node, request_of([[*rows, (0, plain("b"))]]))
        assert ends_of(node, 8) == [0] + [1] * 7
    errors = [row.error_code for row in rows_of(response)]
    assert errors == [E.INVALID_REQUEST] + [E.NONE] * 7 + [E.INVALID_REQUEST]


def transactional(producer_id: int) -> bytes:
    return bytes(batch("t", producer_id=producer_id))


@pytest.mark.mission("SAFE-75")
@pytest.mark.parametrize(
    ("records", "fields", "error"),
    [
        (transactional(7), {}, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (transactional(7), {"transactional_id": "tx"}, E.NONE),
        (transactional(8), {"transactional_id": "tx"}, E.INVALID_PRODUCER_ID_MAPPING),
    ],
    ids=["no transactional id", "one producer", "two producers"],
)
async def test_a_transaction_is_refused_as_a_whole(
    records: bytes, fields: dict[str, Any], error: ErrorCode
) -> None:
    """Slices without a transactional batch, and those that have one producer only, too."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, 12)
        batches = [transactional(7), *[plain()] * 10, records]
        request = request_of([list(enumerate(batches))], **fields)
        response = await serve(node, request)
        assert ends_of(node, 12) == [0 if error else 1] * 12
    assert [row.error_code for row in rows_of(response)] == [error] * 12


@pytest.mark.mission("SAFE-75")
@pytest.mark.parametrize(("last", "error"), [(11, None), (12, E.UNKNOWN_TOPIC_OR_PARTITION)])
async def test_without_acknowledgement_a_failure_closes_the_connection(
    last: int, error: ErrorCode | None
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, 12)
        rows = [(p, plain()) for p in (*range(11), last)]
        response = await serve(node, request_of([rows], acks=0))
        assert ends_of(node, 11) == [1] * 11
    assert (response.code if isinstance(response, KafkaError) else response) == error


@pytest.mark.mission("SAFE-75", "ORD-1")
async def test_slices_wait_for_an_earlier_request_of_the_connection() -> None:
    """The earlier one waits for the verification of its transaction. The slices do not gather
    behind it: then all would be appended at once."""
    async with ReplicaCluster([1]) as cluster:
        node = await led(cluster, COUNT)
        verifications = Verifications(node)
        unused: Any = None
        handler = ProduceHandler(verifications.appends, node.replicas.hosted, unused)
        first = verifications.append((TP, batch("first")), connection="c")
        header = RequestHeader(ApiKey.PRODUCE, VERSION, 1)
        replies: list[Any] = []
        request = request_of([[(p, plain("second")) for p in range(COUNT)]])
        context = RequestContext(header, "PLAINTEXT", "h", "c")
        rest = handler(context, request, replies.append)
        assert rest is not None
        served = asyncio.ensure_future(rest)
        for _ in range(2 * COUNT):  # turns, enough for all slices
            await asyncio.sleep(0)
        assert (first, replies, ends_of(node, COUNT)) == ([], [], [0] * COUNT)

        async def respond() -> None:
            verifications.respond()
            await served

        _, most = await most_calls_in_a_turn(respond())
        assert node.held() == ["first", "second"]
        assert [row.error_code for row in rows_of(replies[0])] == [E.NONE] * COUNT
        assert most < 3 * COUNT
