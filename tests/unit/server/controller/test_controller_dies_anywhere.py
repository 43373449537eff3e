"""The controller dies, or is paused, at every await of what it does: its successor finishes."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import ControllerEpochZnode
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import DeathAt, assigned, catch_up, wish

BROKERS = (1, 2, 3)
CONTROLLERS = (7, 8, 9)  # lead nothing, so that only their office is lost with them
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Creation:
    async def prepare(self, cluster: ClusterOfControllers) -> None:
        pass

    async def begin(self, cluster: ClusterOfControllers) -> None:
        store = ZkStore(cluster.zookeeper.new_session())
        await store.create_topic("t", None, {0: (1, 2), 1: (2, 3)}, {})

    async def check(self, cluster: ClusterOfControllers) -> None:
        assert await cluster.state(T0) == (1, (1, 2), 0)
        assert await cluster.state(T1) == (2, (2, 3), 0)
        context = cluster.active.context
        assert context.partition_state(T0) is context.partition_state(T1) is PartitionState.ONLINE
        assert context.topic_ids["t"]


class Growth:
    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await cluster.create_topic("t", (1, 2))

    async def begin(self, cluster: ClusterOfControllers) -> None:
        node = json.loads(cluster.zookeeper.nodes[paths.topic("t")].data)
        node["partitions"]["1"] = [2, 3]
        cluster.zookeeper.set(paths.topic("t"), json.dumps(node).encode())

    check = Creation.check


class Deletion:
    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await cluster.create_topic("t", (1, 2), (2, 3))

    async def begin(self, cluster: ClusterOfControllers) -> None:
        cluster.zookeeper.create(f"{paths.DELETE_TOPICS}/t", b"")

    async def check(self, cluster: ClusterOfControllers) -> None:
        left = [path for path in cluster.zookeeper.nodes if path.rpartition("/")[2] == "t"]
        assert left == []
        assert "t" not in cluster.active.context.all_topics


class OfflineElection:
    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await cluster.create_topic("t", (1, 2), (2, 1))

    async def begin(self, cluster: ClusterOfControllers) -> None:
        gone = cluster.nodes.pop(1)
        await gone.controller.stop()
        cluster.brokers.down.add(1)
        cluster.zookeeper.expire(gone.session)

    async def check(self, cluster: ClusterOfControllers) -> None:
        for partition in (T0, T1):
            leader, isr, _ = await cluster.state(partition)
            assert (leader, isr) == (2, (2,))


class PreferredElection:
    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await cluster.create_topic("t", (1, 2), (2, 1))
        await cluster.kill(1)
        cluster.brokers.down.discard(1)
        await cluster.start(1)
        for partition in (T0, T1):
            await catch_up(cluster, partition)
        assert (await cluster.state(T0))[:2] == (2, (2, 1))

    async def begin(self, cluster: ClusterOfControllers) -> None:
        rows = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        data = json.dumps({"version": 1, "partitions": rows}).encode()
        cluster.zookeeper.create(paths.PREFERRED_REPLICA_ELECTION, data)

    async def check(self, cluster: ClusterOfControllers) -> None:
        assert (await cluster.state(T0))[0] == 1
        assert (await cluster.state(T1))[0] == 2
        assert paths.PREFERRED_REPLICA_ELECTION not in cluster.zookeeper.nodes


class Shutdown(OfflineElection):
    """What the broker that leaves was not relieved of, its death brings."""

    async def begin(self, cluster: ClusterOfControllers) -> None:
        self.asked = asyncio.ensure_future(cluster.active.controlled_shutdown(1, -1))
        self.asked.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def check(self, cluster: ClusterOfControllers) -> None:
        self.asked.cancel()
        await OfflineElection.begin(self, cluster)
        await cluster.settle()
        await super().check(cluster)


class ReassignmentBegins:
    """Partition 0 moves from brokers 1 and 2 to 3 and 2, as a wish in ZooKeeper says."""

    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await cluster.create_topic("t", (1, 2), (1, 2))

    async def begin(self, cluster: ClusterOfControllers) -> None:
        wish(cluster, {T0: (3, 2)})

    async def check(self, cluster: ClusterOfControllers) -> None:
        """It ends under the controller of that moment, and the next wish stays in its place."""
        await catch_up(cluster, T0)
        assert assigned(cluster, T0) == {"replicas": (3, 2), "adding": (), "removing": ()}
        assert (await cluster.state(T0))[0] == 3
        assert paths.REASSIGN_PARTITIONS not in cluster.zookeeper.nodes
        wish(cluster, {T1: (3, 2)})
        await cluster.settle()
        assert assigned(cluster, T1)["replicas"] == (3, 2, 1)
        assert paths.REASSIGN_PARTITIONS in cluster.zookeeper.nodes


class ReassignmentEnds(ReassignmentBegins):
    """From the moment when the new replica is in sync."""

    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await super().prepare(cluster)
        await ReassignmentBegins.begin(self, cluster)
        await cluster.settle()

    async def begin(self, cluster: ClusterOfControllers) -> None:
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.leader_isr_states([T0]))[T0]
        grown = replace(found.leader_and_isr, isr=(1, 2, 3))
        await store.update_isrs({T0: replace(found, leader_and_isr=grown)})


class OneOfTwoReassignmentsEnds(ReassignmentEnds):
    """The wish of the other stays in the znode."""

    async def prepare(self, cluster: ClusterOfControllers) -> None:
        await ReassignmentBegins.prepare(self, cluster)
        wish(cluster, {T0: (3, 2), T1: (3, 2)})
        await cluster.settle()

    async def check(self, cluster: ClusterOfControllers) -> None:
        await catch_up(cluster, T0)
        assert assigned(cluster, T0) == {"replicas": (3, 2), "adding": (), "removing": ()}
        assert assigned(cluster, T1)["replicas"] == (3, 2, 1)
        assert await ZkStore(cluster.zookeeper.new_session()).reassignment() == {T1: (3, 2)}


OPERATIONS = [
    Creation,
    Growth,
    Deletion,
    OfflineElection,
    PreferredElection,
    Shutdown,
    ReassignmentBegins,
    ReassignmentEnds,
    OneOfTwoReassignmentsEnds,
]


async def consistent(cluster: ClusterOfControllers) -> None:
    """The controller in office knows what the znodes say, and every epoch is its own or older."""
    context = cluster.active.context
    data = cluster.zookeeper.nodes[paths.CONTROLLER_EPOCH].data
    assert context.epoch == ControllerEpochZnode.decode(data).epoch
    for partition in context.all_partitions():
        known = context.leadership[partition].leader_and_isr
        assert (known.leader, known.isr, known.leader_epoch) == await cluster.state(partition)


@pytest.mark.mission("CEL-17", "CFO-5", "DEL-4", "CCB-6", "CTX-1", "LEL-1")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_killed(new_cluster: NewCluster, operation: Any, before: Any) -> None:
    n, lived = 0, False
    while not lived:
        n += 1
        assert n < 100
        async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
            await cluster.start(*CONTROLLERS, *BROKERS)
            what = operation()
            await what.prepare(cluster)
            death = DeathAt(cluster.nodes[7].session, n, before)
            await what.begin(cluster)
            lived = not await death.awaited()
            await cluster.kill(7)
            await what.check(cluster)
            await consistent(cluster)
    assert n > 2


@pytest.mark.mission("CFO-1", "CFO-5", "CEL-11", "CEL-17")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("operation", [Growth, Deletion, OfflineElection])
async def test_killed_while_taking_office(
    new_cluster: NewCluster, operation: Any, before: Any
) -> None:
    """The work waits when the second controller takes office, and dies there; the third does it."""
    n, lived = 0, False
    while not lived:
        n += 2
        assert n < 100
        async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
            await cluster.start(*CONTROLLERS, *BROKERS)
            what = operation()
            await what.prepare(cluster)
            DeathAt(cluster.nodes[7].session, 1, True)  # deaf from here on
            await what.begin(cluster)
            death = DeathAt(cluster.nodes[8].session, n, before)
            DeathAt(cluster.nodes[9].session, 10**9, True)
            for broker in BROKERS:
                if broker in cluster.nodes:
                    cluster.nodes[broker].controller._elector._may_stand = False
            seven = cluster.nodes.pop(7)
            await die(cluster, seven)
            lived = not await death.awaited()
            await cluster.kill(8)
            await cluster.settle()
            await what.check(cluster)
            await consistent(cluster)
    assert n > 10


async def die(cluster: ClusterOfControllers, node: Any) -> None:
    """Kill without a clean shutdown, and return before the consequences."""
    node.controller._running = False
    node.controller._task.cancel()
    await asyncio.wait([node.controller._task])
    await node.controller._channels.shutdown()
    cluster.brokers.down.add(node.id)
    cluster.zookeeper.expire(node.session)


class PauseAt(DeathAt):
    """It goes on when ``go_on`` is set."""

    def __init__(self, session: Any, n: int, before: Any) -> None:
        super().__init__(session, n, before)
        self.go_on = asyncio.Event()

    async def _die(self) -> None:
        self.came = True
        await self.go_on.wait()


@pytest.mark.mission("CEL-16", "CEL-15", "REA-11", "REA-12", "R-13")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_paused_while_another_was_elected(new_cluster: NewCluster, operation: Any) -> None:
    """Its session lives on, its office went by hand: whatever it does then changes nothing."""
    n, lived = 0, False
    while not lived:
        n += 1
        assert n < 100
        async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
            await cluster.start(*CONTROLLERS, *BROKERS)
            what = operation()
            await what.prepare(cluster)
            pause = PauseAt(cluster.nodes[7].session, n, True)
            await what.begin(cluster)
            lived = not await pause.awaited()
            zombie = cluster.nodes.pop(7)  # without waiting until it is idle
            epoch = zombie.controller.context.epoch
            cluster.zookeeper.delete(paths.CONTROLLER)
            await cluster.settle()
            await what.check(cluster)
            await consistent(cluster)
            cluster.brokers.take()
            before = {path: (n.data, n.version) for path, n in cluster.zookeeper.nodes.items()}
            pause.go_on.set()
            cluster.nodes[7] = zombie
            await cluster.settle()
            after = {path: (n.data, n.version) for path, n in cluster.zookeeper.nodes.items()}
            assert after == before
            assert not zombie.controller.is_active
            for _, message in cluster.brokers.take():
                assert message.controller_epoch <= epoch  # which every broker refuses by now
            await consistent(cluster)
    assert n > 2
