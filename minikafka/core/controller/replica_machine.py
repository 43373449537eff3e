"""The replica state machine, as plan -> write -> apply (Kafka's ReplicaStateMachine).

``plan`` and ``apply`` are pure functions, as in ``partition_machine``. A plan covers the replicas
of one broker: two replicas of one partition would be two writes to the same znode.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from minikafka.core.controller.assignment import with_replica, without_replica
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import (
    REPLICA_PREDECESSORS,
    RefusedChange,
    ReplicaState,
    StateChange,
    States,
    WriteResults,
    check_next_state,
    newer_controller,
)
from minikafka.kernel.cluster import (
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    TopicPartition,
    grouped,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import BadVersion, NoNode

ReplicaChange: TypeAlias = StateChange[PartitionAndReplica, ReplicaState]
ReplicaRefusal: TypeAlias = RefusedChange[PartitionAndReplica, ReplicaState]


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How to take one broker's replicas to ``target``.

    ``moves`` need no write. ``updates`` are the states to write, without the replica in the ISR, at
    the version that they replace. ``out_of_isr`` are states whose ISR does not contain the replica.
    """

    target: ReplicaState
    broker_id: int
    moves: tuple[PartitionAndReplica, ...] = ()
    updates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    out_of_isr: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    refusals: tuple[ReplicaRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaOutcome:
    """The result of a plan. ``retry`` has the replicas whose znode was changed or deleted in the
    meantime: read and plan them again."""

    changes: tuple[ReplicaChange, ...]
    refusals: tuple[ReplicaRefusal, ...]
    retry: tuple[PartitionAndReplica, ...]


# ------------------------------------------------------------------------------- before the plan


def startup(
    context: ControllerContext,
) -> Generator[None, None, tuple[list[PartitionAndReplica], list[PartitionAndReplica]]]:
    """Set the first state of every replica; return the replicas to take Online, and those to take
    Offline. Yield after each replica.

    A replica on a dead broker starts as DeletionIneligible, because its topic may be on the list of
    topics to delete. Taking it Offline sends LeaderAndIsr to the other replicas of the partition,
    so these need not be taken Online to get one (Kafka sends it twice). But if a topic would get
    LeaderAndIsr for some of its partitions only, all its live replicas are taken Online.
    """
    online: list[PartitionAndReplica] = []
    offline: list[PartitionAndReplica] = []
    notified: set[TopicPartition] = set()
    for replica in context.all_replicas():
        yield
        if context.is_replica_online(replica.replica, replica.topic_partition):
            context.replica_states[replica] = ReplicaState.ONLINE
            online.append(replica)
        else:
            context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
            offline.append(replica)
            partition = replica.topic_partition
            if partition in context.leadership and not context.is_queued_for_deletion(
                partition.topic
            ):
                notified.add(partition)
    partly_notified: set[str] = set()
    for replica in online:
        if replica.topic_partition not in notified:
            partly_notified.add(replica.topic_partition.topic)
        yield
    return [r for r in online if r.topic_partition.topic in partly_notified], offline


def by_broker(replicas: Iterable[PartitionAndReplica]) -> dict[int, list[PartitionAndReplica]]:
    """Group replicas by broker, sorted by broker id."""
    groups = grouped((replica.replica, replica) for replica in replicas)
    return {broker: groups[broker] for broker in sorted(groups)}


def to_read(
    context: ControllerContext, replicas: Iterable[PartitionAndReplica], target: ReplicaState
) -> list[TopicPartition]:
    """Return the partitions whose state znode ``plan`` needs: those with a leader, if the replicas
    are to be removed from the ISR."""
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
    """Plan how to take ``replicas``, all on ``broker_id``, to ``target``, without side effects.

    A. -> New, and the replica leads: refused, since a new replica may only follow.
    B. -> Offline, and the partition has a state: remove the replica from the ISR in ``read``. The
       last replica stays in the ISR, and the partition then has no leader.
    C. -> Offline, and the partition's znode is gone: refused, unless the topic is being deleted
       (then case D).
    D. everything else: the state changes without a write.
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
            refusals.append(RefusedChange(replica, before, target, _illegal(before, target)))
        elif target is ReplicaState.NEW and known and known.leader_and_isr.leader == broker_id:
            reason = "it is being requested to become leader"  # case A
            refusals.append(RefusedChange(replica, before, target, reason))
        elif target is ReplicaState.OFFLINE and known is not None:
            state = read.get(partition)
            if state is None and context.is_queued_for_deletion(partition.topic):
                moves.append(replica)  # case D
            elif state is None:  # case C
                reason = "the leader and isr path in zookeeper is empty"
                refusals.append(RefusedChange(replica, before, target, reason))
            elif fenced := newer_controller(context.epoch, state):
                refusals.append(RefusedChange(replica, before, target, fenced))
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
    # An ISR is never empty: the last replica in it has every acknowledged record.
    isr = tuple(r for r in current.isr if r != broker_id) or current.isr
    shrunk = LeaderIsrAndControllerEpoch(current.new_leader(leader, isr), context.epoch)
    check_next_state(state, shrunk, context.epoch)
    return shrunk


# -------------------------------------------------------------------------------- after the write


def apply(
    context: ControllerContext,
    batch: RequestBatch,
    plan: ReplicaPlan,
    results: WriteResults,
    sent_to_all: Collection[TopicPartition] = (),
) -> ReplicaOutcome:
    """Record the results of a plan's writes in the context, and add requests to the batch.

    ``sent_to_all`` has the partitions whose election was already sent to all replicas during this
    event. If that election has removed the replica from the ISR, no other request is needed; Kafka
    sends it twice.
    """
    changes: list[ReplicaChange] = []
    refusals = list(plan.refusals)
    retry: list[PartitionAndReplica] = []
    for replica in plan.moves:
        changes.append(_move(context, batch, replica, plan.target))
    for partition in (*plan.updates, *plan.out_of_isr):
        # Sent even if the write fails, and with the leader epoch that the broker knows.
        batch.add_stop_replica((plan.broker_id,), partition, delete=False)
    removed: dict[TopicPartition, LeaderIsrAndControllerEpoch] = dict(plan.out_of_isr)
    for partition in plan.updates:
        replica = PartitionAndReplica(partition, plan.broker_id)
        result = results[partition]
        if isinstance(result, (BadVersion, NoNode)):
            retry.append(replica)
        elif isinstance(result, Exception):
            before = context.replica_state(replica)
            refusals.append(RefusedChange(replica, before, plan.target, repr(result)))
        else:
            removed[partition] = LeaderIsrAndControllerEpoch(result, context.epoch)
            context.put_written(partition, removed[partition])
    for partition, state in sorted(removed.items()):
        change = _take_offline(context, partition, plan.broker_id, state)
        changes.append(change)
        known = partition in sent_to_all and partition in plan.out_of_isr
        if not known and not context.is_queued_for_deletion(partition.topic):
            assignment = context.assignment(partition)
            others = [r for r in assignment.replicas if r != plan.broker_id]
            batch.add_leader_and_isr(
                others, partition, context.leadership[partition], assignment, is_new=False
            )
    return ReplicaOutcome(tuple(changes), tuple(refusals), tuple(retry))


def _move(
    context: ControllerContext,
    batch: RequestBatch,
    replica: PartitionAndReplica,
    target: ReplicaState,
) -> ReplicaChange:
    """Change a replica's state without a write, and add the requests that this needs."""
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
            pass  # this state needs no request
    context.replica_states[replica] = target
    return StateChange(replica, before, target)


def _take_offline(
    context: ControllerContext,
    partition: TopicPartition,
    broker_id: int,
    state: LeaderIsrAndControllerEpoch,
) -> ReplicaChange:
    """Record that a replica is Offline, and the partition's state without it in the ISR."""
    replica = PartitionAndReplica(partition, broker_id)
    before = context.replica_state(replica)
    leadership = LeaderIsrAndControllerEpoch(state.leader_and_isr, context.epoch)
    context.leadership[partition] = leadership
    context.replica_states[replica] = ReplicaState.OFFLINE
    return StateChange(replica, before, ReplicaState.OFFLINE, leadership)
