"""Copying from one leader: errors cause a back-off, responses that come too late are dropped."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.server.broker.replication.follower_logs import FollowerLogs
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from tests.support.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    ReplicaCluster,
    batch,
    error_of,
    failures,
    fetch_state,
)

NO_ID = ZERO_UUID


def fetches(cluster: ReplicaCluster, source: int) -> list[FetchRequest]:
    return [r for s, _, r, _ in cluster.requests if s == source and isinstance(r, FetchRequest)]


async def test_many_partitions_travel_in_one_request_over_one_connection() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=range(20))
        other = UUID(int=8)
        await cluster.elect(
            1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1], topic="more", topic_id=other
        )
        await cluster.clock.advance(5)
        last = fetches(cluster, 2)[-1]
        assert [len(topic.partitions) for topic in last.topics] == [20, 2]
        assert len(cluster[2].replicas.fetchers) == 1
        assert last.replica_state is not None
        assert (last.replica_state.replica_id, last.replica_state.replica_epoch) == (2, 102)
        produced = [
            cluster[1].produce("v", topic_partition=TP._replace(partition=i)) for i in (3, 9)
        ]
        await cluster.clock.advance(5)
        assert [error_of(answers) for answers in produced] == [ErrorCode.NONE] * 2


@pytest.mark.mission("MIX-11")
@pytest.mark.parametrize(
    "sent",
    [
        # Each leader epoch with the id in its LeaderAndIsr, and whether the follower then uses it.
        pytest.param(
            [(1, TOPIC_ID, True), (2, NO_ID, False), (3, TOPIC_ID, True)], id="new epochs"
        ),
        pytest.param([(1, TOPIC_ID, True), (1, NO_ID, False)], id="the protocol was lowered"),
        pytest.param([(1, NO_ID, False), (1, TOPIC_ID, True)], id="the protocol was raised"),
        pytest.param(
            [(1, NO_ID, False), (2, TOPIC_ID, True)], id="the protocol was raised with an election"
        ),
        pytest.param(
            [(1, TOPIC_ID, True), (1, NO_ID, False), (1, TOPIC_ID, False), (2, TOPIC_ID, True)],
            id="as in Kafka, an id on disk returns with the next epoch only",
        ),
    ],
)
async def test_a_follower_takes_the_topic_id_from_leader_and_isr(
    sent: list[tuple[int, UUID, bool]],
) -> None:
    """A controller of an old protocol sends no id, and the leader may know none, although the
    follower's ``partition.metadata`` has one."""
    async with ReplicaCluster([1, 2]) as cluster:
        for epoch, topic_id, by_id in sent:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=epoch, topic_id=topic_id)
            await cluster.clock.advance(1_100)
            request = fetches(cluster, 2)[-1]
            assert (request.replica_state is not None and request.replica_id == -1) is by_id
        for broker_id in (1, 2):
            assert cluster[broker_id].partition().topic_id == TOPIC_ID
            assert cluster[broker_id].partition().log.topic_id == TOPIC_ID


async def test_a_new_partition_does_not_wait_behind_a_long_poll() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.advance(100)  # an empty fetch is parked for 400 ms more
        await cluster.elect(1, topic="other", topic_id=UUID(int=8))
        produced = cluster[1].produce("v", topic_partition=TopicPartition("other", 0))
        await cluster.clock.advance(50)
        assert error_of(produced) is ErrorCode.NONE


async def test_an_unreachable_leader_is_tried_again_and_again() -> None:
    async with ReplicaCluster() as cluster:
        cluster.freeze(1)
        await cluster.elect(1)
        await cluster.clock.advance(10_000)
        state = fetch_state(cluster[2].replicas.fetchers, 1)
        assert state is not None
        assert 10 < state.failures < 20
        cluster.thaw(1)
        cluster[1].produce("v", acks=1)
        await cluster.clock.advance(1_000)
        assert cluster[2].held() == ["v"]
        state = fetch_state(cluster[2].replicas.fetchers, 1)
        assert state is not None
        assert state.failures == 0


async def test_a_leader_that_does_not_know_its_role_yet_gets_another_fetch_soon() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], tell=[2])
        await cluster.clock.advance(10)
        state = fetch_state(cluster[2].replicas.fetchers, 1)
        assert state is not None
        assert state.failures == 1
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], tell=[1])
        produced = cluster[1].produce("v")
        await cluster.clock.advance(50)
        assert error_of(produced) is ErrorCode.NONE


async def test_a_fenced_follower_waits_for_the_controller() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=1, tell=[1])
        await cluster.clock.advance(5_000)
        assert fetch_state(cluster[2].replicas.fetchers, 1) is None
        asked = len(fetches(cluster, 2))
        await cluster.clock.advance(5_000)
        assert len(fetches(cluster, 2)) == asked
        cluster[1].produce("v", acks=1)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=2)
        await cluster.clock.advance(1_000)
        assert cluster[2].held() == ["v"]


async def test_the_fetcher_ends_with_its_last_partition_and_starts_again() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        await cluster.clock.settle()
        assert len(cluster[2].replicas.fetchers) == 1
        await cluster.elect(2, isr=[1, 2], replicas=[1, 2], epoch=1)
        await cluster.clock.settle()
        assert len(cluster[2].replicas.fetchers) == 0
        assert len(cluster[1].replicas.fetchers) == 1
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=2)
        produced = cluster[1].produce("v")
        await cluster.clock.advance(1_000)
        assert error_of(produced) is ErrorCode.NONE


async def test_a_partition_whose_disk_fails_is_copied_no_more_and_others_are() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2], partitions=[0, 1])
        await cluster.clock.settle()
        files = cluster[2].files
        files.break_below("/data")
        cluster[1].produce("v", acks=1)
        await cluster.clock.advance(2_000)
        assert cluster[2].replicas.hosted.is_offline(TP)
        assert cluster[2].replicas.fetchers.source_of(TP) is None
        cluster[2].files.repair()
        other = TP._replace(partition=1)
        cluster[1].produce("w", acks=1, topic_partition=other)
        await cluster.clock.advance(2_000)
        assert cluster[2].held(other) == ["w"]


# ----------------------------------------------------------------------- responses made by the test


class Leader:
    """Stands in for broker 1: each Fetch of broker 2 gets the next of ``responses``."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.responses: list[Any] = []
        self.requests: list[FetchRequest] = []
        cluster.nodes[1].handlers[ApiKey.FETCH] = self.serve

    def serve(self, context: Any, request: FetchRequest, reply: Any) -> None:
        self.requests.append(request)
        if self.responses:
            response = self.responses.pop(0)
            topic = (request.topics or [FetchTopic(TOPIC, TOPIC_ID, [FetchPartition(0)])])[0]
            reply(response(topic) if callable(response) else response)


def fetch_response(
    error: int = 0, records: bytes = b"", high_watermark: int = 0, **fields: Any
) -> Any:
    def of(topic: Any) -> FetchResponse:
        data = PartitionData(
            topic.partitions[0].partition,
            error,
            high_watermark,
            records=records,
            aborted_transactions=None,
            **fields,
        )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic.topic, topic.topic_id, [data])]
        )

    return of


async def test_corrupt_records_are_fetched_again() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        good = build_batch([(1, None, b"v", [])], leader_epoch=1)
        bad = good[:-1] + b"?"
        leader.responses = [
            fetch_response(records=bad),
            fetch_response(records=good, high_watermark=1),
        ]
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)
        await cluster.clock.settle()
        assert cluster[2].held() == []
        await cluster.clock.advance(1_000)
        assert cluster[2].held() == ["v"]
        assert cluster[2].partition().high_watermark == 1


async def test_out_of_order_records_stop_the_fetcher_until_the_next_leader_and_isr() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        first = build_batch([(1, None, b"v", [])], base_offset=0, leader_epoch=1)
        leader.responses = [fetch_response(records=first), fetch_response(records=first)]
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)
        await cluster.clock.advance(3_000)
        assert cluster[2].held() == ["v"]
        assert fetch_state(cluster[2].replicas.fetchers, 1) is None


async def test_an_empty_log_may_start_with_a_batch_that_begins_earlier() -> None:
    """The leader's first offset lies inside a batch: a leader sends whole batches only."""
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1, tell=[])
        records = build_batch([(1, None, v, []) for v in (b"a", b"b", b"c")], base_offset=8)
        leader.responses = [
            fetch_response(ErrorCode.OFFSET_OUT_OF_RANGE),
            fetch_response(records=records, high_watermark=11, log_start_offset=10),
        ]
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=2)
        cluster[1].partition().truncate_fully_and_start_at(10)
        cluster[1].partition().log.assign_epoch_start_offset(2, 10)
        await cluster.clock.advance(1_000)
        assert leader.requests[1].topics[0].partitions[0].fetch_offset == 10
        log = cluster[2].partition().log
        assert (log.log_start_offset, log.log_end_offset) == (10, 11)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, 999]
)
async def test_any_other_error_is_backed_off_from(error: int) -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        leader.responses = [fetch_response(error)] * 3
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)
        await cluster.clock.settle()
        assert len(leader.requests) == 1
        await cluster.clock.advance(19)
        assert len(leader.requests) == 1
        await cluster.clock.advance(1)
        assert len(leader.requests) == 2
        await cluster.clock.advance(40)
        assert len(leader.requests) == 3


@pytest.mark.parametrize(("error", "pause_ms"), [("CLUSTER_AUTHORIZATION_FAILED", 20), (None, 20)])
async def test_a_refused_request_backs_off_with_all_partitions(
    error: str | None, pause_ms: int
) -> None:
    """A response without the requested partitions has the same effect."""
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        leader.responses = [FetchResponse(error_code=ErrorCode[error] if error else 0)]
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)
        await cluster.clock.advance(pause_ms - 1)
        assert len(leader.requests) == 1
        await cluster.clock.advance(1)
        assert len(leader.requests) == 2


@pytest.mark.mission("FET-9")
async def test_after_the_first_request_only_changes_are_named() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=range(20))
        await cluster.clock.advance(5)
        first = fetches(cluster, 2)[-1]
        assert (first.session_id, first.session_epoch) == (0, 0)
        assert len(first.topics[0].partitions) == 20
        await cluster.clock.advance(1_000)
        idle = fetches(cluster, 2)[-1]
        assert (idle.session_epoch, idle.topics, idle.forgotten_topics_data) == (2, [], [])
        assert cluster[1].produce("v", topic_partition=TP._replace(partition=3)) == []
        await cluster.clock.advance(5)
        named = [p.partition for t in fetches(cluster, 2)[-1].topics for p in t.partitions]
        assert named == [3]
        cluster[2].replicas.fetchers.remove([TP])
        await cluster.clock.advance(1_000)
        forgotten = [r.forgotten_topics_data for r in fetches(cluster, 2)]
        assert [t.partitions for topics in forgotten for t in topics] == [[0]]
        assert (
            cluster[1].metrics.snapshot()[
                "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"
            ]
            == 1
        )


@pytest.mark.parametrize(
    "error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
async def test_a_lost_session_is_opened_again_at_once(error: ErrorCode) -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        await cluster.clock.advance(600)
        serve = cluster[1].handlers[ApiKey.FETCH]
        leader = Leader(cluster)
        leader.responses = [FetchResponse(error_code=error)]
        await cluster.clock.advance(500)
        assert leader.requests[0].session_epoch > 0
        assert leader.requests[1].session_epoch == 0
        assert (leader.requests[1].session_id == 0) == (
            error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )
        assert len(leader.requests[1].topics) == 1
        cluster[1].handlers[ApiKey.FETCH] = serve


async def test_several_fetchers_share_the_partitions_of_a_source() -> None:
    config = ReplicaFetcherConfig(num_replica_fetchers=3)
    async with ReplicaCluster([1, 2], fetcher=config) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=range(9))
        produced = [
            cluster[1].produce("v", topic_partition=TP._replace(partition=i)) for i in range(9)
        ]
        await cluster.clock.advance(100)
        assert [error_of(answers) for answers in produced] == [ErrorCode.NONE] * 9
        fetchers = cluster[2].replicas.fetchers
        assert [len(fetchers.fetcher(1, number) or ()) for number in range(3)] == [3, 3, 3]
        fetchers.remove([TP._replace(partition=i) for i in range(9)])
        assert len(fetchers) == 0


async def test_a_response_for_a_partition_that_has_moved_on_is_dropped() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        replies: list[Any] = []
        cluster[1].handlers[ApiKey.FETCH] = lambda c, request, reply: replies.append(
            (request, reply)
        )
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1, partitions=[0, 1])
        await cluster.clock.settle()
        fetcher = cluster[2].replicas.fetchers.fetcher(1)
        cluster[2].replicas.fetchers.remove([TP])
        request, reply = replies[0]
        reply(fetch_response(records=batch("v"))(request.topics[0]))
        await cluster.clock.settle()
        assert cluster[2].held() == []
        assert fetcher is not None
        assert fetcher.state_of(TP) is None
        assert len(fetcher) == 1


async def test_empty_list_offsets_response_is_retried() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader = Leader(cluster)
        leader.responses = [fetch_response(ErrorCode.OFFSET_OUT_OF_RANGE)] * 2
        cluster[1].handlers[ApiKey.LIST_OFFSETS] = lambda c, r, reply: reply(ListOffsetsResponse())
        await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)
        await cluster.clock.advance(30)
        assert len(leader.requests) == 2
        assert cluster[2].held() == []


async def test_a_log_that_cannot_be_cut_stops_its_copy_and_not_the_broker() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        cluster[1].produce("a", acks=1)
        cluster[1].produce("b", acks=1)
        await cluster.clock.advance(1_000)
        leader = Leader(cluster)
        leader.responses = [fetch_response(ErrorCode.OFFSET_OUT_OF_RANGE)]
        ends = [ListOffsetsPartitionResponse(0, offset=1)]
        cluster[1].handlers[ApiKey.LIST_OFFSETS] = lambda c, r, reply: reply(
            ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, ends)])
        )
        segment = cluster[2].partition().log.segments.active
        assert segment is not None
        assert segment._handle is not None
        segment._handle.write(bytes(4), 8)  # the length of the first batch
        await cluster.clock.advance(2_000)
        assert leader.responses == []
        assert fetch_state(cluster[2].replicas.fetchers, 1) is None


async def test_without_a_session_partitions_with_data_go_to_the_end_of_the_line() -> None:
    async with ReplicaCluster([1, 2], session_slots=0) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2], partitions=[0, 1, 2])
        await cluster.clock.settle()
        cluster[1].produce("v", acks=1)
        await cluster.clock.advance(5)
        order = [p.partition for p in fetches(cluster, 2)[-1].topics[0].partitions]
        assert order == [1, 2, 0]


async def test_where_a_leader_is_comes_from_the_metadata_or_else_from_the_request() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        cluster.metadata.alive.pop(1)
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        cluster[1].produce("v", acks=1)
        await cluster.clock.advance(100)
        assert cluster[2].held() == ["v"]
        fetchers = cluster[2].replicas.fetchers
        fetchers.add(7, TopicPartition("x", 0), PartitionFetchState(None, 0, 0))
        await cluster.clock.advance(100)
        assert failures(fetchers, 7, TopicPartition("x", 0)) > 0


async def test_a_bug_in_applying_a_response_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised by the fetcher's task, not where the response has arrived."""

    def fail(*given: Any) -> Any:
        raise LookupError("bug")

    async def replicate() -> None:
        async with ReplicaCluster([1, 2]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            await cluster.clock.advance(100)
            monkeypatch.setattr(FollowerLogs, "apply", fail)
            cluster[1].produce("v")
            await cluster.clock.advance(100)

    with pytest.raises(ExceptionGroup) as raised:
        await replicate()
    assert [str(bug) for bug in raised.value.exceptions] == ["bug"]
