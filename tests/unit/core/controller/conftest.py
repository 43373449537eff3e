"""A cluster in a dictionary: the controller's context, its request batch, and the state znodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from minikafka.core.controller import partition_machine, replica_machine
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.request_batch import BrokerRequest, RequestBatch
from minikafka.kernel.cluster import (
    Broker,
    Endpoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.ports import BadVersion, NodeExists

EPOCH = 5


def broker(broker_id: int, epoch: int | None = None, rack: str | None = None) -> Broker:
    endpoint = Endpoint(f"host{broker_id}", 9000 + broker_id, "PLAINTEXT")
    return Broker(broker_id, (endpoint,), rack, 100 + broker_id if epoch is None else epoch)


@dataclass
class Cluster:
    """``znodes`` plays ZooKeeper for the state znodes; ``fail`` names writes that must fail."""

    context: ControllerContext = field(default_factory=ControllerContext)
    znodes: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    fail: dict[TopicPartition, Exception] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self):
        self.context.epoch = EPOCH
        self.batch = RequestBatch(1, self.context, "PLAINTEXT")

    def brokers(self, *ids: int) -> Cluster:
        self.context.set_brokers([broker(i) for i in ids])
        return self

    def topic(self, name: str, *assignments: tuple[int, ...]) -> list[TopicPartition]:
        """A topic that the context knows and that has no state yet."""
        self.context.all_topics.add(name)
        self.context.add_topic_id(name, UUID(int=len(self.context.all_topics)))
        partitions = [TopicPartition(name, i) for i in range(len(assignments))]
        for tp, replicas in zip(partitions, assignments, strict=True):
            self.context.set_assignment(tp, ReplicaAssignment(replicas))
        return partitions

    def led(self, tp, leader, isr, leader_epoch=3, zk_version=7, controller_epoch=EPOCH):
        """Leadership in the context and in ZooKeeper."""
        state = LeaderIsrAndControllerEpoch(
            LeaderAndIsr(leader, leader_epoch, tuple(isr), zk_version), controller_epoch
        )
        self.context.leadership[tp] = state
        self.znodes[tp] = state
        return state

    def write(self, creates, updates):
        results = {}
        for tp, state in creates.items():
            if tp in self.fail:
                results[tp] = self.fail.pop(tp)
            elif tp in self.znodes:
                results[tp] = NodeExists(str(tp))
            else:
                self.znodes[tp] = state
                results[tp] = state.leader_and_isr
        for tp, state in updates.items():
            current = self.znodes.get(tp)
            if tp in self.fail:
                results[tp] = self.fail.pop(tp)
            elif current is None or (
                current.leader_and_isr.zk_version != state.leader_and_isr.zk_version
            ):
                results[tp] = BadVersion(str(tp))
            else:
                version = state.leader_and_isr.zk_version + 1
                results[tp] = replace(state.leader_and_isr, zk_version=version)
                self.znodes[tp] = replace(state, leader_and_isr=results[tp])
        return results

    def move(self, partitions, target, strategy=None, unclean_topics=(), stale=None):
        """A partition state change as the driver does it; ``stale`` is what the first read sees."""
        outcomes = []
        pending = list(partitions)
        retried = False
        while pending:
            wanted = (
                pending if retried else partition_machine.to_read(self.context, pending, target)
            )
            read = {tp: self.znodes[tp] for tp in wanted if tp in self.znodes}
            read.update((stale or {}) if not retried else {})
            plan = partition_machine.plan(
                self.context, pending, target, strategy, read, unclean_topics
            )
            results = self.write(plan.creates, plan.updates)
            outcome = partition_machine.apply(self.context, self.batch, plan, results)
            outcomes.append(outcome)
            pending = list(outcome.retry)
            retried = True
        self.rounds = len(outcomes)
        return outcomes

    def move_replicas(self, replicas, target, stale=None):
        outcomes = []
        for broker_id, group in replica_machine.by_broker(replicas).items():
            pending, first = list(group), True
            while pending:
                wanted = replica_machine.to_read(self.context, pending, target)
                read = {tp: self.znodes[tp] for tp in wanted if tp in self.znodes}
                read.update((stale or {}) if first else {})
                plan = replica_machine.plan(self.context, broker_id, pending, target, read)
                results = self.write({}, plan.updates)
                outcome = replica_machine.apply(self.context, self.batch, plan, results)
                outcomes.append(outcome)
                pending, first = list(outcome.retry), False
        return outcomes

    def sent(self) -> list[BrokerRequest]:
        return self.batch.send_requests_to_brokers(self.context.epoch)

    def replica(self, tp, broker_id) -> PartitionAndReplica:
        return PartitionAndReplica(tp, broker_id)


@pytest.fixture
def cluster() -> Cluster:
    """Brokers 1, 2 and 3 are live."""
    return Cluster().brokers(1, 2, 3)


@pytest.fixture
def new_cluster():
    return Cluster


@pytest.fixture
def new_broker():
    return broker


@pytest.fixture
def summary():
    """What requests say, in short: (kind, broker, {partition: the gist})."""

    def gist(request: BrokerRequest):
        message = request.message
        kind = type(message).__name__.removesuffix("Request")
        partitions = {}
        for topic in message.topic_states:
            for state in topic.partition_states:
                name = f"{topic.topic_name}-{state.partition_index}"
                if kind == "StopReplica":
                    partitions[name] = (state.leader_epoch, state.delete_partition)
                elif kind == "LeaderAndIsr":
                    partitions[name] = (state.leader, tuple(state.isr), state.is_new)
                else:
                    partitions[name] = (state.leader, tuple(state.isr))
        return kind, request.broker_id, partitions

    return lambda requests: [gist(request) for request in requests]
