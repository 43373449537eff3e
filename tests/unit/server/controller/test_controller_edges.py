"""Edge cases of the controller: single statements that no other test covers."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import LeaderAndIsrResponseReceived
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import WatchEvent, WatchKind
from minikafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.server.controller import state_machines as machines
from minikafka.server.controller.channel_manager import RETRY_BACKOFF_MS
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import catch_up

QUIET = {"auto_leader_rebalance_enable": False}


def once(
    cluster: ClusterOfControllers, kind: WatchKind, path: str, act: Callable[[], object]
) -> None:
    """Call ``act`` when this first happens to a znode, before any watch of it fires."""
    listeners = cluster.zookeeper.event_listeners

    def on_event(event: WatchEvent) -> None:
        if event == WatchEvent(kind, path):
            listeners.remove(on_event)
            act()

    listeners.append(on_event)


@pytest.mark.mission("DEL-1", "CDU-4")
async def test_a_topic_made_again_before_its_deletion_is_seen(new_cluster: NewCluster) -> None:
    """The controller finds the same names in /brokers/topics as before, and another topic."""
    async with new_cluster(**QUIET) as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        first = controller.context.topic_ids["t"]
        data = b'{"version":1,"partitions":{"0":[3]}}'
        wish = paths.delete_topic("t")
        once(
            cluster,
            WatchKind.DELETED,
            wish,
            lambda: cluster.zookeeper.create(paths.topic("t"), data),
        )
        await ZkStore(cluster.zookeeper.new_session()).request_topic_deletion("t")
        await cluster.settle()
        assert await cluster.state(tp) == (3, (3,), 0)
        assert controller.context.topic_ids["t"] != first
        assert controller.context.topics_to_be_deleted == set()


async def test_a_garbled_registration_changes_nothing(new_cluster: NewCluster) -> None:
    """The broker stays what it was; the controller stays in office."""
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        known = controller.context.brokers[2]
        with capture_logs() as logs:
            cluster.zookeeper.set(paths.broker_id(2), b"garbage")
            await cluster.settle()
        assert "broker_registration_malformed" in [entry["event"] for entry in logs]
        assert controller.context.brokers[2] == known
        assert controller.context.epoch == 1
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
        await cluster.settle()
        assert controller.context.brokers[2].endpoints[0].port == 777


@pytest.mark.mission("CCB-2", "CSH-9")
async def test_a_broker_that_was_shut_down_leads_again_when_it_is_back(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (3, 2))
        await controller.controlled_shutdown(2, -1)
        await cluster.kill(2)
        assert controller.context.shutting_down_broker_ids == set()
        cluster.brokers.down.clear()
        await cluster.start(2)
        await catch_up(cluster, tp)
        await cluster.kill(3)
        assert (await cluster.state(tp))[:2] == (2, (2,))


@pytest.mark.mission("CCB-1")
async def test_a_restart_with_a_repaired_disk_brings_the_replica_back(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2,))
        cluster.brokers.errors[PartitionAndReplica(tp, 2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.nodes[2].store.propagate_log_dir_event(2)
        await cluster.settle()
        assert controller.context.replicas_on_offline_dirs[2] == {tp}
        assert (await cluster.state(tp))[0] == -1
        await cluster.kill(2)
        cluster.brokers.down.clear()
        cluster.brokers.errors.clear()
        await cluster.start(2)
        assert (await cluster.state(tp))[0] == 2


@pytest.mark.mission("CCB-1", "CCB-2")
async def test_a_broker_that_bounces_has_left_all_isrs_before_it_is_back(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event. Its replicas leave more ISRs than a slice holds; as they do, it counts as dead:
    StopReplica of then would reach its new life."""
    monkeypatch.setattr(machines, "SLICE", 2)
    async with new_cluster(**QUIET) as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *[(1, 3)] * 5)
        cluster.brokers.take()
        cluster.zookeeper.expire_unnoticed(cluster.nodes[3].session)
        await cluster.register(3)
        await cluster.settle()
        assert not controller._isr_removals
        replicas = [PartitionAndReplica(tp, 3) for tp in partitions]
        assert {controller.context.replica_state(r) for r in replicas} == {ReplicaState.ONLINE}
        assert {(await cluster.state(tp))[:2] for tp in partitions} == {(1, (1,))}
        kinds = [type(message) for to, message in cluster.brokers.take() if to == 3]
        assert StopReplicaRequest not in kinds
        assert LeaderAndIsrRequest in kinds


async def test_a_broker_is_called_at_its_new_address(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        called = []
        connect = controller._channels._connect

        async def recorded(broker: Any) -> Any:
            called.append((broker.id, broker.endpoints[0].port))
            return await connect(broker)

        monkeypatch.setattr(controller._channels, "_connect", recorded)
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
        await cluster.settle()
        cluster.brokers.down.add(2)  # the connection breaks
        await cluster.create_topic("t", (2, 1))
        cluster.brokers.down.clear()
        cluster.clock.advance(RETRY_BACKOFF_MS)
        await cluster.settle()
        assert called == [(2, 777)]


@pytest.mark.mission("CCB-8")
async def test_a_known_topic_that_is_garbled_grows_once_it_is_repaired(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        (tp,) = await cluster.create_topic("t", (1,))
        good = cluster.zookeeper.nodes[paths.topic("t")].data
        cluster.zookeeper.set(paths.topic("t"), b"garbage")
        await cluster.settle()
        assert controller.context.epoch == 1
        assert controller.context.partitions_for_topic("t") == [tp]
        grown = json.loads(good)
        grown["partitions"]["1"] = [1]
        cluster.zookeeper.set(paths.topic("t"), json.dumps(grown).encode())
        await cluster.settle()
        assert await cluster.state(TopicPartition("t", 1)) == (1, (1,), 0)


@pytest.mark.mission("PSM-9")
async def test_a_state_znode_that_is_restored_is_read_again(new_cluster: NewCluster) -> None:
    """That it was missing is known for the length of an event."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (2, 3))
        path = paths.partition_state(tp)
        data = cluster.zookeeper.nodes[path].data
        cluster.zookeeper.delete(path)
        await cluster.kill(2)
        assert not await cluster.has_state(tp)
        cluster.zookeeper.create(path, data)
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert await cluster.state(tp) == (2, (2, 3), 1)


async def test_a_late_response_of_a_broker_that_is_gone(new_cluster: NewCluster) -> None:
    async with new_cluster(**QUIET) as cluster:
        (controller,) = await cluster.start(1)
        controller.queue.put(LeaderAndIsrResponseReceived(9, 1, 5, LeaderAndIsrResponse()))
        await cluster.settle()
        assert controller.context.epoch == 1
        assert 9 not in controller.context.replicas_on_offline_dirs


@pytest.mark.parametrize("known_epoch", [None, 1])
async def test_new_endpoints_of_another_life_are_for_the_change_of_brokers(
    new_cluster: NewCluster, known_epoch: Any
) -> None:
    """The controller comes to the broker's data before it has seen the broker, or its bounce."""
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        known = controller.context.brokers.pop(2)
        if known_epoch is not None:
            controller.context.add_brokers([replace(known, epoch=known_epoch)])
        before = dict(controller.context.brokers)
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
        await cluster.settle()
        assert controller.context.brokers == before
        assert controller.context.epoch == 1


async def test_a_replica_without_a_disk_stays_so_while_its_broker_fails_otherwise(
    new_cluster: NewCluster,
) -> None:
    """Only a response without an error brings it back."""
    async with new_cluster(**QUIET) as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        offline = controller.context.replicas_on_offline_dirs
        life = controller.context.brokers[2].epoch
        for code, expected in (
            (ErrorCode.KAFKA_STORAGE_ERROR, {tp}),
            (ErrorCode.UNKNOWN_SERVER_ERROR, {tp}),
            (ErrorCode.NONE, set()),
        ):
            row = LeaderAndIsrPartitionError(error_code=code)
            topic = LeaderAndIsrTopicError(controller.context.topic_ids["t"], [row])
            response = LeaderAndIsrResponse(topics=[topic])
            controller.queue.put(LeaderAndIsrResponseReceived(2, 1, life, response))
            await cluster.settle()
            assert offline[2] == expected
