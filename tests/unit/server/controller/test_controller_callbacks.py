"""Golden traces: failover, broker start and failure, topic creation and growth."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica, TopicPartition
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import InShort, NewCluster


def steps(logs: Any) -> Any:
    """The trace: call-backs verbatim, state changes, requests queued."""
    lines = []
    for entry in logs:
        event = entry["event"]
        if "before" in entry and "error" not in entry:
            subject = entry["partition"]
            if "replica" in entry:
                subject += f"/{entry['replica']}"
            lines.append(f"{subject} {entry['before']} -> {entry['after']}")
        elif event == "request_queued":
            lines.append(f"{entry['kind'].removesuffix('Request')} to {entry['target_broker']}")
        elif " callback for " in entry.get("message", "") or event in REMOVED:
            lines.append(entry["message"])
        elif entry.get("log_level") == "info" and event in LIFE:
            lines.append(event)
    return lines


REMOVED = {"controlled_shutdowns_ended", "reassignment_request_removed"}

LIFE = {
    "stale_notifications_clearing",
    "controller_context_initializing",
    "topic_deletions_loading",
    "update_metadata_sending",
    "replica_state_machine_starting",
    "partition_state_machine_starting",
    "controller_failover_completed",
    "topic_deletion_started",
}

CREATED = [
    "New topic creation callback for t-0",
    "New partition creation callback for t-0",
    "t-0 NonExistentPartition -> NewPartition",
    "t-0/1 NonExistentReplica -> NewReplica",
    "t-0/2 NonExistentReplica -> NewReplica",
    "t-0 NewPartition -> OnlinePartition",
    "LeaderAndIsr to 1",
    "LeaderAndIsr to 2",
    "UpdateMetadata to 1",
    "UpdateMetadata to 2",
    "t-0/1 NewReplica -> OnlineReplica",
    "t-0/2 NewReplica -> OnlineReplica",
]


@pytest.mark.mission("CCB-6", "CCB-7", "CDU-4", "OPS-3", "CTX-1")
async def test_a_new_topic_in_four_steps(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        cluster.brokers.take()
        with capture_logs() as logs:
            (tp,) = await cluster.create_topic("t", (1, 2))
        assert steps(logs) == CREATED
        assert await cluster.state(tp) == (1, (1, 2), 0)
        assert in_short(cluster.brokers.take()) == [
            ("LeaderAndIsr", 1, {"t-0": (1, (1, 2))}),
            ("LeaderAndIsr", 2, {"t-0": (1, (1, 2))}),
            ("UpdateMetadata", 1, {"t-0": (1, (1, 2))}),
            ("UpdateMetadata", 2, {"t-0": (1, (1, 2))}),
        ]
        # its own watch, for the day it grows
        session = cluster.nodes[1].session
        assert "/brokers/topics/t" in cluster.zookeeper.watched(session)
        assert controller.context.partition_state(tp) is PartitionState.ONLINE


@pytest.mark.mission("CCB-3", "CDU-7", "CDU-8", "CRS-2")
async def test_failover_in_order(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        await cluster.create_topic("t", (2, 1))
        await cluster.create_topic("dead", (9, 2))
        with capture_logs() as logs:
            cluster.zookeeper.delete("/controller")
            await cluster.settle()
        assert cluster.active.active_controller_id == 2
        assert steps(e for e in logs if e.get("broker") == 2 or e.get("controller") == 2) == [
            "stale_notifications_clearing",
            "controller_context_initializing",
            "topic_deletions_loading",
            "update_metadata_sending",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "replica_state_machine_starting",
            "t-0/1 OnlineReplica -> OnlineReplica",
            "t-0/2 OnlineReplica -> OnlineReplica",
            "LeaderAndIsr to 1",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "partition_state_machine_starting",
            "dead-0/9 ReplicaDeletionIneligible -> OfflineReplica",
            "LeaderAndIsr to 2",  # carries dead-0
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "controller_failover_completed",
        ]


@pytest.mark.mission("CCB-3", "RSM-12")
async def test_partitions_led_by_a_dead_controller_are_written_and_sent_once(
    new_cluster: NewCluster, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        led, followed = await cluster.create_topic("t", (1, 2, 3), (2, 3, 1))
        cluster.brokers.take()
        await cluster.kill(1)
        context = cluster.active.context
        assert [await cluster.state(tp) for tp in (led, followed)] == [
            (2, (2, 3), 1),
            (2, (2, 3), 1),
        ]
        for tp in (led, followed):
            assert context.replica_state(PartitionAndReplica(tp, 1)) is ReplicaState.OFFLINE
        told = [(kind, to, said) for kind, to, said in in_short(cluster.brokers.take()) if said]
        assert told == [
            (kind, to, {name: (2, (2, 3))})
            for name in ("t-0", "t-1")
            for kind in ("LeaderAndIsr", "UpdateMetadata")
            for to in (2, 3)
        ]


@pytest.mark.mission("CCB-3", "CRS-4")
async def test_every_read_of_the_failover_arms_its_watch(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", (1,))
        session = cluster.nodes[1].session
        assert cluster.zookeeper.watched(session) == [
            "/admin/delete_topics",
            "/admin/preferred_replica_election",
            "/admin/reassign_partitions",
            "/brokers/ids",
            "/brokers/ids/1",
            "/brokers/topics",
            "/brokers/topics/t",
            "/controller",
            "/isr_change_notification",
            "/log_dir_event_notification",
        ]


@pytest.mark.mission("CCB-2", "CDU-6", "RSM-17", "LEL-1", "OPS-3")
async def test_a_broker_dies(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        led, followed = await cluster.create_topic("t", (3, 1, 2), (1, 2, 3))
        cluster.brokers.take()
        with capture_logs() as logs:
            await cluster.kill(3)
        assert steps(logs) == [
            "Broker failure callback for 3",
            "t-0 OnlinePartition -> OfflinePartition",
            "t-0 OfflinePartition -> OnlinePartition",
            "LeaderAndIsr to 1",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "t-0/3 OnlineReplica -> OfflineReplica",
            "t-1/3 OnlineReplica -> OfflineReplica",
            "LeaderAndIsr to 1",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
        ]
        said = [e.get("message", "") for e in logs]
        assert any(s.startswith("Selected new leader and ISR ") for s in said)
        assert await cluster.state(led) == (1, (1, 2), 1)
        assert await cluster.state(followed) == (1, (1, 2), 1)


@pytest.mark.mission("LEL-2", "LEL-3")
async def test_the_topic_leader_example(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(2, 3, 1)
        p0, p1, p2 = await cluster.create_topic("topic-leader", (3, 1, 2), (1, 2, 3), (2, 3, 1))
        await cluster.kill(1)
        states = [await cluster.state(tp) for tp in (p0, p1, p2)]
        assert [(leader, set(isr)) for leader, isr, _ in states] == [
            (3, {3, 2}), (2, {3, 2}), (2, {3, 2}),
        ]  # fmt: skip


@pytest.mark.mission("CCB-1", "CDU-6", "PSM-14", "OPS-3")
async def test_a_broker_comes_back(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        alone, shared = await cluster.create_topic("t", (2,), (1, 2))
        await cluster.kill(2)
        assert await cluster.state(alone) == (-1, (2,), 1)
        cluster.brokers.down.clear()
        cluster.brokers.take()
        with capture_logs() as logs:
            await cluster.start(2)
        assert steps(logs) == [
            "New broker startup callback for 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "t-0/2 OfflineReplica -> OnlineReplica",
            "t-1/2 OfflineReplica -> OnlineReplica",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "t-0 OfflinePartition -> OnlinePartition",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
        ]
        to_two = [r for r in in_short(cluster.brokers.take()) if r[1] == 2]
        assert to_two[0] == ("UpdateMetadata", 2, {"t-0": (-1, (2,)), "t-1": (1, (1,))})
        assert await cluster.state(alone) == (2, (2,), 2)
        assert await cluster.state(shared) == (1, (1,), 1)  # the leader takes it back when it can


@pytest.mark.mission("CCB-1", "CCB-2")
async def test_a_broker_restarts_before_the_controller_notices(new_cluster: NewCluster) -> None:
    """One event and a new broker epoch: the broker failed and started again."""
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        epoch = controller.context.brokers[2].epoch
        with capture_logs() as logs:
            cluster.zookeeper.expire_unnoticed(cluster.nodes[2].session)
            await cluster.register(2)
            await cluster.settle()
        lines = [s for s in steps(logs) if "callback" in s]
        assert lines == ["Broker failure callback for 2", "New broker startup callback for 2"]
        assert controller.context.brokers[2].epoch > epoch
        assert await cluster.state(tp) == (1, (1,), 1)
        assert cluster.brokers.connections.count(2) == 2  # what was queued for it before is void


@pytest.mark.mission("CCB-2", "DEL-5")
async def test_no_replica_is_left_to_elect(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2,))
        await cluster.kill(2)
        assert controller.context.partition_state(tp) is PartitionState.OFFLINE
        assert await cluster.state(tp) == (-1, (2,), 1)
        assert controller.context.offline_partition_count() == 1


@pytest.mark.mission("LEL-4", "OPS-4")
@pytest.mark.parametrize("where", ["topic", "broker"])
async def test_unclean_election_by_configuration(new_cluster: NewCluster, where: Any) -> None:
    key = "unclean.leader.election.enable"
    settings = {"unclean_leader_election_enable": True} if where == "broker" else {}
    async with new_cluster(**settings) as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        config = {key: "true"} if where == "topic" else {}
        (tp,) = await cluster.create_topic("t", (2, 3), config=config)
        await cluster.kill(3)
        with capture_logs() as logs:
            await cluster.kill(2)
            cluster.brokers.down.clear()
            await cluster.start(3)
        assert await cluster.state(tp) == (3, (3,), 3)
        marks = controller._metrics.snapshot()[
            "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec"
        ]
        assert marks == 1
        assert any("There's potential data loss" in e.get("message", "") for e in logs)


@pytest.mark.mission("CCB-8", "CDU-7", "CRS-5")
async def test_a_topic_grows(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.topic_assignments(["t"]))["t"]
        grown = {**found.partitions, 1: found.partitions[0]}
        with capture_logs() as logs:
            await store.set_topic_assignment("t", found.topic_id, grown)
            await cluster.settle()
        assert steps(logs) == [line.replace("t-0", "t-1") for line in CREATED[1:]]
        assert await cluster.state(TopicPartition("t", 1)) == (1, (1, 2), 0)
        assert controller.context.partitions_for_topic("t") == [("t", 0), ("t", 1)]
