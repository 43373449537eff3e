"""Each documented case of DelayedFetch and DelayedProduce, and the meters of those that expire."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.log.append import AppendOrigin, LogAppendInfo
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.record_appends import (
    AppendEntry,
    AppendResult,
    DelayedProduce,
)
from tests.support.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    Node,
    ReplicaCluster,
    batch,
    error_of,
    values_in,
)

# The last version in which a consumer is served by the leader only.
LEADER_ONLY = 10
FOREVER_MS = 3_600_000  # no test here waits for it
EXPIRES = "kafka.server:type=Delayed{}Metrics,name=ExpiresPerSec{}"


async def delete_replica(node: Node, leader_epoch: int = -2) -> None:
    """StopReplica with deletion, as the controller sends it."""
    states = [StopReplicaPartitionState(TP.partition, leader_epoch, True)]
    request = StopReplicaRequest(
        controller_id=9, controller_epoch=1, topic_states=[StopReplicaTopicState(TOPIC, states)]
    )
    await node.command(request, 4)


def expirations(node: Node, kind: str, tag: str = "") -> int:
    return int(node.metrics.snapshot()[EXPIRES.format(kind, tag)])


def fetch(node: Node, *wanted: FetchPartition, **limits: Any) -> list[dict[int, Any]]:
    """A consumer's Fetch of several partitions; the list gets the partitions of the response."""
    answers: list[dict[int, Any]] = []
    request = FetchRequest(
        max_wait_ms=FOREVER_MS, topics=[FetchTopic(TOPIC, TOPIC_ID, list(wanted))], **limits
    )

    def reply(response: Any) -> None:
        answers.append({p.partition_index: p for p in response.responses[0].partitions})

    node.serve(request, 12, reply)
    return answers


class TruncatingFollower(ReplicaCluster):
    """Broker 2 follows and serves consumers. What it wrote at offset 1 while it led was never
    committed: it is going to truncate its log to 1 once ``thaw(1)`` lets it reach broker 1."""

    def __init__(self) -> None:
        super().__init__([1, 2])

    async def __aenter__(self) -> TruncatingFollower:
        await super().__aenter__()
        await self.elect(2, isr=[1, 2], replicas=[1, 2])
        self[2].produce("a")
        await self.clock.advance(1_000)
        self.freeze(1)
        self[2].produce("b", acks=1)
        await self.elect(1, isr=[1, 2], replicas=[1, 2], epoch=1)
        return self


async def delete_records(node: Node, offset: int, timeout_ms: int = 1_000) -> list[Any]:
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])], timeout_ms
    )
    answers: list[Any] = []
    node.serve(request, 2, lambda response: answers.append(response.topics[0].partitions[0]))
    return answers


class TestDelayedFetch:
    @pytest.mark.mission("DOP-11")
    async def test_case_a_the_broker_leads_no_longer(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].fetch(0, version=LEADER_ONLY, max_wait_ms=FOREVER_MS)
            assert answers == []
            await cluster.elect(2, isr=[1, 2], replicas=[1, 2], epoch=1)
            assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.mission("DOP-12")
    async def test_case_b_the_replica_is_deleted_here_and_led_elsewhere(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1])
            answers = cluster[1].fetch(0, max_wait_ms=FOREVER_MS)
            assert answers == []
            cluster.metadata.leaders[TP] = (2, 1)
            await delete_replica(cluster[1])
            assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.mission("DOP-13")
    @pytest.mark.parametrize("replica_id", [-1, 2])
    async def test_case_c_the_partition_is_unknown_here(self, replica_id: int) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].fetch(0, replica_id=replica_id, max_wait_ms=FOREVER_MS)
            assert answers == []
            del cluster.metadata.leaders[TP]
            await delete_replica(cluster[1])
            assert error_of(answers) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.mission("DOP-14")
    @pytest.mark.parametrize("replica_id", [-1, 2])
    async def test_case_d_the_log_directory_fails(self, replica_id: int) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].fetch(0, replica_id=replica_id, max_wait_ms=FOREVER_MS)
            assert answers == []
            cluster[1].replicas.disk_failed(TP, OSError("broken"))
            assert error_of(answers) is ErrorCode.KAFKA_STORAGE_ERROR

    @pytest.mark.mission("DOP-15")
    async def test_case_e_the_epoch_of_the_request_is_fenced(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1], epoch=3)
            answers = cluster[1].fetch(0, current_leader_epoch=3, max_wait_ms=FOREVER_MS)
            assert answers == []
            await cluster.elect(1, isr=[1], replicas=[1], epoch=4)
            assert error_of(answers) is ErrorCode.FENCED_LEADER_EPOCH

    @pytest.mark.mission("DOP-16")
    async def test_case_f_the_log_is_truncated_below_the_fetch_offset(self) -> None:
        async with TruncatingFollower() as cluster:
            beyond = cluster[2].fetch(2, max_wait_ms=FOREVER_MS)
            assert beyond == []
            cluster.thaw(1)
            await cluster.clock.advance(2_000)
            assert cluster[2].partition().log.log_end_offset == 1
            assert error_of(beyond) is ErrorCode.OFFSET_OUT_OF_RANGE

    @pytest.mark.mission("DOP-16")
    async def test_case_f_records_below_the_new_log_start_are_deleted(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1])
            leader = cluster[1]
            leader.produce("a", "b", "c")
            answers = leader.fetch(1, min_bytes=10_000, max_wait_ms=FOREVER_MS)
            assert answers == []
            await delete_records(leader, 2)
            assert error_of(answers) is ErrorCode.OFFSET_OUT_OF_RANGE

    @pytest.mark.mission("DOP-17")
    async def test_case_g_the_bytes_of_all_partitions_together_reach_min_bytes(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
            leader, size = cluster[1], len(batch("a"))
            wanted = [FetchPartition(n, partition_max_bytes=1 << 20) for n in (0, 1)]
            answers = fetch(leader, *wanted, min_bytes=2 * size)
            leader.produce("a")
            assert answers == []
            leader.produce("b", topic_partition=TP._replace(partition=1))
            assert [values_in(p.records) for p in answers[0].values()] == [["a"], ["b"]]

    @pytest.mark.mission("DOP-17")
    async def test_case_g_counts_no_more_of_a_partition_than_its_own_limit(self) -> None:
        """Otherwise each fetch would complete immediately with less than ``min_bytes``."""
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1])
            leader, size = cluster[1], len(batch("a"))
            wanted = FetchPartition(0, partition_max_bytes=size)
            answers = fetch(leader, wanted, min_bytes=size + 1)
            for value in "abcd":
                leader.produce(value)
            assert answers == []
            await cluster.clock.advance(FOREVER_MS + 1)
            assert values_in(answers[0][0].records) == ["a"]

    @pytest.mark.mission("DOP-17")
    async def test_case_g_min_bytes_is_at_most_max_bytes(self) -> None:
        """A response can never hold more, so a fetch may not wait for more."""
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1])
            leader, size = cluster[1], len(batch("a"))
            wanted = FetchPartition(0, partition_max_bytes=1 << 20)
            parked = fetch(leader, wanted, min_bytes=100 * size, max_bytes=2 * size)
            leader.produce("a")
            assert parked == []
            leader.produce("b")
            assert values_in(parked[0][0].records) == ["a", "b"]
            at_once = fetch(leader, wanted, min_bytes=100 * size, max_bytes=2 * size)
            assert values_in(at_once[0][0].records) == ["a", "b"]

    @pytest.mark.mission("DOP-18")
    async def test_case_h_the_log_now_diverges_from_the_readers(self) -> None:
        async with TruncatingFollower() as cluster:
            diverging = cluster[2].fetch(2, last_fetched_epoch=0, max_wait_ms=FOREVER_MS)
            assert diverging == []
            cluster.thaw(1)
            await cluster.clock.advance(2_000)
            assert error_of(diverging) is ErrorCode.NONE
            found = diverging[0].diverging_epoch
            assert found is not None
            assert (found.epoch, found.end_offset) == (0, 1)
            assert diverging[0].records == b""

    @pytest.mark.mission("DOP-19")
    async def test_expirations_are_counted_apart_for_followers_and_consumers(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            leader = cluster[1]
            kinds = (",fetcherType=follower", ",fetcherType=consumer")
            consumers = leader.fetch(0), leader.fetch(0)
            await cluster.clock.advance(501)
            assert all(len(answers) == 1 for answers in consumers)
            assert [expirations(leader, "Fetch", kind) for kind in kinds] == [0, 2]
            leader.fetch(0, replica_id=2, max_wait_ms=0)  # which tells it the high watermark
            follower = leader.fetch(0, replica_id=2)
            await cluster.clock.advance(501)
            assert len(follower) == 1
            assert [expirations(leader, "Fetch", kind) for kind in kinds] == [1, 2]
            in_time = leader.fetch(0, replica_id=2)
            leader.produce("a", acks=1)
            await cluster.clock.advance(501)
            assert values_in(in_time[0].records) == ["a"]
            assert [expirations(leader, "Fetch", kind) for kind in kinds] == [1, 2]


class TestDelayedProduce:
    @pytest.mark.mission("DOP-20")
    async def test_case_a_the_replica_is_no_longer_here(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].produce("a", timeout_ms=FOREVER_MS)
            assert answers == []
            del cluster.metadata.leaders[TP]
            await delete_replica(cluster[1])
            assert error_of(answers) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.mission("DOP-20")
    async def test_case_a_the_log_directory_fails(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].produce("a", timeout_ms=FOREVER_MS)
            assert answers == []
            cluster[1].replicas.disk_failed(TP, OSError("broken"))
            assert error_of(answers) is ErrorCode.KAFKA_STORAGE_ERROR

    @pytest.mark.mission("DOP-21")
    async def test_case_b_the_broker_leads_no_longer(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].produce("a", timeout_ms=FOREVER_MS)
            assert answers == []
            await cluster.elect(2, isr=[1, 2], replicas=[1, 2], epoch=1)
            assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.mission("DOP-22")
    async def test_case_c_1_replicated_but_too_few_are_in_sync_by_then(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2, 3])
            leader = cluster[1]
            told: list[Any] = []
            leader.produce("a", acks=1)
            leader.fetch(1, replica_id=2)
            append = LogAppendInfo(0, 0, -1, 0)
            waiting = DelayedProduce(
                1_000, [AppendResult(TP, ErrorCode.NONE, append)], leader.replicas.hosted,
                told.extend, lambda _: None,
            )  # fmt: skip
            leader.partition().configure(TopicConfig(min_insync_replicas=3))
            assert waiting.try_complete()
            assert [r.error for r in told] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]

    @pytest.mark.mission("DOP-22")
    async def test_case_c_2_replicated_to_all_in_sync(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2, 3])
            answers = cluster[1].produce("a", timeout_ms=FOREVER_MS)
            cluster[1].fetch(1, replica_id=2)
            assert answers == []
            cluster[1].fetch(1, replica_id=3)
            assert error_of(answers) is ErrorCode.NONE
            assert answers[0].base_offset == 0

    @pytest.mark.mission("DOP-23")
    async def test_error_of_one_partition_does_not_complete_the_produce_request(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1])
            other = TP._replace(partition=1)
            told: list[tuple[int, ErrorCode]] = []
            cluster[1].replicas.appends.append(
                AppendOrigin.CLIENT,
                [AppendEntry(TP, bytearray(batch("a"))), AppendEntry(other, bytearray(batch("b")))],
                -1,
                1_000,
                lambda results: told.extend(
                    (r.topic_partition.partition, r.error) for r in results
                ),
            )
            await delete_replica(cluster[1])
            assert told == []
            await cluster.clock.advance(1_001)
            wanted = [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.REQUEST_TIMED_OUT)]
            assert told == wanted
            assert expirations(cluster[1], "Produce") == 1  # of partitions, as in Kafka

    @pytest.mark.mission("DOP-23")
    async def test_an_append_that_was_refused_stays_so_when_the_others_are_replicated(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1])
            other = TP._replace(partition=1)
            corrupt = bytearray(batch("value"))
            corrupt[-1] ^= 1
            told: list[ErrorCode] = []
            cluster[1].replicas.appends.append(
                AppendOrigin.CLIENT,
                [AppendEntry(TP, corrupt), AppendEntry(other, bytearray(batch("b")))],
                -1,
                FOREVER_MS,
                lambda results: told.extend(r.error for r in results),
            )
            assert told == []
            cluster[1].fetch(1, replica_id=2, topic_partition=other)
            assert told == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


class TestMetersOfExpiration:
    @pytest.mark.mission("DOP-19")
    async def test_produce(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            answers = cluster[1].produce("a", timeout_ms=1_000)
            await cluster.clock.advance(1_001)
            assert error_of(answers) is ErrorCode.REQUEST_TIMED_OUT
            assert expirations(cluster[1], "Produce") == 1
            answers = cluster[1].produce("b", timeout_ms=1_000)
            cluster[1].fetch(2, replica_id=2)
            await cluster.clock.advance(1_001)
            assert error_of(answers) is ErrorCode.NONE
            assert expirations(cluster[1], "Produce") == 1

    @pytest.mark.mission("DOP-19")
    async def test_delete_records(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            leader = cluster[1]
            leader.produce("a", "b", acks=1)
            leader.fetch(2, replica_id=2, log_start_offset=0)
            answers = await delete_records(leader, 1)
            await cluster.clock.advance(1_001)
            assert error_of(answers) is ErrorCode.REQUEST_TIMED_OUT
            assert expirations(leader, "DeleteRecords") == 1
            answers = await delete_records(leader, 2)
            leader.fetch(2, replica_id=2, log_start_offset=2)
            await cluster.clock.advance(1_001)
            assert error_of(answers) is ErrorCode.NONE
            assert expirations(leader, "DeleteRecords") == 1
