"""Golden traces: failover, broker start and failure, topic creation, growth, ISR changes."""

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import BrokerUnresponsive, LeaderAndIsrResponseReceived
from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import LeaderAndIsr, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.zookeeper.store import ZkStore


def steps(logs):
    """The trace: call-backs verbatim, state changes, requests queued."""
    lines = []
    for entry in logs:
        event = entry["event"]
        if "before" in entry and "reason" not in entry:
            subject = entry["partition"]
            if "replica" in entry:
                subject += f"/{entry['replica']}"
            lines.append(f"{subject} {entry['before']} -> {entry['after']}")
        elif event == "request_queued":
            lines.append(f"{entry['kind'].removesuffix('Request')} to {entry['broker']}")
        elif (
            " callback for " in event
            or event.startswith("Removed ")
            or (entry.get("log_level") == "info" and event in LIFE)
        ):
            lines.append(event)
    return lines


LIFE = {
    "deleting_stale_notifications",
    "initializing_controller_context",
    "fetching_topic_deletions",
    "sending_update_metadata",
    "starting_replica_state_machine",
    "starting_partition_state_machine",
    "ready_to_serve_as_the_controller",
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
async def test_a_new_topic_in_four_steps(new_cluster, in_short):
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
        session = cluster.nodes[1].session.session_id
        assert "/brokers/topics/t" in cluster.tree.census(session)
        assert controller.context.partition_state(tp) is PartitionState.ONLINE


@pytest.mark.mission("CCB-3", "CDU-7", "CDU-8", "CRS-2")
async def test_failover_in_order(new_cluster, in_short):
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        await cluster.create_topic("t", (2, 1))
        await cluster.create_topic("dead", (9, 2))
        with capture_logs() as logs:
            cluster.tree.delete("/controller")
            await cluster.settle()
        assert cluster.active.active_controller_id == 2
        assert steps(e for e in logs if e.get("broker") == 2 or e.get("controller") == 2) == [
            "deleting_stale_notifications",
            "initializing_controller_context",
            "fetching_topic_deletions",
            "sending_update_metadata",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "starting_replica_state_machine",
            "t-0/1 OnlineReplica -> OnlineReplica",
            "dead-0/2 OnlineReplica -> OnlineReplica",
            "t-0/2 OnlineReplica -> OnlineReplica",
            "LeaderAndIsr to 1",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "dead-0/9 ReplicaDeletionIneligible -> OfflineReplica",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1",
            "UpdateMetadata to 2",
            "starting_partition_state_machine",
            "ready_to_serve_as_the_controller",
        ]


@pytest.mark.mission("CCB-3", "CRS-4")
async def test_every_read_of_the_failover_arms_its_watch(new_cluster):
    async with new_cluster() as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", (1,))
        session = cluster.nodes[1].session
        assert cluster.tree.census(session.session_id) == [
            "/admin/delete_topics",
            "/brokers/ids",
            "/brokers/ids/1",
            "/brokers/topics",
            "/brokers/topics/t",
            "/controller",
            "/isr_change_notification",
            "/log_dir_event_notification",
        ]


@pytest.mark.mission("CCB-2", "CDU-6", "RSM-17", "LEL-1", "OPS-3")
async def test_a_broker_dies(new_cluster, in_short):
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
        said = [e["event"] for e in logs]
        assert any(s.startswith("Selected new leader and ISR ") for s in said)
        assert await cluster.state(led) == (1, (1, 2), 1)
        assert await cluster.state(followed) == (1, (1, 2), 1)


@pytest.mark.mission("LEL-2", "LEL-3")
async def test_the_topic_leader_example(new_cluster):
    async with new_cluster() as cluster:
        await cluster.start(2, 3, 1)
        p0, p1, p2 = await cluster.create_topic("topic-leader", (3, 1, 2), (1, 2, 3), (2, 3, 1))
        await cluster.kill(1)
        states = [await cluster.state(tp) for tp in (p0, p1, p2)]
        assert [(leader, set(isr)) for leader, isr, _ in states] == [
            (3, {3, 2}), (2, {3, 2}), (2, {3, 2}),
        ]  # fmt: skip


@pytest.mark.mission("CCB-1", "CDU-6", "PSM-14", "OPS-3")
async def test_a_broker_comes_back(new_cluster, in_short):
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
async def test_a_broker_bounces_before_anybody_looked(new_cluster):
    """One event, a new epoch: it failed and started."""
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        epoch = controller.context.brokers[2].epoch
        with capture_logs() as logs:
            old = cluster.nodes[2].session.session_id
            cluster.tree.forget(old)
            await cluster.register(2)
            await cluster.settle()
        lines = [s for s in steps(logs) if "callback" in s]
        assert lines == ["Broker failure callback for 2", "New broker startup callback for 2"]
        assert controller.context.brokers[2].epoch > epoch
        assert await cluster.state(tp) == (1, (1,), 1)
        assert cluster.brokers.connections.count(2) == 2  # what was queued for it before is void


@pytest.mark.mission("CCB-2", "DEL-5")
async def test_nobody_is_left_to_elect(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2,))
        await cluster.kill(2)
        assert controller.context.partition_state(tp) is PartitionState.OFFLINE
        assert await cluster.state(tp) == (-1, (2,), 1)
        assert controller.context.offline_partition_count() == 1


@pytest.mark.mission("LEL-4", "OPS-4")
@pytest.mark.parametrize("where", ["topic", "broker"])
async def test_unclean_election_by_configuration(new_cluster, where):
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
        marks = controller._metrics.snapshot()["kafka.controller:UncleanLeaderElectionsPerSec"]
        assert marks == 1
        assert any("There's potential data loss" in entry["event"] for entry in logs)


@pytest.mark.mission("CCB-8", "CDU-7", "CRS-5")
async def test_a_topic_grows(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        store = ZkStore(cluster.tree.open())
        found = (await store.topic_assignments(["t"]))["t"]
        grown = {**found.partitions, 1: found.partitions[0]}
        with capture_logs() as logs:
            await store.set_topic_assignment("t", found.topic_id, grown)
            await cluster.settle()
        assert steps(logs) == [line.replace("t-0", "t-1") for line in CREATED[1:]]
        assert await cluster.state(TopicPartition("t", 1)) == (1, (1, 2), 0)
        assert controller.context.partitions_for_topic("t") == [("t", 0), ("t", 1)]


@pytest.mark.mission("CDU-3", "CRS-5", "CRS-1")
async def test_a_leader_changed_its_isr(new_cluster, in_short):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.brokers.take()
        leader = ZkStore(cluster.tree.open())
        await leader.update_isr(tp, LeaderAndIsr(1, 0, (1,)), 1, 0)
        await leader.propagate_isr_changes([tp, TopicPartition("unknown", 0)])
        await cluster.settle()
        assert controller.context.leadership[tp].leader_and_isr == LeaderAndIsr(1, 0, (1,), 1)
        assert in_short(cluster.brokers.take()) == [
            ("UpdateMetadata", 1, {"t-0": (1, (1,))}),
            ("UpdateMetadata", 2, {"t-0": (1, (1,))}),
        ]
        assert await leader.isr_changes() == []
        await leader.propagate_isr_changes([tp])  # the watch is armed again
        await cluster.settle()
        assert await leader.isr_changes() == []


@pytest.mark.mission("CDU-3")
async def test_a_garbled_notice_goes_and_the_others_count(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        leader = ZkStore(cluster.tree.open())
        await leader.update_isr(tp, LeaderAndIsr(1, 0, (1,)), 1, 0)
        cluster.tree.create("/isr_change_notification/isr_change_", b"?", sequential=True)
        await leader.propagate_isr_changes([tp])
        await cluster.settle()
        assert controller.context.leadership[tp].leader_and_isr.isr == (1,)
        assert await leader.isr_changes() == []
        assert controller.context.epoch == 1


async def test_a_garbled_topic_does_not_stop_the_others(new_cluster):
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        cluster.tree.create("/brokers/topics/bad", b"?")
        (tp,) = await cluster.create_topic("good", (1,))
        assert await cluster.state(tp) == (1, (1,), 0)
        assert controller.context.epoch == 1
        cluster.tree.set(
            "/brokers/topics/bad", b'{"version":1,"partitions":{"0":[1]}}'
        )  # repaired by hand, in the form of an old tool
        await cluster.settle()
        assert await cluster.state(TopicPartition("bad", 0)) == (1, (1,), 0)
        found = await ZkStore(cluster.tree.open()).topic_assignments(["bad"])
        assert found["bad"].topic_id == controller.context.topic_ids["bad"]


async def test_a_broker_changes_its_address(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        cluster.brokers.take()
        with capture_logs() as logs:
            await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
            await cluster.settle()
        assert "Broker info update callback for 2" in [e["event"] for e in logs]
        told = [m for b, m in cluster.brokers.take() if b == 1]
        (two,) = [b for b in told[0].live_brokers if b.id == 2]
        assert two.endpoints[0].port == 777
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=778))
        await cluster.settle()
        assert controller.context.brokers[2].endpoints[0].port == 778


@pytest.mark.mission("CSH-8", "CSH-9", "CSH-10", "CSH-14", "LEL-7", "OPS-3")
async def test_controlled_shutdown(new_cluster, in_short):
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        led, followed, alone = await cluster.create_topic("t", (2, 3), (3, 2), (2,))
        cluster.brokers.take()
        epoch = controller.context.brokers[2].epoch
        assert await controller.controlled_shutdown(2, epoch) == []
        await cluster.settle()
        assert await cluster.state(led) == (3, (3,), 1)
        assert await cluster.state(followed) == (3, (3,), 1)
        assert await cluster.state(alone) == (2, (2,), 0)  # nobody else has it
        to_two = [r for r in in_short(cluster.brokers.take()) if r[1] == 2]
        kinds = [kind for kind, _, _ in to_two]
        assert kinds.count("StopReplica") == 2
        assert ("LeaderAndIsr", 2, {"t-0": (3, (3,))}) in to_two
        with capture_logs() as logs:
            await cluster.kill(2)
        assert "Removed 2 from list of shutting down brokers." in steps(logs)


@pytest.mark.mission("CSH-11")
async def test_what_cannot_be_moved_remains(new_cluster):
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (2, 3))
        await cluster.kill(3)
        assert await controller.controlled_shutdown(2, -1) == [tp]
        assert await controller.controlled_shutdown(2, -1) == [tp]  # it asks again
        assert await cluster.state(tp) == (2, (2,), 1)


async def test_controlled_shutdown_refused(new_cluster):
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        for controller, broker_id, epoch, code in (
            (first, 9, -1, ErrorCode.BROKER_NOT_AVAILABLE),
            (first, 2, 1, ErrorCode.STALE_BROKER_EPOCH),
            (second, 2, -1, ErrorCode.STALE_CONTROLLER_EPOCH),
        ):
            with pytest.raises(KafkaError) as refusal:
                await controller.controlled_shutdown(broker_id, epoch)
            assert refusal.value.code is code
        assert first.context.shutting_down_broker_ids == set()


async def test_a_replica_whose_disk_failed_loses_its_leadership(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        cluster.brokers.errors[PartitionAndReplica(tp, 2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.nodes[2].store.propagate_log_dir_event(2)
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)
        assert controller.context.replicas_on_offline_dirs == {1: set(), 2: {tp}}
        assert await cluster.nodes[2].store.log_dir_events() == []


async def test_answers_to_an_earlier_term_count_for_nothing(new_cluster):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        failed = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        topic_id = controller.context.topic_ids["t"]
        response = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id, [failed])])
        controller.queue.put(LeaderAndIsrResponseReceived(2, 0, response))
        await cluster.settle()
        assert await cluster.state(tp) == (2, (2, 1), 0)
        controller.queue.put(LeaderAndIsrResponseReceived(2, 1, response))
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)


@pytest.mark.mission("CTX-4", "CDU-8")
async def test_metrics(new_cluster):
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2), (2,))
        await cluster.kill(2)
        figures = first._metrics.snapshot()
        assert figures["kafka.controller:ActiveControllerCount"] == 1
        assert figures["kafka.controller:OfflinePartitionsCount"] == 1
        assert figures["kafka.controller:GlobalTopicCount"] == 1
        assert figures["kafka.controller:GlobalPartitionCount"] == 2
        assert figures["kafka.controller:ActiveBrokerCount"] == 1
        assert figures["kafka.controller:EventQueueSize"] == 0
        assert figures["kafka.controller:LeaderElectionRateAndTimeMs.count"] == 2
        assert figures["kafka.controller:ControllerState"] == 0
        assert second._metrics.snapshot()["kafka.controller:ActiveControllerCount"] == 0


async def test_a_broker_that_fell_behind_is_told_everything_again(new_cluster, in_short):
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        cluster.brokers.take()
        controller.queue.put(BrokerUnresponsive(2))
        controller.queue.put(BrokerUnresponsive(9))  # has gone meanwhile
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)
        told = [kind for kind, broker, _ in in_short(cluster.brokers.take()) if broker == 2]
        assert told[:2] == ["UpdateMetadata", "LeaderAndIsr"]
