"""Replica state changes as plan -> write -> apply (Kafka's ReplicaStateMachine)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minikafka.core.controller.assignment import with_replica, without_replica
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import REPLICA_PREDECESSORS, ReplicaState
from minikafka.core.controller.writes import (
    Refusal,
    StateChange,
    States,
    WriteResults,
    newer_controller,
)
from minikafka.kernel.cluster import (
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
)
from minikafka.kernel.grouping import grouped
from minikafka.kernel.ports import BadVersion, NoNode

ReplicaChange: TypeAlias = StateChange[PartitionAndReplica, ReplicaState]
ReplicaRefusal: TypeAlias = Refusal[PartitionAndReplica, ReplicaState]


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What a change of one broker's replicas to ``target`` takes.

    ``moves`` need no write. ``updates`` are state znodes without the replica in their ISR, carrying
    the version that they replace; ``out_of_isr`` are those that did not list it anyway.
    """

    target: ReplicaState
    broker_id: int
    moves: tuple[PartitionAndReplica, ...] = ()
    updates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    out_of_isr: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    refusals: tuple[ReplicaRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaOutcome:
    """What was done. ``retry``: a leader changed the ISR meanwhile, or the znode is gone; read and
    plan again."""

    changes: tuple[ReplicaChange, ...]
    refusals: tuple[ReplicaRefusal, ...]
    retry: tuple[PartitionAndReplica, ...]


# ------------------------------------------------------------------------------- before the plan


def startup(
    context: ControllerContext,
) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
    """Place every known replica, and say which are to be taken Online and which Offline.

    A replica on a dead broker starts as ineligible for deletion, which is the safe side: its topic
    may be on the list of those to be deleted. Taking it Offline tells the others of the partition,
    so these are placed only, and not told twice as in Kafka; but where that says a part of a topic
    only, the whole is told first.
    """
    online: list[PartitionAndReplica] = []
    offline: list[PartitionAndReplica] = []
    for replica in context.replicas_for_partitions(context.all_partitions()):
        if context.is_replica_online(replica.replica, replica.topic_partition):
            context.replica_states[replica] = ReplicaState.ONLINE
            online.append(replica)
        else:
            context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
            offline.append(replica)
    told = {
        replica.topic_partition
        for replica in offline
        if replica.topic_partition in context.leadership
        and not context.is_queued_for_deletion(replica.topic_partition.topic)
    }
    in_parts = {r.topic_partition.topic for r in online if r.topic_partition not in told}
    return [r for r in online if r.topic_partition.topic in in_parts], offline


def by_broker(replicas: Iterable[PartitionAndReplica]) -> dict[int, list[PartitionAndReplica]]:
    """A plan is for one broker's replicas: two replicas of one partition are two writes to it."""
    groups = grouped((replica.replica, replica) for replica in replicas)
    return {broker: groups[broker] for broker in sorted(groups)}


def to_read(
    context: ControllerContext, replicas: Iterable[PartitionAndReplica], target: ReplicaState
) -> list[TopicPartition]:
    """The partitions whose state znode the plan needs: those that had a leader, of replicas that
    are to leave the ISR."""
    if target is not ReplicaState.OFFLINE:
        return []
    return [
        replica.topic_partition
        for replica in replicas
        if replica.topic_partition in context.leadership
        and context.replica_state(replica) in REPLICA_PREDECESSORS[target]
    ]


# -------------------------------------------------------------------------------------- the plan


def plan(
    context: ControllerContext,
    broker_id: int,
    replicas: Sequence[PartitionAndReplica],
    target: ReplicaState,
    read: States,
) -> ReplicaPlan:
    """What taking ``replicas`` (all on ``broker_id``) to ``target`` means. Touches nothing.

    A. -> New of the replica that leads: refused, a new replica may only follow.
    B. -> Offline of a partition that had a leader: the replica leaves the ISR that was ``read``.
       The last one stays in it, and the partition has no leader then.
    C. -> Offline of a partition whose znode is gone: refused, unless its topic is being deleted
       (case D then).
    D. everything else: moved without a write.
    """
    moves: list[PartitionAndReplica] = []
    refusals: list[ReplicaRefusal] = []
    updates: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    out_of_isr: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    for replica in replicas:
        before = context.replica_state(replica)
        partition = replica.topic_partition
        known = context.leadership.get(partition)
        if before not in REPLICA_PREDECESSORS[target]:
            refusals.append(Refusal(replica, before, target, _illegal(before, target)))
        elif target is ReplicaState.NEW and known and known.leader_and_isr.leader == broker_id:
            reason = "it is being requested to become leader"  # case A
            refusals.append(Refusal(replica, before, target, reason))
        elif target is ReplicaState.OFFLINE and known is not None:
            state = read.get(partition)
            if state is None and context.is_queued_for_deletion(partition.topic):
                moves.append(replica)  # case D
            elif state is None:  # case C
                reason = "the leader and isr path in zookeeper is empty"
                refusals.append(Refusal(replica, before, target, reason))
            elif fenced := newer_controller(context, state):
                refusals.append(Refusal(replica, before, target, fenced))
            elif broker_id in state.leader_and_isr.isr:  # case B
                updates[partition] = _shrunk(context, state, broker_id)
            else:
                out_of_isr[partition] = state
        else:  # case D
            moves.append(replica)
    return ReplicaPlan(
        target, broker_id, tuple(moves), updates, out_of_isr, refusals=tuple(refusals)
    )


def _illegal(before: ReplicaState, target: ReplicaState) -> str:
    legal = ",".join(str(state) for state in sorted(REPLICA_PREDECESSORS[target]))
    return f"should be in one of {legal} states before moving to {target} state, but is in {before}"


def _shrunk(
    context: ControllerContext, state: LeaderIsrAndControllerEpoch, broker_id: int
) -> LeaderIsrAndControllerEpoch:
    current = state.leader_and_isr
    leader = NO_LEADER if current.leader == broker_id else current.leader
    # An ISR is never empty: who was last in it holds every acknowledged record.
    isr = tuple(r for r in current.isr if r != broker_id) or current.isr
    return LeaderIsrAndControllerEpoch(current.new_leader(leader, isr), context.epoch)


# -------------------------------------------------------------------------------- after the write


def apply(
    context: ControllerContext,
    batch: RequestBatch,
    plan: ReplicaPlan,
    results: WriteResults,
    known_to_all: Collection[TopicPartition] = (),
) -> ReplicaOutcome:
    """Take into the context what was written, and into the batch who has to know. A replica that an
    election has left out of the ISR is no news where that is ``known_to_all`` (Kafka tells it
    twice)."""
    changes: list[ReplicaChange] = []
    refusals = list(plan.refusals)
    retry: list[PartitionAndReplica] = []
    for replica in plan.moves:
        changes.append(_move(context, batch, replica, plan.target))
    for partition in (*plan.updates, *plan.out_of_isr):
        # Told to stop whatever comes of the write, under the leader epoch that it knows.
        batch.add_stop_replica((plan.broker_id,), partition, delete=False)
    leaving: dict[TopicPartition, LeaderIsrAndControllerEpoch] = dict(plan.out_of_isr)
    for partition in plan.updates:
        replica = PartitionAndReplica(partition, plan.broker_id)
        result = results[partition]
        if isinstance(result, (BadVersion, NoNode)):
            retry.append(replica)
        elif isinstance(result, Exception):
            before = context.replica_state(replica)
            refusals.append(Refusal(replica, before, plan.target, repr(result)))
        else:
            leaving[partition] = LeaderIsrAndControllerEpoch(result, context.epoch)
    for partition, state in sorted(leaving.items()):
        told = partition in known_to_all and partition in plan.out_of_isr
        changes.append(_leave_isr(context, batch, partition, plan.broker_id, state, told))
    return ReplicaOutcome(tuple(changes), tuple(refusals), tuple(retry))


def _move(
    context: ControllerContext,
    batch: RequestBatch,
    replica: PartitionAndReplica,
    target: ReplicaState,
) -> ReplicaChange:
    """A change that writes nothing: who has to know, and the new state."""
    partition, broker_id = replica
    before = context.replica_state(replica)
    known = context.leadership.get(partition)
    match target:
        case ReplicaState.ONLINE if before is ReplicaState.NEW:
            context.set_assignment(
                partition, with_replica(context.assignment(partition), broker_id)
            )
        case ReplicaState.NEW | ReplicaState.ONLINE if known is not None:
            is_new = target is ReplicaState.NEW
            batch.add_leader_and_isr(
                (broker_id,), partition, known, context.assignment(partition), is_new
            )
        case ReplicaState.OFFLINE:
            batch.add_stop_replica((broker_id,), partition, delete=False)
            batch.add_update_metadata(context.brokers, (partition,))
        case ReplicaState.DELETION_STARTED:
            batch.add_stop_replica((broker_id,), partition, delete=True)
        case ReplicaState.NON_EXISTENT:
            context.set_assignment(
                partition, without_replica(context.assignment(partition), broker_id)
            )
            context.replica_states.pop(replica, None)
            return StateChange(replica, before, target)
        case _:
            pass  # only marked
    context.replica_states[replica] = target
    return StateChange(replica, before, target)


def _leave_isr(
    context: ControllerContext,
    batch: RequestBatch,
    partition: TopicPartition,
    broker_id: int,
    state: LeaderIsrAndControllerEpoch,
    told: bool,
) -> ReplicaChange:
    """Offline, and out of the ISR: the other replicas hear of it, if they were not ``told``."""
    replica = PartitionAndReplica(partition, broker_id)
    before = context.replica_state(replica)
    leadership = LeaderIsrAndControllerEpoch(state.leader_and_isr, context.epoch)
    context.leadership[partition] = leadership
    if not told and not context.is_queued_for_deletion(partition.topic):
        assignment = context.assignment(partition)
        others = [r for r in assignment.replicas if r != broker_id]
        batch.add_leader_and_isr(others, partition, leadership, assignment, is_new=False)
    context.replica_states[replica] = ReplicaState.OFFLINE
    return StateChange(replica, before, ReplicaState.OFFLINE, leadership)
