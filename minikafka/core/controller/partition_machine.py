"""The partition state machine, as plan -> write -> apply (Kafka's PartitionStateMachine).

``plan`` decides which states change and which znodes must be written. The driver
(``controller/state_machines``) writes them. ``apply`` records the results in the context and adds
the requests to the batch. Both are pure functions; the cases A to F are in their docstrings.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import ElectionStrategy, elect, live_isr
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import (
    PARTITION_PREDECESSORS,
    PartitionState,
    RefusedChange,
    StateChange,
    States,
    WriteResults,
    check_first_state,
    check_next_state,
    newer_controller,
)
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import BadVersion, NodeExists

PartitionChange: TypeAlias = StateChange[TopicPartition, PartitionState]
PartitionRefusal: TypeAlias = RefusedChange[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """How to take partitions to ``target``.

    ``marks`` need no write. ``creates`` and ``updates`` are the state znodes to write; an update
    has the version that it replaces. ``recipients`` are the brokers to send LeaderAndIsr to, for
    each written partition. ``unclean`` are partitions whose new leader may lack records.
    """

    target: PartitionState
    marks: tuple[TopicPartition, ...] = ()
    creates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    updates: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    recipients: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    unclean: frozenset[TopicPartition] = frozenset()
    refusals: tuple[PartitionRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The result of a plan. ``retry`` has the partitions whose znode another writer changed in the
    meantime: read and plan them again."""

    changes: tuple[PartitionChange, ...]
    refusals: tuple[PartitionRefusal, ...]
    retry: tuple[TopicPartition, ...]
    elected: Mapping[TopicPartition, LeaderAndIsr]


# ------------------------------------------------------------------------------- before the plan


def startup(context: ControllerContext) -> Generator[None, None, None]:
    """Set the first state of every partition: Online with a live leader, Offline with a dead one,
    New if it never had a leader. Yield after each."""
    for partition in context.each_partition():
        yield
        known = context.leadership.get(partition)
        if known is None:
            state = PartitionState.NEW
        elif context.is_replica_online(known.leader_and_isr.leader, partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.partition_states[partition] = state


def to_trigger_online(context: ControllerContext, topic: str | None = None) -> list[TopicPartition]:
    """Return the partitions that need a leader: New and Offline ones, except of topics that are
    being deleted. If ``topic`` is given, only those of that topic."""
    return [
        partition
        for partition in context.partitions_in_states({PartitionState.NEW, PartitionState.OFFLINE})
        if not context.is_queued_for_deletion(partition.topic)
        and (topic is None or partition.topic == topic)
    ]


def to_read(
    context: ControllerContext, partitions: Iterable[TopicPartition], target: PartitionState
) -> list[TopicPartition]:
    """Return the partitions whose state znode ``plan`` needs: those that had a leader before."""
    if target is not PartitionState.ONLINE:
        return []
    had_leader = (PartitionState.ONLINE, PartitionState.OFFLINE)
    return [tp for tp in partitions if context.partition_state(tp) in had_leader]


def without_live_isr(context: ControllerContext, read: States) -> list[TopicPartition]:
    """Return the partitions without a live replica in their ISR. Only an unclean election can give
    them a leader, so ``plan`` needs to know whether their topics allow it."""
    return [
        partition
        for partition, state in read.items()
        if not live_isr(context, partition, state.leader_and_isr.isr)
    ]


# -------------------------------------------------------------------------------------- the plan


def plan(
    context: ControllerContext,
    partitions: Sequence[TopicPartition],
    target: PartitionState,
    strategy: ElectionStrategy | None,
    read: States,
    unclean_topics: Collection[str] = (),
    leader_recovery: bool = True,
) -> PartitionPlan:
    """Plan how to take ``partitions`` to ``target``, without side effects.

    A. NonExistent -> New, any -> Offline, Offline -> NonExistent: no write.
    B. New -> Online: the first live replica leads, and all live replicas are the ISR. The znode is
       created. If ``read`` has a state, the znode exists already: as case C.
    C. Online or Offline -> Online: ``strategy`` elects a leader, based on the state in ``read``.
       The znode is updated.
    """
    valid, refusals = _by_legality(context, partitions, target)
    if target is not PartitionState.ONLINE:  # case A
        return PartitionPlan(target, marks=tuple(valid), refusals=tuple(refusals))

    creates: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    updates: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    recipients: dict[TopicPartition, tuple[int, ...]] = {}
    unclean: set[TopicPartition] = set()
    for partition in valid:
        before = context.partition_state(partition)
        state = read.get(partition)
        if before is PartitionState.NEW and state is None:  # case B
            first = _first_state(context, partition)
            if isinstance(first, str):
                refusals.append(RefusedChange(partition, before, target, first))
            else:
                creates[partition] = first
                recipients[partition] = first.leader_and_isr.isr
            continue
        # case C
        if strategy is None:
            raise ValueError("an election strategy is needed to take a partition online")
        if state is None:
            reason = "LeaderAndIsr information doesn't exist"
            refusals.append(RefusedChange(partition, before, target, reason))
            continue
        if fenced := newer_controller(context.epoch, state):
            refusals.append(RefusedChange(partition, before, target, fenced))
            continue
        allowed, current = partition.topic in unclean_topics, state.leader_and_isr
        result = elect(context, partition, current, strategy, allowed, leader_recovery)
        if result.leader_and_isr is None:
            reason = _no_candidate(context, partition, strategy, state.leader_and_isr)
            refusals.append(RefusedChange(partition, before, target, reason))
            continue
        elected = LeaderIsrAndControllerEpoch(result.leader_and_isr, context.epoch)
        check_next_state(state, elected, context.epoch)
        updates[partition] = elected
        recipients[partition] = result.recipients
        if result.unclean:
            unclean.add(partition)
    return PartitionPlan(
        target,
        creates=creates,
        updates=updates,
        recipients=recipients,
        unclean=frozenset(unclean),
        refusals=tuple(refusals),
    )


def _by_legality(
    context: ControllerContext, partitions: Sequence[TopicPartition], target: PartitionState
) -> tuple[list[TopicPartition], list[PartitionRefusal]]:
    """Return the partitions that may be taken to ``target``, and refusals for the others."""
    valid: list[TopicPartition] = []
    refusals: list[PartitionRefusal] = []
    for partition in partitions:
        before = context.partition_state(partition)
        if before in PARTITION_PREDECESSORS[target]:
            valid.append(partition)
        else:
            refusals.append(RefusedChange(partition, before, target, _illegal(before, target)))
    return valid, refusals


def _illegal(before: PartitionState, target: PartitionState) -> str:
    legal = ",".join(str(state) for state in sorted(PARTITION_PREDECESSORS[target]))
    return f"should be in one of {legal} states before moving to {target} state, but is in {before}"


def _first_state(
    context: ControllerContext, partition: TopicPartition
) -> LeaderIsrAndControllerEpoch | str:
    """Return the first state of a partition, or why it cannot have one."""
    replicas = context.assignment(partition).replicas
    live = live_isr(context, partition, replicas)
    if not live:
        return (
            f"assigned replicas are {_ids(replicas)}, live brokers are "
            f"{_ids(context.live_broker_ids())}. No assigned replica is alive."
        )
    leader_and_isr = LeaderAndIsr(leader=live[0], leader_epoch=0, isr=live)
    first = LeaderIsrAndControllerEpoch(leader_and_isr, context.epoch)
    check_first_state(first, context.epoch, context.assignment(partition))
    return first


def _no_candidate(
    context: ControllerContext,
    partition: TopicPartition,
    strategy: ElectionStrategy,
    known: LeaderAndIsr,
) -> str:
    replicas = context.assignment(partition).replicas
    return (
        f"no leader could be elected under strategy {strategy}: assigned replicas are "
        f"{_ids(replicas)}, live ones among them "
        f"{_ids(live_isr(context, partition, replicas))}, the ISR is {_ids(known.isr)}, "
        f"live brokers are {_ids(context.live_broker_ids())}"
    )


def _ids(broker_ids: Iterable[int]) -> str:
    return f"[{','.join(map(str, broker_ids))}]"


# -------------------------------------------------------------------------------- after the write


def apply(
    context: ControllerContext, batch: RequestBatch, plan: PartitionPlan, results: WriteResults
) -> PartitionOutcome:
    """Record the results of a plan's writes in the context, and add requests to the batch.

    D. written: the partition is Online with the new leader; LeaderAndIsr to the recipients.
    E. the znode had another version (a leader changed its ISR), or a new partition's znode already
       existed: retry.
    F. any other failure: the partition keeps its state.
    """
    changes: list[PartitionChange] = []
    refusals = list(plan.refusals)
    retry: list[TopicPartition] = []
    elected: dict[TopicPartition, LeaderAndIsr] = {}
    for partition in plan.marks:
        before = context.partition_state(partition)
        context.partition_states[partition] = plan.target
        changes.append(StateChange(partition, before, plan.target))
    for writes, is_new in ((plan.creates, True), (plan.updates, False)):
        for partition in writes:
            result = results[partition]
            before = context.partition_state(partition)
            if isinstance(result, (BadVersion, NodeExists)):  # case E
                retry.append(partition)
                continue
            if isinstance(result, Exception):  # case F
                refusals.append(RefusedChange(partition, before, plan.target, repr(result)))
                continue
            leadership = LeaderIsrAndControllerEpoch(result, context.epoch)  # case D
            context.put_written(partition, leadership)
            context.partition_states[partition] = PartitionState.ONLINE
            batch.add_leader_and_isr(
                plan.recipients[partition],
                partition,
                leadership,
                context.assignment(partition),
                is_new,
            )
            changes.append(StateChange(partition, before, plan.target, leadership))
            elected[partition] = result
    return PartitionOutcome(tuple(changes), tuple(refusals), tuple(retry), elected)
