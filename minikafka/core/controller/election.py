"""Leader elections: the next leader and ISR of a partition, and which partitions need an election.

Kafka's object ``Election`` and the checks of ``onReplicaElection`` and
``checkAndTriggerAutoLeaderRebalance``.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from enum import Enum

from minikafka.core.controller.assignment import target_replicas
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import NO_LEADER, ElectionType, LeaderAndIsr, TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass

RECOVERING = 1  # leader_recovery_state after an unclean election (KIP-704)


class ElectionStrategy(Enum):
    """The reason for an election. In each strategy candidates are tried in the order of the
    assignment, not of the ISR."""

    OFFLINE = "offline"  # there is no live leader; unclean if the topic's configuration allows it
    UNCLEAN = "unclean"  # as OFFLINE, and an administrator has allowed an unclean leader
    REASSIGN = "reassign"  # the leader is dead or not one of the target replicas
    PREFERRED = "preferred"  # the first replica of the assignment should lead
    CONTROLLED_SHUTDOWN = "controlled shutdown"  # the leader's broker shuts down
    NO_OP = "no-op"  # keep leader and ISR, raise the leader epoch

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """``leader_and_isr`` is the state to write, at the znode version that was read; None if no
    replica can lead. ``recipients`` are the brokers to send LeaderAndIsr to. If ``unclean``,
    records may be lost."""

    leader_and_isr: LeaderAndIsr | None
    recipients: tuple[int, ...]
    unclean: bool = False


# ------------------------------------------------------------------------------------ who leads


def offline_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int], unclean: bool
) -> int | None:
    """Return the first replica that is live and in sync; if there is none and ``unclean`` allows
    it, the first live replica."""
    in_sync = next((r for r in assignment if r in live and r in isr), None)
    if in_sync is not None or not unclean:
        return in_sync
    return next((r for r in assignment if r in live), None)


def reassign_leader(
    target: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Return the first target replica that is live and in sync."""
    return next((r for r in target if r in live and r in isr), None)


def preferred_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Return the first replica of the assignment if it is live and in sync."""
    return next((r for r in assignment[:1] if r in live and r in isr), None)


def controlled_shutdown_leader(
    assignment: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    shutting_down: Collection[int],
) -> int | None:
    """Return the first replica that is live, in sync, and on a broker that does not shut down."""
    return next((r for r in assignment if r in live and r in isr and r not in shutting_down), None)


# ------------------------------------------------------------------------------------ elections


def elect(
    context: ControllerContext,
    partition: TopicPartition,
    current: LeaderAndIsr,
    strategy: ElectionStrategy,
    unclean: bool = False,
    leader_recovery: bool = True,
) -> ElectionResult:
    """Elect the leader of ``partition``, whose state znode contains ``current``. ``unclean`` is the
    topic's ``unclean.leader.election.enable``; only the strategy OFFLINE uses it. The state notes
    an unclean election if the inter-broker protocol has ``leader_recovery``."""
    match strategy:
        case ElectionStrategy.OFFLINE:
            return _for_offline(context, partition, current, unclean, leader_recovery)
        case ElectionStrategy.UNCLEAN:
            return _for_offline(context, partition, current, True, leader_recovery)
        case ElectionStrategy.REASSIGN:
            return _for_reassign(context, partition, current)
        case ElectionStrategy.PREFERRED:
            return _for_preferred(context, partition, current)
        case ElectionStrategy.CONTROLLED_SHUTDOWN:
            return _for_controlled_shutdown(context, partition, current)
        case ElectionStrategy.NO_OP:
            return ElectionResult(
                current.new_leader(current.leader), context.assignment(partition).replicas
            )


def live_isr(
    context: ControllerContext, partition: TopicPartition, isr: Collection[int]
) -> tuple[int, ...]:
    return tuple(r for r in isr if context.is_replica_online(r, partition))


def _for_offline(
    context: ControllerContext,
    partition: TopicPartition,
    current: LeaderAndIsr,
    unclean: bool,
    leader_recovery: bool,
) -> ElectionResult:
    replicas = context.assignment(partition).replicas
    live = live_isr(context, partition, replicas)
    leader = offline_leader(replicas, current.isr, live, unclean)
    if leader is None:
        return ElectionResult(None, live)
    if leader in current.isr:
        isr = live_isr(context, partition, current.isr)
        return ElectionResult(current.new_leader(leader, isr), live)
    elected = current.new_leader(leader, (leader,))
    if leader_recovery:
        elected = replace(elected, leader_recovery_state=RECOVERING)
    return ElectionResult(elected, live, unclean=True)


def _for_reassign(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    target = target_replicas(context.assignment(partition))
    leader = reassign_leader(target, current.isr, live_isr(context, partition, target))
    return ElectionResult(None if leader is None else current.new_leader(leader), target)


def _for_preferred(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    replicas = context.assignment(partition).replicas
    leader = preferred_leader(replicas, current.isr, live_isr(context, partition, replicas))
    return ElectionResult(None if leader is None else current.new_leader(leader), replicas)


def _for_controlled_shutdown(
    context: ControllerContext, partition: TopicPartition, current: LeaderAndIsr
) -> ElectionResult:
    shutting_down = context.shutting_down_broker_ids
    available = tuple(
        r
        for r in context.assignment(partition).replicas
        if context.is_replica_online(r, partition, or_shutting_down=True)
    )
    leader = controlled_shutdown_leader(available, current.isr, available, shutting_down)
    if leader is None:
        return ElectionResult(None, available)
    isr = tuple(r for r in current.isr if r not in shutting_down)
    return ElectionResult(current.new_leader(leader, isr), available)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The partitions of an election request, by what is to be done about them."""

    electable: tuple[TopicPartition, ...]
    not_needed: tuple[TopicPartition, ...]  # they already have a leader of the requested kind
    being_deleted: tuple[TopicPartition, ...]
    unknown: tuple[TopicPartition, ...]


def candidates(
    context: ControllerContext,
    partitions: Collection[TopicPartition],
    election_type: ElectionType,
) -> Generator[None, None, Candidates]:
    """Classify the partitions of an election request; yield after each. A partition that never had
    a leader is electable under either type."""
    electable: list[TopicPartition] = []
    not_needed: list[TopicPartition] = []
    being_deleted: list[TopicPartition] = []
    unknown: list[TopicPartition] = []
    for partition in sorted(partitions):
        replicas = context.assignment(partition).replicas
        if not replicas:
            unknown.append(partition)
        elif context.is_queued_for_deletion(partition.topic):
            being_deleted.append(partition)
        elif _has_requested_leader(context, partition, election_type, replicas[0]):
            not_needed.append(partition)
        else:
            electable.append(partition)
        yield
    return Candidates(tuple(electable), tuple(not_needed), tuple(being_deleted), tuple(unknown))


def _has_requested_leader(
    context: ControllerContext, partition: TopicPartition, election_type: ElectionType, first: int
) -> bool:
    known = context.leadership.get(partition)
    leader = NO_LEADER if known is None else known.leader_and_isr.leader
    if election_type is ElectionType.PREFERRED:
        return leader == first
    return context.is_live_broker(leader)


def out_of_balance(
    context: ControllerContext, percentage: int
) -> Generator[None, None, dict[int, list[TopicPartition]]]:
    """Return for each broker the partitions whose preferred leader it is, and which it could lead
    but does not. Brokers are left out while at most ``percentage`` per cent of the partitions that
    prefer them have another leader (checkAndTriggerAutoLeaderRebalance). Yield after each
    partition."""
    share: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for partition in context.each_partition():
        yield
        replicas = context.assignment(partition).replicas
        if context.is_queued_for_deletion(partition.topic) or not replicas:
            continue
        first = replicas[0]
        share[first] = share.get(first, 0) + 1
        known = context.leadership.get(partition)
        if known is not None and known.leader_and_isr.leader != first:
            elsewhere.setdefault(first, []).append(partition)
    preferred_elections: dict[int, list[TopicPartition]] = {}
    for broker_id in sorted(elsewhere):
        if len(elsewhere[broker_id]) * 100 > percentage * share[broker_id]:
            electable_now = []
            for partition in elsewhere[broker_id]:
                if _first_can_lead(context, partition):
                    electable_now.append(partition)
                yield
            if electable_now:
                preferred_elections[broker_id] = electable_now
    return preferred_elections


def _first_can_lead(context: ControllerContext, partition: TopicPartition) -> bool:
    replicas = context.assignment(partition).replicas
    isr = context.leadership[partition].leader_and_isr.isr
    return preferred_leader(replicas, isr, live_isr(context, partition, replicas)) is not None
