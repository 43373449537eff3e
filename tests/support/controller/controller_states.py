"""A cluster in a dictionary: a controller's context, request batch and state znodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from minikafka.core.controller import partition_machine, replica_machine
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.partition_machine import PartitionOutcome
from minikafka.core.controller.replica_machine import ReplicaOutcome
from minikafka.core.controller.request_batch import BrokerRequest, RequestBatch
from minikafka.core.controller.states import PartitionState, ReplicaState, States, WriteResults
from minikafka.kernel.cluster import (
    Broker,
    Endpoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.ports import BadVersion, CoordinationError, NodeExists

EPOCH = 5


def broker(broker_id: int, epoch: int | None = None, rack: str | None = None) -> Broker:
    endpoint = Endpoint(f"host{broker_id}", 9000 + broker_id, "PLAINTEXT")
    return Broker(broker_id, (endpoint,), rack, 100 + broker_id if epoch is None else epoch)


@dataclass
class Cluster:
    """A controller context with the state znodes of its partitions. ``fail`` names the partitions
    whose writes fail."""

    context: ControllerContext = field(default_factory=ControllerContext)
    znodes: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    fail: dict[TopicPartition, CoordinationError] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.context.epoch = EPOCH
        self.batch = RequestBatch(1, self.context, "PLAINTEXT")

    def brokers(self, *ids: int) -> Cluster:
        self.context.set_brokers([broker(i) for i in ids])
        return self

    def topic(self, name: str, *assignments: tuple[int, ...]) -> list[TopicPartition]:
        """Add a topic to the context, without partition states."""
        self.context.all_topics.add(name)
        self.context.add_topic_id(name, UUID(int=len(self.context.all_topics)))
        partitions = [TopicPartition(name, i) for i in range(len(assignments))]
        for tp, replicas in zip(partitions, assignments, strict=True):
            self.context.set_assignment(tp, ReplicaAssignment(replicas))
        return partitions

    def led(
        self,
        tp: TopicPartition,
        leader: int,
        isr: Iterable[int],
        leader_epoch: int = 3,
        zk_version: int = 7,
        controller_epoch: int = EPOCH,
    ) -> LeaderIsrAndControllerEpoch:
        """Set a partition's leadership in the context and in ZooKeeper."""
        state = LeaderIsrAndControllerEpoch(
            LeaderAndIsr(leader, leader_epoch, tuple(isr), zk_version), controller_epoch
        )
        self.context.leadership[tp] = state
        self.znodes[tp] = state
        return state

    def write(self, creates: States, updates: States) -> WriteResults:
        results: dict[TopicPartition, LeaderAndIsr | CoordinationError] = {}
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
                written = replace(state.leader_and_isr, zk_version=version)
                results[tp] = written
                self.znodes[tp] = replace(state, leader_and_isr=written)
        return results

    def move(
        self,
        partitions: Iterable[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy | None = None,
        unclean_topics: Collection[str] = (),
        stale: States | None = None,
    ) -> list[PartitionOutcome]:
        """Change a partition's state as the driver does. ``stale`` is the state that its first read
        returns."""
        outcomes = []
        pending = list(partitions)
        retried = False
        while pending:
            to_read = (
                pending if retried else partition_machine.to_read(self.context, pending, target)
            )
            read = {tp: self.znodes[tp] for tp in to_read if tp in self.znodes}
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

    def move_replicas(
        self,
        replicas: Iterable[PartitionAndReplica],
        target: ReplicaState,
        stale: States | None = None,
    ) -> list[ReplicaOutcome]:
        outcomes = []
        for broker_id, group in replica_machine.by_broker(replicas).items():
            pending, first = list(group), True
            while pending:
                to_read = replica_machine.to_read(self.context, pending, target)
                read = {tp: self.znodes[tp] for tp in to_read if tp in self.znodes}
                read.update((stale or {}) if first else {})
                plan = replica_machine.plan(self.context, broker_id, pending, target, read)
                results = self.write({}, plan.updates)
                outcome = replica_machine.apply(self.context, self.batch, plan, results)
                outcomes.append(outcome)
                pending, first = list(outcome.retry), False
        return outcomes

    def sent(self) -> list[BrokerRequest]:
        return self.batch.send_requests_to_brokers(self.context.epoch)

    def replica(self, tp: TopicPartition, broker_id: int) -> PartitionAndReplica:
        return PartitionAndReplica(tp, broker_id)


class NewBroker(Protocol):
    """Make a live broker; without an epoch it has 100 plus its id."""

    def __call__(
        self, broker_id: int, epoch: int | None = None, rack: str | None = None
    ) -> Broker: ...


# Requests as (kind, broker, {partition: gist}).
Summary: TypeAlias = Callable[[Iterable[BrokerRequest]], list[tuple[str, int, dict[str, Any]]]]
