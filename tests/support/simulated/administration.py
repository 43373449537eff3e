"""Topics are created, enlarged, reassigned and deleted while controllers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minikafka.client import Admin
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import NoNode
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import TopicZnode
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.checkers import (
    check_context,
    check_leadership_known,
    check_replicas_alike,
)
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.reassignments import assignment, until_moved
from tests.support.simulated.scenario import REST_S

NAMES = ("a", "b", "c")
MOST_PARTITIONS = 4
PATIENCE_MS = 8_000  # of one operation; what takes longer goes on without us
LONGEST_PAUSE_MS = 1_500
LONGEST_FAULT_S = 10
CONTROLLER_FAULTS = (
    faults.killed,
    faults.stopped,
    faults.paused,
    faults.isolated,
    faults.without_zookeeper,
    faults.disconnected,
)


class TermChecker:
    """Checks every election: one controller per controller epoch, one leader per partition (of
    one topic id) and leader epoch."""

    def __init__(self, cluster: SimCluster) -> None:
        self.terms: dict[int, int] = {}
        self.leaders: dict[tuple[str, str, int], int] = {}
        self._cluster = cluster

    def __call__(self, event: LogEvent) -> None:
        facts = event.facts
        if event.name == "controller_elected":
            first = self.terms.setdefault(facts["epoch"], facts["broker"])
            assert first == facts["broker"], f"epoch {facts['epoch']} has two controllers"
        elif event.name == "replica_became_leader":
            name, broker_id = facts["partition"], facts["broker"]
            topic, _, number = name.rpartition("-")
            hosted = self._cluster.replicas(TopicPartition(topic, int(number)))
            topic_id = str(hosted[broker_id].topic_id) if broker_id in hosted else ""
            key = (name, topic_id, facts["leader_epoch"])
            first = self.leaders.setdefault(key, broker_id)
            assert first == broker_id, f"{key} is led by {first} and {broker_id}"


class Operator:
    """Performs random operations until ``stop``. ``done`` counts the accepted ones by kind."""

    def __init__(self, cluster: SimCluster) -> None:
        self.done: dict[str, int] = {}
        self._cluster = cluster
        self._dice = cluster.simulation.entropy.fork("operator")
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._cluster.spawn_client(self._work(), "operator")

    async def stop(self) -> None:
        assert self._task is not None
        self._stopping = True
        await self._task

    async def _work(self) -> None:
        actions: tuple[Callable[[Admin, str], Awaitable[bool]], ...] = (
            self._create,
            self._create,
            self._grow,
            self._delete,
            self._move,
            self._elect,
        )
        dice = self._dice
        async with Admin(self._cluster.client_host.world, self._cluster.client_config) as admin:
            while not self._stopping:
                action = actions[dice.randrange(len(actions))]
                name = NAMES[dice.randrange(len(NAMES))]
                kind = action.__name__.lstrip("_")
                try:
                    accepted = await action(admin, name)
                except KafkaError:
                    accepted = False  # no controller was found in time
                if accepted:
                    self.done[kind] = self.done.get(kind, 0) + 1
                await asyncio.sleep(dice.between(0, LONGEST_PAUSE_MS) / 1000)

    def _brokers(self, count: int) -> list[int]:
        left = list(self._cluster.broker_ids)
        return [left.pop(self._dice.randrange(len(left))) for _ in range(count)]

    async def _create(self, admin: Admin, name: str) -> bool:
        count = 1 + self._dice.randrange(MOST_PARTITIONS - 1)
        await admin.create_topic(name, count, 1 + self._dice.randrange(3), timeout_ms=PATIENCE_MS)
        return True

    async def _grow(self, admin: Admin, name: str) -> bool:
        outcome = await admin.create_partitions({name: MOST_PARTITIONS}, timeout_ms=PATIENCE_MS)
        return outcome[name] is None

    async def _delete(self, admin: Admin, name: str) -> bool:
        await admin.delete_topic(name, timeout_ms=PATIENCE_MS)
        return True

    async def _move(self, admin: Admin, name: str) -> bool:
        partition = TopicPartition(name, self._dice.randrange(MOST_PARTITIONS))
        target = self._brokers(1 + self._dice.randrange(3)) if self._dice.randrange(5) else None
        outcome = await admin.alter_partition_reassignments(
            {partition: target}, timeout_ms=PATIENCE_MS
        )
        return outcome[partition] is None

    async def _elect(self, admin: Admin, name: str) -> bool:
        kind = ElectionType.PREFERRED if self._dice.randrange(4) else ElectionType.UNCLEAN
        await admin.elect_leaders(kind, None, timeout_ms=PATIENCE_MS)
        return True


def partitions(cluster: SimCluster) -> list[TopicPartition]:
    """Return the partitions in the topics' znodes."""
    tree = cluster.simulation.zookeeper.tree
    return [
        TopicPartition(name, number)
        for name in tree.children(paths.TOPICS)
        for number in sorted(TopicZnode.decode(name, tree.get(paths.topic(name))[0]).assignment)
    ]


async def controllers_fall(cluster: SimCluster, count: int) -> None:
    """Cause ``count`` faults, each at the broker that is the controller at that time."""
    dice = cluster.simulation.entropy.fork("faults")
    for _ in range(count):
        await asyncio.sleep(dice.between(0, LONGEST_PAUSE_MS * 2) / 1000)
        controller = cluster.controller_id()
        if controller is None:
            continue
        fault = CONTROLLER_FAULTS[dice.randrange(len(CONTROLLER_FAULTS))]
        lasting_s = dice.between(0, LONGEST_FAULT_S * 1000) / 1000
        cluster.note(fault.__name__, broker=controller, lasting=lasting_s)
        await fault(cluster, controller, lasting_s)


async def administered(cluster: SimCluster, fault_count: int) -> Operator:
    """Perform operations while controllers fail; then wait until all brokers are back and all
    operations are finished.

    Raises AssertionError if a guarantee is broken: two controllers in one epoch, two leaders in one
    epoch, an operation that is neither finished nor refused, a context that differs from ZooKeeper,
    a broker with other metadata, a topic that is deleted in part.
    """
    cluster.observers.append(TermChecker(cluster))
    cluster.start()
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    operator = Operator(cluster)
    operator.start()
    await controllers_fall(cluster, fault_count)
    await operator.stop()
    await _until_finished(cluster)
    await asyncio.sleep(REST_S)
    check_context(cluster)
    for partition in partitions(cluster):
        check_leadership_known(cluster, partition)
        check_replicas_alike(cluster, partition, assignment(cluster, partition).replicas)
    _check_nothing_else_is_left(cluster)
    return operator


async def _until_finished(cluster: SimCluster) -> None:
    tree = cluster.simulation.zookeeper.tree

    def unfinished() -> list[str]:
        found = [*tree.children(paths.DELETE_TOPICS)]
        for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
            try:
                tree.get(path)
            except NoNode:
                continue
            found.append(path)
        return found

    def made() -> bool:
        try:
            return all(cluster.state(tp).leader_and_isr.leader >= 0 for tp in partitions(cluster))
        except NoNode:
            return False

    await cluster.until("nothing is unfinished", lambda: not unfinished())
    await cluster.until("every partition is led", made)
    await until_moved(cluster, partitions(cluster))


def _check_nothing_else_is_left(cluster: SimCluster) -> None:
    """Check that brokers have no replica and no log that is not assigned to them."""
    there = {tp: assignment(cluster, tp).replicas for tp in partitions(cluster)}
    for broker_id, node in cluster.nodes().items():
        expected = sorted(str(tp) for tp, replicas in there.items() if broker_id in replicas)
        hosted = sorted(str(p.topic_partition) for p in node.entities.partitions)
        assert hosted == expected, f"broker {broker_id} hosts {hosted}, not {expected}"
        names = cluster.host(broker_id).world.files.list("/data")
        logs = sorted(
            name for name in names if name.rpartition("-")[2].isdecimal() and "." not in name
        )
        assert logs == expected, f"broker {broker_id} has logs {logs}, not {expected}"
