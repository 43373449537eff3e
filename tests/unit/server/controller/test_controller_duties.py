"""ISR changes, garbled znodes, broker addresses, controlled shutdown, answers, metrics."""

import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import BrokerUnresponsive, LeaderAndIsrResponseReceived
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import InShort, NewCluster
from tests.support.metric_names import figures


@pytest.mark.mission("CDU-3", "CRS-5", "CRS-1")
async def test_a_leader_changed_its_isr(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.brokers.take()
        leader = ZkStore(cluster.zookeeper.new_session())
        await leader.update_isrs({tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1,)), 1)})
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
async def test_a_garbled_notice_goes_and_the_others_count(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        leader = ZkStore(cluster.zookeeper.new_session())
        await leader.update_isrs({tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 0, (1,)), 1)})
        cluster.zookeeper.create("/isr_change_notification/isr_change_", b"?", sequential=True)
        await leader.propagate_isr_changes([tp])
        await cluster.settle()
        assert controller.context.leadership[tp].leader_and_isr.isr == (1,)
        assert await leader.isr_changes() == []
        assert controller.context.epoch == 1


async def test_a_garbled_topic_does_not_stop_the_others(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        cluster.zookeeper.create("/brokers/topics/bad", b"?")
        (tp,) = await cluster.create_topic("good", (1,))
        assert await cluster.state(tp) == (1, (1,), 0)
        assert controller.context.epoch == 1
        cluster.zookeeper.set(
            "/brokers/topics/bad", b'{"version":1,"partitions":{"0":[1]}}'
        )  # repaired by hand, in the form of an old tool
        await cluster.settle()
        assert await cluster.state(TopicPartition("bad", 0)) == (1, (1,), 0)
        found = await ZkStore(cluster.zookeeper.new_session()).topic_assignments(["bad"])
        assert found["bad"].topic_id == controller.context.topic_ids["bad"]


async def test_a_broker_changes_its_address(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        cluster.brokers.take()
        with capture_logs() as logs:
            await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
            await cluster.settle()
        assert [e["changed_broker"] for e in logs if e["event"] == "broker_updated"] == [2]
        told = [m for b, m in cluster.brokers.take() if b == 1]
        (two,) = [b for b in told[0].live_brokers if b.id == 2]
        assert two.endpoints[0].port == 777
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=778))
        await cluster.settle()
        assert controller.context.brokers[2].endpoints[0].port == 778


@pytest.mark.mission("CSH-8", "CSH-9", "CSH-10", "CSH-14", "LEL-7", "OPS-3")
async def test_controlled_shutdown(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        led, followed, alone = await cluster.create_topic("t", (2, 3), (3, 2), (2,))
        cluster.brokers.take()
        epoch = controller.context.brokers[2].epoch
        assert await controller.controlled_shutdown(2, epoch) == []
        await cluster.settle()
        assert await cluster.state(led) == (3, (3,), 1)
        assert await cluster.state(followed) == (3, (3,), 1)
        assert await cluster.state(alone) == (2, (2,), 0)  # no other broker has a replica
        to_two = [r for r in in_short(cluster.brokers.take()) if r[1] == 2]
        kinds = [kind for kind, _, _ in to_two]
        assert kinds.count("StopReplica") == 2
        assert ("LeaderAndIsr", 2, {"t-0": (3, (3,))}) in to_two
        with capture_logs() as logs:
            await cluster.kill(2)
        assert "Removed 2 from list of shutting down brokers." in [e.get("message") for e in logs]


@pytest.mark.mission("CSH-11")
async def test_controlled_shutdown_returns_the_partitions_that_cannot_move(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (2, 3))
        await cluster.kill(3)
        assert await controller.controlled_shutdown(2, -1) == [tp]
        assert await controller.controlled_shutdown(2, -1) == [tp]  # it asks again
        assert await cluster.state(tp) == (2, (2,), 1)


async def test_controlled_shutdown_refused(new_cluster: NewCluster) -> None:
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


async def test_a_replica_whose_disk_failed_loses_its_leadership(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        cluster.brokers.errors[PartitionAndReplica(tp, 2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.nodes[2].store.propagate_log_dir_event(2)
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)
        assert controller.context.replicas_on_offline_dirs == {1: set(), 2: {tp}}
        assert await cluster.nodes[2].store.log_dir_events() == []


async def test_responses_of_an_earlier_term_or_broker_epoch_are_ignored(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        failed = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        topic_id = controller.context.topic_ids["t"]
        response = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id, [failed])])
        life = controller.context.brokers[2].epoch
        for controller_epoch, broker_epoch in ((0, life), (1, life - 1)):
            controller.queue.put(
                LeaderAndIsrResponseReceived(2, controller_epoch, broker_epoch, response)
            )
            await cluster.settle()
            assert await cluster.state(tp) == (2, (2, 1), 0)
        controller.queue.put(LeaderAndIsrResponseReceived(2, 1, life, response))
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)


@pytest.mark.mission("CTX-4", "CDU-8")
async def test_metrics(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2), (2,))
        await cluster.kill(2)
        shown = figures(first._metrics)
        assert shown["ActiveControllerCount"] == 1
        assert shown["OfflinePartitionsCount"] == 1
        assert shown["GlobalTopicCount"] == 1
        assert shown["GlobalPartitionCount"] == 2
        assert shown["ActiveBrokerCount"] == 1
        assert shown["EventQueueSize"] == 0
        assert shown["LeaderElectionRateAndTimeMs:Count"] == 2
        assert shown["ControllerState"] == 0
        assert shown["EventQueueTimeMs:Count"] > 2
        assert shown["RequestRateAndQueueTimeMs,broker-id=2:Count"] >= 2
        assert shown["QueueSize,broker-id=2"] == 0
        assert figures(second._metrics)["ActiveControllerCount"] == 0


KAFKAS = """ActiveControllerCount ControllerState ActiveBrokerCount FencedBrokerCount
GlobalTopicCount OfflinePartitionsCount PreferredReplicaImbalanceCount GlobalPartitionCount
TopicsToDeleteCount TopicsIneligibleToDeleteCount ReplicasToDeleteCount EventQueueSize
ReplicasIneligibleToDeleteCount EventQueueTimeMs TotalQueueSize LeaderElectionRateAndTimeMs
UncleanLeaderElectionsPerSec
ControllerChangeRateAndTimeMs TopicChangeRateAndTimeMs TopicDeletionRateAndTimeMs
PartitionReassignmentRateAndTimeMs AutoLeaderBalanceRateAndTimeMs ManualLeaderBalanceRateAndTimeMs
ControlledShutdownRateAndTimeMs IsrChangeRateAndTimeMs LeaderAndIsrResponseReceivedRateAndTimeMs
LogDirChangeRateAndTimeMs ControllerShutdownRateAndTimeMs UncleanLeaderElectionEnableRateAndTimeMs
TopicUncleanLeaderElectionEnableRateAndTimeMs ListPartitionReassignmentRateAndTimeMs
UpdateFeaturesRateAndTimeMs"""


@pytest.mark.mission("CTX-4")
async def test_every_broker_shows_all_metrics_and_only_the_controller_figures(
    new_cluster: NewCluster,
) -> None:
    """The sum over the brokers is the cluster's figure; that of an old controller is nothing."""
    async with new_cluster() as cluster:
        first, second = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2), (2, 1))
        for controller in (first, second):
            shown = {re.split("[,:]", name)[0] for name in figures(controller._metrics)}
            assert set(KAFKAS.split()) <= shown
        state = ("ActiveControllerCount", "GlobalTopicCount", "GlobalPartitionCount")
        told = [[figures(c._metrics)[name] for name in state] for c in (first, second)]
        assert told == [[1, 1, 2], [0, 0, 0]]
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        both = [sum(figures(c._metrics)[name] for c in (first, second)) for name in state]
        assert both == [1, 1, 2]


async def test_the_imbalance_of_leaders_is_counted(new_cluster: NewCluster) -> None:
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        first, _ = await cluster.start(1, 2)
        await cluster.create_topic("t", (2, 1), (1, 2))

        def imbalance() -> Any:
            return figures(first._metrics)["PreferredReplicaImbalanceCount"]

        assert imbalance() == 0
        await cluster.kill(2)
        assert imbalance() == 1


async def test_a_broker_that_fell_behind_gets_full_metadata_again(
    new_cluster: NewCluster, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        cluster.brokers.take()
        controller.queue.put(BrokerUnresponsive(2))
        controller.queue.put(BrokerUnresponsive(9))  # is not alive any more
        await cluster.settle()
        assert await cluster.state(tp) == (1, (1,), 1)
        told = [kind for kind, broker, _ in in_short(cluster.brokers.take()) if broker == 2]
        assert told[:2] == ["UpdateMetadata", "LeaderAndIsr"]
