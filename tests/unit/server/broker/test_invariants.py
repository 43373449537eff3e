"""The invariants of replication are asserted where values are made and where they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.replication import partition_state as facts
from minikafka.core.replication.partition_state import IsrState, LeadershipState
from minikafka.kernel.cluster import LeaderAndIsr, ReplicaAssignment
from minikafka.server.broker.replication.partition import Instruction, Partition
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.broker.replicas import TP, Node, ReplicaCluster


async def leader(cluster: ReplicaCluster) -> tuple[Node, Partition]:
    await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=3)
    node = cluster[1]
    node.produce("a", "b")
    return node, node.partition()


@pytest.mark.parametrize("high_watermark", [-1, 3])
async def test_a_high_watermark_outside_of_the_log_is_not_set(high_watermark: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        _, partition = await leader(cluster)
        with pytest.raises(AssertionError, match=r"outside of 0\.\.2"):
            partition._set_high_watermark(partition.log, high_watermark)
        assert partition.high_watermark == 2


@pytest.mark.parametrize("high_watermark", [-1, 3])
async def test_a_high_watermark_outside_of_the_log_is_not_written(high_watermark: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node, partition = await leader(cluster)
        partition.high_watermark = high_watermark
        with pytest.raises(AssertionError, match=r"outside of 0\.\.2"):
            await node.replicas.checkpoint.write()
        partition.high_watermark = 2


async def test_a_log_start_above_the_high_watermark_is_not_written() -> None:
    async with ReplicaCluster([1]) as cluster:
        node, partition = await leader(cluster)
        partition.log.increment_log_start_offset(2)
        partition.high_watermark = 1
        with pytest.raises(AssertionError, match=r"high watermark 1 outside of 2\.\.2"):
            node.logs.starts.write()
        with pytest.raises(AssertionError, match=r"high watermark 1 outside of 2\.\.2"):
            await node.logs.checkpoint()
        partition.high_watermark = 2
        await node.logs.checkpoint()


async def test_the_log_start_of_a_partition_that_is_not_hosted_is_written() -> None:
    async with ReplicaCluster([1]) as cluster:
        node, partition = await leader(cluster)
        partition.log.increment_log_start_offset(2)
        partition.high_watermark = 1
        node.replicas.hosted.remove(TP)
        await node.logs.checkpoint()
        home = node.logs.directories.live[0]
        assert home.starts.in_file(TP) == 2


@pytest.mark.parametrize("replica_id", [-1, 2])
async def test_a_high_watermark_outside_of_the_log_is_not_sent(replica_id: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node, partition = await leader(cluster)
        partition.high_watermark = 3
        with pytest.raises(AssertionError, match=r"outside of 0\.\.2"):
            node.fetch(0, replica_id=replica_id)
        partition.high_watermark = 2


async def test_a_stable_offset_above_the_high_watermark_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        node, _ = await leader(cluster)
        monkeypatch.setattr(UnifiedLog, "last_stable_offset", lambda log, high_watermark: 3)
        with pytest.raises(AssertionError, match="last stable offset 3 above"):
            node.fetch(0)


@pytest.mark.parametrize("role", [Partition.make_leader, Partition.make_follower])
async def test_a_leader_epoch_does_not_go_back(role: Any) -> None:
    async with ReplicaCluster([1]) as cluster:
        _, partition = await leader(cluster)
        old = Instruction(TP, LeaderAndIsr(2, 2, (2,), 9), ReplicaAssignment((1, 2)), 1)
        with pytest.raises(AssertionError, match="leader epoch 2 after 3"):
            role(partition, old, 0) if role is Partition.make_leader else role(partition, old)
        assert (partition.is_leader, partition.leader_epoch) == (True, 3)


STATE = LeadershipState(1, 0, 4, 1, ReplicaAssignment((1, 2, 3)), IsrState((1, 2)))


@pytest.mark.parametrize(
    ("isr", "reason"),
    [((1, 2, 9), "no replicas"), ((1, 2, 2), "twice"), ((2, 3), "leader 1 not in")],
)
def test_an_isr_has_different_replicas_and_the_leader(isr: tuple[int, ...], reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        facts.propose_isr(STATE, isr)
    with pytest.raises(AssertionError, match=reason):
        facts.leader_and_isr(replace(STATE, isr=IsrState((1, 2), isr)))


def test_members_that_the_controller_named_are_not_judged() -> None:
    """They may be strangers to this replica's assignment, and leave the ISR like any other."""
    state = replace(STATE, isr=IsrState((1, 9)))
    assert facts.leader_and_isr(facts.propose_isr(state, (1, 9, 2))).isr == (1, 9, 2)


def test_the_version_of_the_state_znode_does_not_go_back() -> None:
    proposed = facts.propose_isr(STATE, (1,))
    with pytest.raises(AssertionError, match="version 4 after 4"):
        facts.commit_isr(proposed, 4)
    assert facts.commit_isr(proposed, 5).zk_version == 5
