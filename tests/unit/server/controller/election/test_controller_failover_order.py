"""The order of steps in a controller failover, and the state that a resigned controller drops."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import ControllerChange, Reelect
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.features import Levels
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.server.controller import state_machines as machines
from minikafka.server.controller.isr_removal import PAUSE_MS
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import FeatureZnode
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.controller_trace import story
from tests.support.controller.reassigning import assigned, catch_up, delete, move, wish
from tests.support.zookeeper.direct import DirectSession

QUIET = {"auto_leader_rebalance_enable": False}


async def write_isr(
    cluster: ClusterOfControllers, tp: TopicPartition, isr: tuple[int, ...]
) -> None:
    """The leader changes its ISR; the notice is still to come."""
    store = ZkStore(cluster.zookeeper.new_session())
    found = (await store.leader_isr_states([tp]))[tp]
    changed = replace(found.leader_and_isr, isr=isr)
    await store.update_isrs({tp: replace(found, leader_and_isr=changed)})


async def unplug(cluster: ClusterOfControllers, broker_id: int) -> DirectSession:
    """Stop a broker's process and return its session, which has not expired yet."""
    node = cluster.nodes.pop(broker_id)
    task = node.controller._task
    assert task is not None
    node.controller._running = False
    task.cancel()
    await asyncio.wait([task])
    await node.controller._channels.shutdown()
    await node.controller._rebalance_timer.end_term()
    cluster.brokers.down.add(broker_id)
    return node.session


async def fail_over(cluster: ClusterOfControllers, *sessions: DirectSession) -> list[str]:
    """End these sessions, the controller's last, and return what its successor did then."""
    cluster.brokers.take()
    for session in sessions[:-1]:
        cluster.zookeeper.expire(session)
    with capture_logs() as logs:
        cluster.zookeeper.expire(sessions[-1])
        await cluster.settle()
    return story(logs)


# --------------------------------------------------------------------------------- taking office


FAILOVER = [
    "UpdateMetadata to 1,2,8",
    "both-0/1 OnlineReplica -> OnlineReplica",
    "doomed-0/1 OnlineReplica -> OnlineReplica",
    "halted-0/1 OnlineReplica -> OnlineReplica",
    "moving-0/1 OnlineReplica -> OnlineReplica",
    "preferred-0/1 OnlineReplica -> OnlineReplica",
    "both-0/2 OnlineReplica -> OnlineReplica",
    "doomed-0/2 OnlineReplica -> OnlineReplica",
    "moving-0/2 OnlineReplica -> OnlineReplica",
    "preferred-0/2 OnlineReplica -> OnlineReplica",
    "LeaderAndIsr to 1,2",
    "UpdateMetadata to 1,2,8",
    "led-0 OfflinePartition -> OnlinePartition",
    "LeaderAndIsr to 1",
    "UpdateMetadata to 1,2,8",
    "followed-0/3 ReplicaDeletionIneligible -> OfflineReplica",
    "halted-0/3 ReplicaDeletionIneligible -> OfflineReplica",
    "led-0/3 ReplicaDeletionIneligible -> OfflineReplica",
    "LeaderAndIsr to 1",
    "UpdateMetadata to 1,2,8",
    "leader_epoch_raised both-0 leader 1 of 2,1",
    "leader_epoch_raised moving-0 leader 1 of 2,1",
    "LeaderAndIsr to 1,2",
    "UpdateMetadata to 1,2,8",
    *["reassignment_step_completed 2"] * 2,
    *["reassignment_step_completed 3"] * 2,
    "topic_deletion_started doomed",
    "doomed-0 OnlinePartition -> OfflinePartition",
    "doomed-0 OfflinePartition -> NonExistentPartition",
    "UpdateMetadata to 1,2,8",
    "doomed-0/1 OnlineReplica -> OfflineReplica",
    "doomed-0/2 OnlineReplica -> OfflineReplica",
    "StopReplica to 1,2",
    "doomed-0/1 OfflineReplica -> ReplicaDeletionStarted",
    "doomed-0/2 OfflineReplica -> ReplicaDeletionStarted",
    "StopReplica to 1,2",
    "preferred-0 OnlinePartition -> OnlinePartition",
    "LeaderAndIsr to 1,2",
    "UpdateMetadata to 1,2,8",
    "doomed-0/1 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
    "doomed-0/2 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
    "doomed-0/1 ReplicaDeletionSuccessful -> NonExistentReplica",
    "doomed-0/2 ReplicaDeletionSuccessful -> NonExistentReplica",
    "topic_deletion_completed doomed",
    "topic_deletion_halted both",  # the list of deletions has changed, and is read again
]


@pytest.mark.mission("CCB-3", "DEL-3", "DEL-4", "REA-7", "CDU-2", "LEL-1")
async def test_a_failover_with_work_for_every_step(new_cluster: NewCluster) -> None:
    """Metadata, replicas, elections, ISRs without the dead; then reassignments, deletions and
    preferred elections go on, in this order. Two topics cannot be deleted yet: a replica of one
    is dead, the other is being reassigned."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 8, 1, 2, 3)
        (preferred,) = await cluster.create_topic("preferred", (2, 1))
        await cluster.kill(2)
        cluster.brokers.down.discard(2)
        await cluster.start(2)
        await catch_up(cluster, preferred)
        moving, both = [(await cluster.create_topic(t, (1,)))[0] for t in ("moving", "both")]
        await cluster.create_topic("doomed", (1, 2))
        await cluster.create_topic("halted", (1, 3))
        await cluster.create_topic("led", (3, 1))
        await cluster.create_topic("followed", (1, 3))
        await move(cluster, {moving: (2,), both: (2,)})
        sessions = [await unplug(cluster, broker_id) for broker_id in (3, 7)]
        store = ZkStore(cluster.zookeeper.new_session())
        for topic in ("doomed", "halted", "both"):
            await store.request_topic_deletion(topic)
        await store.request_preferred_election([preferred])
        assert await fail_over(cluster, *sessions) == FAILOVER
        context = cluster.active.context
        assert context.topics_to_be_deleted == {"halted", "both"}
        assert context.topics_ineligible_for_deletion == {"halted", "both"}


@pytest.mark.mission("DEL-4", "REA-13", "CCB-3")
@pytest.mark.parametrize("by_znode", [False, True])
async def test_a_topic_that_moves_and_is_deleted_is_moved_first(
    new_cluster: NewCluster, by_znode: Any
) -> None:
    """A new controller deletes nothing of it before the reassignment has ended, and all of it
    then: also the replica that came last."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 8, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        if by_znode:
            wish(cluster, {tp: (2,)})
            await cluster.settle()
        else:
            await move(cluster, {tp: (2,)})
        await delete(cluster, "t")
        session = await unplug(cluster, 7)
        lines = await fail_over(cluster, session)
        assert "topic_deletion_started t" not in lines
        assert "leader_epoch_raised t-0 leader 1 of 2,1" in lines
        assert cluster.active.context.topics_ineligible_for_deletion == {"t"}
        sent = [message for _, message in cluster.brokers.take()]
        assert not any(isinstance(message, StopReplicaRequest) for message in sent)
        assert assigned(cluster, tp)["replicas"] == (2, 1)
        await catch_up(cluster, tp)
        assert paths.topic("t") not in cluster.zookeeper.nodes
        deleted = [
            to
            for to, message in cluster.brokers.take()
            if isinstance(message, StopReplicaRequest)
            and message.topic_states[0].partition_states[0].delete_partition
        ]
        assert deleted == [1, 2]


@pytest.mark.mission("DEL-4", "CCB-3")
async def test_a_failover_starts_a_pending_deletion(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 8, 1, 2)
        await cluster.create_topic("t", (1, 2))
        session = await unplug(cluster, 7)
        await ZkStore(cluster.zookeeper.new_session()).request_topic_deletion("t")
        assert "topic_deletion_completed t" in await fail_over(cluster, session)
        assert paths.topic("t") not in cluster.zookeeper.nodes


@pytest.mark.mission("CCB-3", "CRS-4")
async def test_stale_notices_go_before_the_states_are_read(new_cluster: NewCluster) -> None:
    """The other way round, what a leader wrote between the reading and the deletion of its notice
    would be lost."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 8, 1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        session = await unplug(cluster, 7)
        leader = ZkStore(cluster.zookeeper.new_session())
        await write_isr(cluster, tp, (1,))
        await leader.propagate_isr_changes([tp])
        await leader.propagate_log_dir_event(2)
        trace = cluster.nodes[8].trace
        trace.clear()
        await fail_over(cluster, session)
        order = [
            ("children", paths.LOG_DIR_EVENTS),
            ("multi", f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000"),
            ("children", paths.ISR_CHANGES),
            ("multi", f"{paths.ISR_CHANGES}/isr_change_0000000000"),
            ("children", paths.BROKER_IDS),
            ("children", paths.TOPICS),
            ("get", paths.topic("t")),
            ("get", paths.partition_state(tp)),
        ]
        assert [call for call in trace if call in order][: len(order)] == order
        assert await leader.isr_changes() == await leader.log_dir_events() == []
        assert cluster.active.context.leadership[tp].leader_and_isr.isr == (1,)


@pytest.mark.mission("CCB-3")
async def test_a_failover_makes_the_feature_node(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(1)
        cluster.zookeeper.delete(paths.FEATURE)
        cluster.zookeeper.delete(paths.CONTROLLER)
        await cluster.settle()
        assert json.loads(cluster.zookeeper.nodes[paths.FEATURE].data)["status"] == 1


@pytest.mark.mission("CCB-3")
@pytest.mark.parametrize(
    ("of_2", "protocol", "features"),
    [
        ({"f": Levels(1, 2)}, LATEST, {"f": 2}),
        ({"f": Levels(1, 1)}, LATEST, {}),
        ({}, LATEST, {}),
        ({"f": Levels(1, 2)}, InterBrokerProtocol.IBP_3_8_IV0, {}),
        ({"f": Levels(1, 2)}, InterBrokerProtocol.IBP_2_6_IV0, {}),
    ],
)
async def test_a_new_cluster_begins_with_what_its_brokers_support(
    new_cluster: NewCluster,
    of_2: dict[str, Levels],
    protocol: InterBrokerProtocol,
    features: dict[str, int],
) -> None:
    config = {"supported_features": {"f": Levels(0, 2)}, "inter_broker_protocol": protocol}
    async with new_cluster(**QUIET, **config) as cluster:
        await cluster.register(2)
        await cluster.nodes[2].store.update_broker(replace(cluster.broker_node(2), features=of_2))
        await cluster.start(1)
        assert FeatureZnode.decode(cluster.zookeeper.nodes[paths.FEATURE].data).features == features


@pytest.mark.mission("CCB-3")
async def test_features_that_were_removed_stay_off(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET, supported_features={"f": Levels(0, 2)}) as cluster:
        await cluster.start(1)
        empty = FeatureZnode().encode()
        cluster.zookeeper.set(paths.FEATURE, empty)
        cluster.zookeeper.delete(paths.CONTROLLER)
        await cluster.settle()
        assert cluster.zookeeper.nodes[paths.FEATURE].data == empty


@pytest.mark.mission("CCB-3")
async def test_a_failover_widens_internal_topics(new_cluster: NewCluster) -> None:
    """Broker 2 comes while there is no controller."""
    name = "__consumer_offsets"
    async with new_cluster(**QUIET, internal_replication_factors={name: 3}) as cluster:
        await cluster.start(7, 1)
        (tp,) = await cluster.create_topic(name, (7, 1))
        session = await unplug(cluster, 7)
        await cluster.start(2)
        await fail_over(cluster, session)
        assert len(assigned(cluster, tp)["replicas"]) == 3


# --------------------------------------------------------------------------------- leaving office


@pytest.mark.mission("CFO-2", "CRS-4", "CDU-12")
async def test_nothing_reaches_a_controller_that_resigned(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No watch of its term puts an event on its queue, no timer, no broker's response."""
    monkeypatch.setattr(machines, "SLICE", 1)
    async with new_cluster() as cluster:
        first, *_ = await cluster.start(1, 2, 3, 4)
        (tp,) = await cluster.create_topic("t", (2, 3))
        await cluster.create_topic("many", *[(1, 4)] * 4)
        cluster.brokers.mute.add(3)
        await cluster.kill(4)
        assert len(first._isr_removals) > 0
        cluster.zookeeper.delete(paths.CONTROLLER)
        await cluster.settle()
        assert cluster.active is not first
        assert first.active_controller_id == cluster.active.active_controller_id
        processed = "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs:Count"
        before = first._metrics.snapshot()[processed]
        store = ZkStore(cluster.zookeeper.new_session())
        await write_isr(cluster, tp, (2,))
        await store.propagate_isr_changes([tp])
        await store.propagate_log_dir_event(2)
        await cluster.create_topic("new", (2,))
        await delete(cluster, "new")
        await cluster.start(5)
        for _ in range(10):
            cluster.clock.advance(100_000)
            await cluster.settle()
        assert first._metrics.snapshot()[processed] == before
        assert not first._isr_removals
        senders = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in senders if name.startswith("Controller-1-to-")]


@pytest.mark.mission("CCB-3", "CFO-2")
async def test_a_controller_elected_again_removes_dead_brokers_from_isrs_again(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removals postponed in its last term are postponed again in its new term, by a new timer."""
    monkeypatch.setattr(machines, "SLICE", 2)
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        for broker_id in (2, 3):
            await cluster.register(broker_id)
        await cluster.settle()
        partitions = await cluster.create_topic("t", *[(1, 3)] * 5)
        cluster.zookeeper.expire(cluster.nodes[3].session)
        await cluster.settle()
        assert len(controller._isr_removals) == 5
        cluster.zookeeper.delete(paths.CONTROLLER)
        await cluster.settle()
        assert controller.context.epoch == 2
        assert len(controller._isr_removals) == 5
        for _ in range(3):
            cluster.clock.advance(PAUSE_MS)
            await cluster.settle()
        assert {(await cluster.state(tp))[:2] for tp in partitions} == {(1, (1,))}


@pytest.mark.mission("CTX-6", "CCB-4")
async def test_a_batch_that_was_not_sent_is_forgotten(new_cluster: NewCluster) -> None:
    """Two followers die; the second one's ISR cannot be written. The controller
    resigns, sends no request about the first, and can be elected again."""
    async with new_cluster(**QUIET) as cluster:
        controller, *_ = await cluster.start(1, 2, 3)
        first, second = await cluster.create_topic("t", (1, 2), (1, 3))
        session = cluster.nodes[1].session
        sessions = [await unplug(cluster, broker_id) for broker_id in (2, 3)]
        cluster.brokers.take()
        session.fail["multi", paths.partition_state(second)] = RuntimeError("injected")
        await fail_over(cluster, *sessions)
        assert not controller.is_active
        assert await cluster.state(first) == (1, (1,), 1)
        assert await cluster.state(second) == (1, (1, 3), 0)
        sent = [message for _, message in cluster.brokers.take()]
        assert not any(isinstance(message, LeaderAndIsrRequest) for message in sent)
        cluster.clock.advance(1_000)
        await cluster.settle()
        assert controller.is_active
        assert controller.context.epoch == 2
        assert await cluster.state(second) == (1, (1,), 1)


@pytest.mark.mission("CEL-12")
@pytest.mark.parametrize("hint", [Reelect(), ControllerChange()])
async def test_no_election_between_two_sessions(new_cluster: NewCluster, hint: Any) -> None:
    """The old session is over, and the broker is not yet registered in its new one: the others
    would not know a controller of its name. Hints that were on their way change nothing."""
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        node = cluster.nodes[1]
        former = node.session.session_id
        cluster.zookeeper.expire(node.session)
        await controller.on_session_lost()
        node.session = cluster.zookeeper.new_session()
        node.store = ZkStore(node.session, (former,))
        controller.queue.put(hint)
        await cluster.settle()
        assert not controller.is_active
        assert paths.CONTROLLER not in cluster.zookeeper.nodes
        assert node.trace == []
        await cluster.register(1)
        await controller.on_new_session(node.store)
        await cluster.settle()
        assert controller.is_active


@pytest.mark.mission("CEL-12", "CEL-11")
async def test_no_election_by_the_clock_between_two_sessions(new_cluster: NewCluster) -> None:
    """An election that was put off when the old session still lived is called off with it."""
    async with new_cluster(**QUIET) as cluster:
        node = await cluster.register(1)
        cluster.make_controller(node).start(cluster.tasks)
        node.session.fail["children", paths.TOPICS] = RuntimeError("injected")
        await cluster.settle()
        cluster.zookeeper.expire(node.session)
        await node.controller.on_session_lost()
        assert not [t for t in cluster.clock.timers if not t.cancelled]
