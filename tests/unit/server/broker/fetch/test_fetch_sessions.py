"""Fetch sessions over the wire: opened, continued, cut short, refused; what they cost and save."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import encode
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from minikafka.server.broker.fetch.sessions import FETCH_VERSIONS
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster, values_in
from tests.support.metric_names import figures

LAST_BY_NAME, LAST = 12, 17


async def alone(cluster: ReplicaCluster, partitions: int = 3) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1], partitions=range(partitions))
    return cluster[1]


def fetch(
    node: Node,
    offsets: dict[int, int],
    session: tuple[int, int] = (0, 0),
    forget: tuple[int, ...] = (),
    version: int = LAST_BY_NAME,
    topic_id: UUID = TOPIC_ID,
    **fields: Any,
) -> FetchResponse:
    """Fetch without waiting, by topic name and id; the version decides which one is encoded."""
    wanted = [FetchPartition(i, -1, at, partition_max_bytes=1 << 20) for i, at in offsets.items()]
    request = FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(TOPIC, topic_id, wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(TOPIC, topic_id, list(forget))] if forget else [],
        **fields,
    )
    try:
        response: FetchResponse = node.ask(request, version)[0]
    except KafkaError as error:  # of the request as a whole: ``Apis`` responds with it
        return FetchResponse(error_code=error.code)
    return response


def partitions_of(response: FetchResponse) -> dict[int, PartitionData]:
    return {p.partition_index: p for topic in response.responses for p in topic.partitions}


@pytest.mark.mission("FET-6", "FET-7", "FET-8")
@pytest.mark.parametrize("version", range(7, LAST + 1))
async def test_from_the_first_request_to_the_last_partition(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        first = fetch(node, {0: 0, 1: 0, 2: 0}, version=version)
        session = first.session_id
        assert session > 0
        assert sorted(partitions_of(first)) == [0, 1, 2]
        assert fetch(node, {}, (session, 1), version=version).responses == []
        node.produce("a", topic_partition=TP._replace(partition=1))
        response = fetch(node, {}, (session, 2), version=version)
        assert response.session_id == session
        assert values_in(partitions_of(response)[1].records) == ["a"]
        assert list(partitions_of(response)) == [1]
        # A changed fetch offset does not repeat the high watermark.
        assert partitions_of(fetch(node, {1: 1}, (session, 3), version=version)) == {}
        node.produce("b", topic_partition=TP._replace(partition=1))
        node.produce("c", topic_partition=TP._replace(partition=2))
        response = fetch(node, {}, (session, 4), forget=(1,), version=version)
        assert list(partitions_of(response)) == [2]
        response = fetch(node, {}, (session, 5), forget=(0, 2), version=version)
        assert (response.session_id, response.error_code) == (0, 0)
        response = fetch(node, {}, (session, 6), version=version)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.mission("FET-5")
async def test_before_version_7_there_are_none() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        for version in range(7):
            assert sorted(partitions_of(fetch(node, {0: 0, 1: 0}, version=version))) == [0, 1]
        assert figures(node.metrics, "kafka.server")["NumIncrementalFetchSessions"] == 0


async def test_refusals() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        session = fetch(node, {0: 0}).session_id
        for session_and_epoch, version, error in (
            ((session + 1, 1), LAST_BY_NAME, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            ((session, 5), LAST_BY_NAME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            ((session, 1), LAST, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        ):
            response = fetch(node, {}, session_and_epoch, version=version)
            assert (response.error_code, response.session_id, response.responses) == (error, 0, [])
        assert fetch(node, {}, (session, 1)).error_code == ErrorCode.NONE


async def test_a_full_request_ends_the_session_that_it_names() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        session = fetch(node, {0: 0}).session_id
        other = fetch(node, {0: 0}, (session, 0)).session_id
        assert other not in (0, session)
        assert fetch(node, {0: 0}, (other, -1)).session_id == 0
        assert figures(node.metrics, "kafka.server")["NumIncrementalFetchSessions"] == 0


async def test_a_session_repeats_an_error_and_reports_its_end() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        session = fetch(node, {0: 0, 1: 9}).session_id
        for epoch in (1, 2):
            response = fetch(node, {}, (session, epoch))
            assert [p.error_code for p in partitions_of(response).values()] == [
                ErrorCode.OFFSET_OUT_OF_RANGE
            ]
        assert partitions_of(fetch(node, {1: 0}, (session, 3)))[1].error_code == ErrorCode.NONE
        assert partitions_of(fetch(node, {}, (session, 4))) == {}


async def test_an_id_not_known_yet_is_resolved_later() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = cluster[1]
        late = UUID(int=77)
        first = fetch(node, {0: 0}, version=LAST, topic_id=late)
        assert partitions_of(first)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert first.responses[0].topic_id == late
        await cluster.elect(1, isr=[1], replicas=[1], topic="late", topic_id=late)
        response = fetch(node, {}, (first.session_id, 1), version=LAST)
        assert partitions_of(response)[0].error_code == ErrorCode.NONE


async def test_a_recreated_topic_is_not_taken_for_the_old_one() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, 1)
        session = fetch(node, {0: 0}, version=LAST).session_id
        del cluster.metadata.topic_ids[TOPIC_ID]
        hosted, partition = node.replicas.hosted, node.partition()
        hosted.remove(TP)
        hosted.add(partition)
        hosted.identify(partition, UUID(int=78))
        for epoch, offsets in ((1, {}), (2, {0: 0})):  # in the session, and named again
            response = fetch(node, offsets, (session, epoch), version=LAST)
            assert partitions_of(response)[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        hosted.remove(TP)
        for epoch, offsets in ((3, {}), (4, {0: 0})):
            response = fetch(node, offsets, (session, epoch), version=LAST)
            assert partitions_of(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # An id that the session does not have is unknown.
        response = fetch(node, {7: 0}, (session, 5), version=LAST)
        assert partitions_of(response)[7].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_parked_fetch_overtaken_by_the_next_gets_an_epoch_error() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        session = fetch(node, {0: 0}).session_id
        parked = node.ask(
            FetchRequest(session_id=session, session_epoch=1, max_wait_ms=500, min_bytes=1),
            LAST_BY_NAME,
        )
        assert parked == []
        assert fetch(node, {}, (session, 2)).error_code == ErrorCode.NONE
        node.produce("a")
        assert (parked[0].error_code, parked[0].session_id, parked[0].responses) == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            session,
            [],
        )


@pytest.mark.mission("FET-7")
async def test_consecutive_full_responses_serve_all_partitions() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        session = fetch(node, {0: 0, 1: 0, 2: 0}).session_id
        for index in range(3):
            node.produce("v" * 1000, topic_partition=TP._replace(partition=index))
        served = []
        for epoch in range(1, 7):  # nothing is fetched further; a served partition moves to the end
            served += list(partitions_of(fetch(node, {}, (session, epoch), max_bytes=500)))[:1]
        assert served == [0, 1, 2, 0, 1, 2]


async def test_a_client_without_a_session_slot_gets_full_responses() -> None:
    async with ReplicaCluster([1], session_slots=1) as cluster:
        node = await alone(cluster)
        first = fetch(node, {0: 0, 1: 0}).session_id
        assert fetch(node, {0: 0, 1: 0, 2: 0}).session_id == 0
        follower = node.ask(FetchRequest(replica_id=2, session_epoch=0), LAST_BY_NAME)[0]
        assert follower.session_id not in (0, first)  # a follower's counts for more
        metrics = node.metrics.snapshot()
        assert (
            metrics[
                "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec"
            ]
            == 1
        )
        assert metrics["kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"] == 1


@pytest.mark.mission("FET-9")
async def test_metrics_count_bytes_saved_by_incremental_fetches() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, partitions=100)
        session = fetch(node, dict.fromkeys(range(100), 0)).session_id
        node.produce("a")
        fetch(node, {5: 0}, (session, 1))
        metrics = node.metrics.snapshot()
        assert (
            metrics["kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached"]
            == 100
        )
        row = FETCH_VERSIONS[LAST_BY_NAME]
        saved = metrics["minikafka.server:type=FetchSessionCache,name=RequestBytesSavedPerSec"]
        assert saved == 99 * row.partition_bytes
        saved = metrics["minikafka.server:type=FetchSessionCache,name=ResponseBytesSavedPerSec"]
        assert saved == 99 * row.response_bytes


@pytest.mark.mission("FET-3", "FET-4")
@pytest.mark.parametrize("version", range(LAST + 1))
def test_partition_costs_the_listed_bytes_in_request_and_response(version: int) -> None:
    row = FETCH_VERSIONS[version]

    def request(count: int) -> int:
        wanted = [FetchPartition(i, fetch_offset=5) for i in range(count)]
        return len(encode(FetchRequest(topics=[FetchTopic(TOPIC, TOPIC_ID, wanted)]), version))

    def response(count: int) -> int:
        rows = [PartitionData(i, aborted_transactions=None, records=b"") for i in range(count)]
        topics = [FetchableTopicResponse(TOPIC, TOPIC_ID, rows)]
        return len(encode(FetchResponse(responses=topics), version))

    assert request(3) - request(2) == row.partition_bytes
    assert response(3) - response(2) == row.response_bytes
    if 5 <= version <= 8:
        assert row.partition_bytes == 24
    if version >= 7:
        assert request(1_000) > 24_000
        assert len(encode(FetchRequest(session_id=7, session_epoch=9), version)) < 100
