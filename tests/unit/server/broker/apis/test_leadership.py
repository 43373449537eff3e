"""LeaderAndIsr and StopReplica: epochs at the door, roles, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from errno import ENOSPC
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.brokers.leader_and_isr import LEADERSHIP_SLICE as SLICE
from minikafka.server.broker.apis.brokers.leader_and_isr import LeaderAndIsrHandler
from minikafka.server.broker.apis.brokers.stop_replica import StopReplicaHandler
from minikafka.server.broker.apis.brokers.update_metadata import UpdateMetadataHandler
from minikafka.server.broker.apis.request import RequestContext
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster, error_of


def stop(delete: bool = True, epoch: int = -1, **fields: Any) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_epoch=fields.pop("controller_epoch", 1),
        topic_states=[StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, epoch, delete)])],
        **fields,
    )


async def stopped(node: Node, request: StopReplicaRequest, version: int = 4) -> ErrorCode:
    response = await node.command(request, version)
    return error_of(response.partition_errors)


@pytest.mark.parametrize("version", range(8))
async def test_every_version_makes_leaders_and_followers(version: int) -> None:
    async with ReplicaCluster() as cluster:
        answers = await cluster.elect(1, version=version)
        for response in answers.values():
            assert response.error_code == 0
            if version < 5:
                entry = response.partition_errors[0]
                assert (entry.topic_name, entry.partition_index) == (TOPIC, 0)
            else:
                assert response.topics[0].topic_id == TOPIC_ID
                entry = response.topics[0].partition_errors[0]
            assert entry.error_code == 0
        assert [cluster[i].partition().is_leader for i in (1, 2, 3)] == [True, False, False]
        assert cluster[2].replicas.fetchers.source_of(TP) == 1
        assert cluster[1].replicas.fetchers.source_of(TP) is None
        produced = cluster[1].produce("a")
        await cluster.clock.advance(1_000)
        assert error_of(produced) is ErrorCode.NONE
        by_id = {version for _, _, _, version in cluster.requests}
        assert by_id == ({12} if version < 5 else {17})


async def partition_error(cluster: ReplicaCluster, **election: object) -> ErrorCode:
    answers = await cluster.elect(1, tell=[1], **election)  # type: ignore[arg-type]
    return error_of(answers[1].topics[0].partition_errors)


async def test_an_old_or_known_leader_epoch_changes_nothing() -> None:
    async with ReplicaCluster([1]) as cluster:
        assert await partition_error(cluster, epoch=3) is ErrorCode.NONE
        assert await partition_error(cluster, epoch=3) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert await partition_error(cluster, epoch=2) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert cluster[1].partition().leader_epoch == 3
        assert await partition_error(cluster, epoch=4) is ErrorCode.NONE


async def test_another_topic_of_the_same_name_is_refused() -> None:
    async with ReplicaCluster([1]) as cluster:
        assert await partition_error(cluster, epoch=3) is ErrorCode.NONE
        other = UUID(int=99)
        error = await partition_error(cluster, epoch=4, topic_id=other)
        assert error is ErrorCode.INCONSISTENT_TOPIC_ID
        assert cluster[1].partition().leader_epoch == 3


async def test_a_topic_without_an_id_gets_one_under_the_same_epoch() -> None:
    async with ReplicaCluster([1]) as cluster:
        assert await partition_error(cluster, epoch=3, topic_id=UUID(int=0)) is ErrorCode.NONE
        assert cluster[1].partition().topic_id is None
        assert await partition_error(cluster, epoch=3) is ErrorCode.NONE
        assert cluster[1].partition().topic_id == TOPIC_ID
        assert cluster[1].partition().state.isr.committed == (1, 2, 3)


async def test_a_broker_that_is_no_replica_refuses_leader_and_isr() -> None:
    async with ReplicaCluster([1]) as cluster:
        error = await partition_error(cluster, isr=[2], replicas=[2, 3])
        assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster[1].replicas.hosted.get(TP) is None


async def test_a_partition_without_leader_is_not_fetched() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.elect(-1, isr=[1], epoch=1)
        for node in cluster.nodes.values():
            assert not node.partition().is_leader
            assert node.replicas.fetchers.source_of(TP) is None
            assert len(node.replicas.fetchers) == 0


async def test_a_controller_of_the_past_and_a_message_for_an_earlier_life() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        node = cluster[1]
        node.fence.controller_epoch = 5
        for request, version in ((LeaderAndIsrRequest(controller_epoch=4), 7), (stop(), 4)):
            response = await node.command(request, version)
            assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        for request, version in (
            (LeaderAndIsrRequest(controller_epoch=6, broker_epoch=100), 7),
            (stop(controller_epoch=6, broker_epoch=100), 4),
        ):
            response = await node.command(request, version)
            assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert node.fence.controller_epoch == 5
        assert node.replicas.hosted.get(TP) is not None


async def test_a_stale_leader_and_isr_reads_no_configurations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anyone may send one, and a name that ZooKeeper refuses was read again for ever."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        node = cluster[1]
        node.fence.controller_epoch = 5
        read: list[str] = []

        async def load_topic_configs(topics: Sequence[str]) -> None:
            read.extend(topics)

        monkeypatch.setattr(node.replicas, "load_topic_configs", load_topic_configs)
        state = LeaderAndIsrTopicState("..", partition_states=[LeaderAndIsrPartitionState()])
        stale = LeaderAndIsrRequest(controller_epoch=4, topic_states=[state])
        response = await node.command(stale, 7)
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert read == []


class CountedReads(list[Any]):
    """The entries of a request, and how often they were read."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize(
    ("handler", "request_class"),
    [
        (LeaderAndIsrHandler, LeaderAndIsrRequest),
        (StopReplicaHandler, StopReplicaRequest),
        (UpdateMetadataHandler, UpdateMetadataRequest),
    ],
)
async def test_the_entries_of_a_stale_order_are_not_read(handler: Any, request_class: Any) -> None:
    """Any client may send an order with 100,000 entries, and the loop stood still meanwhile."""
    fence = ControllerFence(1, lambda: 50)
    fence.controller_epoch = 5
    entries = CountedReads()
    request = request_class(controller_epoch=4, topic_states=entries)
    args = (None, fence, lambda topic: None)
    context = RequestContext(RequestHeader(4, 7, 1, "client"), "PLAINTEXT", "127.0.0.1")
    response = await handler(*args)(context, request)
    assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert entries.reads == 0


def test_the_fence_remembers_the_highest_controller_epoch() -> None:
    fence = ControllerFence(1, lambda: 50)

    def refusal(controller_epoch: int, broker_epoch: int) -> ErrorCode:
        request = StopReplicaRequest(
            controller_id=1, controller_epoch=controller_epoch, broker_epoch=broker_epoch
        )
        return fence.arrived("StopReplica", request).refusal()

    assert refusal(3, 50) is ErrorCode.NONE
    assert refusal(3, -1) is ErrorCode.NONE
    assert refusal(2, 50) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert refusal(4, 49) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(4, 51) is ErrorCode.NONE  # the broker learns its own epoch a little later
    assert fence.controller_epoch == 4


async def test_settings_that_cannot_be_read_yet_are_waited_for() -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.failures = 3
        answers = {}

        async def elect() -> None:
            answers.update(await cluster.elect(1, isr=[1], replicas=[1]))

        assert cluster.tasks is not None
        cluster.tasks.create_task(elect())
        await cluster.clock.advance(900)
        assert answers == {}
        await cluster.clock.advance(1_000)
        assert cluster[1].partition().is_leader


# ------------------------------------------------------------------------------------ StopReplica


@pytest.mark.parametrize("version", range(5))
async def test_every_version_stops_and_deletes(version: int) -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.settle()
        request = StopReplicaRequest(controller_epoch=1, delete_partitions=version < 3)
        if version == 0:
            request.ungrouped_partitions = [StopReplicaPartitionV0(TOPIC, 0)]
        elif version < 3:
            request.topics = [StopReplicaTopicV1(TOPIC, [0])]
        else:
            request.topic_states = stop().topic_states
        assert await stopped(cluster[2], request, version) is ErrorCode.NONE
        node = cluster[2]
        assert node.replicas.hosted.get(TP) is None
        assert node.logs.get(TP) is None
        assert node.replicas.fetchers.source_of(TP) is None
        assert await stopped(cluster[2], request, version) is ErrorCode.NONE  # gone already


async def test_a_stopped_follower_keeps_its_log_and_copies_no_more() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.settle()
        assert await stopped(cluster[3], stop(delete=False, epoch=0)) is ErrorCode.NONE
        cluster[1].produce("b", acks=1)
        await cluster.clock.advance(2_000)
        assert cluster[3].held() == ["a"]
        assert len(cluster[3].replicas.fetchers) == 0


async def test_the_leader_epoch_of_a_stop_is_checked() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, epoch=4, tell=[1])
        node = cluster[1]
        assert await stopped(node, stop(epoch=3)) is ErrorCode.FENCED_LEADER_EPOCH
        assert node.replicas.hosted.get(TP) is not None
        assert await stopped(node, stop(epoch=-2)) is ErrorCode.NONE  # the topic is being deleted
        assert node.replicas.hosted.get(TP) is None


async def test_deletion_completes_parked_requests() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        produced = cluster[1].produce("a", timeout_ms=60_000)
        fetched = cluster[1].fetch(0, max_wait_ms=60_000)
        cluster.metadata.leaders.clear()
        await stopped(cluster[1], stop())
        assert error_of(produced) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error_of(fetched) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_made_again_starts_empty() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        cluster[1].produce("a")
        await cluster[1].replicas.checkpoint_high_watermarks()
        await stopped(cluster[1], stop())
        assert cluster.configs.forgotten == [TOPIC]
        again = UUID(int=8)
        await cluster.elect(1, isr=[1], replicas=[1], topic_id=again)
        partition = cluster[1].partition()
        assert (partition.high_watermark, partition.log.log_end_offset) == (0, 0)
        assert cluster[1].replicas.hosted.topic_name(again) == TOPIC


async def test_an_offline_partition_is_not_stopped() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        cluster[1].replicas.disk_failed(TP, OSError("broken"))
        assert await stopped(cluster[1], stop()) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await partition_error(cluster, epoch=9) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_coordinators_are_notified_of_a_failed_disk() -> None:
    """The controller's next request for the partition is refused, so nothing else notifies them."""
    gone: list[tuple[TopicPartition, bool]] = []
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        hosted = cluster[1].replicas.hosted
        hosted.on_offline(lambda tp: gone.append((tp, hosted.is_offline(tp))))
        cluster[1].replicas.disk_failed(TP, OSError(ENOSPC, "full"))
        assert gone == []
        cluster[1].replicas.disk_failed(TP, OSError("broken"))
        assert gone == [(TP, True)]


async def test_a_disk_that_cannot_make_logs_takes_the_partition_offline() -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster[1].files.break_below()
        assert await partition_error(cluster, epoch=1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert cluster[1].replicas.hosted.is_offline(TP)
        assert await partition_error(cluster, epoch=2) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_leading_on_writes_nothing_before_something_is_appended() -> None:
    """Ten thousand partitions that change hands are not ten thousand files."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        node = cluster[1]
        node.produce("a")
        before = node.files.read_all(f"/data/{TP}/leader-epoch-checkpoint")
        assert await partition_error(cluster, epoch=1) is ErrorCode.NONE
        assert node.partition().log.latest_epoch == 1
        assert node.files.read_all(f"/data/{TP}/leader-epoch-checkpoint") == before
        node.produce("b")
        after = node.files.read_all(f"/data/{TP}/leader-epoch-checkpoint")
        assert after == b"0\n2\n0 0\n1 1\n"


# ------------------------------------------------------------------------------------ checkpoints


async def test_high_watermarks_are_written_every_few_seconds() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        cluster[1].produce("a", "b")
        await cluster.clock.advance(4_999)
        assert cluster[1].logs.read_high_watermarks() == {}
        await cluster.clock.advance(1)
        assert cluster[1].logs.read_high_watermarks() == {TP: 2}


async def test_checkpoint_keeps_partitions_without_leader_and_isr_yet() -> None:
    async with ReplicaCluster([1]) as cluster:
        other = TopicPartition("other", 4)
        await cluster[1].logs.write_high_watermarks({other: 17, TP: 5})
        cluster[1].replicas.checkpoint.read()
        await cluster.elect(1, isr=[1], replicas=[1])
        assert cluster[1].partition().high_watermark == 0  # the log is shorter than it was
        await cluster[1].replicas.checkpoint_high_watermarks()
        assert cluster[1].logs.read_high_watermarks() == {other: 17, TP: 0}


# ----------------------------------------------------------------------------------------- slices


def many(count: int) -> LeaderAndIsrRequest:
    states = [
        LeaderAndIsrPartitionState(
            partition_index=index, controller_epoch=1, leader=1, isr=[1], replicas=[1], is_new=True
        )
        for index in range(count)
    ]
    topic = LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states)
    return LeaderAndIsrRequest(controller_id=9, controller_epoch=1, topic_states=[topic])


async def test_thousands_of_partitions_are_handled_over_several_turns() -> None:
    """Other requests are served in between, and the response has every partition."""
    async with ReplicaCluster([1]) as cluster:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        busy = asyncio.ensure_future(others())
        response = await cluster[1].command(many(2 * SLICE + 1), 7)
        busy.cancel()
        told = response.topics[0].partition_errors
        assert [row.partition_index for row in told] == list(range(2 * SLICE + 1))
        assert {row.error_code for row in told} == {0}
        assert turns >= 2


async def test_a_newer_controller_between_two_slices_ends_the_older_ones_request() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = cluster[1]
        taken = []

        def role_taken(topic_partition: TopicPartition, *_: object) -> None:
            taken.append(topic_partition.partition)
            node.fence.controller_epoch = 2

        handler = LeaderAndIsrHandler(node.replicas, node.fence, role_taken)
        context = RequestContext(RequestHeader(4, 7, 1, "controller"), "PLAINTEXT", "host9")
        response = await handler(context, many(SLICE + 3))
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert taken == list(range(SLICE))
        assert len(node.replicas.hosted) == SLICE
