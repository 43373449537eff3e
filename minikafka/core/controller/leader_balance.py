"""Which partitions should have another leader: those asked for, those out of balance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import live_isr, preferred_leader
from minikafka.kernel.cluster import NO_LEADER, ElectionType, TopicPartition


@dataclass(frozen=True, slots=True)
class Candidates:
    """Partitions for which an election was asked, by what is to be done about them."""

    electable: tuple[TopicPartition, ...]
    not_needed: tuple[TopicPartition, ...]  # they have the leader that was asked for
    doomed: tuple[TopicPartition, ...]  # of topics that are being deleted
    unknown: tuple[TopicPartition, ...]


def candidates(
    context: ControllerContext,
    partitions: Collection[TopicPartition],
    election_type: ElectionType,
) -> Candidates:
    """Sort ``partitions`` out. A partition that never had a leader needs one under either type."""
    electable: list[TopicPartition] = []
    not_needed: list[TopicPartition] = []
    doomed: list[TopicPartition] = []
    unknown: list[TopicPartition] = []
    for partition in sorted(partitions):
        replicas = context.assignment(partition).replicas
        if not replicas:
            unknown.append(partition)
        elif context.is_queued_for_deletion(partition.topic):
            doomed.append(partition)
        elif _is_fine(context, partition, election_type, replicas[0]):
            not_needed.append(partition)
        else:
            electable.append(partition)
    return Candidates(tuple(electable), tuple(not_needed), tuple(doomed), tuple(unknown))


def _is_fine(
    context: ControllerContext, partition: TopicPartition, election_type: ElectionType, first: int
) -> bool:
    known = context.leadership.get(partition)
    leader = NO_LEADER if known is None else known.leader_and_isr.leader
    if election_type is ElectionType.PREFERRED:
        return leader == first
    return context.is_live_broker(leader)


def out_of_balance(context: ControllerContext, percentage: int) -> dict[int, list[TopicPartition]]:
    """By broker: partitions that it should lead, does not, and could; for brokers of whose share
    others lead more than ``percentage`` per cent (checkAndTriggerAutoLeaderRebalance)."""
    share: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for partition in context.all_partitions():
        replicas = context.assignment(partition).replicas
        if context.is_queued_for_deletion(partition.topic) or not replicas:
            continue
        first = replicas[0]
        share[first] = share.get(first, 0) + 1
        known = context.leadership.get(partition)
        if known is not None and known.leader_and_isr.leader != first:
            elsewhere.setdefault(first, []).append(partition)
    wanted: dict[int, list[TopicPartition]] = {}
    for broker_id in sorted(elsewhere):
        if len(elsewhere[broker_id]) * 100 > percentage * share[broker_id]:
            able = [tp for tp in elsewhere[broker_id] if _first_can_lead(context, tp)]
            if able:
                wanted[broker_id] = able
    return wanted


def _first_can_lead(context: ControllerContext, partition: TopicPartition) -> bool:
    replicas = context.assignment(partition).replicas
    isr = context.leadership[partition].leader_and_isr.isr
    return preferred_leader(replicas, isr, live_isr(context, partition, replicas)) is not None
