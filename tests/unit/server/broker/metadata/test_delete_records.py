"""Records deleted at the leader go on all live replicas, and stay deleted."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from tests.support.broker.deletions import delete_records
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster, error_of
from tests.support.storage.instant_files import InstantFiles

STARTS = "/data/log-start-offset-checkpoint"


async def alone(cluster: ReplicaCluster, *values: str) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1])
    for value in values:
        cluster[1].produce(value)
    return cluster[1]


async def with_records(cluster: ReplicaCluster, count: int = 5) -> Node:
    """Broker 1 leads, and everybody has everything."""
    await cluster.elect(1)
    await cluster.clock.settle()
    for number in range(count):
        cluster[1].produce(str(number), acks=1)
    await cluster.clock.advance(1_000)
    assert cluster[1].partition().high_watermark == count
    return cluster[1]


def earliest(node: Node) -> int:
    question = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(TOPIC, [question])])
    offset: int = node.ask(request, 5)[0].topics[0].partitions[0].offset
    return offset


class TestWaiting:
    @pytest.mark.mission("DOP-8", "PUR-2")
    async def test_until_every_live_replica_has_deleted(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(3)
            answers = delete_records(leader, 3, timeout_ms=20_000)
            assert earliest(leader) == 3  # here it is done at once
            await cluster.clock.advance(2_000)
            assert cluster[2].partition().log.log_start_offset == 3
            assert answers == []
            assert leader.replicas.purgatories.delete_records.purgatory.delayed == 1
            cluster.thaw(3)
            await cluster.clock.advance(4_000)
            assert error_of(answers) is ErrorCode.NONE
            assert answers[0].low_watermark == 3
            assert cluster[3].partition().log.log_start_offset == 3
            assert leader.replicas.purgatories.delete_records.purgatory.delayed == 0

    @pytest.mark.mission("DOP-8")
    async def test_not_for_a_replica_that_is_down(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            await cluster.stop(3)
            answers = delete_records(leader, 3)
            assert leader.partition().low_watermark == 0  # of broker 2
            await cluster.clock.advance(1_000)
            assert error_of(answers) is ErrorCode.NONE

    @pytest.mark.mission("DOP-8")
    async def test_a_dead_replica_no_longer_delays_the_response(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(3)
            answers = delete_records(leader, 3, timeout_ms=60_000)
            await cluster.clock.advance(2_000)
            assert answers == []
            cluster.metadata.alive.pop(3)
            leader.replicas.deletion.brokers_changed()
            await cluster.clock.settle()
            assert error_of(answers) is ErrorCode.NONE

    @pytest.mark.mission("DOP-8", "PUR-1")
    async def test_until_time_is_up(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(3)
            answers = delete_records(leader, 3, timeout_ms=1_500)
            await cluster.clock.advance(1_499)
            assert answers == []
            await cluster.clock.advance(2)
            assert error_of(answers) is ErrorCode.REQUEST_TIMED_OUT
            assert answers[0].low_watermark == 0  # where it was when the request came
            assert earliest(leader) == 3

    @pytest.mark.mission("DOP-8")
    async def test_no_time_at_all(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            answers = delete_records(leader, 3, timeout_ms=-1)
            await cluster.clock.advance(2)
            assert error_of(answers) is ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.mission("DOP-8")
    async def test_ends_when_the_leader_leads_no_longer(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(3)
            answers = delete_records(leader, 3)
            await cluster.elect(2, epoch=1, tell=[1, 2])
            await cluster.clock.settle()
            assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answers[0].low_watermark == -1

    @pytest.mark.mission("DOP-8")
    async def test_ends_when_the_disk_fails(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(3)
            answers = delete_records(leader, 3)
            leader.replicas.disk_failed(TP, OSError("broken"))
            await cluster.clock.settle()
            assert error_of(answers) is ErrorCode.KAFKA_STORAGE_ERROR
            assert answers[0].low_watermark == -1

    async def test_nothing_to_wait_for(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b")
            answers = delete_records(leader, 1)
            assert error_of(answers) is ErrorCode.NONE
            assert leader.replicas.purgatories.delete_records.purgatory.watched == 0

    async def test_a_new_leader_waits_for_the_log_starts_of_its_followers(self) -> None:
        async with ReplicaCluster() as cluster:
            await with_records(cluster)
            cluster.freeze(3)
            await cluster.elect(2, epoch=1)
            assert cluster[2].partition().low_watermark == -1
            answers = delete_records(cluster[2], 0)
            await cluster.clock.advance(1_000)
            assert answers == []  # though its own log starts there
            cluster.thaw(3)
            await cluster.clock.advance(3_000)
            assert error_of(answers) is ErrorCode.NONE
            assert answers[0].low_watermark == 0

    @pytest.mark.mission("PUR-3", "PUR-6", "PUR-7")
    async def test_it_has_a_separate_purgatory(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            reaper = cluster[1].replicas.purgatories.delete_records
            assert reaper.name == "ExpirationReaper-1-DeleteRecords"
            assert reaper.purgatory.name == "DeleteRecords"
            assert reaper.purgatory.purge_interval == 1
            others: tuple[Any, ...] = (
                cluster[1].replicas.purgatories.produce,
                cluster[1].replicas.purgatories.fetch,
            )
            assert all(reaper.purgatory is not other.purgatory for other in others)


class TestOffsets:
    async def test_minus_one_is_the_high_watermark(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            cluster.freeze(2, 3)
            leader.produce("not committed", acks=1)
            answers = delete_records(leader, -1)
            assert earliest(leader) == 5
            cluster.thaw(2, 3)
            await cluster.clock.advance(3_000)
            assert answers[0].low_watermark == 5
            assert cluster[2].held() == cluster[3].held() == ["not committed"]

    @pytest.mark.parametrize("offset", [-2, 3, 1 << 40])
    async def test_out_of_range(self, offset: int) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b")
            answers = delete_records(leader, offset)
            assert error_of(answers) is ErrorCode.OFFSET_OUT_OF_RANGE
            assert answers[0].low_watermark == -1
            assert earliest(leader) == 0

    async def test_below_the_start_is_done_already(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            delete_records(leader, 2)
            answers = delete_records(leader, 1)
            assert error_of(answers) is ErrorCode.NONE
            assert answers[0].low_watermark == 2
            assert earliest(leader) == 2

    async def test_offsets_below_the_log_start_are_out_of_range(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            delete_records(leader, 2)
            assert error_of(leader.fetch(1)) is ErrorCode.OFFSET_OUT_OF_RANGE
            answers = leader.fetch(2)
            assert error_of(answers) is ErrorCode.NONE
            assert answers[0].log_start_offset == 2

    async def test_a_parked_fetch_below_the_log_start_is_completed(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            answers = leader.fetch(1, min_bytes=10_000, max_wait_ms=60_000)
            assert answers == []
            delete_records(leader, 2)
            assert error_of(answers) is ErrorCode.OFFSET_OUT_OF_RANGE


class TestRefusals:
    @pytest.mark.parametrize("policy", ["compact", "compact,delete"])
    async def test_only_where_old_records_may_be_deleted(self, policy: str) -> None:
        async with ReplicaCluster([1]) as cluster:
            cluster.configs.by_topic[TOPIC] = TopicConfig(LogConfig(cleanup_policy=policy))
            leader = await alone(cluster)
            answers = delete_records(leader, 0)
            wanted = ErrorCode.POLICY_VIOLATION if policy == "compact" else ErrorCode.NONE
            assert error_of(answers) is wanted

    async def test_only_at_the_leader(self) -> None:
        async with ReplicaCluster() as cluster:
            await with_records(cluster)
            answers = delete_records(cluster[2], 1)
            assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def test_partitions_that_are_not_here(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            elsewhere = TopicPartition(TOPIC, 5)
            cluster.metadata.leaders[elsewhere] = (2, 0)
            unknown = TopicPartition("nowhere", 0)
            found = {
                tp: error_of(delete_records(cluster[1], 0, topic_partition=tp))
                for tp in (elsewhere, unknown)
            }
            assert found == {
                elsewhere: ErrorCode.NOT_LEADER_OR_FOLLOWER,
                unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }

    async def test_internal_topics(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            offsets = TopicPartition("__consumer_offsets", 0)
            asked = delete_records(cluster[1], 0, topic_partition=offsets)
            assert error_of(asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # there is none yet
            cluster.metadata.leaders[offsets] = (2, 0)
            asked = delete_records(cluster[1], 0, topic_partition=offsets)
            assert error_of(asked) is ErrorCode.INVALID_TOPIC_EXCEPTION

    async def test_one_of_several_does_not_hold_up_the_others(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
            for index in (0, 1):
                cluster[1].produce("a", "b", topic_partition=TopicPartition(TOPIC, index))
            wanted = [DeleteRecordsPartition(0, 9), DeleteRecordsPartition(1, 2)]
            request = DeleteRecordsRequest(
                [
                    DeleteRecordsTopic(TOPIC, wanted),
                    DeleteRecordsTopic("nowhere", [DeleteRecordsPartition(0, 0)]),
                ],
                1_000,
            )
            response: DeleteRecordsResponse = cluster[1].ask(request, 1)[0]
            assert [topic.name for topic in response.topics] == [TOPIC, "nowhere"]
            rows = {
                (topic.name, row.partition_index): (row.error_code, row.low_watermark)
                for topic in response.topics
                for row in topic.partitions
            }
            assert rows == {
                (TOPIC, 0): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
                (TOPIC, 1): (ErrorCode.NONE, 2),
                ("nowhere", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            }

    async def test_a_repeated_partition_gets_one_response(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            wanted = [DeleteRecordsPartition(0, 1), DeleteRecordsPartition(0, 2)]
            request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, wanted)], 1_000)
            (topic,) = leader.ask(request, 0)[0].topics
            assert [row.low_watermark for row in topic.partitions] == [2]

    async def test_an_empty_request(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            assert cluster[1].ask(DeleteRecordsRequest(), 2) == [DeleteRecordsResponse()]


class TestRemembering:
    async def test_leader_checkpoints_the_log_start_before_it_responds(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            delete_records(leader, 2)
            assert leader.files.read_all(STARTS) == b"0\n1\nflights 0 2\n"

    async def test_followers_checkpoint_the_log_start_before_they_report_it(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            delete_records(leader, 4)
            await cluster.clock.advance(1_000)
            reported = [
                (source, wanted.log_start_offset)
                for source, _, request, _ in cluster.requests
                for topic in request.topics
                for wanted in topic.partitions
            ]
            assert {(2, 4), (3, 4)} <= set(reported)
            for follower in (2, 3):
                assert cluster[follower].files.read_all(STARTS) == b"0\n1\nflights 0 4\n"

    async def test_a_killed_broker_remembers(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            delete_records(leader, 2)
            files = leader.files
            await leader.replicas.stop()
            leader.logs.close()  # no orderly shutdown
            node = await cluster.start(1, files)
            await cluster.elect(1, isr=[1], replicas=[1], epoch=1)
            assert earliest(node) == 2
            assert error_of(node.fetch(1)) is ErrorCode.OFFSET_OUT_OF_RANGE

    async def test_a_stopped_broker_remembers(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            delete_records(leader, 2)
            files = await cluster.stop(1)
            node = await cluster.start(1, files)
            await cluster.elect(1, isr=[1], replicas=[1], epoch=1)
            assert earliest(node) == 2

    async def test_a_full_disk_stops_no_deletion(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            _fail(monkeypatch, leader.files, STARTS, errno.ENOSPC)
            assert error_of(delete_records(leader, 2)) is ErrorCode.NONE
            assert earliest(leader) == 2

    @pytest.mark.mission("DOP-8")
    async def test_a_broken_disk_is_a_storage_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing to wait for, but the new start is not written down."""
        async with ReplicaCluster([1]) as cluster:
            leader = await alone(cluster, "a", "b", "c")
            _fail(monkeypatch, leader.files, STARTS, errno.EIO)
            answers = delete_records(leader, 2)
            assert error_of(answers) is ErrorCode.KAFKA_STORAGE_ERROR
            assert answers[0].low_watermark == -1


def _fail(monkeypatch: pytest.MonkeyPatch, files: InstantFiles, path: str, number: int) -> None:
    replace: Any = files.replace_unsynced

    def refuse(target: str, data: bytes) -> None:
        if target == path:
            raise OSError(number, "refused")
        replace(target, data)

    monkeypatch.setattr(files, "replace_unsynced", refuse)


class TestComingBack:
    async def test_a_returning_follower_deletes_the_records_before_it_joins_the_isr(self) -> None:
        async with ReplicaCluster() as cluster:
            leader = await with_records(cluster)
            files = await cluster.stop(3)
            delete_records(leader, 4)
            await cluster.elect(1, isr=[1, 2], epoch=1)
            await cluster.clock.advance(1_000)
            node = await cluster.start(3, files)
            await cluster.elect(1, isr=[1, 2], epoch=2)
            assert node.partition().log.log_start_offset == 0
            while 3 not in leader.partition().state.isr.maximal:
                await cluster.clock.advance(10)
            assert leader.partition().followers[3].log_start_offset == 4
            assert node.files.read_all(STARTS) == b"0\n1\nflights 0 4\n"
