"""Replicas reassigned while their broker was away: which of them go, and which stay."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from minikafka.kernel.cluster import LEADER_DURING_DELETE, TopicPartition
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.server.broker.replication.stray_replicas import StrayReplicas
from tests.support.broker.cluster_metadata import partition_state
from tests.support.broker.replicas import TOPIC, TOPIC_ID, TP, Node, ReplicaCluster

ELSEWHERE = (4, 5, 6)


def update_metadata(
    leader: int = 4,
    replicas: Sequence[int] = ELSEWHERE,
    isr: Sequence[int] | None = None,
    epoch: int = 9,
    topic_id: UUID = TOPIC_ID,
    broker_epoch: int = 101,
) -> UpdateMetadataRequest:
    state = partition_state(0, leader, replicas, isr, epoch)
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topic_states=[UpdateMetadataTopicState(TOPIC, topic_id, [state])],
    )


def is_here(node: Node) -> bool:
    hosted = node.replicas.hosted.get(TP) is not None
    assert hosted == (node.logs.get(TP) is not None)
    return hosted


@pytest.mark.mission("REA-10")
async def test_replicas_reassigned_during_the_absence_are_deleted() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        gone: list[TopicPartition] = []
        for broker_id in (1, 2):  # the leader of old, and a follower
            node = cluster[broker_id]
            await StrayReplicas(node.replicas, node.logs, gone.append).drop(update_metadata())
            assert not is_here(node)
            assert node.replicas.fetchers.source_of(TP) is None
        assert gone == [TP, TP]


@pytest.mark.mission("DEL-2", "REA-10")
async def test_replicas_of_an_older_topic_with_the_same_name_are_deleted() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        for broker_id, replicas in ((1, ELSEWHERE), (2, (1, 2, 3))):
            node = cluster[broker_id]
            request = update_metadata(replicas=replicas, epoch=0, topic_id=UUID(int=99))
            await StrayReplicas(node.replicas, node.logs).drop(request)
            assert not is_here(node)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(update_metadata(replicas=(1, 2, 3)), id="a replica still"),
        pytest.param(update_metadata(isr=(1, 4)), id="in sync: it may be elected yet"),
        pytest.param(update_metadata(epoch=3), id="the same epoch"),
        pytest.param(update_metadata(epoch=2), id="an older epoch"),
        pytest.param(update_metadata(topic_id=UUID(int=0)), id="a topic without id"),
        pytest.param(
            update_metadata(leader=LEADER_DURING_DELETE), id="deleted, by a StopReplica to come"
        ),
        pytest.param(UpdateMetadataRequest(broker_epoch=101), id="not mentioned"),
    ],
)
async def test_everything_else_stays(request_: UpdateMetadataRequest) -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        node = cluster[1]
        await StrayReplicas(node.replicas, node.logs).drop(request_)
        assert is_here(node)


@pytest.mark.mission("REA-10")
async def test_first_full_update_metadata_may_come_in_slices() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        node = cluster[2]
        strays = StrayReplicas(node.replicas, node.logs)
        slice_before = update_metadata()
        slice_before.topic_states[0].topic_name = "another"
        await strays.drop(slice_before)
        assert is_here(node)
        await strays.drop(update_metadata())
        assert not is_here(node)


async def test_only_the_first_metadata_of_a_controller_and_broker_epoch_counts() -> None:
    """Later UpdateMetadata requests precede the StopReplica for the same replicas."""
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        node = cluster[2]
        strays = StrayReplicas(node.replicas, node.logs)
        await strays.drop(UpdateMetadataRequest(controller_epoch=1, broker_epoch=101))
        await strays.drop(update_metadata(replicas=(1, 2, 3)))
        await strays.drop(update_metadata())
        assert is_here(node)
        await strays.drop(update_metadata(broker_epoch=102))
        assert not is_here(node)
