"""Partition state changes as plan -> write -> apply (Kafka's PartitionStateMachine)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import ElectionStrategy, elect, live_isr
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import PARTITION_PREDECESSORS, PartitionState
from minikafka.core.controller.writes import (
    Refusal,
    StateChange,
    States,
    WriteResults,
    newer_controller,
)
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.ports import BadVersion, NodeExists

PartitionChange: TypeAlias = StateChange[TopicPartition, PartitionState]
PartitionRefusal: TypeAlias = Refusal[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What a change of partitions to ``target`` takes.

    ``marks`` change in memory alone. ``creates`` and ``updates`` are state znodes to write; an
    update carries the version that it replaces. ``recipients`` get a LeaderAndIsr for each of them.
    ``unclean``: partitions whose new leader may lack records.
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
    """What was done. ``retry``: somebody else wrote those znodes meanwhile; read and plan again."""

    changes: tuple[PartitionChange, ...]
    refusals: tuple[PartitionRefusal, ...]
    retry: tuple[TopicPartition, ...]
    elected: Mapping[TopicPartition, LeaderAndIsr]


# ------------------------------------------------------------------------------- before the plan


def startup(context: ControllerContext) -> None:
    """Place every known partition: a live leader is Online, a dead one Offline, none ever New."""
    for partition in context.all_partitions():
        known = context.leadership.get(partition)
        if known is None:
            state = PartitionState.NEW
        elif context.is_replica_online(known.leader_and_isr.leader, partition):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.partition_states[partition] = state


def to_trigger_online(context: ControllerContext, topic: str | None = None) -> list[TopicPartition]:
    """Every partition (of ``topic``, if given) that wants a leader and may have one: New and
    Offline ones, but for topics that are being deleted."""
    return [
        partition
        for partition in context.partitions_in_states({PartitionState.NEW, PartitionState.OFFLINE})
        if not context.is_queued_for_deletion(partition.topic)
        and (topic is None or partition.topic == topic)
    ]


def to_read(
    context: ControllerContext, partitions: Iterable[TopicPartition], target: PartitionState
) -> list[TopicPartition]:
    """The partitions whose state znode the plan needs: those that had a leader already."""
    if target is not PartitionState.ONLINE:
        return []
    had_leader = (PartitionState.ONLINE, PartitionState.OFFLINE)
    return [tp for tp in partitions if context.partition_state(tp) in had_leader]


def without_live_isr(context: ControllerContext, read: States) -> list[TopicPartition]:
    """Of the partitions read, those that only an unclean election can save: the plan needs to know
    whether their topics allow it."""
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
) -> PartitionPlan:
    """What taking ``partitions`` to ``target`` means. Touches nothing.

    A. NonExistent -> New, any -> Offline, Offline -> NonExistent: only marked.
    B. New -> Online: first live replica leads, all live ones are the ISR; the znode is created.
       A znode in ``read`` means that it was there already: then as case C.
    C. Online or Offline -> Online: ``strategy`` elects on what was ``read``; the znode is updated.
    """
    refusals: list[PartitionRefusal] = []
    valid: list[TopicPartition] = []
    for partition in partitions:
        before = context.partition_state(partition)
        if before in PARTITION_PREDECESSORS[target]:
            valid.append(partition)
        else:
            refusals.append(Refusal(partition, before, target, _illegal(before, target)))
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
            first = _first_leadership(context, partition)
            if isinstance(first, str):
                refusals.append(Refusal(partition, before, target, first))
            else:
                creates[partition] = LeaderIsrAndControllerEpoch(first, context.epoch)
                recipients[partition] = first.isr
            continue
        # case C
        if strategy is None:
            raise ValueError("an election strategy is needed to take a partition online")
        if state is None:
            reason = "LeaderAndIsr information doesn't exist"
            refusals.append(Refusal(partition, before, target, reason))
            continue
        if fenced := newer_controller(context, state):
            refusals.append(Refusal(partition, before, target, fenced))
            continue
        result = elect(
            context, partition, state.leader_and_isr, strategy, partition.topic in unclean_topics
        )
        if result.leader_and_isr is None:
            reason = _nobody_can_lead(context, partition, strategy, state.leader_and_isr)
            refusals.append(Refusal(partition, before, target, reason))
            continue
        updates[partition] = LeaderIsrAndControllerEpoch(result.leader_and_isr, context.epoch)
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


def _illegal(before: PartitionState, target: PartitionState) -> str:
    legal = ",".join(str(state) for state in sorted(PARTITION_PREDECESSORS[target]))
    return f"should be in one of {legal} states before moving to {target} state, but is in {before}"


def _first_leadership(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | str:
    replicas = context.assignment(partition).replicas
    live = live_isr(context, partition, replicas)
    if not live:
        return (
            f"assigned replicas are {_ids(replicas)}, live brokers are "
            f"{_ids(context.live_broker_ids())}. No assigned replica is alive."
        )
    return LeaderAndIsr(leader=live[0], leader_epoch=0, isr=live)


def _nobody_can_lead(
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
    """Take into the context what was written, and into the batch who has to know.

    D. written: Online under the new leadership; LeaderAndIsr to the recipients.
    E. the version was another (a leader changed its ISR) or a new partition's znode was there
       already: retry.
    F. any other failure: the partition stays where it was.
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
                refusals.append(Refusal(partition, before, plan.target, repr(result)))
                continue
            leadership = LeaderIsrAndControllerEpoch(result, context.epoch)  # case D
            context.leadership[partition] = leadership
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
