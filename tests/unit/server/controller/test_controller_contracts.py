"""Contracts between the controller's parts: elector, event queue, state machines, ZooKeeper."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.events import ControllerChange, Reelect, ShutdownEventThread
from minikafka.kernel import events
from minikafka.kernel.cluster import ElectionType, PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.controller import state_machines as machines
from minikafka.server.controller.elector import ControllerElector
from minikafka.server.controller.event_manager import QueuedEvent
from minikafka.server.controller.isr_removal import PAUSE_MS
from minikafka.server.controller.watches import Watches
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import catch_up

# --------------------------------------------------------------------------------------- elector


class Office:
    """An elector of broker 7 alone, whose call-backs only take notes."""

    def __init__(self, cluster: ClusterOfControllers, node: Any) -> None:
        self.notes: list[Any] = []
        self.events: list[Any] = []
        self.context = ControllerContext()
        self.elector = ControllerElector(
            self.context,
            self._became,
            self._resigned,
            7,
            zk=node,
            watches=Watches(self.events.append),
            clock=cluster.clock,
            put=self.events.append,
            session_timeout_ms=18_000,
        )

    async def _became(self) -> None:
        self.notes.append(("became", self.context.epoch, self.elector.am_i_leader))

    async def _resigned(self) -> None:
        self.notes.append(("resigned", self.context.epoch, self.elector.am_i_leader))


@pytest.mark.mission("CEL-7")
def test_the_elector_takes_the_arguments_of_kafkas() -> None:
    """(controllerContext, electionPath, onBecomingLeader, onResigningAsLeader, brokerId)"""
    parameters = inspect.signature(ControllerElector).parameters
    assert list(parameters)[:4] == [
        "context",
        "on_becoming_leader",
        "on_resigning_as_leader",
        "broker_id",
    ]
    assert parameters["election_path"].default == "/controller"


@pytest.mark.mission("CEL-7", "CEL-9", "CFO-3")
async def test_the_elector_calls_back_once_for_each_office_won_and_lost(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        node = await cluster.register(7)
        office = Office(cluster, node)
        assert office.elector.election_path == paths.CONTROLLER
        await office.elector.startup()
        assert json.loads(cluster.zookeeper.nodes[paths.CONTROLLER].data)["brokerid"] == 7
        assert office.notes == [("became", 1, True)]
        await asyncio.sleep(0)
        assert office.events == [ControllerChange()]  # its own node
        await office.elector.on_controller_change()
        await office.elector.elect()
        assert office.notes == [("became", 1, True)]  # in office already
        cluster.zookeeper.delete(paths.CONTROLLER)
        await asyncio.sleep(0)
        assert office.events[1:] == [Reelect()]
        await office.elector.on_controller_change()
        assert office.notes[1:] == [("resigned", 1, False), ("became", 2, True)]
        # another broker takes the office
        cluster.zookeeper.delete(paths.CONTROLLER)
        other = await cluster.register(8)
        await other.store.register_controller_and_increment_epoch(8, 0)
        await office.elector.on_controller_change()
        assert office.notes[3:] == [("resigned", 2, False)]
        assert office.elector.active_controller_id == 8
        await office.elector.resign()  # nothing is left to resign from
        await office.elector.abdicate()
        assert len(office.notes) == 4
        cluster.zookeeper.expire(other.session)
        await office.elector.elect()
        await office.elector.abdicate()  # without a word to ZooKeeper
        assert office.notes[4:] == [("became", 4, True), ("resigned", 4, False)]
        assert paths.CONTROLLER in cluster.zookeeper.nodes


# ---------------------------------------------------------------------------------------- failover


@pytest.mark.mission("CCB-5")
async def test_a_broker_that_stops_while_it_is_elected_does_not_take_over(new_cluster: Any) -> None:
    async with new_cluster() as cluster:
        node = await cluster.register(1)
        controller = cluster.make_controller(node)
        register = node.store.register_controller_and_increment_epoch
        stopping = []

        async def win_and_stop(broker_id: int, wall_ms: int) -> Any:
            won = await register(broker_id, wall_ms)
            stopping.append(asyncio.create_task(controller.stop()))
            await asyncio.sleep(0)
            return won

        node.store.register_controller_and_increment_epoch = win_and_stop  # the test intercepts it
        with capture_logs() as logs:
            controller.start(cluster.tasks)
            await cluster.settle()
            done, _ = await asyncio.wait(stopping, timeout=10)
        assert done
        said = [entry["event"] for entry in logs]
        assert "controller_elected" in said
        assert said.count("controller_failover_aborted") == 1
        assert "controller_context_initializing" not in said
        assert ("children", paths.TOPICS) not in node.trace
        assert cluster.zookeeper.watched(node.session) == []
        assert cluster.brokers.take() == []
        assert not controller.is_active
        node.controller = None  # it has stopped


# ---------------------------------------------------------------------------------- state machines


@pytest.mark.mission("PSM-6")
@pytest.mark.parametrize("how", ["created", "grown", "left unmade by a dead controller"])
async def test_a_partition_that_becomes_new_has_its_replicas_from_zookeeper(
    new_cluster: NewCluster, how: str
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        seen = {}

        def sample(level: str, event: Any, facts: Any) -> None:
            if facts.get("after") == "NewPartition":
                topic, _, number = facts["partition"].rpartition("-")
                partition = TopicPartition(topic, int(number))
                seen[partition] = cluster.active.context.assignment(partition).replicas

        with events.diverted(sample):
            if how == "created":
                partitions = await cluster.create_topic("t", (3, 1), (2, 3, 1))
            else:
                partitions = await cluster.create_topic("t", (3, 1))
                store = ZkStore(cluster.zookeeper.new_session())
                found = (await store.topic_assignments(["t"]))["t"]
                seen.clear()
        if how == "grown":
            grown = {**found.partitions, 1: type(found.partitions[0])((2, 3, 1))}
            with events.diverted(sample):
                await store.set_topic_assignment("t", found.topic_id, grown)
                await cluster.settle()
            partitions = [TopicPartition("t", 1)]
        elif how != "created":
            await cluster.kill(1)
            cluster.brokers.down.clear()
            with events.diverted(sample):
                partitions = await cluster.create_topic("u", (3, 2), (2, 3))
        in_znode = {}
        for partition in partitions:
            data = json.loads(cluster.zookeeper.nodes[paths.topic(partition.topic)].data)
            in_znode[partition] = tuple(data["partitions"][str(partition.partition)])
        assert seen == in_znode


# -------------------------------------------------------------------------------- writes in batches


class Writes:
    """How many requests a session writes with, and how many operations these carry."""

    def __init__(self, session: Any) -> None:
        self.sizes: list[Any] = []
        self._multi = session.multi
        session.multi = self.multi
        for name in ("create", "set", "delete"):
            setattr(session, name, self._single(getattr(session, name)))

    async def multi(self, ops: Any) -> Any:
        self.sizes.append(len(ops))
        return await self._multi(ops)

    def _single(self, call: Any) -> Any:
        async def counted(*args: Any, **options: Any) -> Any:
            self.sizes.append(1)
            return await call(*args, **options)

        return counted


@pytest.mark.mission("CRS-3")
async def test_hundreds_of_partitions_are_written_by_a_handful_of_requests(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        node = cluster.nodes[1]
        assert node.controller.is_active
        writes = Writes(node.session)
        partitions = await cluster.create_topic("t", *[(2, 1)] * 300)
        created, writes.sizes = writes.sizes, []
        assert sum(created) > 300  # a state each
        assert len(created) < 10
        await cluster.kill(2)
        assert sum(writes.sizes) >= 300  # a new leader each
        assert len(writes.sizes) < 10
        states = {await cluster.state(tp) for tp in partitions}
        assert states == {(1, (1,), 1)}


@pytest.mark.mission("CRS-4")
async def test_only_the_controller_watches_topics_and_brokers(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("t", (1, 2, 3))
        of_all = {
            broker_id: cluster.zookeeper.watched(node.session)
            for broker_id, node in cluster.nodes.items()
        }
        assert of_all.pop(1) == [
            "/admin/delete_topics",
            "/admin/preferred_replica_election",
            "/admin/reassign_partitions",
            "/brokers/ids",
            "/brokers/ids/1",
            "/brokers/ids/2",
            "/brokers/ids/3",
            "/brokers/topics",
            "/brokers/topics/t",
            "/controller",
            "/isr_change_notification",
            "/log_dir_event_notification",
        ]
        assert of_all == {2: ["/controller"], 3: ["/controller"]}


# --------------------------------------------------------------------------------------- channels


@pytest.mark.mission("CDU-6")
async def test_the_next_connection_to_a_broker_goes_to_its_new_address(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        connect, opened = cluster.brokers.connect, []

        async def recorded(broker: Any) -> Any:
            opened.append((broker.id, broker.endpoints[0].port))
            return await connect(broker)

        cluster.brokers.connect = recorded  # type: ignore[method-assign]  # the test intercepts it
        await cluster.start(1, 2)
        assert (2, 9092) in opened
        opened.clear()
        await cluster.nodes[2].store.update_broker(cluster.broker_node(2, port=777))
        await cluster.settle()
        assert opened == []  # the connection that there is serves on
        cluster.brokers.down.add(2)
        await cluster.create_topic("t", (2, 1))
        cluster.brokers.down.clear()
        cluster.clock.advance(100)  # the back-off between two attempts
        await cluster.settle()
        assert set(opened) == {(2, 777)}


# ------------------------------------------------------------------------------------------- disks


@pytest.mark.mission("RSM-3", "LEL-1")
async def test_a_replica_that_has_a_disk_again_may_lead_again(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        cluster.brokers.errors[PartitionAndReplica(tp, 2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.nodes[2].store.propagate_log_dir_event(2)
        await cluster.settle()
        assert controller.context.replicas_on_offline_dirs[2] == {tp}
        assert await cluster.state(tp) == (1, (1,), 1)
        cluster.brokers.errors.clear()
        await cluster.nodes[2].store.propagate_log_dir_event(2)
        await cluster.settle()
        assert controller.context.replicas_on_offline_dirs[2] == set()
        await catch_up(cluster, tp)
        elected = await controller.elect_leaders([tp], ElectionType.PREFERRED)
        assert elected == {tp: 2}


# ------------------------------------------------------------------------------------ resignations


@pytest.mark.mission("CFO-2")
async def test_dead_replicas_that_wait_are_forgotten_at_a_resignation(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next controller finds them in the ISRs."""
    monkeypatch.setattr(machines, "SLICE", 2)
    async with new_cluster() as cluster:
        (controller, _, _) = await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *[(1, 2, 3)] * 6)
        await cluster.kill(3)
        assert len(controller._isr_removals) > 0
        waiting = []

        def sample(level: str, event: Any, facts: Any) -> None:
            if event == "controller_resigned":
                waiting.append(len(controller._isr_removals))

        with events.diverted(sample):
            cluster.zookeeper.delete(paths.CONTROLLER)
            await cluster.settle()
        assert waiting == [0]
        for _ in partitions:
            cluster.clock.advance(PAUSE_MS)
            await cluster.settle()
        assert [(await cluster.state(tp))[:2] for tp in partitions] == [(1, (1, 2))] * 6


@pytest.mark.mission("CSH-8", "CCB-1")
async def test_a_broker_that_comes_back_from_a_controlled_shutdown_is_live(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (2, 1))
        assert await controller.controlled_shutdown(2, -1) == []
        assert controller.context.live_broker_ids() == [1]
        await cluster.kill(2)
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert controller.context.live_broker_ids() == [1, 2]
        await catch_up(cluster, tp)
        assert await controller.elect_leaders([tp], ElectionType.PREFERRED) == {tp: 2}


@pytest.mark.mission("CEL-12")
async def test_no_election_between_a_lost_session_and_the_new_registration(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        cluster.zookeeper.expire(cluster.nodes[1].session)
        await controller.on_session_lost()
        node = await cluster.register(1)  # the session is open; the controller is not told yet
        controller.queue.put(Reelect())
        await cluster.settle()
        assert not controller.is_active
        assert paths.CONTROLLER not in cluster.zookeeper.nodes
        await controller.on_new_session(node.store)
        await cluster.settle()
        assert controller.is_active


# ------------------------------------------------------------------------------------ invariants


@pytest.mark.mission("CTX-4")
async def test_an_event_inside_of_another_is_a_bug(new_cluster: Any) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        refused = []

        async def nested(_: object) -> None:
            try:
                await controller._process(QueuedEvent(ShutdownEventThread(), 0))
            except AssertionError as error:
                refused.append(str(error).splitlines()[0])

        controller._on_every_broker = {Reelect: nested}
        controller.queue.put(Reelect())
        await cluster.settle()
        assert refused == ["the controller handles one event at a time"]


async def test_a_state_that_breaks_an_invariant_is_not_written(new_cluster: Any) -> None:
    """The planned ISR has a broker that never had a replica: nothing reaches ZooKeeper."""
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        before = await cluster.state(tp)
        known = controller.context.leadership[tp]
        broken = replace(known, leader_and_isr=known.leader_and_isr.new_leader(1, (1, 2, 3)))
        with pytest.raises(AssertionError, match="ISR grows"):
            await controller._machines._write({}, {tp: broken})
        assert await cluster.state(tp) == before
